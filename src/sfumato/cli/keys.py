"""``sfumato key`` and ``sfumato verify``: who signs, whom to trust, and whether a release is what it says."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sfumato.cli import terminal
from sfumato.cli.options import JSON, LedgerUrl, home_ledger, url_of

if TYPE_CHECKING:
    from sfumato.reports import PackVerification


app = typer.Typer(
    name="key", help="The key that signs certificates, and the keys to trust.", no_args_is_help=True
)


@app.command()
def new(
    encrypt: Annotated[
        bool, typer.Option("--encrypt", help="Encrypt the key: SFUMATO_PASSPHRASE, or one is asked for.")
    ] = False,
    as_json: JSON = False,
) -> None:
    """Make the key that signs certificates."""
    from sfumato.reports import KeyRing

    passphrase = _passphrase() if encrypt else None
    ring = KeyRing()
    made = ring.create(passphrase)
    result = {"id": made.public.id, "file": str(ring.signing_file), "encrypted": encrypt}
    print(
        json.dumps(result)
        if as_json
        else f"Key {made.public.id}\nPrivate, for you alone: {ring.signing_file}"
    )


@app.command()
def show(as_json: JSON = False) -> None:
    """Print the public key, for those who verify, and the keys that are trusted."""
    from sfumato.reports import KeyRing

    ring = KeyRing()
    public = ring.signing().public
    if as_json:
        print(json.dumps({"id": public.id, "pem": public.pem().decode(), "trusted": sorted(ring.trusted())}))
        return
    print(public.pem().decode(), end="")
    print("\n".join([f"Key {public.id}", *(f"Trusted: {name}" for name in sorted(ring.trusted()))]))


@app.command()
def trust(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="A public key, as 'sfumato key show' prints it.")
    ],
    as_json: JSON = False,
) -> None:
    """Accept certificates that were signed with the key in FILE."""
    from sfumato.reports import KeyRing, PublicKey

    key = PublicKey.read(file)
    KeyRing().trust(key)
    print(json.dumps({"id": key.id}) if as_json else f"Trusted: {key.id}")


def verify(
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE",
            help="A release with its certificate beside it, a released folder or a file in it, or a pack; "
            "also in an object store.",
        ),
    ],
    ledger: LedgerUrl = None,
    as_json: JSON = False,
) -> None:
    """Check a release against its certificate: envelope, key, bytes and ledger row; exit 4 if one fails."""
    from sfumato.release import verify as run
    from sfumato.reports import PackVerification

    found = run(file, ledger=url_of(ledger) if ledger is not None or home_ledger().exists() else None)
    if isinstance(found, PackVerification):
        _tell_of_pack(found, as_json)
        return
    terminal.show(found, as_json)
    if not found.holds:
        raise typer.Exit(4)


def _passphrase() -> str:
    """The passphrase of a new key: from the environment, from whoever sits there, or from a pipe."""
    given = os.environ.get("SFUMATO_PASSPHRASE")
    if given:
        return given
    if sys.stdin.isatty():
        return str(typer.prompt("Passphrase", hide_input=True, confirmation_prompt=True, err=True))
    return sys.stdin.readline().rstrip("\r\n")


def _tell_of_pack(found: PackVerification, as_json: bool) -> None:
    from sfumato.reports import VerificationFailed

    if as_json:
        print(json.dumps(found.to_dict()))
        raise typer.Exit(0 if found.holds else 4)
    if not found.holds:
        names = ", ".join(terminal.printable(name) for name in found.altered)
        raise VerificationFailed(f"missing or altered since it was signed: {names}.")
    print("The pack holds: every file is as it was signed.")
