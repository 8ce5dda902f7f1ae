"""The report of a publication: its statement, what it is good for, and originals beside what came of them.

It shows private originals and is for whoever may see them, so it is written only where it is asked for, and
never into what is published.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import sfumato
from sfumato.audits.findings import Finding
from sfumato.audits.publication_attacks import nearest_of_class
from sfumato.errors import BadInput
from sfumato.io.atomic import atomic_output
from sfumato.privacy import Statement
from sfumato.release.publication_place import PRIVATE
from sfumato.reports import ContactSheet, Entry
from sfumato.reports.page import render_report

__all__ = ["published_sheet", "usefulness", "write_publication_report"]

Pictures = NDArray[Any]
Labels = NDArray[np.int64]

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
    from sfumato.utility.distribution import frechet_distance
    from sfumato.utility.distribution_features import pixels

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
            apart = frechet_distance(first[0], second[0], extractor=pixels())
            measures.append({"name": apart.name, "value": apart.value, "better": "lower", "note": apart.note})
        except BadInput as refusal:
            remarks.append(str(refusal))
    return {"measures": measures, "remarks": remarks}


def _accuracy(learned: tuple[Pictures, Labels], tested: tuple[Pictures, Labels]) -> tuple[float, float]:
    from sfumato.utility.probe import fitted

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
