"""One figure, data set and seed: what is learned from, protected, what is tested on, and what is public."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato_reproductions.datasets import Dataset
from sfumato_reproductions.tldp.network import Fitted, Score, fit_features, fit_pictures
from sfumato_reproductions.tldp.points import tensor_shape
from sfumato_reproductions.tldp.protocol import SHAPES, Run
from sfumato_reproductions.tldp.settings import SPAN, Setting

__all__ = ["Case", "Pictures"]

Floats = NDArray[np.float32]
Labels = NDArray[np.int64]
Labelled = tuple[Floats, Labels]

# How often a mechanism is tried on public pictures before it is chosen.
_TRIALS = 2


@dataclass(frozen=True)
class Case:
    """What is protected and learned from, (n, I), and what is tested on."""

    figure: int
    shape: tuple[int, ...]
    learned: Labelled
    tested: Labelled
    classes: int
    passes: int
    seed: int

    def score(self, setting: Setting) -> Score:
        """F1 on clean tests of a model that learned from what ``setting`` released."""
        values, labels = self.learned
        made = setting.protected(values, self.shape, self.seed)
        common: dict[str, Any] = {
            "span": SPAN,
            "spread": made.spread,
            "classes": self.classes,
            "epochs": self.passes,
            "seed": self.seed,
        }
        if self.figure == 1:
            fitted = fit_pictures(made.values, labels[made.rows], shape=self.shape, **common)
        else:
            fitted = fit_features(made.values, labels[made.rows], **common)
        return fitted.score(*self.tested)


class Pictures:
    """The pictures of a data set, split into public ones, which no seed changes, and the rest."""

    def __init__(self, run: Run, data: Dataset) -> None:
        self.name, self.shape, self.run = data.name, SHAPES[data.name], run
        self.classes = int(data.labels.max()) + 1
        self.parts = run.parts(len(data.records))
        order = np.random.default_rng(0).permutation(len(data.records))
        self._values, self._labels = data.records, data.labels
        self._public, self._private = np.split(order, [self.parts[2]])

    def case(self, figure: int, seed: int) -> Case:
        """Private pictures to learn from and to test on."""
        tests, learn, _ = self.parts
        rows = np.random.default_rng(seed + 1).permutation(self._private)[: tests + learn]
        return self._case(figure, rows[tests:], rows[:tests], seed)

    def trials(self, figure: int) -> Iterator[Case]:
        """Public pictures to choose a mechanism by; in type II those that did not teach the features."""
        rows = self._public if figure == 1 else self._public[len(self._public) // 2 :]
        third = len(rows) // 3
        yield from (self._case(figure, rows[third:], rows[:third], seed) for seed in range(_TRIALS))

    @cached_property
    def _extractor(self) -> Fitted:
        """The features of type II, from the first half of the public pictures."""
        pictures, labels = self._labelled(self._public[: len(self._public) // 2])
        return fit_pictures(
            pictures,
            labels,
            shape=self.shape,
            span=SPAN,
            spread=0.0,
            classes=self.classes,
            epochs=2 * self.run.passes[0],
            seed=0,
        )

    def _case(self, figure: int, learned: NDArray[np.intp], tested: NDArray[np.intp], seed: int) -> Case:
        shape, passes = tensor_shape(figure, self.name), self.run.passes[figure - 1]
        parts = [self._labelled(rows) for rows in (learned, tested)]
        if figure == 2:
            parts = [(self._features(pictures), labels) for pictures, labels in parts]
        return Case(figure, shape, parts[0], parts[1], self.classes, passes, seed)

    def _labelled(self, rows: NDArray[np.intp]) -> Labelled:
        """Pictures on the levels 0 to 255, and their labels."""
        return np.rint(self._values[rows] * np.float32(SPAN - 1)), self._labels[rows]

    def _features(self, pictures: Floats) -> Floats:
        """From (−1, 1) to (0, Δ)."""
        return (self._extractor.features(pictures) + np.float32(1.0)) * np.float32(SPAN / 2.0)
