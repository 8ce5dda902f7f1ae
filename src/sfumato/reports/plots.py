"""Plots of reports: canvases, scales and ticks, the frontier, and the neighbourhood histogram.

Plots are inline SVG, drawn twice: for wide screens and for phones, so that letters keep their size. Python
computes positions; the templates hold the drawing. The frontier shows utility against what is proven and what
was measured, with the knee. The histogram shows how many of each row's nearest neighbours a release kept.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sfumato.reports.page_text import at_least, at_most, plain, share, shortened
from sfumato.utility import frontier as frontier_of
from sfumato.utility import knee

__all__ = ["NARROW", "WIDE", "Axes", "Canvas", "Frontier", "FrontierPlot", "Point", "Scale", "Tick"]

_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)

# Where points stand for which nothing finite is proven: beyond the end of the axis.
_GUTTER = 58
# A line that is narrower than this share of the axis is a dot, and a dot has no knee.
_VISIBLE = 0.005
_BARS = 10


@dataclass(frozen=True)
class Canvas:
    """The size of a drawing and the margins that leave room for its axes, in pixels."""

    name: str
    width: int
    height: int
    left: int = 64
    right: int = 24
    top: int = 28
    bottom: int = 80

    @property
    def letters(self) -> int:
        """Return how many small letters fit on a line across the drawing."""
        return self.width // 8

    @property
    def inner(self) -> tuple[int, int, int, int]:
        """Return left, right, top and bottom of the area between the margins."""
        return self.left, self.width - self.right, self.top, self.height - self.bottom


WIDE = Canvas("wide", 760, 404)
NARROW = Canvas("narrow", 328, 344, left=48, right=22)


@dataclass(frozen=True)
class Tick:
    """A mark on an axis: its position and its label."""

    at: float
    text: str


@dataclass(frozen=True)
class Scale:
    """A mapping of values from ``low`` to ``high`` to pixels from ``start`` to ``end``.

    A ``logarithmic`` scale is one of log(1 + value), which has a place for 0. Values outside a scale are put
    at its nearer end. Ticks are labelled in ``percent`` if values are shares, and at ``whole`` numbers only
    if there are no others.
    """

    low: float
    high: float
    start: float
    end: float
    logarithmic: bool = False
    percent: bool = False
    whole: bool = False

    @classmethod
    def of_epsilon(cls, values: Iterable[float], start: float, end: float) -> Scale:
        """Return a scale from 0 to a little more than the largest value, logarithmic if that exceeds 10."""
        high = max([*values, 0.0])
        if high > 10.0:
            return cls(0.0, math.expm1(1.06 * math.log1p(high)), start, end, logarithmic=True)
        return cls(0.0, 1.1 * high or 1.0, start, end)

    @classmethod
    def around(cls, values: Iterable[float], start: float, end: float) -> Scale:
        """Return a scale a little wider than the values, or from 0 to 1 if that wastes little room."""
        known = list(values) or [0.0]
        low, high = min(known), max(known)
        if low >= 0.0 and high <= 1.0 and high - low >= 0.4:
            return cls(0.0, 1.0, start, end)
        room = 0.12 * (high - low) or 0.1 * abs(high) or 1.0
        least = max(0.0, low - room) if low >= 0.0 else low - room
        most = min(1.0, high + room) if high <= 1.0 else high + room
        return cls(least, most, start, end)

    def share(self, value: float) -> float:
        """Return the position of ``value`` along the scale, from 0 to 1."""
        low, high, at = self.low, self.high, min(max(value, self.low), self.high)
        if self.logarithmic:
            low, high, at = math.log1p(low), math.log1p(high), math.log1p(at)
        return (at - low) / (high - low)

    def __call__(self, value: float) -> float:
        """Return the pixel of ``value``, to a tenth."""
        return round(self.start + self.share(value) * (self.end - self.start), 1)

    def ticks(self, most: int = 6) -> list[Tick]:
        """Return at most ``most`` ticks at round numbers."""
        values = self._powers() if self.logarithmic else self._multiples(most)
        while len(values) > most:
            values = values[::2]
        return [Tick(self(value), self._written(value)) for value in values]

    def _written(self, value: float) -> str:
        return f"{100.0 * value:.4g}%" if self.percent else plain(value, 6)

    def _multiples(self, most: int) -> list[float]:
        rough = (self.high - self.low) / (most - 1)
        size = 10.0 ** math.floor(math.log10(rough))
        step = next(size * step for step in _STEPS if size * step >= rough * (1.0 - 1e-9))
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        values = [number * step for number in range(first, last + 1)]
        return [value for value in values if value.is_integer()] if self.whole else values

    def _powers(self) -> list[float]:
        decades = range(math.floor(math.log10(self.high)) + 1)
        values = [digit * 10.0**decade for decade in decades for digit in (1.0, 3.0)]
        return [0.0, *(value for value in values if value <= self.high)]


@dataclass(frozen=True)
class Axes:
    """Two scales on a canvas, with their titles."""

    canvas: Canvas
    x: Scale
    y: Scale
    x_title: str
    y_title: str

    @property
    def x_ticks(self) -> list[Tick]:
        """Return the ticks below the plot, fewer on a phone."""
        return self.x.ticks(8 if self.canvas.width > 500 else 5)

    @property
    def y_ticks(self) -> list[Tick]:
        """Return the ticks beside the plot."""
        return self.y.ticks(6)


class Point(NamedTuple):
    """One release: its utility, its proven ε (None or infinite: nothing), and what an attack measured."""

    label: str
    utility: float
    proven: float | None = None
    measured: float | None = None


@dataclass(frozen=True)
class Frontier:
    """The points of a frontier, and what their utility is called."""

    points: Sequence[Point]
    utility: str = "utility"


@dataclass(frozen=True)
class Mark:
    """One release in the plot: its number, its two places, and what is said of it."""

    number: int
    x: float
    y: float
    measured_x: float | None
    bounded: bool
    knee: bool
    label: str


@dataclass(frozen=True)
class FrontierPlot:
    """A drawing of a frontier on one canvas; a measured ε stands on the axis of the proven one."""

    axes: Axes
    marks: list[Mark]
    line: str
    gutter: float | None

    @classmethod
    def drawn(cls, frontier: Frontier) -> list[FrontierPlot]:
        """Return the frontier on every canvas; empty without a point to draw."""
        plots = [cls._of(frontier, canvas) for canvas in (WIDE, NARROW)]
        return plots if plots[0].marks else []

    @classmethod
    def _of(cls, frontier: Frontier, canvas: Canvas) -> FrontierPlot:
        numbered = [
            (number, point)
            for number, point in enumerate(frontier.points, start=1)
            if math.isfinite(point.utility)
        ]
        losses = [_finite(point.proven) for _, point in numbered]
        measured = [_finite(point.measured) for _, point in numbered]
        utilities = [point.utility for _, point in numbered]
        left, right, top, bottom = canvas.inner
        gutter = None
        if None in losses:
            gutter, right = right - 12.0, right - _GUTTER
        scale = Scale.of_epsilon([loss for loss in (*losses, *measured) if loss is not None], left, right)
        y = Scale.around(utilities, bottom, top)
        costs = [math.inf if loss is None else loss for loss in losses]
        chain = [place for place in frontier_of(costs, utilities) if losses[place] is not None]
        # The knee is that of the line as drawn.
        drawn = [scale.share(costs[place]) for place in chain]
        bend = knee(drawn, [utilities[place] for place in chain])
        wide = bool(drawn) and drawn[-1] - drawn[0] >= _VISIBLE
        turn = chain[bend] if wide and bend is not None else None
        marks = []
        for place, ((number, point), loss, low) in enumerate(zip(numbered, losses, measured, strict=True)):
            marks.append(
                Mark(
                    number=number,
                    x=scale(loss) if loss is not None else gutter or 0.0,
                    y=y(point.utility),
                    measured_x=None if low is None else scale(low),
                    bounded=loss is not None,
                    knee=place == turn,
                    label=_label(frontier, number, point),
                )
            )
        title = "ε, on a scale of log(1 + ε)" if scale.logarithmic else "ε"
        return cls(
            axes=Axes(canvas, scale, y, title, shortened(frontier.utility, canvas.letters)),
            marks=marks,
            line=_stairs([(marks[i].x, marks[i].y) for i in chain], right),
            gutter=gutter,
        )


def _stairs(places: Sequence[tuple[float, float]], end: float) -> str:
    """Return the best utility at each loss, as an SVG path that goes right and then up."""
    if not places:
        return ""
    (x, y), *rest = places
    return f"M{x} {y}" + "".join(f"H{x}V{y}" for x, y in rest) + f"H{end}"


def _label(frontier: Frontier, number: int, point: Point) -> str:
    proven, measured = _finite(point.proven), _finite(point.measured)
    parts = [
        f"{number}: {point.label}",
        f"{frontier.utility} {plain(point.utility)}",
        "nothing proven" if proven is None else f"proven ε = {at_most(proven)}",
    ]
    if measured is not None:
        parts.append(f"measured ε, lower bound: {at_least(measured)}")
    return "; ".join(parts)


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


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
        """Return the histogram on every canvas."""
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
