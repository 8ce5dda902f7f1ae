"""The audit of a publication and its report.

Whether and how a publication appears is public. So no note, refusal or size of a fit in the audit may depend
on a record beyond what is proven.

The report has the statement, measures of utility, and originals beside what was published. It is private, is
written only on request, and never into what is published.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sfumato.audits import Canaries, Finding, nearest_of_class, surely_more
from sfumato.errors import BadInput
from sfumato.io import atomic_output
from sfumato.noise import Randomness
from sfumato.privacy import Guarantee, Neighbours, Statement, format_lower
from sfumato.publishers import CertifiedPublisher, Publisher
from sfumato.release.file_audit import on_white
from sfumato.release.labelled_release import coins_file
from sfumato.release.path import PRIVATE
from sfumato.reports import ContactSheet, Entry, VerificationFailed

if TYPE_CHECKING:
    from sfumato.utility import Measure

Labels = NDArray[np.int64]

Pictures = NDArray[Any]

_LABELS = ("original", "nearest released", "released")
_LEGEND = (
    "A random sample: on the left an original that was fitted, in the middle the released image of its class "
    "that is nearest to it, on the right a random released image of the class. If the middle is close to the "
    "left, and the right is not, the release reveals much about the original."
)
_SHOWN = 12
# Small images are enlarged, each pixel a square, up to about so many pixels.
_SIDE = 112
# Rows for the measures of utility, and fewest on which a classifier is tested.
_MOST, _FEWEST = 5000, 50


def publication_entry(
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
) -> Entry:
    """Return what a report says about a publication called ``name``; ``fitted`` are indices of originals.

    What cannot be measured or shown is a remark, because the publication is out already.
    """
    left_out = np.setdiff1d(np.arange(len(originals[1])), fitted)
    chosen = (originals[0][fitted], originals[1][fitted])
    tested = (originals[0][left_out], originals[1][left_out])
    measures, remarks = usefulness(chosen, tested, released, top, rng)
    try:
        sheet = published_sheet(chosen, released, top, class_names, rng)
    except BadInput as refusal:
        sheet = None
        remarks.append(str(refusal))
    return Entry(name, statement, findings, measures, sheet=sheet, remarks=remarks)


def published_sheet(
    originals: tuple[Pictures, Labels],
    released: tuple[Pictures, Labels],
    top: float,
    class_names: Sequence[str],
    rng: np.random.Generator,
) -> ContactSheet:
    """Return random originals, in turn from each class that was released, beside what was released."""
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
) -> tuple[list[Measure], list[str]]:
    """Return the utility of a publication, as measures and remarks of a report.

    A linear classifier is trained on what was released and tested on the records that were left out, beside
    one that is trained on originals; the Fréchet distance over pixels compares both distributions.
    """
    from sfumato.utility import Measure, frechet_distance

    first, second, tested = (_rows(data, top, rng) for data in (fitted, released, left_out))
    measures: list[Measure] = []
    remarks: list[str] = []
    if len(tested[1]) < _FEWEST:
        remarks.append("too few records were left out of the fit to test a classifier on them.")
    else:
        try:
            ours, chance = _accuracy(second, tested)
            usual, _ = _accuracy(first, tested)
            name, note = "linear-probe accuracy on records that were left out", f"{len(tested[1])} records"
            measures.append(Measure(name, ours, original=usual, chance=chance, note=note))
        except BadInput as refusal:
            remarks.append(str(refusal))
    if len(first[1]) > 1 and len(second[1]) > 1:
        try:
            apart, note = frechet_distance(first[0], second[0])
            measures.append(Measure("Fréchet distance over pixels", apart, "lower", note=note))
        except BadInput as refusal:
            remarks.append(str(refusal))
    return measures, remarks


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
    """Return a random sample of the records, as rows with values from 0 to 1."""
    chosen = rng.permutation(len(data[1]))[:_MOST]
    numbers = math.prod(data[0].shape[1:])  # there may be no records to tell it from
    return data[0][chosen].reshape(len(chosen), numbers).astype(np.float64) / top, data[1][chosen]


def _view(picture: Pictures, top: float) -> NDArray[np.uint8]:
    """Return an image with values from 0 to ``top`` as bytes (h, w, 3), enlarged if it is small."""
    scaled = np.asarray(picture, dtype=np.float64) / top
    levels = on_white(np.rint(np.clip(scaled, 0.0, 1.0) * 255.0))
    times = max(1, _SIDE // max(levels.shape[:2]))
    step = max(1, max(levels.shape[:2]) // (3 * _SIDE))
    return np.repeat(np.repeat(levels[::step, ::step], times, axis=0), times, axis=1)


_SEED_BITS = 128
_SEED = re.compile(rb"([0-9a-f]{32})\n?")
_LEFT_OUT = "records drawn at random were left out of the fit, so that it could be audited"
_ADDED = "a black picture of the first class was added to the fit, so that there is always something to fit"
# True whether or not anything could be measured: under add/remove that would tell of the number of records.
_KEPT = "what an audit measures is computed from the records and stays with whoever published"
_ABSENT = (
    "the audit left records out instead of zeroing them out, so what it measured is of add/remove "
    "neighbours, of which nothing is proven"
)


def drawn_coins(randomness: Randomness, checkpoint: Path | None) -> int:
    """Return the seed of the choice of records that are left out; nothing is written.

    It is what was kept beside a ``checkpoint``, if anything was: a resumed fit must use the same records.
    """
    if checkpoint is not None and os.path.lexists(kept := coins_file(checkpoint)):
        wrong = f"{kept.name} does not hold the coins of a fit; remove it together with {checkpoint.name}."
        try:
            if not kept.is_file():  # opening a pipe would wait for ever
                raise BadInput(wrong)
            with kept.open("rb") as file:
                found = _SEED.fullmatch(file.read(64))
        except OSError as error:
            raise BadInput(f"{kept.name} cannot be read: {error.strerror or error}.") from None
        if found is None:
            raise BadInput(wrong)
        return int(found[1], 16)
    return canary_coins(randomness)


def canary_coins(randomness: Randomness) -> int:
    """Return the seed of the choice of records that are left out, drawn from ``randomness``."""
    return randomness.stream(b"publication canaries").integer(_SEED_BITS)


def keep_coins(seed: int, checkpoint: Path) -> None:
    """Keep ``seed`` beside ``checkpoint``, for its owner alone."""
    with atomic_output(coins_file(checkpoint), mode=PRIVATE) as file:
        file.write(f"{seed:032x}\n".encode("ascii"))


def _plays_its_game(publisher: Publisher, neighbours: Neighbours) -> bool:
    """Return whether leaving a record out of the fit is what ``neighbours`` mean by removing it.

    Under zero-out a record becomes null instead. That is the same for sums to which a null record adds
    nothing. Publishers that train by noisy steps divide by the number of records, in which a null record
    counts and a left-out one does not.
    """
    return neighbours is not Neighbours.ZERO_OUT or isinstance(publisher, CertifiedPublisher)


def canaries_of(
    publisher: Publisher, records: int, neighbours: Neighbours, rng: np.random.Generator
) -> Canaries:
    """Return canaries among ``records`` records, under ``neighbours`` if leaving one out means that."""
    drawn = Canaries.drawn(records, neighbours, rng)
    return drawn if _plays_its_game(publisher, neighbours) else drawn.absent()


def may_withhold(publisher: Publisher) -> bool:
    """Return whether an audit of ``publisher`` plays the game of its guarantee, so that it may refute it."""
    proven = publisher.guarantee()
    return _plays_its_game(publisher, proven.neighbours) and not proven.proves_nothing


def fitted_records(
    pictures: NDArray[np.float32], labels: Labels, chosen: NDArray[np.intp], neighbours: Neighbours
) -> tuple[NDArray[np.float32], Labels]:
    """Return the ``chosen`` images and labels, as they are fitted in an audited publication.

    Under add/remove each record has a coin of its own, and all of a few records may be left out; a fit that
    refused to begin would tell how few, after it was paid for. So a black image of class 0 is part of every
    such fit. Two neighbouring datasets stay neighbours with the same public image in both; they would not if
    it were added only when no record is left.
    """
    some, kinds = pictures[chosen], labels[chosen]
    if neighbours is not Neighbours.ADD_REMOVE:
        return some, kinds
    return np.concatenate([some, np.zeros_like(pictures[:1])]), np.append(kinds, 0)


def audited_statements(
    statement: Statement, canaries: Canaries, findings: Sequence[Finding], fitted: Guarantee, chance: float
) -> tuple[Statement, Statement]:
    """Return the statement for the owner, with ``findings``, and the public one.

    Where something is proven the public one has no findings. Raises
    :class:`~sfumato.reports.VerificationFailed` if a finding contradicts the proof and has a probability of
    at most ``chance`` if what was ``fitted`` keeps its guarantee: a bound that holds in 99 of 100 runs must
    not decide what appears, and stands in the measured column alone.
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
