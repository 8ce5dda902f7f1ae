"""What all stages of training share: the networks, the pictures, and one step at a time."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Generator, Tensor, nn
from torch.optim import Adam, Optimizer

from sfumato.publishers.riemannian.critic import Critic, critic_loss, generator_loss
from sfumato.publishers.riemannian.curvature_estimator import CurvatureEstimator
from sfumato.publishers.riemannian.riemannian_vae import RiemannianVAE
from sfumato.publishers.riemannian.schedule import Rates
from sfumato.publishers.riemannian.vae_networks import Architecture

__all__ = ["Run", "Stage", "new_run"]

# Learning rates end at this part of where they began.
LEAST = 0.02


@dataclass
class Run:
    """Networks in training, the pictures (n, *shape) they learn, and where all their randomness is from."""

    model: RiemannianVAE
    critic: Critic
    estimator: CurvatureEstimator
    pictures: Tensor
    generator: Generator
    seed: int
    rates: Rates
    strategy: str = "lowest"


def new_run(
    architecture: Architecture, pictures: Tensor, *, seed: int, rates: Rates, strategy: str = "lowest"
) -> Run:
    """Networks with first weights from ``seed``; ``pictures`` (n, *shape) are floats in [0, 1]."""
    generator = torch.Generator().manual_seed(seed)
    model = RiemannianVAE(architecture, generator=generator)
    critic = Critic(architecture, generator=generator)
    estimator = CurvatureEstimator(architecture.latent, generator=generator)
    return Run(model, critic, estimator, pictures, generator, seed, rates, strategy)


class Stage(ABC):
    """One stage; its optimisers and its memory are part of a checkpoint, all else follows from the run."""

    name: ClassVar[str]

    def __init__(self, run: Run) -> None:
        self.run = run
        self.optimisers: dict[str, Optimizer] = {}
        self.memory: dict[str, Tensor] = {}

    def begin(self) -> None:  # noqa: B027 (most stages begin as they are)
        """What is done once, before the first step, and never after a checkpoint of this stage."""

    @abstractmethod
    def step(self, rows: Tensor, number: int) -> dict[str, float]:
        """One step, the ``number``-th of the stage, on the pictures ``rows``; answers with its losses."""

    def decayed(self, share: float) -> None:
        """Lower all learning rates along half a cosine, to a fiftieth at the stage's end."""
        factor = LEAST + (1.0 - LEAST) * 0.5 * (1.0 + math.cos(math.pi * min(share, 1.0)))
        for optimiser in self.optimisers.values():
            for group in optimiser.param_groups:
                group["lr"] = group["initial_lr"] * factor

    def add(self, name: str, parameters: Iterable[nn.Parameter], rate: float) -> None:
        """An optimiser of ``parameters`` that begins at ``rate``."""
        optimiser = Adam([*parameters], lr=rate, fused=True)
        for group in optimiser.param_groups:
            group["initial_lr"] = rate
        self.optimisers[name] = optimiser

    def descend(self, name: str, loss: Tensor) -> float:
        """One step of an optimiser down ``loss``; nothing but its own parameters changes."""
        parameters = [p for group in self.optimisers[name].param_groups for p in group["params"]]
        gradients = torch.autograd.grad(loss, parameters, allow_unused=True)
        # A step over the edge of what can be computed must not poison the weights: it is left out.
        norm = torch.stack([g.norm() for g in gradients if g is not None]).norm()
        if norm.isfinite():
            scale = (self.run.rates.clip / norm.clamp_min(1e-12)).clamp_max(1.0)
            for parameter, gradient in zip(parameters, gradients, strict=True):
                parameter.grad = None if gradient is None else gradient * scale
            self.optimisers[name].step()
            self.optimisers[name].zero_grad()
        return float(loss.detach())

    def adversarial(self, name: str, real: Tensor, fake: Tensor) -> dict[str, float]:
        """A step of the critic (equation 10), then one of optimiser ``name`` by its judgement (11)."""
        run = self.run
        judged = self.descend("critic", critic_loss(run.critic, real, fake, run.generator))
        made = self.descend(name, generator_loss(run.critic, fake))
        return {"critic": judged, "generator": made}
