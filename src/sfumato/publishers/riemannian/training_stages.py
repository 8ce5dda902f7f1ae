"""Stages of training the Riemannian VAE-GAN (Algorithm 1 of Yin et al., 2025), their schedule and rates.

Phase 1 is the μ stage, then the σ stage, with a critic beside both. In phase 2 the curvature estimator learns
K before it guides anything. Phase 3 alternates the four steps of equations 16 and 17. A ``Run`` holds the
networks and pictures that all stages share; a ``Schedule`` ends stages by seconds or by steps.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate
from typing import ClassVar

import torch
from torch import Generator, Tensor, nn
from torch.optim import Adam, Optimizer

from sfumato.publishers.riemannian.manifold import curvature
from sfumato.publishers.riemannian.obfuscator import Obfuscator
from sfumato.publishers.riemannian.riemannian_vae import (
    Architecture,
    Critic,
    CurvatureEstimator,
    RiemannianVAE,
    critic_loss,
    damped_metric,
    divergence,
    generator_loss,
    walk,
)

#: The stages in their order.
STAGES = ("mean", "deviation", "curvature", "bilevel")
#: What each stage takes of a time budget.
SHARES = (0.55, 0.15, 0.10, 0.20)

# Learning rates end at this part of where they began.
LEAST = 0.02
# The deviation that stands in for σ(z) while the mean is learned (it scales the loss, and nothing else).
FIXED = 0.1
# Latent points that the prior's motion is drawn at, when the critic judges what the prior would give.
DRAWN = 64
# The estimator follows a decoder that hardly moves: slower than it learned at first, faster than that.
SLOWER = 0.1


@dataclass(frozen=True)
class Rates:
    """Learning rates and sizes (section 5.1.3 of Yin et al., 2025, where the paper names one).

    *What differs.* All rates fall along half a cosine over their stage, to a fiftieth, as stages here are
    shorter than the paper's. The critic's first rate is 1e-4 instead of 1e-6: at 1e-6 and an update every 50
    steps its weights would hardly leave their random beginning in any run this short, and what it says of
    pictures would mean nothing. The estimator's is 1e-3 instead of 1e-4, for its few hundred steps. ``clip``
    bounds the norm of every gradient; ``jitter`` is the posterior's deviation in the μ stage, whose loss has
    no prior in it and would end at 0; ``divergent`` rows of a batch estimate its Kullback-Leibler term, which
    costs as much as twenty passes; ``perturbed`` rows are moved along geodesics in a bilevel step.
    """

    mean: float = 1e-3
    deviation: float = 1e-3
    critic: float = 1e-4
    curvature: float = 1e-3
    bilevel: float = 1e-5
    every: int = 50
    batch: int = 256
    beta: float = 1.0
    clip: float = 100.0
    jitter: float = 0.05
    divergent: int = 64
    perturbed: int = 64


@dataclass(frozen=True)
class Schedule:
    """When stages end: after ``steps`` each, or, where ``seconds`` is given, at their shares of it.

    Seconds count training alone, also across interruptions. A stage that ran late takes its lateness from the
    next one. Every stage takes one step at least.
    """

    steps: tuple[int, ...]
    seconds: float | None = None

    @classmethod
    def epochs(cls, epochs: tuple[int, ...], records: int, batch: int) -> Schedule:
        """Return a schedule of whole passes over ``records`` pictures for each stage."""
        return cls(tuple(count * max(records // batch, 1) for count in epochs))

    def deadline(self, stage: int) -> float:
        """Return the seconds of training, from the start of all, after which a stage ends."""
        return float("inf") if self.seconds is None else self.seconds * [*accumulate(SHARES)][stage]

    def ended(self, stage: int, step: int, elapsed: float, last: float) -> bool:
        """Return whether a stage is over after ``step`` steps, the last of which took ``last`` seconds."""
        if step < 1:
            return False
        if self.seconds is None:
            return step >= self.steps[stage]
        return elapsed + 0.5 * last >= self.deadline(stage)

    def share(self, stage: int, step: int, elapsed: float, began: float) -> float:
        """Return the done share, from 0 to 1, of a stage that ``began`` at some second."""
        if self.seconds is None:
            return min(step / self.steps[stage], 1.0)
        span = max(self.deadline(stage) - began, 1e-9)
        return min(max((elapsed - began) / span, 0.0), 1.0)


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
    """Make networks with first weights from ``seed``; ``pictures`` (n, *shape) are floats in [0, 1]."""
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
        """Prepare the stage once, before its first step; never after a checkpoint of this stage."""

    @abstractmethod
    def step(self, rows: Tensor, number: int) -> dict[str, float]:
        """Take the ``number``-th step of the stage on the pictures ``rows``; return its losses."""

    def decayed(self, share: float) -> None:
        """Lower all learning rates along half a cosine, to a fiftieth at the stage's end."""
        factor = LEAST + (1.0 - LEAST) * 0.5 * (1.0 + math.cos(math.pi * min(share, 1.0)))
        for optimiser in self.optimisers.values():
            for group in optimiser.param_groups:
                group["lr"] = group["initial_lr"] * factor

    def add(self, name: str, parameters: Iterable[nn.Parameter], rate: float) -> None:
        """Add an optimiser of ``parameters`` that begins at ``rate``."""
        optimiser = Adam([*parameters], lr=rate, fused=True)
        for group in optimiser.param_groups:
            group["initial_lr"] = rate
        self.optimisers[name] = optimiser

    def descend(self, name: str, loss: Tensor) -> float:
        """Take one step of an optimiser down ``loss``; only its own parameters change."""
        parameters = [p for group in self.optimisers[name].param_groups for p in group["params"]]
        gradients = torch.autograd.grad(loss, parameters, allow_unused=True)
        # A step whose gradient is not finite is left out, so that the weights stay finite.
        norm = torch.stack([g.norm() for g in gradients if g is not None]).norm()
        if norm.isfinite():
            scale = (self.run.rates.clip / norm.clamp_min(1e-12)).clamp_max(1.0)
            for parameter, gradient in zip(parameters, gradients, strict=True):
                parameter.grad = None if gradient is None else gradient * scale
            self.optimisers[name].step()
            self.optimisers[name].zero_grad()
        return float(loss.detach())

    def adversarial(self, name: str, real: Tensor, fake: Tensor) -> dict[str, float]:
        """Take a step of the critic (equation 10), then one of optimiser ``name`` by its judgement (11)."""
        run = self.run
        judged = self.descend("critic", critic_loss(run.critic, real, fake, run.generator))
        made = self.descend(name, generator_loss(run.critic, fake))
        return {"critic": judged, "generator": made}


