"""Figure 3: one published picture of each class, method under method, data set beside data set."""

from __future__ import annotations

from typing import Any

import numpy as np

from sfumato_reproductions.curvature_publication.drawing import PaperDrawing, strips
from sfumato_reproductions.curvature_publication.results import Results

__all__ = ["samples_figure"]


def samples_figure(results: Results) -> PaperDrawing:
    """A sheet of samples from the first seed; a class that a method did not publish is black."""
    sheets = {
        data: {name: seeds[0].samples / 255.0 for name, seeds in rows.items()}
        for data, rows in results.methods.items()
    }

    def draw(figure: Any) -> None:
        panels = figure.subplots(1, len(sheets), squeeze=False)[0]
        for axes, (data, rows) in zip(panels, sheets.items(), strict=True):
            strips(axes, list(rows.values()), list(rows), title=data)

    tallest = max(len(rows) for rows in sheets.values())
    return PaperDrawing(
        number=3,
        title="samples by method",
        caption="The first published picture of each class, by method. Below one column stand pictures of "
        "the same class, which are the same picture changed only where a method changes pictures one by one.",
        numbers={
            data: {name: float(np.mean(pictures)) for name, pictures in rows.items()}
            for data, rows in sheets.items()
        },
        size=(7.5 * len(sheets), 0.62 * tallest + 0.7),
        draw=draw,
    )
