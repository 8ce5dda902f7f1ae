"""Utility of a release: all measures that apply, in one call."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.utility.distances import Progress
from sfumato.utility.distribution import cosine_similarity, frechet_distance, inception_style_score
from sfumato.utility.image_measures import psnr, ssim
from sfumato.utility.paired_records import class_labels, label_columns, paired
from sfumato.utility.probe import ERRORS, Probe, fitted, related, split
from sfumato.utility.structure_measures import Structure, structure

__all__ = ["Measure", "assess"]

_NEIGHBOURS = (5, 10, 20)
_MOST_ROWS = 10_000
_WIDEST = 1024  # features up to which a Fréchet distance is worth its time


@dataclass(frozen=True)
class Measure:
    """One number about a release.

    ``original`` is what the original itself reaches, ``chance`` what a release that says nothing would, where
    these are known; ``better`` says which way is good: "nearer" means nearer to the original. ``margin`` is
    by how much a release that says nothing may seem better than chance; without one, nothing is concluded.
    ``value`` is None where it could not be measured.
    """

    name: str
    value: float | None
    better: Literal["higher", "lower", "nearer"] = "higher"
    original: float | None = None
    chance: float | None = None
    note: str = ""
    margin: float | None = None

    @property
    def kept(self) -> float | None:
        """Return how far the value lies between a guess and the original, 0 to 1; None if unknown."""
        way, gained = self._ahead(self.original), self._ahead(self.value)
        return None if way is None or gained is None or way <= 0.0 else min(max(gained / way, 0.0), 1.0)

    @property
    def beats_guessing(self) -> bool | None:
        """Return whether the value beats a guess by more than chance; None if unknown.

        If the original itself is no better than a guess there is nothing to keep.
        """
        gained = self._ahead(self.value)
        return None if gained is None or self.margin is None or self.kept is None else gained > self.margin

    def _ahead(self, value: float | None) -> float | None:
        """Return by how much ``value`` is better than a guess; ``better`` says which way is good."""
        if value is None or self.chance is None:
            return None
        if self.better == "nearer":
            if self.original is None:
                return None
            return abs(self.chance - self.original) - abs(value - self.original)
        return self.chance - value if self.better == "lower" else value - self.chance


@dataclass(frozen=True)
class Assessment:
    """The measures that apply to a release, and one remark for each that was left out.

    ``structure`` holds the shares of every single row, for a plot. The numbers are computed from the original
    records and are not themselves protected.
    """

    measures: tuple[Measure, ...]
    remarks: tuple[str, ...]
    structure: Structure | None = None

    def __getitem__(self, name: str) -> Measure:
        for measure in self.measures:
            if measure.name == name:
                return measure
        raise KeyError(name)


def assess(
    original: Any,
    released: Any,
    labels: Any = None,
    *,
    image_shape: tuple[int, ...] | None = None,
    seed: int = 0,
    report: Progress | None = None,
) -> Assessment:
    """Measure what ``released`` keeps of ``original``, which holds the same records row by row.

    Always: neighbourhoods and distances. With ``labels``: a linear probe, whose features are all columns but
    those that hold nothing but the label. Where release and original have equally many columns: cosine
    similarity. With ``image_shape``, (height, width) or (height, width, channels), also PSNR and SSIM of
    bytes, or of values in [0, 1], and the Fréchet distance over pixels; with labels too, an inception-style
    score over a classifier that learned from originals. For tables see
    :func:`~sfumato.utility.table_utility.assess_table`.

    Beyond 10,000 records, so many are drawn with ``seed``; neighbours are still sought among all.

    **Edge cases.** Unusable input is refused: rows that do not match, NaN, labels that do not fit or are of
    one class. A measure that is not defined for this release (all distances equal, constant columns) is left
    out, with a sentence that says why.
    """
    first, second = paired(original, released)
    numbered = None if labels is None else class_labels(labels, len(first), least=2)
    _check_shape(image_shape, first)
    tell = report or (lambda stage, share: None)
    chosen = np.arange(len(first))
    if len(first) > _MOST_ROWS:
        chosen = np.sort(np.random.default_rng(seed).choice(len(first), _MOST_ROWS, replace=False))
    before, after = first[chosen], second[chosen]
    same_columns = before.shape == after.shape
    measures: list[Measure] = []
    remarks: list[str] = []

    def attempt(part: Callable[[], list[Measure]]) -> None:
        try:
            measures.extend(part())
        except BadInput as refusal:
            remarks.append(str(refusal))

    if len(chosen) < len(first):
        remarks.append(f"of {len(first):,} rows, {_MOST_ROWS:,} were drawn at random for all but neighbours.")
    tell("probe", 0.0)
    if numbered is None:
        remarks.append("no labels were given, so there is no linear probe.")
    else:
        classes = numbered[chosen]
        removed = label_columns(before, classes)
        if removed.any():
            remarks.append(f"columns that hold nothing but the label are no features: {int(removed.sum())}.")
        scored = image_shape is not None and same_columns and not removed.any()
        attempt(
            lambda: _probes(_without(removed, before), _without(removed, after), classes, seed, scored=scored)
        )
    tell("distances", 0.3)
    kept: list[Structure] = []

    def geometry() -> list[Measure]:
        sizes = [k for k in _NEIGHBOURS if k < len(first)] or _NEIGHBOURS[:1]
        kept.append(
            structure(
                first,
                second,
                neighbours=sizes,
                most_rows=_MOST_ROWS,
                seed=seed,
                report=lambda stage, share: tell(stage, 0.3 + 0.4 * share),
            )
        )
        return _structural(kept[0])

    attempt(geometry)
    tell("pictures and distributions", 0.7)
    if not same_columns:
        remarks.append(
            f"the release has {second.shape[1]} columns and the original {first.shape[1]}: no pictures or "
            "distributions are compared."
        )
    else:
        if image_shape is not None:
            pictures = [rows.reshape(len(rows), *image_shape) for rows in (before, after)]
            attempt(lambda: _psnr(*pictures))
            attempt(lambda: _ssim(*pictures))
        attempt(lambda: _cosine(before, after, "columns" if image_shape is None else "pixels"))
        if image_shape is not None:
            attempt(lambda: _frechet(before, after))
    tell("done", 1.0)
    return Assessment(tuple(measures), tuple(remarks), kept[0] if kept else None)


def _probes(
    before: NDArray[Any], after: NDArray[Any], groups: NDArray[np.intp], seed: int, *, scored: bool
) -> list[Measure]:
    """Run all that needs a classifier, each of the two fitted once; with ``scored`` also that of pictures."""
    parts = split(groups, seed=seed)
    learner = fitted(before, groups, parts)
    student = fitted(after, groups, parts)
    own, probe = learner.scored(before), student.scored(after)
    note = "" if probe.converged else "the fit did not converge"
    found = [
        _accuracy("linear-probe accuracy", probe, own, note),
        Measure("linear-probe weighted F1", probe.weighted_f1, "higher", own.weighted_f1),
    ]
    if before.shape[1] == after.shape[1]:
        name = "accuracy on originals, learned from the release"
        across = _accuracy(name, student.scored(before), own, note)
        # What learned nothing from the release may suit all originals at once by luck.
        learned = (found[0].margin or 0.0) < probe.accuracy - probe.chance
        luck = (across.value or 0.0) > probe.chance and not learned and not related(after, groups, seed)
        found.append(replace(across, margin=1.0) if luck else across)
    if scored:
        score, best = (
            inception_style_score(learner.model.predict_proba(rows[parts[1]].astype(np.float64)))
            for rows in (after, before)
        )
        name = "inception-style score over logistic regression on originals"
        found.append(Measure(name, score, "higher", best, 1.0))
    return found


def _accuracy(name: str, probe: Probe, own: Probe, note: str) -> Measure:
    """Return an accuracy beside a guess, with a margin of four standard errors (McNemar 1947)."""
    margin = ERRORS * math.sqrt(probe.differing) / probe.tested_rows
    return Measure(name, probe.accuracy, "higher", own.accuracy, probe.chance, note, margin)


def _without(removed: NDArray[np.bool_], rows: NDArray[Any]) -> NDArray[Any]:
    """Return ``rows`` without the columns of the label, if they have the columns of the original."""
    if rows.shape[1] != removed.size:
        return rows
    if removed.all():
        raise BadInput("every column is the label itself: there is no feature to learn it from.")
    return rows[:, ~removed]


def _structural(found: Structure) -> list[Measure]:
    deviations, deviation = found.overlap_standard_error or {}, found.spearman_standard_error
    measures = [
        Measure(
            f"overlap of {k} nearest neighbours",
            share,
            "higher",
            1.0,
            found.chance[k],
            f"standard error {deviations[k]:.2g}, {len(found.rows):,} rows drawn" if deviations else "",
            # Unrelated rows overlap hypergeometrically; twice the error allows for shared neighbours.
            2.0 * ERRORS * math.sqrt(found.chance[k] / (k * len(found.rows))),
        )
        for k, share in found.overlap.items()
    ]
    note = f"{found.pairs:,} pairs"
    if deviation is not None:
        note += f" of rows drawn, standard error {deviation:.2g}"
    margin = ERRORS / math.sqrt(len(found.rows))
    name = "Spearman correlation of distances"
    measures.append(Measure(name, found.spearman, "higher", 1.0, 0.0, note, margin))
    return measures


def _psnr(before: NDArray[Any], after: NDArray[Any]) -> list[Measure]:
    span = _range(before)
    ratios = psnr(before, after, data_range=span)
    changed = np.isfinite(ratios)
    if not changed.any():
        raise BadInput("no picture changed, so the peak signal-to-noise ratio is infinite.")
    note = f"range {span:g}"
    if not changed.all():
        note += f", over the {int(changed.sum()):,} pictures that changed"
    return [Measure("mean PSNR in dB", float(ratios[changed].mean()), "higher", note=note)]


def _ssim(before: NDArray[Any], after: NDArray[Any]) -> list[Measure]:
    span = _range(before)
    value = float(ssim(before, after, data_range=span).mean())
    return [Measure("mean SSIM", value, "higher", 1.0, note=f"range {span:g}")]


def _cosine(before: NDArray[Any], after: NDArray[Any], over: str) -> list[Measure]:
    value = float(cosine_similarity(before, after).mean())
    return [Measure(f"mean cosine similarity over {over}", value, "higher", 1.0)]


def _frechet(before: NDArray[Any], after: NDArray[Any]) -> list[Measure]:
    if before.shape[1] > _WIDEST:
        raise BadInput(f"a Fréchet distance over {before.shape[1]} pixels takes too long.")
    value, note = frechet_distance(before, after)
    return [Measure("Fréchet distance over pixels", value, "lower", 0.0, note=note)]


def _range(pictures: NDArray[Any]) -> float:
    if pictures.dtype == np.uint8:
        return 255.0
    if pictures.min() >= 0 and pictures.max() <= 1:
        return 1.0
    raise BadInput("pictures are neither bytes nor in [0, 1], so their range from black to white is unknown.")


def _check_shape(image_shape: tuple[int, ...] | None, first: NDArray[Any]) -> None:
    if image_shape is None:
        return
    if len(image_shape) not in (2, 3) or int(np.prod(image_shape)) != first.shape[1]:
        raise BadInput(
            f"`image_shape` was {tuple(image_shape)}, and records have {first.shape[1]} values; expected "
            "(height, width) or (height, width, channels) with as many.",
            parameter="image_shape",
        )
