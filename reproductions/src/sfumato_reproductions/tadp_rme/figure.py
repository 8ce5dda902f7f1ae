"""A figure of the paper drawn again: its caption, its numbers, its picture."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["COLOURS", "MARKERS", "Drawing", "axes_row", "legend_below", "tidy"]

#: Data set -> colour, as in the paper where it names one.
COLOURS = {"mnist": "#2166ac", "fashion-mnist": "#762a83", "cifar-10": "#e08214", "digits": "#1b7837"}
MARKERS = {"mnist": "o", "fashion-mnist": "s", "cifar-10": "^", "digits": "D"}


@dataclass(frozen=True)
class Drawing:
    """``draw`` paints on an empty matplotlib figure; ``size`` is its width and height in inches."""

    number: int
    title: str
    caption: str
    numbers: dict[str, Any]
    size: tuple[float, float]
    draw: Callable[[Any], None]

    @property
    def file(self) -> str:
        """The name of its picture."""
        return f"tadp-rme-figure-{self.number}.png"

    def save(self, folder: Path) -> None:
        """Write the picture as PNG, without pyplot, which would choose a window system for the caller."""
        from matplotlib.figure import Figure

        figure = Figure(figsize=self.size, layout="constrained")
        self.draw(figure)
        figure.savefig(folder / self.file, dpi=150)


def axes_row(figure: Any, count: int, **options: Any) -> list[Any]:
    """``count`` axes side by side, as a list also where there is one."""
    return list(figure.subplots(1, count, squeeze=False, **options)[0])


def tidy(axes: Any, *, x: str, y: str, title: str = "") -> None:
    """Names on the axes, a light grid, no box on the right and on top."""
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    if title:
        axes.set_title(title, fontsize=11)
    axes.grid(True, alpha=0.25)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def legend_below(figure: Any, axes: Any, columns: int) -> None:
    """One legend below all axes, from the handles of one of them."""
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=columns, frameon=False, fontsize=9)
