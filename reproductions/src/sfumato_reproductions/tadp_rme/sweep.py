"""Everything that tables and figures ask for is measured once, release by release."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from sfumato_reproductions.datasets import Dataset, load
from sfumato_reproductions.regenerate import Report
from sfumato_reproductions.tadp_rme.measures import Case, measure
from sfumato_reproductions.tadp_rme.protocol import Run, reconstruction_score
from sfumato_reproductions.tadp_rme.settings import Setting, release

__all__ = ["PRIVACY", "Need", "Results", "sweep"]

#: The groups behind the paper's overall privacy score.
PRIVACY = ("probe", "ridge", "membership")


@dataclass(frozen=True)
class Need:
    """One group of measures on one setting of one data set, for all seeds or for the first alone."""

    data: str
    setting: Setting
    group: str
    first_seed_only: bool = False


@dataclass
class Results:
    """Numbers by data set, setting and measure, one a seed; and how many columns each data set has."""

    run: Run
    columns: dict[str, int] = field(default_factory=dict)
    classes: dict[str, int] = field(default_factory=dict)
    rows: dict[str, int] = field(default_factory=dict)
    numbers: dict[tuple[str, Setting, str], list[float]] = field(default_factory=dict)

    def values(self, data: str, setting: Setting, name: str) -> list[float]:
        """One number a seed; "privacy" and "reconstruction" are the paper's scores of what was measured."""
        if name == "reconstruction":
            return [reconstruction_score(error) for error in self.values(data, setting, "error")]
        if name == "privacy":
            parts = [
                self.values(data, setting, part) for part in ("membership", "attribute", "reconstruction")
            ]
            return [sum(scores) / 3.0 for scores in zip(*parts, strict=True)]
        return self.numbers.get((data, setting, name), [])

    def mean(self, data: str, setting: Setting, name: str) -> float:
        """The mean over seeds."""
        return float(np.mean(self.values(data, setting, name)))

    def proven(self, data: str, setting: Setting) -> float | None:
        """ε under ``replace`` at the protocol's δ, None where nothing is proven."""
        return setting.proven(self.columns[data])


def sweep(run: Run, needs: Iterable[Need], report: Report) -> Results:
    """Measure what is needed; each release is made once for each seed."""
    wanted: dict[str, dict[Setting, dict[str, bool]]] = {}
    for need in needs:
        groups = wanted.setdefault(need.data, {}).setdefault(need.setting, {})
        groups[need.group] = groups.get(need.group, True) and need.first_seed_only
    results = Results(run)
    total = len(run.seeds) * sum(len(settings) for settings in wanted.values())
    done = 0
    for name in run.data:
        data = load(name)
        results.columns[name] = data.records.shape[1]
        results.classes[name] = int(data.labels.max()) + 1
        results.rows[name] = min(run.rows, len(data.records))
        for seed in run.seeds:
            for setting, groups in wanted.get(name, {}).items():
                asked = [group for group, first in groups.items() if not first or seed == run.seeds[0]]
                if asked:
                    _measured(results, data, seed, setting, asked)
                done += 1
                report(f"measuring {name}, seed {seed + 1} of {len(run.seeds)}", done / total)
    return results


def _measured(results: Results, data: Dataset, seed: int, setting: Setting, groups: list[str]) -> None:
    from sklearn.model_selection import train_test_split

    records, labels = data.sample(results.run.rows, seed)
    tests = math.ceil(0.2 * len(labels))
    learned, held = train_test_split(
        np.arange(len(labels)), test_size=tests, random_state=seed, stratify=labels
    )
    begun = time.process_time()
    released = release(setting, records, seed, held)
    numbers = {"release seconds": time.process_time() - begun}
    case = Case(released, labels, learned, held, seed, results.run.asked, setting.bases == 1)
    for group in groups:
        numbers |= measure(group, case)
    for name, value in numbers.items():
        results.numbers.setdefault((data.name, setting, name), []).append(value)
