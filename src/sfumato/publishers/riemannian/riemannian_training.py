"""Train through all stages within a budget, with checkpoints that training is resumed from.

A checkpoint is written as a whole or not at all, and is refused for another model or another dataset. It
holds private information: weights that were trained on the private pictures, and a digest of them. It belongs
beside the private data and is never part of a release. Its file can be read by its owner only (mode 0600). It
holds tensors and plain values, and is read without running anything that is in it.
"""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.optim import Optimizer

from sfumato.errors import BadInput, SfumatoError
from sfumato.io import atomic_output
from sfumato.mechanisms import shown
from sfumato.publishers.publisher import Progress
from sfumato.publishers.riemannian.training_stages import (
    SHARES,
    BilevelStage,
    CurvatureStage,
    DeviationStage,
    MeanStage,
    Run,
    Schedule,
    Stage,
)

# Raised whenever what is inside changes its meaning.
FORMAT = 1

ORDER: tuple[type[Stage], ...] = (MeanStage, DeviationStage, CurvatureStage, BilevelStage)
# Seconds between two reports.
PACE = 0.5


def fingerprint(pictures: NDArray[np.float32], labels: NDArray[np.int64]) -> str:
    """Return a digest of a dataset: only the same pictures and labels in the same order have it."""
    digest = hashlib.sha256(repr((pictures.shape, labels.shape)).encode())
    digest.update(np.ascontiguousarray(pictures).data)
    digest.update(np.ascontiguousarray(labels).data)
    return digest.hexdigest()


@dataclass(frozen=True)
class Checkpoint:
    """A file at ``path`` for training that is described by ``identity``: its architecture and its data."""

    path: Path
    identity: Mapping[str, Any]

    def read(self) -> dict[str, Any] | None:
        """Return the last content, or None where there is no file yet.

        Raises:
            BadInput: If the file is no checkpoint, damaged, or one of another architecture or dataset.
        """
        try:
            content = torch.load(self.path, map_location="cpu", weights_only=True)
        except FileNotFoundError:
            return None
        except Exception as error:
            # Damaged bytes are answered with whatever they happen to break, an IndexError among others.
            raise BadInput(
                f"{self.path} cannot be read as a checkpoint: give the path of one, or of no file yet."
            ) from error
        found = content.get("identity") if isinstance(content, dict) else None
        if not isinstance(found, dict) or not _same(content.get("format"), FORMAT):
            raise BadInput(f"{self.path} is no checkpoint of this version: give another path.")
        for name, value in self.identity.items():
            held = found.get(name)
            if _same(held, value):
                continue
            if name == "data":
                raise BadInput(f"the checkpoint {self.path} was made from other pictures: give another path.")
            kind = shown(held).strip("'") if _plain(held) else "of another kind"
            asked = shown(value).strip("'")
            raise BadInput(
                f"the checkpoint {self.path} has {name} {kind}, and {asked} is asked for: give another path."
            )
        return dict(content)

    def damaged(self) -> BadInput:
        """Return the error for a file with the right identity and other content that cannot be used."""
        return BadInput(f"the checkpoint {self.path} is damaged: remove it, or give another path.")

    def write(self, content: Mapping[str, Any]) -> None:
        """Replace the file as a whole; whenever this ends, the old or the new content is there, and no other.

        Raises:
            BadInput: If there is no such folder, or it cannot be written to.
        """
        try:
            with atomic_output(self.path, mode=0o600) as file:
                torch.save({**content, "format": FORMAT, "identity": dict(self.identity)}, file)
        except (SfumatoError, OSError, RuntimeError) as error:
            # Of a full disk torch knows only that it could not write.
            reason = getattr(error, "strerror", None) or "writing failed"
            raise BadInput(
                f"the checkpoint {self.path} cannot be written ({reason}): name a file in a folder that "
                "exists and has room."
            ) from error


def _plain(value: Any) -> bool:
    """Return whether ``value`` is what an identity is made of: a number, a word, or a list of some."""
    parts = value if isinstance(value, list) else [value]
    return len(parts) <= 8 and all(
        isinstance(part, str | float) or (isinstance(part, int) and part.bit_length() <= 64) for part in parts
    )


def _same(held: Any, value: Any) -> bool:
    """Return whether a file's ``held`` is ``value``; tensors, whose comparison is no bool, never are."""
    return _plain(held) and type(held) is type(value) and bool(held == value)


