"""The audit inside a publication: who is left out of the fit, what is fitted, and which column says what.

Whether and how a publication appears is seen from outside. So nothing here may depend on a record beyond what
is proven, be it a note, a refusal or the size of a fit.

The report of a publication: its statement, what it is good for, and originals beside what came of them.

It shows private originals and is for whoever may see them, so it is written only where it is asked for, and
never into what is published.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import sfumato
from sfumato.audits import Canaries, Finding, nearest_of_class, surely_more
from sfumato.errors import BadInput
from sfumato.io import atomic_output
from sfumato.privacy import Guarantee, Neighbours, Statement, format_lower
from sfumato.publishers import Publisher
from sfumato.release.catalogue import leaves_out_as_null
from sfumato.release.locations import PRIVATE
from sfumato.reports import ContactSheet, Entry, VerificationFailed, render_report

Labels = NDArray[np.int64]

Pictures = NDArray[Any]

_LABELS = ("original", "nearest released", "released")
_LEGEND = (
    "Drawn at random: on the left an original that was fitted, in the middle the released picture of its "
    "class that is nearest to it, on the right any released picture of the class. The closer the middle is "
    "to the left, and to the left alone, the more was given away."
)
_SHOWN = 12
# Small pictures are drawn larger, each pixel a square, up to about so many pixels.
_SIDE = 112
# Rows that measures of usefulness look at, and fewest on which a classifier is tested.
_MOST, _FEWEST = 5000, 50


def write_publication_report(
    page: Path,
    name: str,
    statement: Statement,
    findings: Sequence[Finding],
    *,
    originals: tuple[Pictures, Labels],
    fitted: NDArray[np.intp],
    released: tuple[Pictures, Labels],
    top: float,
    class_names: Sequence[str],
    rng: np.random.Generator,
) -> None:
    """Write the HTML file ``page``, which its owner alone may read, about a release called ``name``.

    ``fitted`` says of which originals. What cannot be measured or shown is a remark: the release is out.
    """
    left_out = np.setdiff1d(np.arange(len(originals[1])), fitted)
    chosen = (originals[0][fitted], originals[1][fitted])
    tested = (originals[0][left_out], originals[1][left_out])
    useful = usefulness(chosen, tested, released, top, rng)
    try:
        sheet = published_sheet(chosen, released, top, class_names, rng)
    except BadInput as refusal:
        sheet = None
        useful["remarks"].append(str(refusal))
    entry = Entry(name, statement, findings, utility=useful, sheet=sheet)
    lines = [f"sfumato verify {name}", f"# Sfumato {sfumato.__version__}"]
    text = render_report([entry], title="Publication report", reproduce=lines)
    with atomic_output(page, mode=PRIVATE) as file:
        file.write(text.encode("utf-8"))


def published_sheet(
    originals: tuple[Pictures, Labels],
    released: tuple[Pictures, Labels],
    top: float,
    class_names: Sequence[str],
    rng: np.random.Generator,
) -> ContactSheet:
    """Originals drawn at random, in turn from each class that was released, with what was released."""
    pictures, labels = originals
    pools = [rng.permutation(np.flatnonzero(labels == label)) for label in np.unique(released[1])]
    turns = [pool[turn] for turn in range(_SHOWN) for pool in pools if turn < len(pool)]
    if not turns:
        raise BadInput("no class that was fitted was released, so there is nothing to show side by side.")
    shown = np.array(turns[:_SHOWN])
    shown = shown[np.argsort(labels[shown], kind="stable")]
    flat = released[0].reshape(len(released[0]), -1)
    _, near = nearest_of_class(pictures[shown].reshape(len(shown), -1), labels[shown], flat, released[1])
    anyone = [rng.choice(np.flatnonzero(released[1] == label)) for label in labels[shown]]
    return ContactSheet(
        tuple(f"class {class_names[label]}" for label in labels[shown]),
        tuple(_view(pictures[number], top) for number in shown),
        tuple(_view(released[0][number], top) for number in near),
        tuple(_view(released[0][number], top) for number in anyone),
        _LABELS,
        _LEGEND,
    )


def usefulness(
    fitted: tuple[Pictures, Labels],
    left_out: tuple[Pictures, Labels],
    released: tuple[Pictures, Labels],
    top: float,
    rng: np.random.Generator,
) -> dict[str, Any]:
    """What the release is good for, as measures and remarks of a report.

    A linear classifier learns from what was released and is tested on the records that were left out, beside
    one that learned from originals; the Fréchet distance over pixels says how alike both are spread.
    """
    from sfumato.utility import frechet_distance

    first, second, tested = (_rows(data, top, rng) for data in (fitted, released, left_out))
    measures: list[dict[str, Any]] = []
    remarks: list[str] = []
    if len(tested[1]) < _FEWEST:
        remarks.append("too few records were left out of the fit to test a classifier on them.")
    else:
        try:
            ours, chance = _accuracy(second, tested)
            usual, _ = _accuracy(first, tested)
            measures.append(
                {
                    "name": "linear-probe accuracy on records that were left out",
                    "value": ours,
                    "original": usual,
                    "chance": chance,
                    "note": f"{len(tested[1])} records",
                }
            )
        except BadInput as refusal:
            remarks.append(str(refusal))
    if len(first[1]) > 1 and len(second[1]) > 1:
        try:
            apart, note = frechet_distance(first[0], second[0])
            name = "Fréchet distance over pixels"
            measures.append({"name": name, "value": apart, "better": "lower", "note": note})
        except BadInput as refusal:
            remarks.append(str(refusal))
    return {"measures": measures, "remarks": remarks}


def _accuracy(learned: tuple[Pictures, Labels], tested: tuple[Pictures, Labels]) -> tuple[float, float]:
    from sfumato.utility import fitted

    if np.unique(learned[1]).size < 2:
        raise BadInput("pictures of one class were released, from which no classifier can learn.")
    rows = np.concatenate([learned[0], tested[0]])
    numbers = np.concatenate([learned[1], tested[1]]).astype(np.intp)
    parts = np.arange(len(learned[0])), np.arange(len(learned[0]), len(rows))
    found = fitted(rows, numbers, parts, iterations=200).scored(rows)
    return found.accuracy, found.chance


def _rows(data: tuple[Pictures, Labels], top: float, rng: np.random.Generator) -> tuple[Pictures, Labels]:
    """At most so many of the records, drawn at random, as rows with values from 0 to 1."""
    chosen = rng.permutation(len(data[1]))[:_MOST]
    numbers = math.prod(data[0].shape[1:])  # there may be no records to tell it from
    return data[0][chosen].reshape(len(chosen), numbers).astype(np.float64) / top, data[1][chosen]


def _view(picture: Pictures, top: float) -> NDArray[np.uint8]:
    """A picture with values from 0 to ``top`` as bytes (h, w, 3), enlarged where it is small."""
    levels = np.rint(np.clip(np.asarray(picture, dtype=np.float64) / top, 0.0, 1.0) * 255.0)
    levels = levels[:, :, None] if levels.ndim == 2 else levels
    if levels.shape[2] in (2, 4):  # transparency is looked at on white
        alpha = levels[:, :, -1:] / 255.0
        levels = levels[:, :, :-1] * alpha + 255.0 * (1.0 - alpha)
    levels = levels if levels.shape[2] == 3 else np.repeat(levels[:, :, :1], 3, axis=2)
    times = max(1, _SIDE // max(levels.shape[:2]))
    step = max(1, max(levels.shape[:2]) // (3 * _SIDE))
    enlarged = np.repeat(np.repeat(levels[::step, ::step], times, axis=0), times, axis=1)
    return np.asarray(np.rint(enlarged), dtype=np.uint8)


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
                f"the audit shows ε ≥ {format_lower(item.epsilon_lower or 0.0)}, more than is proven; "
                "nothing was written: the proof, the code or the audit is wrong."
            )
    if findings and canaries.neighbours is not proven.neighbours:
        measured = replace(measured, notes=(*measured.notes, _ABSENT))
    if proven.proves_nothing:
        return measured, measured
    return measured, replace(statement, notes=(*statement.notes, _KEPT))
