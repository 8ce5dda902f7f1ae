"""A ledger restored from an old backup: which spends it has forgotten, and how they are charged again.

A certificate names the row that paid by its hash. A row that a certificate names and that the ledger lacks
was lost, whatever happened to the ledger, and what it paid for is out in the world. Found are lost spends
whose certificates are given, such as those that lie beside the kept releases of a service; a spend whose
certificate nobody kept is found by nobody.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from sfumato.ledger import BudgetRefused, Entry, Ledger
from sfumato.pipeline.payment import Payment
from sfumato.privacy import Guarantee
from sfumato.report import Certificate, KeyRing, VerificationFailed

__all__ = ["LostSpend", "charge_again", "lost_spends"]


@dataclass(frozen=True)
class LostSpend:
    """A row of the ledger that is gone: its ``number`` and ``hash``, and what it paid for in ``dataset``."""

    dataset: str
    number: int
    hash: str
    guarantee: Guarantee


def lost_spends(certificates: Iterable[Path], keys: KeyRing, ledger: Ledger) -> list[LostSpend]:
    """The spends that ``certificates`` name and ``ledger`` lacks, oldest first, each once.

    Certificates that no trusted key signed, and those of other ledgers or of no budget, say nothing.
    """
    trusted, found = keys.trusted(), dict[str, LostSpend]()
    for place in certificates:
        try:
            certificate = Certificate.read(place.read_bytes(), trusted)
        except VerificationFailed:
            continue
        row, dataset = certificate.ledger, certificate.dataset
        if row is None or dataset is None or row["ledger"] != ledger.identity or ledger.find(row["hash"]):
            continue
        paid = Payment(dataset, ledger).charged(certificate.statement)
        before = found.get(row["hash"])
        # One row may have paid for many files, as much as for the worst of them.
        if before is None or before.guarantee.epsilon() < paid.epsilon():
            found[row["hash"]] = LostSpend(dataset, row["number"], row["hash"], paid)
    return sorted(found.values(), key=lambda lost: (lost.dataset, lost.number))


def charge_again(lost: LostSpend, ledger: Ledger) -> Entry:
    """Pay once more for what was lost; doing it twice pays once.

    A budget that cannot pay it any more is closed, and the entry that closes it is returned: what it has left
    was given out already.
    """
    purpose = f"entry {lost.number}, lost with an older ledger"
    try:
        return ledger.spend(lost.dataset, lost.guarantee, purpose, f"lost {lost.hash}")
    except BudgetRefused:
        return ledger.close(lost.dataset)
