"""A distinguishing game: can a reader tell a record from its worst-case neighbour better than was proven?

The reader sees one released row, computes a score and says "neighbour" when it exceeds a threshold. Over
many independent rows the two error rates are bounded from above by exact Clopper–Pearson bounds, for all
thresholds at once. Thresholds are fixed before any row is seen. If even the upper bounds lie strictly below
the proven trade-off curve, the proof or the noise is wrong, up to the false-alarm rate.

The same game is played with mechanisms that lack a fifth of their noise; the tests state as miss rate the
chance that such a one is not caught.
"""

from dataclasses import dataclass

import numpy as np
from scipy.stats import beta

from sfumato.mechanisms import Gaussian, Laplace

#: Chance that a mechanism which keeps its promise is accused, over all thresholds of one game.
FALSE_ALARM = 1e-6

#: How much of its noise a weakened mechanism keeps; a game that cannot tell it from the sound one is useless.
LESS = 0.8


@dataclass(frozen=True)
class Violation:
    """A threshold whose upper bounds on both errors lie below the curve, and where the curve lies."""

    threshold: float
    type_one: float
    type_two: float
    curve: float


def upper_bound(count, total, chance):
    """Clopper–Pearson: exceeds the true probability but for ``chance``, given ``count`` of ``total``."""
    return 1.0 if count == total else float(beta.isf(chance, count + 1, total - count))


def violations(guarantee, record_scores, neighbour_scores, thresholds):
    """Where the errors of "neighbour if score > threshold" are certainly below the proven trade-off curve.

    The false-alarm rate over all thresholds and both directions is at most ``FALSE_ALARM``.
    """
    chance = FALSE_ALARM / (2 * len(thresholds))
    found = []
    for threshold in thresholds:
        alpha = upper_bound(int(np.sum(record_scores > threshold)), record_scores.size, chance)
        beta_ = upper_bound(int(np.sum(neighbour_scores <= threshold)), neighbour_scores.size, chance)
        # Record and neighbour may change places, so the point is held against the curve both ways.
        for one, two in ((alpha, beta_), (beta_, alpha)):
            if two < (curve := guarantee.tradeoff(one)):
                found.append(Violation(float(threshold), one, two, curve))
    return found


def rows_of(record, count):
    """``count`` equal rows: one release of them gives ``count`` independent samples."""
    return np.tile(np.asarray(record, dtype=np.float64), (count, 1))


def normal_score(released, record, neighbour, sigma):
    """The likelihood-ratio statistic of Gaussian noise: N(∓μ/2, 1) under the record and the neighbour."""
    way = np.asarray(neighbour, dtype=np.float64) - np.asarray(record, dtype=np.float64)
    middle = (np.asarray(neighbour, dtype=np.float64) + np.asarray(record, dtype=np.float64)) / 2.0
    return (released - middle) @ way / (np.linalg.norm(way) * sigma)


#: Between −2 and 2 deviations, where both errors of a Gaussian game are large enough to be measured.
NORMAL_THRESHOLDS = np.linspace(-2.0, 2.0, 9)


def laplace_score(released, record, neighbour, scale):
    """The log-likelihood ratio of Laplace noise; in [−ε, ε] for neighbours at the largest distance."""
    return (np.abs(released - record) - np.abs(released - neighbour)).sum(axis=1) / scale


def laplace_thresholds(epsilon):
    """From almost −ε to almost ε: beyond the last one lies the event whose probability ratio is e^ε."""
    return np.linspace(-0.98, 0.98, 9) * epsilon


class WeakGaussian(Gaussian):
    """The Gaussian mechanism with 20% less noise than it states."""

    def _scale(self, columns):
        return LESS * super()._scale(columns)


class WeakLaplace(Laplace):
    """The Laplace mechanism with 20% less noise than it states."""

    def _scale(self, columns):
        return LESS * super()._scale(columns)
