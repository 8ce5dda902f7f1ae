"""Figures 1 and 2 measured: sound mechanisms are chosen on public pictures, then everything is trained."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import fmean

from sfumato_reproductions.datasets import load
from sfumato_reproductions.regenerate import Report
from sfumato_reproductions.tldp.cases import Case, Pictures
from sfumato_reproductions.tldp.network import Score
from sfumato_reproductions.tldp.points import Point, points, settings
from sfumato_reproductions.tldp.protocol import Run
from sfumato_reproductions.tldp.settings import Setting

__all__ = ["Results", "sweep"]


@dataclass
class Results:
    """F1 by figure, data set and setting, one a seed; what was chosen for each point; sizes of parts."""

    run: Run
    figures: tuple[int, ...]
    scores: dict[tuple[int, str, Setting], list[Score]] = field(default_factory=dict)
    chosen: dict[Point, Setting] = field(default_factory=dict)
    parts: dict[str, tuple[int, int, int]] = field(default_factory=dict)

    def values(self, figure: int, data: str, setting: Setting, *, macro: bool = False) -> list[float]:
        """One F1 a seed: weighted, as in the paper, or the mean over classes."""
        scores = self.scores[figure, data, setting]
        return [score.macro if macro else score.weighted for score in scores]

    def mean(self, figure: int, data: str, setting: Setting) -> float:
        """The mean of the weighted F1 over seeds."""
        return fmean(self.values(figure, data, setting))


def sweep(run: Run, figures: tuple[int, ...], report: Report) -> Results:
    """Choose, train and test everything that the figures and the comparison need."""
    results = Results(run, figures)
    for place, name in enumerate(run.data):
        pictures = Pictures(run, load(name))
        results.parts[name] = pictures.parts

        def told(stage: str, share: float, place: int = place, name: str = name) -> None:
            report(f"{stage} on {name}", (place + share) / len(run.data))

        wanted = {}
        for figure in figures:
            asked = list(points(run, figure, name))
            results.chosen |= _chosen(asked, list(pictures.trials(figure)), told)
            sound = {results.chosen[point]: False for point in asked}
            wanted[figure] = sound | dict(settings(run, figure, name))
        total, done = len(run.seeds) * sum(map(len, wanted.values())), 0
        for figure in figures:
            for seed in run.seeds:
                case = pictures.case(figure, seed)
                for setting, first_only in wanted[figure].items():
                    if not first_only or seed == run.seeds[0]:
                        results.scores.setdefault((figure, name, setting), []).append(case.score(setting))
                    done += 1
                    told("training", done / total)
    return results


def _chosen(asked: Sequence[Point], trials: Sequence[Case], told: Report) -> dict[Point, Setting]:
    """For each point the offered setting with the largest mean F1 on public pictures."""
    offered = {point: point.offered() for point in asked}
    distinct = dict.fromkeys(setting for made in offered.values() for setting in made)
    scores = {}
    for setting in distinct:
        scores[setting] = fmean(case.score(setting).weighted for case in trials)
        told("choosing", 0.0)
    return {point: max(made, key=scores.__getitem__) for point, made in offered.items()}
