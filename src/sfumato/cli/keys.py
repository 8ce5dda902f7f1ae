"""``sfumato key`` and ``sfumato verify``: the signing key, the keys to trust, and checks of releases."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from sfumato.cli import terminal
from sfumato.cli.options import JSON, LedgerUrl, home_ledger, url_of

app = typer.Typer(
    help="Manage the key that signs certificates, and the keys to trust.",
    no_args_is_help=True,
    add_completion=False,
)


@app.command()
def new(
    encrypt: Annotated[
        bool,
        typer.Option("--encrypt", help="Encrypt the key by SFUMATO_PASSPHRASE, or by a prompted passphrase."),
    ] = False,
    as_json: JSON = False,
) -> None:
    """Make the key that signs certificates."""
    from sfumato.reports import KeyRing

    passphrase = _passphrase() if encrypt else None
    ring = KeyRing()
    made = ring.create(passphrase)
    result = {"id": made.public.id, "file": str(ring.signing_file), "encrypted": encrypt}
    terminal.answer(as_json, result, f"Key {made.public.id}\nPrivate, for you alone: {ring.signing_file}")


@app.command()
def show(as_json: JSON = False) -> None:
    """Print the public key, for those who verify, and the keys that are trusted."""
    from sfumato.reports import KeyRing

    ring = KeyRing()
    public, trusted = ring.signing().public, sorted(ring.trusted())
    pem = public.pem().decode()
    lines = [f"{pem}Key {public.id}", *(f"Trusted: {name}" for name in trusted)]
    terminal.answer(as_json, {"id": public.id, "pem": pem, "trusted": trusted}, "\n".join(lines))


@app.command()
def trust(
    file: Annotated[Path, typer.Argument(metavar="FILE", hidden=True)],
    as_json: JSON = False,
) -> None:
    """Trust certificates signed with the public key in FILE, which 'sfumato key show' printed."""
    from sfumato.reports import KeyRing, PublicKey

    key = PublicKey.read(file)
    KeyRing().trust(key)
    terminal.answer(as_json, {"id": key.id}, f"Trusted: {key.id}")


def verify(
    file: Annotated[str, typer.Argument(metavar="FILE", hidden=True)],
    ledger: LedgerUrl = None,
    as_json: JSON = False,
) -> None:
    """Check a release against its certificate: envelope, key, bytes and ledger row; exit 4 if one fails.

    FILE is a release with its certificate beside it, a released folder or a file in it, or a pack of
    evidence; also in an object store.
    """
    from sfumato.release import verify as run
    from sfumato.reports import PackVerification, VerificationFailed

    found = run(file, ledger=url_of(ledger) if ledger is not None or home_ledger().exists() else None)
    if not isinstance(found, PackVerification):
        terminal.show(found, as_json)
    elif found.holds or as_json:
        terminal.answer(as_json, found.to_dict(), "The pack holds: every file is as it was signed.")
    else:
        names = ", ".join(terminal.printable(name) for name in found.altered)
        raise VerificationFailed(f"missing or altered since it was signed: {names}.")
    if not found.holds:
        raise typer.Exit(4)


def _passphrase() -> str:
    """Return the passphrase of a new key: from the environment, from a prompt, or from a pipe."""
    given = os.environ.get("SFUMATO_PASSPHRASE")
    if given:
        return given
    if sys.stdin.isatty():
        return str(typer.prompt("Passphrase", hide_input=True, confirmation_prompt=True, err=True))
    return sys.stdin.readline().rstrip("\r\n")
