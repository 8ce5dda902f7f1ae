"""Figures 3, 11, 12, 13 and 16 from benches and results."""

from __future__ import annotations

from functools import cached_property

from sfumato.papers.compactdp.attack_figures import budgets_figure, heuristics_figure
from sfumato.papers.compactdp.contraction_figures import (
    Contracted,
    distances_figure,
    extractors_figure,
    features_figure,
)
from sfumato.papers.compactdp.drawing import PaperDrawing
from sfumato.papers.compactdp.methods import COMPACT, METHODS
from sfumato.papers.compactdp.pool import Source
from sfumato.papers.compactdp.results import Results
from sfumato.papers.compactdp.rows import Rows

__all__ = ["Figures"]


class Figures:
    """Draws figures by their numbers; all are of the data of table 2, figure 11 of those of table 7."""

    def __init__(self, rows: Rows, results: Results) -> None:
        self.rows, self.results = rows, results
        self.source = rows.sources(2)[0]

    def draw(self, number: int) -> PaperDrawing:
        """Figure ``number``."""
        data = self.source.data
        if number == 3:
            return features_figure(data, self._contracted)
        if number == 11:
            return extractors_figure(
                data,
                {
                    source.extractor: self._of(source)
                    for source in self.rows.sources(7)
                    if source.data == data
                },
            )
        if number == 12:
            return distances_figure(data, self._contracted)
        measures = self.results.rows[self.source]
        return heuristics_figure(data, measures) if number == 13 else budgets_figure(data, measures)

    @cached_property
    def _contracted(self) -> Contracted:
        return self._of(self.source)

    def _of(self, source: Source) -> Contracted:
        bench = self.rows.bench(source, self.results.run.seeds[0])
        return Contracted.of(bench.model(METHODS[COMPACT]), bench.split.members, self.results.run.shown)
