"""From a distinguishing game to a lower bound on ε, if the privacy of the pair is that of Gaussian noise.

Between N(0, 1) and N(μ, 1) a test of type I error α has a type II error of at least Φ(Φ⁻¹(1 − α) − μ) (Dong,
Roth & Su 2022), so μ ≥ Φ⁻¹(1 − α) − Φ⁻¹(β). The threshold is chosen on games that are then put aside; on the
others both errors are counted, and the smallest value of that difference over the Clopper–Pearson bounds of
:func:`~sfumato.audits.proportions.joint_upper` is below μ with ``confidence``.

ε is then read off the curve of μ at δ: far below the error rates that any number of games can measure. This
is why it is so much larger than what :func:`~sfumato.audits.threshold.threshold_bound` reports, and why it is
a bound only if the two laws of the release are told apart exactly like two Gaussians.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from sfumato.audits.bound import Bound, check_delta
from sfumato.audits.proportions import failure_chance, joint_upper
from sfumato.audits.threshold import best_threshold, count_errors, game_numbers, held_out_parts
from sfumato.errors import BadInput
from sfumato.privacy import gaussian_epsilon

__all__ = ["GAUSSIAN_PAIR", "gaussian_bound", "needs_delta"]

Array = NDArray[np.float64]

#: The sentence that every bound of this kind carries.
GAUSSIAN_PAIR = "holds only if the mechanism is exactly Gaussian-DP on this pair of neighbours"


def gaussian_bound(
    first: ArrayLike,
    second: ArrayLike,
    *,
    delta: float,
    confidence: float = 0.99,
    held_out: float = 0.1,
    seed: int = 0,
) -> Bound:
    """A lower bound on μ from a game, and the ε that Gaussian noise of that μ has at ``delta``.

    Scores are those of :func:`~sfumato.audits.threshold.threshold_bound`. ``delta`` must be above 0, since no
    Gaussian noise has a finite ε at 0. The bound states its assumption; μ is among its numbers.
    """
    delta, chance = needs_delta(delta), failure_chance(confidence)
    choosing, judging = held_out_parts(first, second, held_out=held_out, seed=seed)
    # Where both errors are equal: there the difference is measured best, and few games find that place.
    threshold = best_threshold(*choosing, lambda alpha, beta: -np.maximum(alpha, beta))
    errors = count_errors(*judging, threshold)
    alpha, beta = joint_upper(*errors, chance)
    candidates = _mu(alpha, beta)
    tight = int(np.argmin(candidates))
    mu = max(float(candidates[tight]), 0.0)
    numbers = game_numbers(threshold, errors, float(alpha[tight]), float(beta[tight]))
    return Bound(
        epsilon=gaussian_epsilon(mu, delta),
        delta=delta,
        confidence=float(confidence),
        method="Gaussian game, Clopper–Pearson on games that did not choose the threshold",
        assumption=GAUSSIAN_PAIR,
        numbers=numbers | {"mu": mu},
    )


def needs_delta(delta: float) -> float:
    """``delta``, or a refusal of 0 and of what is no δ."""
    if check_delta(delta) == 0.0:
        raise BadInput(
            "`delta` was 0: a Gaussian curve has no finite epsilon there; give a delta above 0.",
            parameter="delta",
        )
    return float(delta)


def _mu(alpha: Array, beta: Array) -> Array:
    """Φ⁻¹(1 − α) − Φ⁻¹(β), where a bound of 1 says nothing and stands as −∞."""
    return np.asarray(-special.ndtri(alpha) - special.ndtri(beta))
