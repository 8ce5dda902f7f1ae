"""Where things stand in a plot: canvases of two widths, scales and their ticks.

Plots are inline SVG, drawn twice: for wide screens and for phones, so that letters keep their size. Python
computes where things stand; the templates hold the drawing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from sfumato.reports.numbers import plain

__all__ = ["NARROW", "WIDE", "Axes", "Canvas", "Scale", "Tick"]

_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)


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
        """How many small letters a line across the drawing can hold."""
        return self.width // 8

    @property
    def inner(self) -> tuple[int, int, int, int]:
        """Left, right, top and bottom of what lies between the margins."""
        return self.left, self.width - self.right, self.top, self.height - self.bottom


WIDE = Canvas("wide", 760, 404)
NARROW = Canvas("narrow", 328, 344, left=48, right=22)


@dataclass(frozen=True)
class Tick:
    """A mark on an axis: where it stands and what is written there."""

    at: float
    text: str


@dataclass(frozen=True)
class Scale:
    """Values from ``low`` to ``high`` on pixels from ``start`` to ``end``.

    A ``logarithmic`` scale is one of log(1 + value), which has a place for 0; what lies outside a scale is
    put on its nearer end. Ticks are written as ``percent`` where that is what values are, and stand at
    ``whole`` numbers only where there are no others.
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
        """From 0 to a little more than the largest value, logarithmic if that is more than 10."""
        high = max([*values, 0.0])
        if high > 10.0:
            return cls(0.0, math.expm1(1.06 * math.log1p(high)), start, end, logarithmic=True)
        return cls(0.0, 1.1 * high or 1.0, start, end)

    @classmethod
    def around(cls, values: Iterable[float], start: float, end: float) -> Scale:
        """A little more than the range of the values; from 0 to 1 where that wastes little room."""
        known = list(values) or [0.0]
        low, high = min(known), max(known)
        if low >= 0.0 and high <= 1.0 and high - low >= 0.4:
            return cls(0.0, 1.0, start, end)
        room = 0.12 * (high - low) or 0.1 * abs(high) or 1.0
        least = max(0.0, low - room) if low >= 0.0 else low - room
        most = min(1.0, high + room) if high <= 1.0 else high + room
        return cls(least, most, start, end)

    def share(self, value: float) -> float:
        """How far along the scale ``value`` stands, from 0 to 1."""
        low, high, at = self.low, self.high, min(max(value, self.low), self.high)
        if self.logarithmic:
            low, high, at = math.log1p(low), math.log1p(high), math.log1p(at)
        return (at - low) / (high - low)

    def __call__(self, value: float) -> float:
        """The pixel of ``value``, to a tenth."""
        return round(self.start + self.share(value) * (self.end - self.start), 1)

    def ticks(self, most: int = 6) -> list[Tick]:
        """At most ``most`` marks at round numbers."""
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
        """Marks below the plot, fewer on a phone."""
        return self.x.ticks(8 if self.canvas.width > 500 else 5)

    @property
    def y_ticks(self) -> list[Tick]:
        """Marks beside the plot."""
        return self.y.ticks(6)
