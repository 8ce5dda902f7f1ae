"""The frontier: utility against what is proven and what was measured, with the knee."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from sfumato.errors import BadInput
from sfumato.reports.numbers import at_least, at_most, plain
from sfumato.reports.plots import NARROW, WIDE, Axes, Canvas, Scale
from sfumato.reports.printable_text import shortened
from sfumato.utility.frontier import Choice, knee
from sfumato.utility.frontier import frontier as frontier_of

__all__ = ["Frontier", "FrontierPlot", "Mark", "Point"]

# Where points stand for which nothing finite is proven: beyond the end of the axis.
_GUTTER = 58
# A line that is narrower than this share of the axis is a dot, and a dot has no knee.
_VISIBLE = 0.005


class Point(NamedTuple):
    """One release: its utility, its proven ε (None or infinite: nothing), and what an attack measured."""

    label: str
    utility: float
    proven: float | None = None
    measured: float | None = None


@dataclass(frozen=True)
class Frontier:
    """The points of a frontier and what their numbers are called.

    ``measured`` names the attack's number; ``measured_is_epsilon`` says that it is a lower bound on ε, which
    is drawn on the axis of the proven ε. Any other number gets a plot of its own.
    """

    points: Sequence[Point]
    utility: str = "utility"
    measured: str = "measured ε, lower bound"
    measured_is_epsilon: bool = True

    def __post_init__(self) -> None:
        points = tuple(Point(*point) for point in self.points)
        for number, point in enumerate(points, start=1):
            if not isinstance(point.label, str):
                raise BadInput(f"point {number} of the frontier is called {point.label!r}: it must be text.")
            for value in point[1:]:
                known = isinstance(value, int | float | np.number) and not isinstance(value, bool)
                if value is not None and not known:
                    raise BadInput(f"point {number} of the frontier holds something that is no number.")
        object.__setattr__(self, "points", points)


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
    """A drawing of a frontier on one canvas."""

    axes: Axes
    marks: list[Mark]
    line: str
    gutter: float | None
    attack: bool

    @classmethod
    def drawn(cls, frontier: Frontier) -> list[list[FrontierPlot]]:
        """The plots of a frontier, each on every canvas; a plot without a point is left out."""
        plots = [[cls._of(frontier, canvas, attack=False) for canvas in (WIDE, NARROW)]]
        if not frontier.measured_is_epsilon:
            plots.append([cls._of(frontier, canvas, attack=True) for canvas in (WIDE, NARROW)])
        return [sizes for sizes in plots if sizes[0].marks]

    @classmethod
    def _of(cls, frontier: Frontier, canvas: Canvas, *, attack: bool) -> FrontierPlot:
        numbered = [
            (number, point)
            for number, point in enumerate(frontier.points, start=1)
            if math.isfinite(point.utility) and (not attack or _finite(point.measured) is not None)
        ]
        losses = [_finite(point.measured if attack else point.proven) for _, point in numbered]
        left, right, top, bottom = canvas.inner
        gutter = None
        if None in losses:
            gutter, right = right - 12.0, right - _GUTTER
        measured = [
            _finite(point.measured) if frontier.measured_is_epsilon else None for _, point in numbered
        ]
        known = [value for value in (*losses, *measured) if value is not None]
        scale = Scale.around(known, left, right) if attack else Scale.of_epsilon(known, left, right)
        y = Scale.around([point.utility for _, point in numbered], bottom, top)
        title = "ε, on a scale of log(1 + ε)" if scale.logarithmic else "ε"
        title = shortened(frontier.measured, canvas.letters) if attack else title
        utilities = [point.utility for _, point in numbered]
        chain = _best(losses, utilities)
        turn = _knee(chain, losses, utilities, scale)
        marks = []
        for place, ((number, point), loss, low) in enumerate(zip(numbered, losses, measured, strict=True)):
            at = scale(loss) if loss is not None else gutter or 0.0
            marks.append(
                Mark(
                    number=number,
                    x=at,
                    y=y(point.utility),
                    measured_x=None if low is None else scale(low),
                    bounded=loss is not None,
                    knee=place == turn,
                    label=_said(frontier, number, point),
                )
            )
        return cls(
            axes=Axes(canvas, scale, y, title, shortened(frontier.utility, canvas.letters)),
            marks=marks,
            line=_stairs([(marks[i].x, marks[i].y) for i in chain], right),
            gutter=gutter,
            attack=attack,
        )


def _best(losses: Sequence[float | None], utilities: Sequence[float]) -> list[int]:
    """Which releases no other one beats, by rising loss; those without a finite loss take no part."""
    known = enumerate(zip(losses, utilities, strict=True))
    choices = [Choice(str(place), utility, loss) for place, (loss, utility) in known if loss is not None]
    return [int(choice.name) for choice in frontier_of(choices)]


def _knee(chain: Sequence[int], losses: Sequence[float | None], utilities: Sequence[float], x: Scale) -> int:
    """The release at the knee of the line as it is drawn, which is what the eye compares; −1 for none."""
    choices = [Choice(str(place), utilities[place], x.share(losses[place] or 0.0)) for place in chain]
    if not choices or choices[-1].cost - choices[0].cost < _VISIBLE:
        return -1
    found = knee(choices)
    return -1 if found is None else int(found.name)


def _stairs(places: Sequence[tuple[float, float]], end: float) -> str:
    """The best utility at each loss, as an SVG path that goes right and then up."""
    if not places:
        return ""
    (x, y), *rest = places
    return f"M{x} {y}" + "".join(f"H{x}V{y}" for x, y in rest) + f"H{end}"


def _said(frontier: Frontier, number: int, point: Point) -> str:
    proven = _finite(point.proven)
    measured = _finite(point.measured)
    said = [
        f"{number}: {point.label}",
        f"{frontier.utility} {plain(point.utility)}",
        "nothing proven" if proven is None else f"proven ε = {at_most(proven)}",
    ]
    if measured is not None:
        text = at_least(measured) if frontier.measured_is_epsilon else plain(measured)
        said.append(f"{frontier.measured}: {text}")
    return "; ".join(said)


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
