"""TLDP beside a sound mechanism at the same proven unit, ε and δ: one row for every point of a plot."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sfumato_reproductions.tldp.points import Point, points, tensor_shape
from sfumato_reproductions.tldp.promise import Promise
from sfumato_reproductions.tldp.settings import Setting
from sfumato_reproductions.tldp.sweep import Results

__all__ = ["Row", "rows"]


@dataclass(frozen=True)
class Row:
    """A point of TLDP with its F1, and the chosen sound setting with its own, one a seed.

    ``macro`` is the difference of the means of macro F1.
    """

    point: Point
    score: tuple[float, ...]
    sound: Setting
    sound_score: tuple[float, ...]
    macro: float

    @property
    def difference(self) -> float:
        """Mean F1 of the sound mechanism minus that of TLDP."""
        return statistics.fmean(self.sound_score) - statistics.fmean(self.score)

    @property
    def standard_error(self) -> float | None:
        """That of the difference, over seeds, which share pictures and initial weights."""
        pairs = [ours - theirs for ours, theirs in zip(self.sound_score, self.score, strict=True)]
        return statistics.stdev(pairs) / math.sqrt(len(pairs)) if len(pairs) > 1 else None

    @property
    def at_or_above(self) -> bool:
        """Whether the mean F1 of the sound mechanism is no smaller."""
        return self.difference >= 0.0

    def sound_promises(self) -> tuple[Promise, ...]:
        """What is proven of the sound mechanism at the δ of each promise it is held to."""
        shape = tensor_shape(self.point.figure, self.point.data)
        return tuple(
            Promise(held.unit, self.sound.epsilon_at(held.unit, shape, held.delta), held.delta)
            for held in self.point.held
        )

    def to_dict(self) -> dict[str, Any]:
        """As JSON values, for machines."""
        point = self.point
        return {
            "figure": point.figure,
            "data": point.data,
            "tldp": point.tldp.kind,
            "claimed_epsilon": point.tldp.epsilon,
            "unit": point.unit,
            "proven": [_values(promise) for promise in point.promises],
            "tldp_f1": list(self.score),
            "sound": self.sound.kind,
            "sound_epsilon": self.sound.epsilon,
            "sound_proven": [_values(promise) for promise in self.sound_promises()],
            "sound_f1": list(self.sound_score),
            "difference": self.difference,
            "standard_error": self.standard_error,
            "macro_difference": self.macro,
        }


def _values(promise: Promise) -> dict[str, Any]:
    return {"unit": promise.unit, "epsilon": promise.epsilon, "delta": promise.delta}


def rows(results: Results) -> Iterator[Row]:
    """All points of all plots."""
    for figure in results.figures:
        for data in results.run.data:
            for point in points(results.run, figure, data):
                sound = results.chosen[point]
                macro = [
                    statistics.fmean(results.values(figure, data, setting, macro=True))
                    for setting in (sound, point.tldp)
                ]
                yield Row(
                    point,
                    tuple(results.values(figure, data, point.tldp)),
                    sound,
                    tuple(results.values(figure, data, sound)),
                    macro[0] - macro[1],
                )