# Points whose curvature, an expensive number, is computed before the first step, and in each step.
FIRST, EACH = 512, 64
# Steps of the estimator on all points known so far, for every time that new ones are added, and their batch.
REPEATS, BATCH = 10, 256


class CurvatureStage(Stage):
    """Each step computes K exactly at new points and then learns from all that are known (equation 14).

    The points lie on straight lines from posterior means to the centre that contributes most at them, which
    is about where the obfuscator will ask.
    """

    name = "curvature"

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self.add("estimator", run.estimator.parameters(), run.rates.curvature)

    def begin(self) -> None:
        """Bring the estimator to scale by a first few points."""
        run = self.run
        rows = torch.randint(len(run.pictures), (FIRST,), generator=run.generator)
        self.memory = dict(zip(("points", "targets"), self._known(rows), strict=True))
        run.estimator.scale_to(self.memory["points"], self.memory["targets"])

    def step(self, rows: Tensor, number: int) -> dict[str, float]:
        """Return the mean of the losses of the estimator's steps."""
        points, targets = self._known(rows[:EACH])
        self.memory = {
            "points": torch.cat([self.memory["points"], points]),
            "targets": torch.cat([self.memory["targets"], targets]),
        }
        known, total = len(self.memory["points"]), 0.0
        for _ in range(REPEATS):
            chosen = torch.randint(known, (BATCH,), generator=self.run.generator)
            error = curvature_error(self.run, self.memory["points"][chosen], self.memory["targets"][chosen])
            total += self.descend("estimator", error)
        return {"curvature": total / REPEATS}

    def _known(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        points = draw_path_points(self.run, self.run.model.means(self.run.pictures[rows]))
        return points, log_curvature(self.run, points)


def draw_path_points(run: Run, z: Tensor) -> Tensor:
    """Return a uniform point on the straight line from each row of ``z`` to its centre."""
    with torch.no_grad():
        ends = run.model.centres[run.model.contributions(z).argmax(dim=1)]
        return torch.lerp(z, ends, torch.rand((len(z), 1), generator=run.generator))


def log_curvature(run: Run, z: Tensor) -> Tensor:
    """Return exact logarithms of K at ``z``; where K is 0, that of the smallest normal number."""
    return curvature(run.model, z).clamp_min(torch.finfo(z.dtype).tiny).log()


def curvature_error(run: Run, points: Tensor, targets: Tensor) -> Tensor:
    """Return equation 14 on standardised logarithms of K."""
    estimator = run.estimator
    return (estimator.standardised(points) - (targets - estimator.level) / estimator.range).square().mean()


class MeanStage(Stage):
    """Encoder and mean network learn to reconstruct (equation 5), σ being a constant.

    The latent point is the posterior mean plus a jitter of fixed size. Every ``every`` steps the critic takes
    a step on the mean pictures, and its judgement one on the encoder and the mean network.
    """

    name = "mean"

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        model = run.model
        parts = (model.reader, model.mean_head, model.mean_network)
        self.add("model", [p for part in parts for p in part.parameters()], run.rates.mean)
        self.add("critic", run.critic.parameters(), run.rates.critic)

    def step(self, rows: Tensor, number: int) -> dict[str, float]:
        """Return the losses: the mean squared error of a pixel and, where due, the critic's two."""
        run, x = self.run, self.run.pictures[rows]
        flat = torch.flatten(x, 1)
        run.model.normalised.train()
        mean, _ = run.model.encode(x)
        run.model.normalised.eval()
        z = mean + run.rates.jitter * torch.randn(mean.shape, generator=run.generator)
        made = run.model.mean_network(z)
        error = (made - flat).square().sum(dim=1).mean()
        judged = (number + 1) % run.rates.every == 0
        self.descend("model", error / (2.0 * FIXED**2))
        facts = {"error": float(error.detach()) / flat.shape[1]}
        if judged:
            with torch.no_grad():
                codes = run.model.encode(x)[0]
            facts |= self.adversarial("model", flat, run.model.mean_network(codes))
        return facts


class DeviationStage(Stage):
    """σ network, prior mean and posterior scale learn by the evidence bound (equation 6).

    Encoder means and the mean network stay as they are. The centres begin at the k-means of all posterior
    means. What the critic judges here is drawn with its deviation, half of it at reconstructions, half from
    the prior, so that its judgement reaches the deviation and the prior mean.
    """

    name = "deviation"

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        model = run.model
        own = [*model.deviation.parameters(), *model.scale_head.parameters(), model.prior]
        self.add("model", own, run.rates.deviation)
        self.add("critic", run.critic.parameters(), run.rates.critic)

    def begin(self) -> None:
        """Place the centres and begin with the precision that the mean network has."""
        run = self.run
        means = run.model.means(run.pictures)
        errors = torch.zeros(run.model.architecture.numbers)
        with torch.no_grad():
            for codes, x in zip(torch.split(means, 2048), torch.split(run.pictures, 2048), strict=True):
                errors += (run.model.mean_network(codes) - torch.flatten(x, 1)).square().sum(dim=0)
            run.model.prior.copy_(means.mean(dim=0))
        run.model.deviation.place(means, errors / len(means), run.seed)

    def step(self, rows: Tensor, number: int) -> dict[str, float]:
        """Return the losses: a picture's negative evidence bound and its parts."""
        run, x = self.run, self.run.pictures[rows]
        loss, facts = negative_elbo(run, x)
        self.descend("model", loss / run.model.architecture.numbers)
        if (number + 1) % run.rates.every == 0:
            flat = torch.flatten(x[: 2 * DRAWN], 1)
            facts |= self.adversarial("model", flat, self._drawn(x[: len(flat)]))
        return facts

    def _drawn(self, x: Tensor) -> Tensor:
        """Return reconstructions of the first half of ``x``, and pictures from the prior for the others."""
        run, half = self.run, len(x) // 2
        with torch.no_grad():
            codes = run.model.encode(x[:half])[0] if half else x.new_zeros((0, run.model.latent))
        start = run.model.prior.expand(len(x) - half, -1)
        metric = damped_metric(run.model, run.model.prior.detach().unsqueeze(0)).expand(len(start), -1, -1)
        drawn = walk(start, torch.ones(len(start)), metric, run.generator)
        return run.model.generate(torch.cat([codes, drawn]), run.generator)


def negative_log_likelihood(model: RiemannianVAE, flat: Tensor, z: Tensor) -> Tensor:
    """Return −log p(x|z) of the Gaussian of equation 2 for flat pictures, (n,)."""
    mean, deviation = model.embed(z)
    terms = ((flat - mean) / deviation).square() + 2.0 * deviation.log() + math.log(2.0 * math.pi)
    return 0.5 * terms.sum(dim=1)


def negative_elbo(run: Run, x: Tensor) -> tuple[Tensor, dict[str, float]]:
    """Return equation 6, the mean over pictures; the divergence is estimated on the first few of them."""
    model, rates = run.model, run.rates
    mean, scale = model.encode(x)
    variance = scale.squeeze(1).square()
    few = min(rates.divergent, len(x))
    # The walk needs metrics, the most expensive part: only a few rows walk, the others stay at their means.
    metric = damped_metric(model, mean[:few])
    moved = walk(mean[:few], variance[:few], metric, run.generator)
    likely = negative_log_likelihood(model, torch.flatten(x, 1), torch.cat([moved, mean[few:]])).mean()
    apart = divergence(model, moved, mean[:few], variance[:few], model.prior, metric=metric).mean()
    facts = {"unlikelihood": float(likely.detach()), "divergence": float(apart.detach())}
    return likely + rates.beta * apart, facts


class BilevelStage(Stage):
    """Upper level: the critic accepts pictures of perturbed points. Lower level: K̂ stays near K.

    Each step takes (1) a step of the whole autoencoder down its evidence bound, without perturbation, (2) one
    of the critic, private pictures against mean pictures at points moved by the obfuscator, (3) one of the
    decoder by the critic's judgement of these, and (4) one of the curvature estimator under the new decoder.
    The move itself is not differentiated: to the decoder, the moved points are given.
    """

    name = "bilevel"

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        rate = run.rates.bilevel
        self.add("model", run.model.parameters(), rate)
        self.add("decoder", run.model.decoder_parameters(), rate)
        self.add("critic", run.critic.parameters(), rate)
        self.add("estimator", run.estimator.parameters(), SLOWER * run.rates.curvature)

    def step(self, rows: Tensor, number: int) -> dict[str, float]:
        """Return the losses of all four steps."""
        run = self.run
        x = run.pictures[rows]
        loss, facts = negative_elbo(run, x)
        self.descend("model", loss / run.model.architecture.numbers)

        few = x[: run.rates.perturbed]
        codes = run.model.means(few)
        moved = Obfuscator(run.model, run.estimator, strategy=run.strategy).perturb(codes)
        fake, real = run.model.mean_network(moved), torch.flatten(few, 1)
        facts["critic"] = self.descend("critic", critic_loss(run.critic, real, fake, run.generator))

        facts["generator"] = self.descend("decoder", generator_loss(run.critic, fake))

        points = draw_path_points(run, codes)
        error = curvature_error(run, points, log_curvature(run, points))
        facts["curvature"] = self.descend("estimator", error)
        return facts
