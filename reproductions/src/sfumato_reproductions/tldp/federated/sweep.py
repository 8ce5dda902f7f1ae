"""Figure 3 measured: rates and sound methods are chosen on held-back records, then everybody trains."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import partial
from statistics import fmean
from typing import Any

import sfumato
from sfumato_reproductions.memory import Memory
from sfumato_reproductions.regenerate import Report
from sfumato_reproductions.tldp.federated.methods import CLEAN, Method, Model, kinds, offered, tldp_kinds
from sfumato_reproductions.tldp.federated.protocol import FederatedRun
from sfumato_reproductions.tldp.federated.tasks import Task, load_task
from sfumato_reproductions.tldp.federated.training import model_of, scored
from sfumato_reproductions.tldp.network import Score

__all__ = ["Measured", "Results", "equal_epsilon", "sweep"]

# Part of what a kept measure depends on: raised when the same settings would give other numbers.
_VERSION = 3


@dataclass
class Measured:
    """What was found on one data set.

    ``counts`` are records of clients, tests and records held back. ``chosen`` holds the sound method of each
    ε of a client over all rounds, ``scores`` one F1 a seed; ``seconds`` is how long one processor was busy,
    with what was kept from an earlier run.
    """

    model: Model
    classes: int
    counts: tuple[int, int, int]
    rate: float
    chosen: dict[float, Method]
    scores: dict[Method, list[Score]] = field(default_factory=dict)
    seconds: float = 0.0

    def values(self, method: Method, *, macro: bool = False) -> list[float]:
        """One F1 a seed: weighted, as in the paper, or the mean over classes."""
        return [score.macro if macro else score.weighted for score in self.scores[method]]

    def mean(self, method: Method) -> float:
        """The mean of the weighted F1 over seeds."""
        return fmean(self.values(method))

    @property
    def guessing(self) -> float:
        """F1 of guessing among classes of one size."""
        return 1.0 / self.classes


@dataclass(frozen=True)
class Results:
    """What was found, by data set."""

    run: FederatedRun
    found: dict[str, Measured]


def equal_epsilon(method: Method, model: Model) -> float:
    """The ε of a client at which a sound mechanism is set against TLDP's ``method``.

    The proven one; where nothing is proven, that of TLDP's noise, as if nothing were ever shown.
    """
    proven = method.proven(model)
    return proven if math.isfinite(proven) else method.of_noise(model)


def sweep(run: FederatedRun, memory: Memory, report: Report) -> Results:
    """Choose, train and test everything that the figure and the comparison need; goes on from ``memory``."""
    found = {}
    for place, name in enumerate(run.data):

        def told(stage: str, share: float, place: int = place, name: str = name) -> None:
            report(f"{stage} on {name}", (place + share) / len(run.data))

        told("reading", 0.0)
        found[name] = _Bench(load_task(name, run), run, memory, told).measured()
    return Results(run, found)


class _Bench:
    """One data set, with what is kept of its measures."""

    def __init__(self, task: Task, run: FederatedRun, memory: Memory, report: Report) -> None:
        self.task, self.run, self.memory, self.report = task, run, memory, report
        self.model, self.seconds = model_of(task, run.rounds), 0.0
        settings = {name: value for name, value in asdict(run).items() if name not in ("data", "seeds")}
        self._depends = {
            "settings": settings,
            "task": [task.name, task.learned, task.held_back, task.tested, self.model.shapes, task.span],
            "versions": [_VERSION, sfumato.__version__],
        }

    def measured(self) -> Measured:
        """Everything about the data set."""
        chosen = self._kept("choice", self._choose)
        made = Measured(
            self.model,
            self.task.classes,
            (self.task.learned, self.task.tested, self.task.held_back),
            chosen["rate"],
            {entry["epsilon"]: Method(**entry["method"]) for entry in chosen["sound"]},
        )
        for number, seed in enumerate(self.run.seeds):
            wanted = self._wanted(made)
            scores = self._kept(f"seed {seed}", partial(self._scores, made, seed, number, wanted))
            for method in wanted:
                made.scores.setdefault(method, []).append(Score(**scores[method.key]))
        self.report("training", 1.0)
        made.seconds = self.seconds
        return made

    def _wanted(self, made: Measured) -> list[Method]:
        """What is trained with every seed."""
        paper = [Method(kind, epsilon) for kind in kinds(self.model) for epsilon in self.run.claimed]
        return list(dict.fromkeys([Method(CLEAN), *paper, *made.chosen.values()]))

    def _scores(self, made: Measured, seed: int, number: int, wanted: list[Method]) -> dict[str, Any]:
        case, scores = self.task.case(seed), {}
        for done, method in enumerate(wanted):
            share = (number + done / len(wanted)) / len(self.run.seeds)
            self.report("training", 0.5 + 0.5 * share)
            made_here = scored(self.task, case, method, rounds=self.run.rounds, rate=made.rate)
            scores[method.key] = asdict(made_here)
        return scores

    def _choose(self) -> dict[str, Any]:
        """On held-back records: the learning rate without noise, then a sound method for every ε."""
        run = self.run
        trials = [self.task.trial(number) for number in range(run.trials)]

        def score(method: Method, rate: float) -> float:
            made = (scored(self.task, case, method, rounds=run.rounds, rate=rate) for case in trials)
            return fmean(one.weighted for one in made)

        rates = {rate: score(Method(CLEAN), rate) for rate in run.rates}
        rate = max(rates, key=rates.__getitem__)
        points = {
            equal_epsilon(Method(kind, claim), self.model)
            for kind in tldp_kinds(self.model)
            for claim in run.claimed
        }
        epsilons, sound = sorted(points | set(run.totals)), []
        for done, epsilon in enumerate(epsilons):
            self.report("choosing", 0.5 * done / len(epsilons))
            scores = {method: score(method, rate) for method in offered(epsilon, self.model, run.clips)}
            best = max(scores, key=scores.__getitem__)
            sound.append({"epsilon": epsilon, "method": asdict(best)})
        return {"rate": rate, "sound": sound}

    def _kept(self, what: str, measure: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        name = f"figure-3 {self.task.name} {what}".replace(" ", "-")
        depends = self._depends | {"what": what}
        kept: dict[str, Any] | None = self.memory.recall(name, depends)
        if kept is None:
            begun = time.process_time()
            kept = {"made": measure(), "seconds": time.process_time() - begun}
            self.memory.keep(name, depends, kept)
        self.seconds += kept["seconds"]
        found: dict[str, Any] = kept["made"]
        return found
