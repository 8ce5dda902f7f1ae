"""Phase 1 of Algorithm 1 (Yin et al., 2025): the μ stage, then the σ stage, a critic beside both."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from sfumato.publishers.riemannian.brownian_motion import damped_metric, divergence, walk
from sfumato.publishers.riemannian.riemannian_vae import RiemannianVAE
from sfumato.publishers.riemannian.stage import Run, Stage

__all__ = ["DeviationStage", "MeanStage", "negative_elbo", "unlikelihood"]

# The deviation that stands in for σ(z) while the mean is learned (it scales the loss, and nothing else).
FIXED = 0.1
# Latent points that the prior's motion is drawn at, when the critic judges what the prior would give.
DRAWN = 64


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
        """The losses: the mean squared error of a pixel and, where due, the critic's two."""
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
        """The losses: a picture's negative evidence bound and its parts."""
        run, x = self.run, self.run.pictures[rows]
        loss, facts = negative_elbo(run, x)
        self.descend("model", loss / run.model.architecture.numbers)
        if (number + 1) % run.rates.every == 0:
            flat = torch.flatten(x[: 2 * DRAWN], 1)
            facts |= self.adversarial("model", flat, self._drawn(x[: len(flat)]))
        return facts

    def _drawn(self, x: Tensor) -> Tensor:
        """Reconstructions of the first half of ``x``, and for the others pictures that the prior gives."""
        run, half = self.run, len(x) // 2
        with torch.no_grad():
            codes = run.model.encode(x[:half])[0] if half else x.new_zeros((0, run.model.latent))
        start = run.model.prior.expand(len(x) - half, -1)
        metric = damped_metric(run.model, run.model.prior.detach().unsqueeze(0)).expand(len(start), -1, -1)
        drawn = walk(start, torch.ones(len(start)), metric, run.generator)
        return run.model.generate(torch.cat([codes, drawn]), run.generator)


def unlikelihood(model: RiemannianVAE, flat: Tensor, z: Tensor) -> Tensor:
    """−log p(x|z) of the Gaussian of equation 2 for flat pictures, (n,)."""
    mean, deviation = model.embed(z)
    terms = ((flat - mean) / deviation).square() + 2.0 * deviation.log() + math.log(2.0 * math.pi)
    return 0.5 * terms.sum(dim=1)


def negative_elbo(run: Run, x: Tensor) -> tuple[Tensor, dict[str, float]]:
    """Equation 6, the mean over pictures; the divergence is estimated on the first few of them."""
    model, rates = run.model, run.rates
    mean, scale = model.encode(x)
    variance = scale.squeeze(1).square()
    few = min(rates.divergent, len(x))
    # The walk needs metrics, the dearest part: they are had for the few, and the others stay at their means.
    metric = damped_metric(model, mean[:few])
    moved = walk(mean[:few], variance[:few], metric, run.generator)
    likely = unlikelihood(model, torch.flatten(x, 1), torch.cat([moved, mean[few:]])).mean()
    apart = divergence(model, moved, mean[:few], variance[:few], model.prior, metric=metric).mean()
    facts = {"unlikelihood": float(likely.detach()), "divergence": float(apart.detach())}
    return likely + rates.beta * apart, facts
