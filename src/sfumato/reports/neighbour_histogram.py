"""How many of each row's nearest neighbours a release kept, as a histogram."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.reports.numbers import plain, share
from sfumato.reports.plots import NARROW, WIDE, Axes, Canvas, Scale

__all__ = ["Bar", "Histogram"]

_BARS = 10


@dataclass(frozen=True)
class Bar:
    """The rows that kept between two shares of their neighbours."""

    x: float
    y: float
    width: float
    height: float
    span: str
    count: int
    share: str


@dataclass(frozen=True)
class Histogram:
    """A drawing of a neighbourhood on one canvas, with the mean."""

    axes: Axes
    bars: list[Bar]
    mean_x: float
    mean: str

    @classmethod
    def drawn(cls, overlap: NDArray[np.float64]) -> list[Histogram]:
        """The histogram on every canvas."""
        return [cls._of(overlap, canvas) for canvas in (WIDE, NARROW)]

    @classmethod
    def _of(cls, overlap: NDArray[np.float64], canvas: Canvas) -> Histogram:
        # Overlaps are multiples of 1/k, so that sums such as 0.1 + 0.2 must not fall below their own edge.
        places = np.minimum(np.floor(overlap * _BARS + 1e-9).astype(int), _BARS - 1)
        counts = np.bincount(places, minlength=_BARS)
        left, right, top, bottom = canvas.inner
        x = Scale(0.0, 1.0, left, right, percent=True)
        y = Scale(0.0, 1.08 * float(counts.max()) / overlap.size, bottom, top, percent=True)
        bars = []
        for place, count in enumerate(counts):
            start, end = x(place / _BARS), x((place + 1) / _BARS)
            height = y(count / overlap.size)
            upper = "to" if place == _BARS - 1 else "to below"
            bars.append(
                Bar(
                    x=round(start + 1.5, 1),
                    y=height,
                    width=round(end - start - 3.0, 1),
                    height=round(bottom - height, 1),
                    span=f"{100 * place // _BARS}% {upper} {100 * (place + 1) // _BARS}%",
                    count=int(count),
                    share=share(count / overlap.size),
                )
            )
        mean = float(overlap.mean())
        axes = Axes(canvas, x, y, "share of nearest neighbours kept", "share of rows")
        return cls(axes, bars, x(mean), plain(mean, 3))
