"""Figures 3, 11, 12, 13 and 16 from benches and results."""

from __future__ import annotations

from functools import cached_property

from sfumato_reproductions.compactdp.appendix_n import appendix_n_attacks
from sfumato_reproductions.compactdp.attack import Attack
from sfumato_reproductions.compactdp.attack_figures import SHOWN, budgets_figure, heuristics_figure
from sfumato_reproductions.compactdp.class_names import class_names
from sfumato_reproductions.compactdp.contraction_figures import (
    Contracted,
    distances_figure,
    extractors_figure,
    features_figure,
)
from sfumato_reproductions.compactdp.drawing import PaperDrawing
from sfumato_reproductions.compactdp.methods import COMPACT, METHODS
from sfumato_reproductions.compactdp.pool import Source
from sfumato_reproductions.compactdp.results import Results
from sfumato_reproductions.compactdp.rows import Rows

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
            return features_figure(data, self._contracted, class_names(data, self._classes))
        if number == 11:
            return extractors_figure(
                data,
                {
                    source.extractor: self._of(source)
                    for source in self.rows.sources(7)
                    if source.data == data
                },
                self._learned(next(source for source in self.rows.sources(7) if source.data == data)),
            )
        if number == 12:
            return distances_figure(data, self._contracted, self._learned(self.source))
        if number == 13:
            line = self.results.lines.get(self.source, ())
            return heuristics_figure(data, self._appendix_n(), line, len(self.results.run.seeds))
        return budgets_figure(data, self.results.rows[self.source])

    def _appendix_n(self) -> dict[str, list[tuple[Attack, ...]]]:
        """Method -> the attacks of appendix N on it, seed by seed."""
        benches = [self.rows.bench(self.source, seed) for seed in self.results.run.seeds]
        return {
            name: [appendix_n_attacks(bench, METHODS[name]) for bench in benches]
            for name in SHOWN
            if name in self.results.rows[self.source]
        }

    @property
    def _classes(self) -> int:
        return self.results.counted[self.source].classes

    def _learned(self, source: Source) -> int:
        """Members that the contraction of ``source`` learned from, with the first seed."""
        return len(self.rows.bench(source, self.results.run.seeds[0]).split.members)

    @cached_property
    def _contracted(self) -> Contracted:
        return self._of(self.source)

    def _of(self, source: Source) -> Contracted:
        bench = self.rows.bench(source, self.results.run.seeds[0])
        return Contracted.of(bench.model(METHODS[COMPACT]), bench.split.members, self.results.run.shown)
