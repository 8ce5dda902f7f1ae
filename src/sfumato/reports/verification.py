"""Verification of a file against its certificate: envelope, key, bytes, and the ledger row that paid.

A file that was released by itself has its certificate beside it. The files of a released folder share one:
that of the manifest, which lists the digest of each of them and what is stated of it. Such a file is verified
through the manifest that stands beside it or in a folder above.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from sfumato.errors import BadInput
from sfumato.privacy import TEXT_WIDTH, Guarantee, Statement
from sfumato.reports.certificate import (
    Certificate,
    KeyRing,
    VerificationFailed,
    certificate_file,
    file_digest,
)

if TYPE_CHECKING:
    from sfumato.ledger import Ledger

__all__ = ["MANIFEST", "Check", "PackVerification", "Verification", "certificate_of", "verify"]

#: The file of a released folder that lists its files.
MANIFEST = "manifest.json"


@dataclass(frozen=True)
class Check:
    """One thing that was looked at: envelope, key, file, ledger row, or what else stands in a folder."""

    what: Literal["envelope", "key", "file", "ledger", "folder"]
    outcome: Literal["holds", "fails", "not checked"]
    detail: str


@dataclass(frozen=True)
class Verification:
    """What was looked at and what was found; the certificate, where its envelope holds."""

    file: Path
    checks: tuple[Check, ...]
    certificate: Certificate | None

    @property
    def holds(self) -> bool:
        """Return whether no check fails."""
        return all(check.outcome != "fails" for check in self.checks)

    def __str__(self) -> str:
        return self.text()

    def text(self, width: int = TEXT_WIDTH) -> str:
        """Return the checks for people, and the statement in lines of at most ``width`` characters."""
        lines = [f"{check.what:<9} {check.outcome}: {check.detail}" for check in self.checks]
        if self.certificate is not None:
            lines += ["", self.certificate.statement.table(width)]
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Return JSON values."""
        return {
            "file": str(self.file),
            "holds": self.holds,
            "checks": [{"what": c.what, "outcome": c.outcome, "detail": c.detail} for c in self.checks],
            "statement": None if self.certificate is None else self.certificate.statement.to_dict(),
        }


@dataclass(frozen=True)
class PackVerification:
    """Which files of the pack ``folder`` are missing or ``altered`` since it was signed."""

    folder: Path
    altered: tuple[str, ...]

    @property
    def holds(self) -> bool:
        """Whether every file is as it was signed."""
        return not self.altered

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return {"folder": str(self.folder), "holds": self.holds, "altered": list(self.altered)}


def verify(file: Path, keys: KeyRing, ledger: Ledger | None = None) -> Verification:
    """Verify ``file`` against its certificate; check the ledger row only if a ledger is given.

    The certificate is the one beside it, or that of the manifest which lists it. Where there are both, the
    manifest must list the same bytes: otherwise the certificate beside it is stale or of another release.
    """
    own, listing = certificate_file(file), _listing(file)
    if not own.is_file() and listing is None:
        missing = f"there is no certificate {own.name} beside {file.name}"
        above = next((place for place in _above(file) if (place / MANIFEST).is_file()), None)
        if above is not None:
            missing += f", and the {MANIFEST} in {above.name or above} lists no such file"
        raise BadInput(f"{missing}.")
    checks: tuple[Check, ...] = (
        Check("envelope", "holds", "the signature fits the statement"),
        Check("key", "holds", "it was signed with a trusted key"),
    )
    try:
        if listing is None or own.is_file():
            certificate = _read(own, keys)
        else:
            certificate = _of_manifest(listing, file, keys)
    except VerificationFailed as failure:
        what, _, detail = str(failure).partition(": ")
        if what == "file":
            return Verification(file, (*checks, Check("file", "fails", detail)), None)
        return Verification(file, (Check("key" if what == "key" else "envelope", "fails", detail),), None)
    checks += (_file_check(file, certificate), _ledger_check(certificate, ledger))
    if listing is not None and own.is_file():
        checks += (_folder_check(file, listing, keys),)
    return Verification(file, checks, certificate)


def certificate_of(file: Path) -> Path | None:
    """Return the certificate that vouches for ``file``: beside it, or that of a manifest which lists it."""
    beside = certificate_file(file)
    return beside if beside.is_file() else _listing(file)


def _listing(file: Path) -> Path | None:
    """Return the certificate of the nearest manifest that lists ``file``; None without one."""
    for place in _above(file):
        found = certificate_file(place / MANIFEST)
        with suppress(OSError):
            if (
                found.is_file()
                and _name_in(place, file) in _manifest((place / MANIFEST).read_bytes())["files"]
            ):
                return found
    return None


def _read(certificate: Path, keys: KeyRing) -> Certificate:
    try:
        envelope = certificate.read_bytes()
    except OSError as error:
        raise BadInput(f"{certificate.name} cannot be read: {error.strerror}.") from None
    return Certificate.read(envelope, keys.trusted())


def _of_manifest(listing: Path, file: Path, keys: KeyRing) -> Certificate:
    """Return what ``listing``, the certificate of a manifest, says of ``file``; raise if it does not fit."""
    certificate, folder = _read(listing, keys), listing.parent
    content = (folder / MANIFEST).read_bytes()
    if not certificate.fits(hashlib.sha256(content).hexdigest()):
        raise VerificationFailed(
            f"file: the {MANIFEST} that lists it is not the one that was certified; it was altered"
        )
    return _listed(certificate, _manifest(content), _name_in(folder, file))