class Trainer:
    """Takes a run through all stages of a schedule.

    With a ``checkpoint`` it writes one before the first step, then every ``interval`` seconds and at the end
    of each stage, and begins where the last one was written. For a schedule of steps the weights at the end
    are the same however often training was interrupted: batches follow from the seed and the number of the
    step, all else that is random from a generator whose state is in the checkpoint.
    """

    def __init__(
        self, run: Run, schedule: Schedule, *, checkpoint: Checkpoint | None = None, interval: float = 20.0
    ) -> None:
        self.run, self.schedule, self.checkpoint, self.interval = run, schedule, checkpoint, interval
        self.number, self.steps = 0, 0
        self.elapsed = self.began = 0.0
        self.stage: Stage | None = None

    def train(self, report: Progress | None = None) -> Run:
        """Train until every stage has ended; at once if the checkpoint says that they all have.

        Raises:
            BadInput: If the checkpoint is another model's or another dataset's, is damaged, or cannot be
                written.
        """
        resumed = self._resume()
        clock = _Clock(self.elapsed)
        if not resumed:
            self._save()
        while self.number < len(ORDER):
            if self.stage is None:
                self.began, self.steps = clock.now(), 0
                self.stage = ORDER[self.number](self.run)
                self.stage.begin()
            self._through(self.stage, clock, report)
            self.number, self.stage = self.number + 1, None
            self.elapsed = clock.now()
            self._save()
        return self.run

    def _through(self, stage: Stage, clock: _Clock, report: Progress | None) -> None:
        batches = _Batches(len(self.run.pictures), self.run.rates.batch, self.run.seed + 7919 * self.number)
        saved = told = clock.now()
        last = 0.0
        while not self.schedule.ended(self.number, self.steps, clock.now(), last):
            before = clock.now()
            stage.decayed(self.schedule.share(self.number, self.steps, before, self.began))
            facts = stage.step(batches.at(self.steps), self.steps)
            self.steps += 1
            self.elapsed = now = clock.now()
            last = now - before
            if now - saved >= self.interval:
                self._save()
                saved = clock.now()
            over = self.schedule.ended(self.number, self.steps, now, last)
            if report is not None and (over or now - told >= PACE):
                done = self.schedule.share(self.number, self.steps, now, self.began)
                report(stage.name, sum(SHARES[: self.number]) + SHARES[self.number] * done, facts)
                told = now

    def _save(self) -> None:
        if self.checkpoint is None:
            return
        run, stage = self.run, self.stage
        optimisers = {} if stage is None else stage.optimisers
        self.checkpoint.write(
            {
                "stage": self.number,
                "steps": self.steps,
                "elapsed": self.elapsed,
                "began": self.began,
                "seed": run.seed,
                "generator": run.generator.get_state(),
                "model": run.model.state_dict(),
                "critic": run.critic.state_dict(),
                "estimator": run.estimator.state_dict(),
                "optimisers": {name: optimiser.state_dict() for name, optimiser in optimisers.items()},
                "memory": {} if stage is None else stage.memory,
                "within": stage is not None,
            }
        )

    def _resume(self) -> bool:
        content = None if self.checkpoint is None else self.checkpoint.read()
        if self.checkpoint is None or content is None:
            return False
        try:
            self._take(content)
        except Exception as error:
            # What is missing, of another type or another shape is answered by torch in as many ways.
            raise self.checkpoint.damaged() from error
        return True

    def _take(self, content: dict[str, Any]) -> None:
        """Go on from ``content``; raises whatever it breaks where that is no content of a checkpoint."""
        run = self.run
        self.number, self.steps = _whole(content["stage"], len(ORDER)), _whole(content["steps"])
        self.elapsed, self.began = _seconds(content["elapsed"]), _seconds(content["began"])
        run.seed = _whole(content["seed"])
        run.generator.set_state(content["generator"])
        for name in ("model", "critic", "estimator"):
            getattr(run, name).load_state_dict(content[name])
        if type(content["within"]) is not bool or not isinstance(content["optimisers"], dict):
            raise ValueError("no state of a stage")
        if content["within"]:
            self.stage = ORDER[self.number](run)
            self.stage.memory = _memory(content["memory"], self.stage)
            for name, optimiser in self.stage.optimisers.items():
                _restore(optimiser, content["optimisers"][name])


def _whole(value: Any, most: int = 2**63) -> int:
    if type(value) is not int or not 0 <= value <= most:
        raise ValueError("no count")
    return value


def _seconds(value: Any) -> float:
    if not isinstance(value, int | float) or not 0.0 <= value < math.inf:
        raise ValueError("no time")
    return float(value)


def _memory(value: dict[str, Tensor], stage: Stage) -> dict[str, Tensor]:
    if not all(isinstance(held, Tensor) for held in value.values()):
        raise ValueError("no memory")
    if isinstance(stage, CurvatureStage):
        centres = stage.run.model.centres
        shape = (len(value["targets"]), centres.shape[1])
        alike = all(held.dtype == centres.dtype for held in value.values())
        if not alike or value["points"].shape != shape or value["targets"].shape != shape[:1]:
            raise ValueError("the memory of another estimator")
    return value


def _restore(optimiser: Optimizer, state: dict[str, Any]) -> None:
    """Give ``optimiser`` its ``state`` back, if that is one of the same optimiser of the same weights."""
    usual = _settings(optimiser)
    optimiser.load_state_dict(state)
    if _settings(optimiser) != usual:
        raise ValueError("another optimiser")
    for parameter, kept in optimiser.state.items():
        shapes = [kept[name].shape for name in ("step", "exp_avg", "exp_avg_sq")]
        if shapes != [torch.Size([]), parameter.shape, parameter.shape]:
            raise ValueError("other weights")


def _settings(optimiser: Optimizer) -> list[dict[str, type]]:
    return [{name: type(value) for name, value in group.items()} for group in optimiser.param_groups]


class _Clock:
    """Seconds of training, those before an interruption included."""

    def __init__(self, before: float) -> None:
        self.start = time.monotonic() - before

    def now(self) -> float:
        return time.monotonic() - self.start


class _Batches:
    """Rows of each step: passes over all records, each in an order of its own that follows from the seed.

    What does not fill a batch is left out of its pass.
    """

    def __init__(self, records: int, batch: int, seed: int) -> None:
        self.records, self.batch, self.seed = records, min(batch, records), seed
        self.turn, self.order = -1, torch.empty(0, dtype=torch.long)

    def at(self, step: int) -> Tensor:
        turn, place = divmod(step, self.records // self.batch)
        if turn != self.turn:
            generator = torch.Generator().manual_seed((self.seed + 1_000_003 * (turn + 1)) % 2**63)
            self.turn, self.order = turn, torch.randperm(self.records, generator=generator)
        return self.order[place * self.batch : (place + 1) * self.batch]
