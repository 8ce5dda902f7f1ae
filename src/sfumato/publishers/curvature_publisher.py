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
from torch import Tensor

from sfumato.errors import BadInput
from sfumato.mechanisms import Release, one_of, positive
from sfumato.noise import Randomness
from sfumato.privacy import Claim, Guarantee
from sfumato.publishers.publisher import (
    Labelled,
    Pictures,
    Progress,
    Publisher,
    checked_randomness,
    fitted,
    whole_number,
)
from sfumato.publishers.riemannian.obfuscator import STRATEGIES, Obfuscator
from sfumato.publishers.riemannian.riemannian_training import Checkpoint, Trainer, fingerprint
from sfumato.publishers.riemannian.riemannian_vae import Architecture
from sfumato.publishers.riemannian.training_stages import STAGES, Rates, Run, Schedule, new_run

__all__ = ["CurvaturePublisher"]


@dataclass(eq=False)
class CurvaturePublisher(Publisher):
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
    top: float = 255.0
    randomness: Randomness = None  # type: ignore[assignment]  # the operating system's unless given

    one_to_one = True

    def __post_init__(self) -> None:
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
        self.top = positive("top", self.top)
        self.randomness = checked_randomness(self.randomness)
        self.run: Run | None = None
        self._labels: NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        self._moved: Tensor | None = None

    def guarantee(self) -> Guarantee:
        """Return a guarantee of nothing, with the reason."""
        return Guarantee.nothing(
            "every released picture is a function of one private picture and of networks trained on all of "
            "them, without noise that would hide either"
        )

    def claim(self) -> Claim:
        """Return the authors' claim; they promise no ε."""
        return Claim(
            text="“By perturbing samples toward low-curvature regions, our method effectively suppresses "
            "distinctive feature combinations that are vulnerable to MIA.”",
            source="Yin et al. 2025, Privacy-Utility Trade-off in Data Publication, abstract",
        )

    def fit(self, X: Any, y: Any, *, report: Progress | None = None) -> Self:
        """Train on pictures ``X`` (n, height, width[, channels]) and labels ``y``, then move all pictures."""
        data = Labelled.checked(X, y, top=self.top).varied()
        if len(data) < self.centres:
            raise BadInput(
                f"{len(data)} pictures were given and {self.centres} centres asked for: at least as many "
                "pictures as centres are needed."
            )
        architecture = Architecture(data.shape, self.latent, self.centres, self.decoder)
        rates = Rates()
        seed = self.randomness.stream(b"riemannian networks").integer(64) % 2**62
        run = new_run(
            architecture, torch.as_tensor(data.pictures), seed=seed, rates=rates, strategy=self.strategy
        )
        Trainer(run, self._schedule(len(data), rates), checkpoint=self._checkpoint(architecture, data)).train(
            report
        )
        self.run, self._labels, self._records = run, data.labels, len(data)
        self._moved = self._move(run, report)
        return self

    def publish(self, n: int | None = None) -> Release[Pictures]:
        """Return the pictures in place of the first ``n`` fitted ones, in their order, with their labels.

        Without ``n`` all of them. Asking again gives the same pictures.
        """
        run, n = fitted(self.run), self._number(n, most=len(self._labels))
        if self._moved is None:
            self._moved = self._move(run, None)
        with torch.no_grad():
            parts = [run.model.decode(part) for part in torch.split(self._moved[:n], 2048)]
        pictures: NDArray[np.float32] = torch.cat(parts).numpy() * np.float32(self.top)
        return self._release(pictures, self._labels[:n].copy())

    def using(self, strategy: str) -> Self:
        """Return a publisher with the same trained networks that moves pictures by another ``strategy``."""
        other = copy.copy(self)
        other.strategy, other._moved = one_of("strategy", strategy, tuple(STRATEGIES)), None
        return other

    def parameters(self) -> Mapping[str, Any]:
        """Return the public parameters; ``epochs`` only where they end the training."""
        found = {name: value for name, value in super().parameters().items() if name != "checkpoint"}
        return found | ({} if self.time_budget is None else {"epochs": None})

    def obfuscator(self) -> Obfuscator:
        """Return the obfuscator that moves latent points of the fitted model."""
        return self._obfuscator(fitted(self.run))

    def _obfuscator(self, run: Run) -> Obfuscator:
        return Obfuscator(
            run.model, run.estimator, samples=self.samples, strategy=self.strategy, least=self.least
        )

    def _move(self, run: Run, report: Progress | None) -> Tensor:
        return self._obfuscator(run).perturb(run.model.means(run.pictures), report=report)

    def _schedule(self, records: int, rates: Rates) -> Schedule:
        if self.time_budget is not None:
            return Schedule((), self.time_budget)
        return Schedule.epochs(self.epochs, records, rates.batch)

    def _checkpoint(self, architecture: Architecture, data: Labelled) -> Checkpoint | None:
        if self.checkpoint is None:
            return None
        identity = {**architecture.to_dict(), "data": fingerprint(data.pictures, data.labels)}
        return Checkpoint(Path(self.checkpoint), identity)
