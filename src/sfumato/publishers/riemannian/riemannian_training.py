"""Train through all stages within a budget, with checkpoints that training is resumed from.

A checkpoint is written as a whole or not at all, and is refused for another model or another dataset. It
holds private information: weights that were trained on the private pictures, and a digest of them. It belongs
beside the private data and is never part of a release. Its file can be read by its owner only (mode 0600). It
is a line that names the format, the SHA-256 of all that follows, a line of JSON, its *identity*, that
describes model and data, and tensors and plain values as torch saves them, which are read without running
anything that is in them.
"""

from __future__ import annotations

import hashlib
import io
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

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

# The number is raised whenever what is inside changes its meaning.
FORMAT = b"sfumato curvature checkpoint 2\n"

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
            content = self.path.read_bytes()
        except FileNotFoundError:
            return None
        if not content.startswith(FORMAT):
            raise BadInput(f"{self.path} is no checkpoint of this version: give another path.")
        digest, rest = content[len(FORMAT) :][:32], content[len(FORMAT) + 32 :]
        if hashlib.sha256(rest).digest() != digest:
            raise BadInput(f"the checkpoint {self.path} is damaged: remove it, or give another path.")
        line, _, saved = rest.partition(b"\n")
        found = json.loads(line)
        for name, value in self.identity.items():
            kept = found.get(name)
            if name == "data" and kept != value:
                raise BadInput(f"the checkpoint {self.path} was made from other pictures: give another path.")
            if kept != value:
                raise BadInput(
                    f"the checkpoint {self.path} has {name} {shown(kept)}, and {shown(value)} is asked for: "
                    "give another path."
                )
        return dict(torch.load(io.BytesIO(saved), map_location="cpu", weights_only=True))

    def write(self, content: Mapping[str, Any]) -> None:
        """Replace the file as a whole; whenever this ends, the old or the new content is there, and no other.

        Raises:
            BadInput: If there is no such folder, or it cannot be written to.
        """
        saved = io.BytesIO()
        torch.save(dict(content), saved)
        rest = json.dumps(dict(self.identity)).encode() + b"\n" + saved.getvalue()
        try:
            with atomic_output(self.path, mode=0o600) as file:
                file.write(FORMAT + hashlib.sha256(rest).digest() + rest)
        except (SfumatoError, OSError) as error:
            reason = getattr(error, "strerror", None) or "writing failed"
            raise BadInput(
                f"the checkpoint {self.path} cannot be written ({reason}): name a file in a folder that "
                "exists and has room."
            ) from error


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
        saved = reported = clock.now()
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
            if report is not None and (over or now - reported >= PACE):
                done = self.schedule.share(self.number, self.steps, now, self.began)
                report(stage.name, sum(SHARES[: self.number]) + SHARES[self.number] * done, facts)
                reported = now

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
        if content is None:
            return False
        run = self.run
        self.number, self.steps = content["stage"], content["steps"]
        self.elapsed, self.began = content["elapsed"], content["began"]
        run.seed = content["seed"]
        run.generator.set_state(content["generator"])
        for name in ("model", "critic", "estimator"):
            getattr(run, name).load_state_dict(content[name])
        if content["within"]:
            self.stage = ORDER[self.number](run)
            self.stage.memory = content["memory"]
            for name, optimiser in self.stage.optimisers.items():
                optimiser.load_state_dict(content["optimisers"][name])
        return True


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
