"""Drawn pictures chosen so that their kernel mean embedding comes nearer to the released one.

Among all weights of a pool of draws with a given mean of features, those of largest entropy are exp(θ·φ),
normalised; θ minimises the convex dual log mean exp(θ·φ) − θ·target. The target is the pool's own mean plus
the released departure from it, shrunk: in the eigenvectors of the pool's covariance of features, with
eigenvalues c, a tilt of variance τ² in every coordinate of θ makes departures of variance c²τ² beside the
noise's s²; τ² is where the departures are likeliest, and each is multiplied by c²τ²/(c²τ² + s²). Noise alone
gives a τ² near 0 and nearly equal weights.

**Measured**, one run each, validated on training pictures that were not fitted: on MNIST 300 features at
ε = 1 gave 94.3% with and without, 500 at ε = 10, before covariances were smoothed, 95.9% after 95.8%; grain
hardly changed either. The publisher therefore releases no embeddings unless asked.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.mechanisms.cell_sums import Sums
from sfumato.publishers.kernel_means import FourierFeatures
from sfumato.publishers.mixture import Mixture

__all__ = ["Tilted", "shrunk_target", "tilt"]

Array = NDArray[np.float64]
Labels = NDArray[np.intp]

_POOL = 4000
_STEPS = 50
# Draws for each picture that is published.
_DRAWN = 4
# The least that weights may be worth, in draws of equal weight, of the whole pool.
_WORTH = 0.5


@dataclass(frozen=True)
class Tilted:
    """A mixture whose draws are chosen with chances in proportion to exp(``thetas``[label] · φ)."""

    mixture: Mixture
    features: FourierFeatures
    thetas: Array

    @classmethod
    def toward(
        cls, mixture: Mixture, features: FourierFeatures, sums: Sums, rng: np.random.Generator
    ) -> Tilted:
        """Tilted to the class means of features that released ``sums`` hold."""
        thetas = np.zeros_like(sums.firsts)
        counts = np.maximum(sums.counts, 4.0 * sums.count_noise)
        for label, count in enumerate(counts):
            pool = _features(mixture, features, np.full(_POOL, label), rng)[1]
            aim = shrunk_target(pool, sums.firsts[label] / count, sums.first_noise / float(count))
            thetas[label] = tilt(pool, *aim)
        return cls(mixture, features, thetas)

    def labels(self, n: int, rng: np.random.Generator) -> Labels:
        """Those of the mixture: tilting keeps how often classes come."""
        return self.mixture.labels(n, rng)

    def pictures(self, labels: Labels, rng: np.random.Generator) -> Array:
        """A picture with values in [0, 1] for each of ``labels``: a few are drawn for each, some are kept."""
        out = np.empty((len(labels), *self.mixture.basis.shape))
        for label in np.unique(labels):
            mine = np.flatnonzero(labels == label)
            drawn, pool = _features(self.mixture, self.features, np.full(_DRAWN * mine.size, label), rng)
            # The largest of log-weight + Gumbel noise are a sample without replacement by weight.
            keys = pool @ self.thetas[label] + rng.gumbel(size=len(pool))
            out[mine] = drawn[rng.permutation(np.argsort(keys)[-mine.size :])]
        return out


def _features(
    mixture: Mixture, features: FourierFeatures, labels: Labels, rng: np.random.Generator
) -> tuple[Array, Array]:
    drawn = mixture.pictures(labels, rng)
    return drawn, features.of(mixture.basis.coordinates(drawn))


def shrunk_target(pool: Array, mean: Array, noise: float) -> tuple[Array, float]:
    """Where the mean of the ``pool`` (n, D) of features should go, given a released ``mean`` (D,), and τ².

    ``noise`` is the deviation of the noise in each coordinate of ``mean``.
    """
    here = pool.mean(axis=0)
    spectrum, turn = np.linalg.eigh(np.cov(pool, rowvar=False))
    spectrum = np.maximum(spectrum, 0.0)
    away = turn.T @ (mean - here)
    # The pool's own mean is off by its covariance over n.
    variance = noise**2 + spectrum / len(pool) + 1e-300
    scale = float(variance.mean() / max(spectrum.max(), 1e-300) ** 2)
    strengths = np.r_[0.0, scale * np.geomspace(1e-4, 1e6, 101)]
    totals = strengths[:, None] * spectrum**2 + variance
    unlikely = (np.log(totals) + np.square(away) / totals).sum(axis=1)
    strength = float(strengths[unlikely.argmin()])
    signal = strength * spectrum**2
    return here + turn @ (signal / (signal + variance) * away), strength


def tilt(pool: Array, target: Array, strength: float) -> Array:
    """θ (D,) whose weights exp(θ·φ) bring the mean of the ``pool`` (n, D) near ``target``; 0 for strength 0.

    A prior N(0, ``strength``) on θ, against the ``pool`` as evidence, is narrowed until the weights are worth
    half of the pool: what it does not hold cannot be reached, and few draws would stand for many.
    """
    theta = np.zeros(pool.shape[1])
    ridge = 1.0 / (strength * len(pool)) if strength > 0.0 else math.inf
    while ridge < math.inf:
        theta = _tilt(pool, target, ridge)
        if 1.0 / np.square(_weights(pool, theta)).sum() >= _WORTH * len(pool):
            break
        ridge *= 4.0
    return theta


def _tilt(pool: Array, target: Array, ridge: float) -> Array:
    """The least of the dual plus ridge·‖θ‖²/2, by a damped Newton method."""
    theta = np.zeros(pool.shape[1])
    now = _dual(pool, theta, target, ridge)
    for _ in range(_STEPS):
        weights = _weights(pool, theta)
        mean = weights @ pool
        bend = (pool.T * weights) @ pool - np.outer(mean, mean)
        slope = mean - target + ridge * theta
        step = np.linalg.solve(bend + ridge * np.eye(len(theta)), slope)
        length = 1.0
        while (after := _dual(pool, theta - length * step, target, ridge)) > now and length > 1e-6:
            length *= 0.5
        if not now - after > 1e-8:
            break
        theta, now = theta - length * step, after
    return theta


def _weights(pool: Array, theta: Array) -> Array:
    powers = pool @ theta
    weights = np.exp(powers - powers.max())
    return np.asarray(weights / weights.sum())


def _dual(pool: Array, theta: Array, target: Array, ridge: float) -> float:
    powers = pool @ theta
    top = powers.max()
    return float(top + np.log(np.exp(powers - top).mean()) - theta @ target + 0.5 * ridge * theta @ theta)