def _folder_check(file: Path, listing: Path, keys: KeyRing) -> Check:
    """Return whether the manifest that lists ``file`` agrees with the certificate beside it."""
    manifest = f"the {MANIFEST} in {listing.parent.name or listing.parent}"
    try:
        certificate = _of_manifest(listing, file, keys)
    except VerificationFailed as failure:
        return Check("folder", "fails", f"{manifest} lists it and cannot be trusted ({failure})")
    if certificate.fits(file_digest(file)):
        return Check("folder", "holds", f"{manifest} lists the same bytes")
    stale = "the certificate beside it is stale or of another release"
    return Check("folder", "fails", f"{manifest} lists other bytes: {stale}")


def _above(file: Path) -> Sequence[Path]:
    """The folder of ``file`` and those above it, the nearest first."""
    return Path(os.path.abspath(file)).parents


def _name_in(folder: Path, file: Path) -> str:
    return Path(os.path.abspath(file)).relative_to(folder).as_posix()


def _manifest(content: bytes) -> dict[str, Any]:
    """What a manifest of ``content`` says; that there are no files where it is none."""
    try:
        read = json.loads(content)
    except (ValueError, RecursionError):
        read = None
    return read if isinstance(read, dict) and isinstance(read.get("files"), dict) else {"files": {}}


def _listed(certificate: Certificate, manifest: Mapping[str, Any], name: str) -> Certificate:
    """What ``certificate``, that of a ``manifest``, says of the file ``name``, which it lists.

    A manifest that says nothing of single files says of each what it says of all.
    """
    made = replace(certificate, file_name=name, sha256=str(manifest["files"].get(name)))
    try:
        own = next(one for one in manifest["releases"] if name in one.get("files", (name,)))
        return replace(
            made,
            statement=Statement.from_dict(own["statement"]),
            rows=own["rows"],
            columns=own["columns"],
            left_out=tuple(own["left_out"]),
        )
    except (KeyError, StopIteration, TypeError, ValueError):
        return made


def _file_check(file: Path, certificate: Certificate) -> Check:
    if certificate.fits(file_digest(file)):
        return Check("file", "holds", "its bytes are those that were certified")
    return Check("file", "fails", "its bytes are not those that were certified; the file was altered")


def _ledger_check(certificate: Certificate, ledger: Ledger | None) -> Check:
    """What the ledger says of the rows that paid: one of the dataset, or the last one of each client."""
    clients = certificate.statement.parameters.get("last_spends") or {}
    if certificate.ledger is None and not clients:
        return Check("ledger", "not checked", "the release was not charged to a budget")
    if ledger is None:
        return Check("ledger", "not checked", "no ledger was given")
    if certificate.ledger is not None:
        proven = (certificate.statement.proven, *certificate.statement.also_proven)
        return _row_check(certificate.dataset, certificate.ledger, proven, ledger)
    return _clients_check(certificate, clients, ledger)


def _row_check(
    dataset: str | None, row: Mapping[str, Any], proven: Sequence[Guarantee], ledger: Ledger
) -> Check:
    """Whether ``row`` paid for one of ``proven``: a budget pays for the unit that it protects."""
    if row["ledger"] != ledger.identity:
        return Check("ledger", "not checked", "the release was charged to another ledger")
    entry, number = ledger.find(row["hash"]), row["number"]
    if entry is None:
        return Check("ledger", "fails", f"entry {number} is missing or was altered")
    if entry.dataset != dataset or not any(_covers(entry.guarantee, part) for part in proven):
        return Check("ledger", "fails", f"entry {number} paid for another release")
    if not ledger.was_paid(entry):
        return Check("ledger", "fails", f"entry {number} set a price aside that was not paid")
    return Check("ledger", "holds", f"entry {number} of {entry.dataset!r} paid for it")


def _clients_check(certificate: Certificate, clients: Mapping[str, Any], ledger: Ledger) -> Check:
    """Whether each client's last row is one round of what is stated of all rounds together.

    Rows of a round are those with the purpose of the last one but for its number. A client that stopped to
    answer has paid for fewer rounds than are stated, and sent nothing in the others.
    """
    stated, rounds = certificate.statement.proven, certificate.statement.parameters["rounds_paid"]
    details, elsewhere = [], []
    for client, row in sorted(clients.items()):
        name = f"{certificate.dataset}/{client}"
        entry = ledger.find(row["hash"]) if row["ledger"] == ledger.identity else None
        one = None if entry is None else entry.guarantee
        whole = None if one is None else replace(one.times(rounds), at_delta=stated.at_delta)
        check = _row_check(name, row, () if one is None or not _covers(whole, stated) else (one,), ledger)
        if check.outcome == "fails":
            return replace(check, detail=f"{client}: {check.detail}")
        if entry is None:
            elsewhere.append(client)
            continue
        run = entry.purpose.rpartition(" ")[0]
        paid = sum(each.purpose.rpartition(" ")[0] == run for each in ledger.history(name))
        details.append(f"{client} paid for {paid} of {rounds} rounds")
    if elsewhere:
        details.append(f"{', '.join(elsewhere)} paid in another ledger")
    return Check("ledger", "not checked" if elsewhere else "holds", "; ".join(details))


def _covers(paid: Guarantee | None, part: Guarantee) -> bool:
    """Whether ``paid`` is ``part`` or no less of its unit: one entry pays for the worst of many files."""
    if paid == part:
        return True
    if paid is None:
        return False
    alike = (paid.unit, paid.neighbours) == (part.unit, part.neighbours)
    return alike and paid.epsilon(max(paid.at_delta, part.at_delta)) >= part.epsilon()
