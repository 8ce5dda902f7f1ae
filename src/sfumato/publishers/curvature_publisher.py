"""Publish private pictures moved along geodesics to places of low curvature; nothing is proven.

Yin et al. (2025): a Riemannian VAE-GAN learns the pictures, each is encoded, moved towards the nearest centre
of the learned manifold as far as the estimated curvature says, and decoded again, with its own label.

**Guarantee.** None. Every released picture is a function of one private picture, and of networks that were
trained on all of them; nothing is drawn at random that would hide either.

**Edge cases.** Fewer pictures than centres, one class, pictures that are all the same, values that are not
finite, wrong labels, and a checkpoint of another model or dataset are refused before training starts.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.mechanisms import one_of, positive
from sfumato.privacy import Claim
from sfumato.publishers.publisher import (
    Labelled,
    Pictures,
    Progress,
    ReplacingPublisher,
    fitted,
    whole_number,
)
from sfumato.publishers.riemannian.obfuscator import STRATEGIES, Obfuscator
from sfumato.publishers.riemannian.riemannian_training import Checkpoint, Trainer, fingerprint
from sfumato.publishers.riemannian.riemannian_vae import Architecture
from sfumato.publishers.riemannian.training_stages import STAGES, Rates, Run, Schedule, new_run

__all__ = ["CurvaturePublisher"]


@dataclass(eq=False)
class CurvaturePublisher(ReplacingPublisher):
    """Publishes one picture for each private one, of values from 0 to ``top``, with its label.

    ``latent`` dimensions and ``centres`` of the learned manifold; ``strategy`` is ``"lowest"`` (equation 15),
    ``"anywhere"`` (the lowest of the whole path), ``"highest"`` or ``"linear"``; ``decoder`` is ``"dense"``
    or ``"conv"``; ``samples`` along each geodesic, the first of them that may be taken is ``least`` (0 in the
    paper). Training takes ``time_budget`` seconds, or, without one, ``epochs`` passes over the data for each
    of its four stages; moving the pictures comes after it. A ``checkpoint`` is a file that training is
    resumed from: it holds private information and belongs to no release. A finished checkpoint serves every
    strategy.
    """

    _: KW_ONLY
    latent: int = 10
    centres: int = 256
    strategy: str = "lowest"
    decoder: str = "dense"
    time_budget: float | None = None
    epochs: tuple[int, ...] = (100, 100, 50, 5)  # section 5.1.3
    samples: int = 20
    least: int = 0
    checkpoint: str | os.PathLike[str] | None = None

    one_to_one = True
    unproven = (
        "every released picture is a function of one private picture and of networks trained on all of them, "
        "without noise that would hide either"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, fewest in (("latent", 1), ("centres", 1), ("samples", 2), ("least", 0)):
            setattr(self, name, whole_number(name, getattr(self, name), fewest))
        if self.least >= self.samples:
            raise BadInput(
                f"`least` was {self.least}: of {self.samples} samples the last one is {self.samples - 1}.",
                parameter="least",
            )
        self.strategy = one_of("strategy", self.strategy, tuple(STRATEGIES))
        self.decoder = one_of("decoder", self.decoder, ("dense", "conv"))
        self.time_budget = None if self.time_budget is None else positive("time_budget", self.time_budget)
        if not isinstance(self.epochs, tuple | list) or len(self.epochs) != len(STAGES):
            raise BadInput(
                f"`epochs` must be {len(STAGES)} whole numbers, one for each stage.", parameter="epochs"
            )
        self.epochs = tuple(whole_number("epochs", count, 1) for count in self.epochs)
        self.run: Run | None = None

    def claim(self) -> Claim:
        """Return the authors' claim; they promise no ε."""
        return Claim(
            text="“By perturbing samples toward low-curvature regions, our method effectively suppresses "
            "distinctive feature combinations that are vulnerable to MIA.”",
            source="Yin et al. 2025, Privacy-Utility Trade-off in Data Publication, abstract",
        )

    def using(self, strategy: str) -> Self:
        """Return a publisher with the same trained networks that moves pictures by another ``strategy``."""
        other = copy.copy(self)
        other.strategy = one_of("strategy", strategy, tuple(STRATEGIES))
        other._keep(other._moved(None), fitted(self._made)[1])
        return other

    def parameters(self) -> Mapping[str, Any]:
        """Return the public parameters; ``epochs`` only where they end the training."""
        found = {name: value for name, value in super().parameters().items() if name != "checkpoint"}
        return found | ({} if self.time_budget is None else {"epochs": None})

    def obfuscator(self) -> Obfuscator:
        """Return the obfuscator that moves latent points of the fitted model."""
        run = fitted(self.run)
        return Obfuscator(
            run.model, run.estimator, samples=self.samples, strategy=self.strategy, least=self.least
        )

    def _replaced(self, data: Labelled, report: Progress) -> Pictures:
        """Train on the pictures of ``data``, then move all of them."""
        if len(data.varied()) < self.centres:
            raise BadInput(
                f"{len(data)} pictures were given and {self.centres} centres asked for: at least as many "
                "pictures as centres are needed."
            )
        architecture = Architecture(data.shape, self.latent, self.centres, self.decoder)
        rates, checkpoint = Rates(), None
        seed = self.randomness.stream(b"riemannian networks").integer(64) % 2**62
        run = new_run(
            architecture, torch.as_tensor(data.pictures), seed=seed, rates=rates, strategy=self.strategy
        )
        schedule = Schedule.epochs(self.epochs, len(data), rates.batch)
        if self.time_budget is not None:
            schedule = Schedule((), self.time_budget)
        if self.checkpoint is not None:
            identity = {**architecture.to_dict(), "data": fingerprint(data.pictures, data.labels)}
            checkpoint = Checkpoint(Path(self.checkpoint), identity)
        self.run = Trainer(run, schedule, checkpoint=checkpoint).train(report)
        return self._moved(report), data.labels

    def _moved(self, report: Progress | None) -> NDArray[np.float32]:
        """Return the pictures, in [0, 1], in place of those that the model was trained on."""
        run = fitted(self.run)
        moved = self.obfuscator().perturb(run.model.means(run.pictures), report=report)
        with torch.no_grad():
            parts = [run.model.decode(part) for part in torch.split(moved, 2048)]
        return np.asarray(torch.cat(parts).numpy())
