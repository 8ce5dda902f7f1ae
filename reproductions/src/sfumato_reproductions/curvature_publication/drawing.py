"""What the figures of this paper share: their file names, the colours of classes, pictures in strips."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato_reproductions.tadp_rme.figure import Drawing

__all__ = ["CLASS_COLOURS", "FAILED", "SUCCEEDED", "PaperDrawing", "by_class", "strips"]

#: Colours of classes 0, 1, 2, …
CLASS_COLOURS = (
    *("#2166ac", "#e08214", "#1b7837", "#b2182b", "#762a83"),
    *("#8c510a", "#de77ae", "#525252", "#a6a600", "#35978f"),
)
#: Colours of records that an attack is right and wrong about.
SUCCEEDED, FAILED = "#b2182b", "#2166ac"


@dataclass(frozen=True)
class PaperDrawing(Drawing):
    """A figure of this paper drawn again."""

    @property
    def file(self) -> str:
        """The name of its picture."""
        return f"curvature-publication-figure-{self.number}.png"


def by_class(axes: Any, points: NDArray[np.float64], labels: NDArray[np.int64], *, size: float = 6.0) -> None:
    """Points of the plane (n, 2) in the colours of their classes, each class with a label for the legend."""
    for label in np.unique(labels):
        own = points[labels == label]
        colour = CLASS_COLOURS[int(label) % len(CLASS_COLOURS)]
        axes.scatter(own[:, 0], own[:, 1], s=size, color=colour, linewidths=0, alpha=0.8, label=str(label))


def strips(axes: Any, rows: Sequence[NDArray[Any]], names: Sequence[str], *, title: str = "") -> None:
    """Rows of equally many pictures from 0 to 1, ``(n, height, width[, channels])``, under each other."""
    high, wide = rows[0].shape[1:3]
    gap = max(1, high // 14)
    shape = (len(rows) * (high + gap) - gap, len(rows[0]) * (wide + gap) - gap, *rows[0].shape[3:])
    sheet = np.ones(shape)
    for i, row in enumerate(rows):
        for j, picture in enumerate(row):
            top, left = i * (high + gap), j * (wide + gap)
            sheet[top : top + high, left : left + wide] = picture
    axes.imshow(np.clip(sheet.squeeze(), 0.0, 1.0), cmap="gray", vmin=0.0, vmax=1.0, interpolation="nearest")
    axes.set_yticks([i * (high + gap) + high / 2 for i in range(len(rows))], names, fontsize=9)
    axes.set_xticks([])
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)
    if title:
        axes.set_title(title, fontsize=11)
