"""Is this file what its certificate says? Envelope, key, bytes, and the ledger row that paid for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from sfumato.errors import BadInput
from sfumato.privacy import Guarantee
from sfumato.reports.certificate import Certificate, certificate_file
from sfumato.reports.envelope import VerificationFailed, file_digest
from sfumato.reports.signing_keys import KeyRing

if TYPE_CHECKING:
    from sfumato.ledger import Ledger

__all__ = ["Check", "Verification", "verify"]


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
        """Whether nothing fails."""
        return all(check.outcome != "fails" for check in self.checks)

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "file": str(self.file),
            "holds": self.holds,
            "checks": [{"what": c.what, "outcome": c.outcome, "detail": c.detail} for c in self.checks],
            "statement": None if self.certificate is None else self.certificate.statement.to_dict(),
        }


def verify(file: Path, keys: KeyRing, ledger: Ledger | None = None) -> Verification:
    """Check ``file`` against the certificate beside it; the ledger row only where a ledger is given."""
    beside = certificate_file(file)
    try:
        envelope = beside.read_bytes()
    except OSError:
        raise BadInput(f"there is no certificate {beside.name} beside {file.name}.") from None
    try:
        certificate = Certificate.read(envelope, keys.trusted())
    except VerificationFailed as failure:
        what, _, detail = str(failure).partition(": ")
        failed = Check("key" if what == "key" else "envelope", "fails", detail)
        return Verification(file, (failed,), None)
    checks = [
        Check("envelope", "holds", "the signature fits the statement"),
        Check("key", "holds", "it was signed with a trusted key"),
        _file_check(file, certificate),
        _ledger_check(certificate, ledger),
    ]
    return Verification(file, tuple(checks), certificate)


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
    told, elsewhere = [], []
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
        told.append(f"{client} paid for {paid} of {rounds} rounds")
    if elsewhere:
        told.append(f"{', '.join(elsewhere)} paid in another ledger")
    return Check("ledger", "not checked" if elsewhere else "holds", "; ".join(told))


def _covers(paid: Guarantee | None, part: Guarantee) -> bool:
    """Whether ``paid`` is ``part`` or no less of its unit: one entry pays for the worst of many files."""
    if paid == part:
        return True
    if paid is None:
        return False
    alike = (paid.unit, paid.neighbours) == (part.unit, part.neighbours)
    return alike and paid.epsilon(max(paid.at_delta, part.at_delta)) >= part.epsilon()
