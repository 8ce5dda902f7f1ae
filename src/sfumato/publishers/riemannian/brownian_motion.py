"""Brownian motion on a manifold as posterior and prior: equations 7 to 9 of Yin et al. (2025).

The density of a motion that starts at c and runs for a time t is taken by the first term of its expansion in
short times, as Kalatzis et al. (2020) do:

    log p(z) = −d/2 log 2πt + ½ log |det G(z)| − ½ log |det G(c)| − l²(z, c) / 2t.

*What is approximated.* The squared distance l² is 2(m − 1) times the energy (equation 4) of the straight
latent line from z to c at m equally spaced samples. Where straight latent lines are geodesics of constant
speed (a flat manifold with affine coordinates, a meridian of a sphere) that is the squared distance, and
elsewhere no less, both up to the difference between m − 1 chords and the curve. A drawn z is one step of the
motion, c + √t G(c)^(−1/2) ε, instead of many small ones. A hundred-thousandth of its mean eigenvalue is added
to each metric, so that a latent axis which the decoder ignores does not make the logarithm infinite.
"""

from __future__ import annotations

import math

import torch
from torch import Generator, Tensor

from sfumato.publishers.geometry import Manifold, curve_energy, log_determinant, pullback_metric

__all__ = ["damped_metric", "divergence", "log_transition", "squared_distance", "walk"]

# Samples of the straight line whose energy stands for the squared distance.
SAMPLES = 5
DAMPING = 1e-5
# The longest latent step of a walk; latent means have variance 1 along each axis.
LONGEST = 3.0


def damped_metric(manifold: Manifold, z: Tensor) -> Tensor:
    """The pullback metric (n, d, d) with a little of its mean eigenvalue added to all of them."""
    metric = pullback_metric(manifold, z)
    mean = metric.detach().diagonal(dim1=1, dim2=2).mean(dim=1).clamp_min(torch.finfo(z.dtype).tiny)
    unit = torch.eye(z.shape[1], dtype=z.dtype, device=z.device)
    return metric + DAMPING * mean.reshape(-1, 1, 1) * unit


def squared_distance(manifold: Manifold, start: Tensor, end: Tensor, *, samples: int = SAMPLES) -> Tensor:
    """l² between the rows of ``start`` and ``end``, (n, d) both, along straight latent lines, as ``(n,)``."""
    times = torch.linspace(0.0, 1.0, samples, dtype=start.dtype, device=start.device).reshape(1, -1, 1)
    lines = torch.lerp(start.unsqueeze(1), end.unsqueeze(1), times)
    return 2.0 * (samples - 1) * curve_energy(manifold, lines)


def log_transition(manifold: Manifold, z: Tensor, centre: Tensor, variance: Tensor) -> Tensor:
    """Log density (n,) at ``z`` (n, d) of a motion from ``centre`` (n, d) for the times ``variance`` (n,).

    Equation 8, and with a variance of 1 equation 9.
    """
    here, there = (log_determinant(damped_metric(manifold, points)) for points in (z, centre))
    return (
        -0.5 * z.shape[1] * (2.0 * math.pi * variance).log()
        + 0.5 * (here - there)
        - squared_distance(manifold, z, centre) / (2.0 * variance)
    )


def divergence(
    manifold: Manifold, z: Tensor, mean: Tensor, variance: Tensor, prior: Tensor, *, metric: Tensor
) -> Tensor:
    """Each row's log q(z|x) − log p(z) of equation 7: the mean over z drawn from q is the divergence.

    ``metric`` is that at ``mean``; ``prior`` (d,) is where the prior's motion of time 1 starts. The term
    ½ log |det G(z)| is in both densities and cancels. The mean of l²(z, μ_z) / σ_z² is d, whatever the
    weights, so it is not differentiated: a step too long for the expansion would be made longer still.
    """
    start = prior.unsqueeze(0)
    volume = log_determinant(metric) - log_determinant(damped_metric(manifold, start))
    with torch.no_grad():
        spread = squared_distance(manifold, z, mean) / variance
    posterior = spread + z.shape[1] * variance.log()
    away = squared_distance(manifold, z, start.expand_as(z))
    return 0.5 * (away - posterior - volume)


def walk(centre: Tensor, variance: Tensor, metric: Tensor, generator: Generator) -> Tensor:
    """One step of a motion from each row of ``centre``: centre + √variance · G^(−1/2) ε, (n, d).

    Any root of the inverse serves, here that of Cholesky's factor. The metric is taken as it is: nothing is
    differentiated through it. A step of a latent length above 3, the width of all data, is cut to it: such a
    step is along an axis that the decoder hardly sees.
    """
    normal = torch.randn(centre.shape, generator=generator).to(centre)
    factor = torch.linalg.cholesky(metric.detach())
    moved: Tensor = torch.linalg.solve_triangular(factor.mT, normal.unsqueeze(2), upper=True).squeeze(2)
    step: Tensor = variance.sqrt().unsqueeze(1) * moved
    lengths = step.detach().norm(dim=1, keepdim=True).clamp_min(torch.finfo(step.dtype).tiny)
    shorter: Tensor = (LONGEST / lengths).clamp_max(1.0)
    return centre + step * shorter
