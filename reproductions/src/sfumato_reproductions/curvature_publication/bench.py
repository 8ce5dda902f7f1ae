"""One data set and seed: publish by a method, learn from what it publishes, attack, and measure."""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

import sfumato
from sfumato.publishers import Publisher
from sfumato.utility import frechet_distance, inception_style_score
from sfumato_reproductions.curvature_publication.candidates import MATCHED
from sfumato_reproductions.curvature_publication.downstream import Learned, learn
from sfumato_reproductions.curvature_publication.imbalance import Imbalanced, Part
from sfumato_reproductions.curvature_publication.measured import Measured, Proven, picked
from sfumato_reproductions.curvature_publication.membership import attack_all, has_art, right_about
from sfumato_reproductions.curvature_publication.methods import (
    CURVATURE,
    LOWEST,
    METHODS,
    Method,
    Setting,
    curvature_publisher,
)
from sfumato_reproductions.curvature_publication.protocol import DELTA, Run
from sfumato_reproductions.memory import Memory
from sfumato_reproductions.regenerate import Report

__all__ = ["Bench"]


class Bench:
    """Measures methods on ``name`` and keeps what it measured in ``memory``."""

    def __init__(self, name: str, run: Run, seed: int, memory: Memory, report: Report) -> None:
        self.run, self.seed, self.memory, self._report = run, seed, memory, report
        self.data = Imbalanced.of(name, run, seed)

    @cached_property
    def judge(self) -> Learned:
        """A classifier that learned from the public part: what pictures are compared over."""
        return learn(self.data.public, self.data.classes, passes=self.run.passes, seed=self.seed)

    @property
    def parameters(self) -> int:
        """How many parameters the classifier has."""
        return self.judge.parameters

    def method(self, method: Method) -> Measured:
        """``method`` from memory, or published, learned from and attacked now."""
        name = method.name
        publisher = None if method.make is None else method.make(self._setting(name))
        depends = self._depends(name, publisher)
        known = self._recalled(name, depends)
        if known is not None:
            return known
        begun = time.perf_counter()
        if publisher is None:
            published, proven = self.data.private, Proven.of(None, DELTA)
        else:
            fitted = self.publisher if name == CURVATURE else self._fit(publisher, name)
            published, proven = _published(fitted), Proven.of(fitted.guarantee(), DELTA)
        return self._measured(name, published, proven, time.perf_counter() - begun, depends)

    def strategy(self, strategy: str) -> Measured:
        """The curvature publisher with a ``strategy`` along its paths; nothing is trained for it again."""
        if strategy == LOWEST:
            return self.method(METHODS[CURVATURE])
        name = f"{CURVATURE}, {strategy}"
        depends = self._depends(name, curvature_publisher(self._setting(CURVATURE)))
        known = self._recalled(name, depends)
        if known is not None:
            return known
        publisher = self.publisher
        begun = time.perf_counter()
        other = publisher.using(strategy)
        published, proven = _published(other), Proven.of(other.guarantee(), DELTA)
        return self._measured(name, published, proven, time.perf_counter() - begun, depends)

    @cached_property
    def publisher(self) -> Any:
        """The fitted curvature publisher; from its checkpoint where there is one."""
        return self._fit(curvature_publisher(self._setting(CURVATURE)), CURVATURE)

    @cached_property
    def flat_publisher(self) -> Any:
        """The same with two latent dimensions, for figure 4."""
        name = f"{CURVATURE}, two dimensions"
        return self._fit(curvature_publisher(self._setting(name), latent=2), name)

    @cached_property
    def original(self) -> Learned:
        """The classifier that learned from the private pictures themselves."""
        return self._learn("original", self.data.private)

    def _fit(self, publisher: Any, name: str) -> Any:
        def heard(stage: str, share: float, facts: Mapping[str, float]) -> None:
            self._report(f"{self.data.name}: {name}, {stage}", share)

        return publisher.fit(self.data.private.pictures, self.data.private.labels, report=heard)

    def _learn(self, name: str, part: Part) -> Learned:
        stage = f"{self.data.name}: {name}, learning from what is published"
        return learn(
            part,
            self.data.classes,
            passes=self.run.passes,
            seed=self.seed,
            report=lambda share: self._report(stage, share),
        )

    def _measured(
        self, name: str, published: Part, proven: Proven, seconds: float, depends: dict[str, Any]
    ) -> Measured:
        data, begun = self.data, time.perf_counter()
        learned = self._learn(name, published)
        learning = time.perf_counter() - begun
        self._report(f"{data.name}: {name}, attacking", 0.0)
        asked = {"attacked": self.run.attacked, "seed": self.seed, "epochs": self.run.epochs}
        membership = attack_all(data, learned, published, **asked)
        frechet = None
        if published is not data.private:
            both = (self.judge.features(part.pictures) for part in (data.private, published))
            frechet, _ = frechet_distance(*both)
        measured = Measured(
            method=name,
            published=len(published),
            learned=learned.accuracy(published),
            accuracy=learned.accuracy(data.tests),
            tail_accuracy=learned.accuracy(data.tests, data.tail),
            membership=membership,
            frechet=frechet,
            score=inception_style_score(self.judge.probabilities(published.pictures)),
            proven=proven,
            seconds=seconds,
            learning=learning,
            samples=picked(published.pictures, published.labels, data.classes),
            right=right_about(data, learned, MATCHED, **asked)[1],
        )
        self.memory.keep(self._called(name), depends, measured.kept())
        self._report(f"{data.name}: {name}, attacking", 1.0)
        return measured

    def _setting(self, name: str) -> Setting:
        return Setting(self.data, self.run, self.seed, self._checkpoint(name))

    def _recalled(self, name: str, depends: dict[str, Any]) -> Measured | None:
        kept = self.memory.recall(self._called(name), depends)
        try:
            return None if kept is None else Measured.read(kept)
        except (KeyError, TypeError, ValueError):
            return None

    def _checkpoint(self, name: str) -> Path:
        """Where a publisher may keep its training."""
        self.memory.folder.mkdir(parents=True, exist_ok=True)
        return self.memory.folder / f"{self._called(name)}.checkpoint"

    def _called(self, name: str) -> str:
        words = "".join(letter if letter.isalnum() else " " for letter in name.replace("ε", "epsilon"))
        return "-".join([self.data.name, str(self.seed), *words.split()])

    def _depends(self, name: str, publisher: Publisher | None) -> dict[str, Any]:
        run = {key: value for key, value in vars(self.run).items() if key not in ("data", "seeds")}
        return {
            "data": self.data.name,
            "seed": self.seed,
            "method": name,
            "parameters": None if publisher is None else dict(publisher.parameters()),
            "run": run,
            "art": has_art(),
            "sfumato": sfumato.__version__,
        }


def _published(publisher: Publisher) -> Part:
    pictures, labels = publisher.publish().value
    return Part(np.asarray(pictures, dtype=np.float32), np.asarray(labels, dtype=np.int64))
