"""Group privacy: guarantees for k units that change together, from the guarantee of one.

**Poisson-sampled Gaussians.** A step draws each unit into its sample with probability q and releases
f(sample) + N(0, σ²), where one unit more or less (or zeroed out) in the sample moves f by at most σμ. Let two
data sets be k such changes apart, some of them additions and others removals as may be. Toss the same coins
for both. Then j ~ Bin(k, q) of the changes are in the sample of a step, and f moves by at most jσμ.

Theorem: with W = Σ μ²j² over all steps and parts of a composition, and any w, the divergence of the group is
at most P(W > w) + that of one Gaussian with mean √w, composed with the group's bound of all other parts.

Proof. The coins of the group do not depend on the data, so both laws are mixtures over them with the same
weights, and the hockey-stick divergence, being jointly convex, is at most the average of those given these
coins. Given them and all earlier releases, a step is a mixture, over the coins of everybody else, of pairs of
Gaussians at most jμ deviations apart: dominated by one such pair, again by joint convexity. Adaptive
composition of Gaussians adds up squares of means, to √W. Where W ≤ w that is at most the divergence at √w,
which grows with the mean; elsewhere it is at most 1. ∎

P(W > w) ≤ e^{−λw}·E e^{λW} for every λ > 0 (Chernoff), a product over the steps. W never exceeds what it is
where everybody is always drawn, so the bound is never above that of Gaussians without sampling.
"""

from __future__ import annotations

import math

import numpy as np
from scipy import special

from sfumato.privacy.events import (
    ComposedEvent,
    Event,
    GaussianEvent,
    LaplaceEvent,
    SelfComposedEvent,
    compose_events,
    curve_of,
    repeat_event,
    response_event,
)
from sfumato.privacy.privacy_loss import GaussianLoss, LaplaceLoss, SampledLoss

# Beyond it a group counts as drawn in every step, which bounds it too.
_LARGEST_GROUP = 10_000
# Chernoff's λ, times the largest square of a mean that one step can add.
_RATES = np.geomspace(1e-8, 1e3, 400)


def group_curve_event(event: Event, size: float) -> Event | None:
    """Return the event that bounds a group of ``size``, or None where a part has no such event.

    A ``size`` below 1 is no group: it gives a smaller event of the same kind, with that fraction of a
    Gaussian's or Laplace's sensitivity and of any other pure ε, and bounds nothing about ``event`` itself.

    Each part of a composition is bounded for the group by itself, and the composition theorem then holds
    for groups as neighbours. A location family's trade-off curve composed with itself k times is the same
    family shifted k times as far, hence Gaussian and Laplace noise multipliers divided by ``size``.
    """
    if isinstance(event, ComposedEvent):
        parts = [group_curve_event(inner, size) for inner in event.events]
        known = [part for part in parts if part is not None]
        return compose_events(known) if len(known) == len(parts) else None
    if isinstance(event, SelfComposedEvent):
        inner = group_curve_event(event.event, size)
        return None if inner is None else repeat_event(inner, event.count)
    if isinstance(event, GaussianEvent):
        return GaussianEvent(event.noise_multiplier / size)
    if isinstance(event, LaplaceEvent):
        return LaplaceEvent(event.noise_multiplier / size)
    pure = curve_of(event).pure
    return response_event(size * pure, 2) if math.isfinite(pure) else None


def group_delta(epsilon: float, delta: float, size: int) -> float:
    """Return δ·Σ_{i<k} e^{iε}, at most 1, computed without overflow."""
    if epsilon == 0.0 or delta == 0.0:
        return min(1.0, size * delta)
    log_sum = (size - 1) * epsilon + math.log(-math.expm1(-size * epsilon)) - math.log(-math.expm1(-epsilon))
    log_grown = math.log(delta) + log_sum
    return 1.0 if log_grown >= 0.0 else math.exp(log_grown)


def sampled_group_event(event: Event, size: int, slack: float) -> Event:
    """Return the event that bounds a group of ``size`` together with ``slack``; any event has one."""
    fixed, sampled, pure = 0.0, [], []
    for loss, count in curve_of(event).parts:
        if isinstance(loss, GaussianLoss):
            fixed += count * (size * loss.mu) ** 2
        elif isinstance(loss, SampledLoss) and isinstance(loss.base, GaussianLoss):
            sampled.append((loss.base.mu, loss.rate, count))
        elif isinstance(loss, LaplaceLoss):
            pure.append(repeat_event(LaplaceEvent(1.0 / (size * loss.pure)), count))
        else:
            pure.append(repeat_event(response_event(size * loss.pure, 2), count))
    squares = fixed + _largest_sum(sampled, size, slack)
    return compose_events([*pure, GaussianEvent(1.0 / math.sqrt(squares))] if squares > 0.0 else pure)


def _largest_sum(sampled: list[tuple[float, float, int]], size: int, chance: float) -> float:
    """Return the w that Σ (μj)² exceeds with at most ``chance``, for (μ, q, steps) and j ~ Bin(size, q)."""
    most = math.fsum(count * (mu * size) ** 2 for mu, _, count in sampled)
    if not sampled or size > _LARGEST_GROUP or chance <= 0.0:
        return most
    drawn = np.arange(size + 1.0)
    ways = special.gammaln(size + 1.0) - special.gammaln(drawn + 1.0) - special.gammaln(size - drawn + 1.0)
    rates = _RATES / max((mu * size) ** 2 for mu, _, _ in sampled)
    grown = np.full(rates.size, -math.log(chance))
    for mu, rate, count in sampled:
        law = ways + special.xlogy(drawn, rate) + special.xlog1py(size - drawn, -rate)
        grown += count * special.logsumexp(law + np.outer(rates, (mu * drawn) ** 2), axis=1)
    return min(most, float((grown / rates).min()) * (1.0 + 1e-9))
