"""Detect spends that a restored ledger has lost, and charge them again.

A certificate names the ledger row that paid for its release by the row's hash. If the ledger lacks such a
row, for example because it was restored from an old backup, the spend is lost although its release was
published. Lost spends are found through certificates, such as those kept beside the releases of a service; a
spend without a known certificate cannot be found. A service refuses to start on a ledger with lost spends.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from heapq import nlargest
from pathlib import Path

from sfumato.errors import SfumatoError
from sfumato.ledger import BudgetRefused, Entry, Ledger
from sfumato.privacy import Guarantee
from sfumato.release.path import Payment
from sfumato.reports import Certificate, KeyRing, VerificationFailed

__all__ = ["charge_again", "lost_spends", "require_newest"]

# Read at a start, within about ten seconds.
_MOST_AT_START = 10_000


class LedgerRewound(SfumatoError):
    """Raised if the ledger lacks rows that certificates name: its remaining budget was already spent."""

    exit_code = 4


@dataclass(frozen=True)
class LostSpend:
    """A lost ledger row: its ``number`` and ``hash``, and what it paid for in ``dataset``."""

    dataset: str
    number: int
    hash: str
    guarantee: Guarantee


def lost_spends(certificates: Iterable[Path], keys: KeyRing, ledger: Ledger) -> list[LostSpend]:
    """Return the spends that ``certificates`` name and ``ledger`` lacks, oldest first, each once.

    Certificates that no trusted key signed, and those of other ledgers or without a budget, are ignored.
    """
    return _lost(_read(certificates, keys), ledger)


def _lost(certificates: Iterable[Certificate], ledger: Ledger) -> list[LostSpend]:
    found = dict[str, LostSpend]()
    for certificate in certificates:
        row, dataset = certificate.ledger, certificate.dataset
        if row is None or dataset is None or row["ledger"] != ledger.identity or ledger.find(row["hash"]):
            continue
        paid = Payment(dataset, ledger).charged(certificate.statement)
        before = found.get(row["hash"])
        # One row may have paid for many files, as much as for the worst of them.
        if before is None or before.guarantee.epsilon() < paid.epsilon():
            found[row["hash"]] = LostSpend(dataset, row["number"], row["hash"], paid)
    return sorted(found.values(), key=lambda lost: (lost.dataset, lost.number))


def _newest(folder: Path) -> list[Path]:
    """Return the newest certificates in ``folder``; a restored ledger lacks the newest spends."""
    found = list[tuple[float, Path]]()
    for place in folder.rglob("*.cert.json"):
        with suppress(FileNotFoundError):
            found.append((place.stat().st_mtime, place))
    return [place for _, place in nlargest(_MOST_AT_START, found)]


def require_newest(folder: Path, keys: KeyRing, ledger: Ledger) -> None:
    """Raise :class:`LedgerRewound` if ``ledger`` lacks spends of the newest certificates in ``folder``.

    Spends that were charged again, and those of closed budgets, are accepted, because that budget cannot be
    spent again. A ledger that paid for none of the certificates is refused too: it is a different ledger with
    new budgets.
    """
    ledgers = set[str]()

    def noted() -> Iterator[Certificate]:
        for found in _read(_newest(folder), keys):
            if found.ledger is not None:
                ledgers.add(found.ledger["ledger"])
            yield found

    for lost in _lost(noted(), ledger):
        if lost.dataset not in ledger.names() or not _settled(lost, ledger):
            raise LedgerRewound(
                f"the ledger lacks entry {lost.number} of {lost.dataset}, which paid for a release that is "
                "kept here, as a ledger from a backup does; 'sfumato serve lost-spends' lists what is lost "
                "and charges it again, or start with `accept_lost_spends=True`."
            )
    if ledgers and ledger.identity not in ledgers:
        raise LedgerRewound(
            "the ledger paid for none of the releases that are kept here, so its budgets are not those that "
            "were spent; give the ledger that did, or start with `accept_lost_spends=True`."
        )


def _settled(lost: LostSpend, ledger: Ledger) -> bool:
    """Return whether a lost spend was charged again or its budget closed."""
    if ledger.balance(lost.dataset).state == "closed":
        return True
    return any(entry.key == f"lost {lost.hash}" for entry in ledger.history(lost.dataset))


def _read(places: Iterable[Path], keys: KeyRing) -> Iterator[Certificate]:
    """Return the certificates that a trusted key signed."""
    trusted = keys.trusted()
    for place in places:
        with suppress(VerificationFailed, FileNotFoundError):
            yield Certificate.read(place.read_bytes(), trusted)


def charge_again(lost: LostSpend, ledger: Ledger) -> Entry:
    """Charge a lost spend again and return the entry; repeating the call charges once.

    A budget that can no longer pay is closed, and the closing entry is returned, because what it has left was
    already spent.
    """
    purpose = f"entry {lost.number}, lost with an older ledger"
    try:
        return ledger.spend(lost.dataset, lost.guarantee, purpose, f"lost {lost.hash}")
    except BudgetRefused:
        return ledger.close(lost.dataset)
