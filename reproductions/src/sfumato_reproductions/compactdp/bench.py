"""One data set, extractor and seed: learn by a method, ask it about members and others, and measure."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

import sfumato
from sfumato.audits import Predictions, model_differences, stored_records
from sfumato_reproductions.compactdp.attack import Attack, attack_all
from sfumato_reproductions.compactdp.measured import Measured, OneRun, Proven, Stored
from sfumato_reproductions.compactdp.methods import Method
from sfumato_reproductions.compactdp.pool import Part, Pool, Source, Split
from sfumato_reproductions.compactdp.protocol import CONFIDENCE, DELTA, Run
from sfumato_reproductions.compactdp.sources import sources_digest
from sfumato_reproductions.memory import Memory
from sfumato_reproductions.regenerate import Report

__all__ = ["Bench", "Fitted"]

_RESAMPLES = 400
# Names of files are plain letters.
_SPELT = str.maketrans({"ε": "epsilon", "σ": "sigma", "η": "eta", "₁": "1"})


@dataclass(frozen=True)
class Fitted:
    """A model, and the processor's seconds to learn it from the beginning, a shared first stage included."""

    model: Any
    seconds: float


class Bench:
    """Measures methods on a pool, split by ``seed``, and keeps what it measured in ``memory``.

    ``pool`` is asked for only when something has to be learned: features take long.
    """

    def __init__(
        self,
        source: Source,
        pool: Callable[[], Pool],
        run: Run,
        seed: int,
        memory: Memory,
        report: Report,
    ) -> None:
        self.source, self.run, self.seed, self.memory, self._report = source, run, seed, memory, report
        self._pool = pool
        self._fitted: dict[str, Fitted] = {}
        self._answers: dict[str, tuple[Predictions, Predictions]] = {}

    @cached_property
    def split(self) -> Split:
        """Members and others."""
        return self._pool().split(self.seed)

    def measure(self, method: Method) -> Measured:
        """``method`` from memory, or learned and attacked now."""
        kept = self.remembered(method.name, lambda: self._measured(method).to_dict(), method.parameters())
        return Measured.read(kept)

    def remembered(self, name: str, make: Callable[[], Any], parameters: Any = None) -> Any:
        """JSON values from memory, or as ``make`` makes them now."""
        asked = {"attacked": self.run.attacked, "folds": self.run.folds} if self.source.attacked else {}
        depends = {
            "source": vars(self.source),
            "seed": self.seed,
            "name": name,
            "parameters": parameters,
            "asked": asked,
            "sfumato": sfumato.__version__,
            "sources": sources_digest(),
        }
        spelt = f"{self.source.extractor} {name}".translate(_SPELT)
        words = "".join(letter if letter.isalnum() else " " for letter in spelt)
        kind = () if self.source.attacked else ("accuracy",)
        file = "-".join([self.source.data, str(self.seed), *words.split(), *kind])
        kept = self.memory.recall(file, depends)
        if kept is None:
            kept = make()
            self.memory.keep(file, depends, kept)
        return kept

    def model(self, method: Method) -> Any:
        """``method``, fitted to the members; once in a run."""
        return self.fitted(method).model

    def fitted(self, method: Method) -> Fitted:
        """``method`` with its time: that of both stages, also where the first one was there already."""
        if method.name not in self._fitted:
            stage = f"{self.source.data}: {method.name}"
            before = None if method.behind is None else self.fitted(method.behind)
            self._report(stage, 0.0)
            members, pool = self.split.members, self._pool()
            begun = time.process_time()
            made = method.make(pool.classes, self.seed)
            if before is None:
                made = made.fit(members.features, members.labels)
            else:
                made = made.fit_behind(before.model, members.features, members.labels)
            own = time.process_time() - begun
            self._fitted[method.name] = Fitted(made, own if before is None else before.seconds + own)
            self._report(stage, 1.0)
        return self._fitted[method.name]

    def answers(self, method: Method) -> tuple[Predictions, Predictions]:
        """What the fitted ``method`` says of the records that coins put in, and of those left out."""
        if method.name not in self._answers:
            model, split = self.model(method), self.split
            self._answers[method.name] = _answers(model, split.inside), _answers(model, split.outside)
        return self._answers[method.name]

    def asked(self, method: Method) -> tuple[Predictions, Predictions]:
        """Of :meth:`answers` as many of each kind as are attacked; rows are in random order: any."""
        both = self.answers(method)
        most = np.arange(min(*map(len, both), self.run.attacked))
        return both[0].rows(most), both[1].rows(most)

    def _measured(self, method: Method) -> Measured:
        fitted, pool, split = self.fitted(method), self._pool(), self.split
        model = fitted.model
        attacks: tuple[Attack, ...] = ()
        differences: dict[str, float] = {}
        one_run, stored = None, None
        if self.source.attacked:
            inside, outside = self.answers(method)
            attacks = attack_all(
                *self.asked(method),
                folds=self.run.folds,
                seed=self.seed,
                report=lambda stage, share: self._report(
                    f"{self.source.data}: {method.name}, {stage}", share
                ),
            )
            found = model_differences(inside, outside, resamples=_RESAMPLES, confidence=CONFIDENCE)
            differences = {item.attack.removeprefix("difference in "): item.value for item in found}
            one_run = OneRun.played(inside, outside)
            read = stored_records(model, split.inside.features, split.outside.features, delta=DELTA).numbers
            stored = Stored(
                *(int(read[name]) for name in ("members_found", "members", "nonmembers_found", "nonmembers"))
            )
        return Measured(
            method=method.name,
            accuracy=_accuracy(model, pool.tests),
            learned=_accuracy(model, split.members),
            attacks=attacks,
            differences=differences,
            one_run=one_run,
            proven=Proven.of(method.guarantee(model), DELTA),
            eta=_eta(model),
            head=getattr(model, "head_epsilon_", None),
            seconds=fitted.seconds,
            stored=stored,
        )


def _accuracy(model: Any, part: Part) -> float:
    return float(np.mean(model.predict(part.features) == part.labels))


def _answers(model: Any, part: Part) -> Predictions:
    return Predictions(model.predict_proba(part.features), part.labels)


def _eta(model: Any) -> float | None:
    """The largest contraction of a class: the worst one, which is what a bound would have to take."""
    profile = getattr(model, "profile_", None)
    if profile is None:
        return None
    value = float(np.max(profile.eta))
    return value if math.isfinite(value) else None
