"""The audit inside a publication: who is left out of the fit, what is fitted, and which column says what.

Whether and how a publication appears is seen from outside. So nothing here may depend on a record beyond what
is proven, be it a note, a refusal or the size of a fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from sfumato.audits.canaries import Canaries
from sfumato.audits.findings import Finding
from sfumato.audits.publication_attacks import surely_more
from sfumato.privacy import Guarantee, Neighbours, Statement
from sfumato.privacy.wording import downward
from sfumato.publishers import Publisher
from sfumato.release.publisher_catalogue import leaves_out_as_null
from sfumato.reports import VerificationFailed

__all__ = ["audited_statements", "canaries_of", "fitted_records", "may_withhold"]

Labels = NDArray[np.int64]

_LEFT_OUT = "records drawn at random were left out of the fit, so that it could be audited"
_ADDED = "a black picture of the first class was added to the fit, so that there is always something to fit"
# True whether or not anything could be measured: under add/remove that would tell of the number of records.
_KEPT = "what an audit measures is computed from the records and stays with whoever published"
_ABSENT = (
    "the audit left records out instead of zeroing them out, so what it measured is of add/remove "
    "neighbours, of which nothing is proven"
)


def canaries_of(
    publisher: Publisher, records: int, neighbours: Neighbours, rng: np.random.Generator
) -> Canaries:
    """Canaries among ``records`` records for a guarantee under ``neighbours``, in the game they do play."""
    drawn = Canaries.drawn(records, neighbours, rng)
    null = neighbours is not Neighbours.ZERO_OUT or leaves_out_as_null(publisher)
    return drawn if null else drawn.absent()


def fitted_records(
    pictures: NDArray[np.float32], labels: Labels, chosen: NDArray[np.intp], neighbours: Neighbours
) -> tuple[NDArray[np.float32], Labels]:
    """The ``chosen`` pictures and labels, as they are fitted in an audited publication.

    Under add/remove each record has coins of its own, which may leave out all of a few; a fit that refused to
    begin would tell how few, after it was paid for. So a black picture of class 0 is part of every such fit.
    Two neighbouring datasets stay neighbours with the same public picture in both; they would not if it stood
    in for records only where none are left.
    """
    some, kinds = pictures[chosen], labels[chosen]
    if neighbours is not Neighbours.ADD_REMOVE:
        return some, kinds
    return np.concatenate([some, np.zeros_like(pictures[:1])]), np.append(kinds, 0)


def may_withhold(publisher: Publisher) -> bool:
    """Whether an audit of ``publisher`` plays the game of its guarantee, so that it may refute it."""
    proven = publisher.guarantee()
    plays = proven.neighbours is not Neighbours.ZERO_OUT or leaves_out_as_null(publisher)
    return plays and not proven.proves_nothing


def audited_statements(
    statement: Statement, canaries: Canaries, findings: Sequence[Finding], fitted: Guarantee, chance: float
) -> tuple[Statement, Statement]:
    """What stays with whoever published, with ``findings``, and what goes out.

    Where something is proven what goes out has no findings. Raises
    :class:`~sfumato.reports.VerificationFailed` where a finding contradicts the proof and comes with at most
    ``chance`` if what was ``fitted`` keeps its guarantee: a bound that holds in 99 of 100 runs must not
    decide what appears, and stands in the measured column alone.
    """
    proven = statement.proven
    added = (_ADDED,) if proven.neighbours is Neighbours.ADD_REMOVE else ()
    statement = replace(statement, notes=(*statement.notes, _LEFT_OUT, *added))
    measured = replace(statement, measured=tuple(item.evidence() for item in findings))
    for item in findings:
        if measured.contradicts(item.evidence()) and surely_more(item, fitted, chance):
            raise VerificationFailed(
                f"the audit shows ε ≥ {downward(item.epsilon_lower or 0.0)}, more than is proven; "
                "nothing was written: the proof, the code or the audit is wrong."
            )
    if findings and canaries.neighbours is not proven.neighbours:
        measured = replace(measured, notes=(*measured.notes, _ABSENT))
    if proven.proves_nothing:
        return measured, measured
    return measured, replace(statement, notes=(*statement.notes, _KEPT))
