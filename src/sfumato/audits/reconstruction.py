"""Reconstruction attacks: how closely a record can be recovered from its released row.

The measure is that of *TADP-RME*, section 6.2.2: ‖x̂ − x‖/‖x‖, averaged over records. A small error is a
strong attack. Chance is the error of naming the same average record for everybody, which needs no release.
Three attackers:

* ridge regression, as in the paper, learned from records whose released rows are known;
* the informed inverter, who undoes a public transform exactly and takes the noisy value as it stands;
* the posterior mean under a Gaussian prior of public mean and covariance, which is the best that any
  linear attack can do against noise of known deviation.

Records that are all zero have no relative error and are left out; ``numbers`` says how many there were.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import stdtrit

from sfumato.audits.findings import Finding
from sfumato.audits.lower_bounds import failure_chance
from sfumato.audits.reidentification import corresponding, equal_rows
from sfumato.errors import BadInput
from sfumato.mechanisms import positive

__all__ = ["informed_inverter", "posterior_mean", "ridge_reconstruction"]

Floats = NDArray[np.float64]

_FEWEST = 10
_HELD_OUT = 0.2


def ridge_reconstruction(
    original: ArrayLike, released: ArrayLike, *, confidence: float = 0.99, seed: int = 0
) -> Finding:
    """Run the paper's attack: ridge regression from released rows (n, d′) to originals (n, d).

    Learned on a random part of the pairs, scored on the fifth that is held out. ``numbers`` holds the paper's
    privacy score, the error cut at 1.
    """
    from sklearn.linear_model import Ridge

    both = equal_rows(original, released, fewest=_FEWEST)
    before, after = (side.astype(np.float64) for side in both)
    order = np.random.default_rng(seed).permutation(len(before))
    cut = round((1.0 - _HELD_OUT) * len(order))
    known, tested = order[:cut], order[cut:]
    if (after[known] == after[known[0]]).all():
        raise BadInput("every released column is constant over the rows that the attack learns from.")
    guess = Ridge(alpha=1.0).fit(after[known], before[known]).predict(after[tested])
    return error_finding(
        "reconstruction by ridge regression",
        f"knows {len(known)} records with their released rows; reconstructs the others by ridge regression",
        before[tested],
        guess,
        before[known].mean(axis=0),
        confidence,
    )


def informed_inverter(original: ArrayLike, released: ArrayLike, *, confidence: float = 0.99) -> Finding:
    """Take the released row, any public transform undone, as the record.

    The guess without a release is the mean of the originals, which flatters the guess.
    """
    before, after = corresponding(original, released, fewest=_FEWEST)
    return error_finding(
        "reconstruction by inversion",
        "knows every public parameter, inverts any transform, and takes the noisy value as it stands",
        before,
        after,
        before.mean(axis=0),
        confidence,
    )


def posterior_mean(
    original: ArrayLike, released: ArrayLike, *, sigma: float, confidence: float = 0.99, seed: int = 0
) -> Finding:
    """Estimate a record by its mean given its released row, for a Gaussian prior and noise of ``sigma``.

    Mean m and covariance S of the prior are those of a random half of the originals, which is declared
    public; the attack is scored on the other half. The posterior mean is m + S (S + σ²I)⁻¹ (y − m).
    """
    before, after = corresponding(original, released, fewest=_FEWEST)
    sigma = positive("sigma", sigma)
    order = np.random.default_rng(seed).permutation(len(before))
    prior, tested = before[order[::2]], order[1::2]
    before, after = before[tested], after[tested]
    mean = prior.mean(axis=0)
    spread = (prior - mean) / sigma
    # In units of the noise the posterior shrinks each principal axis by s/(s + 1).
    values, axes = np.linalg.eigh(spread.T @ spread / (len(prior) - 1))
    shrink = np.maximum(values, 0.0) / (np.maximum(values, 0.0) + 1.0)
    guess = mean + (((after - mean) @ axes) * shrink) @ axes.T
    return error_finding(
        "reconstruction by posterior mean",
        "knows the deviation of the noise, and mean and covariance of a random half of the originals, "
        "declared public",
        before,
        guess,
        mean,
        confidence,
    )


def error_finding(
    attack: str, threat: str, truth: Floats, guess: Floats, prior: Floats, confidence: float, note: str = ""
) -> Finding:
    """Return the mean of ‖x̂ − x‖/‖x‖ over records with Student's interval; ``prior`` is the blind guess."""
    size = np.linalg.norm(truth, axis=1)
    counted = size > 0.0
    if np.count_nonzero(counted) < 2:
        raise BadInput("fewer than two records differ from zero: a relative error needs at least two.")
    errors, blind = (
        np.linalg.norm((each - truth)[counted], axis=1) / size[counted]
        for each in (guess, np.broadcast_to(prior, truth.shape))
    )
    value = float(errors.mean())
    reach = -float(stdtrit(errors.size - 1, failure_chance(confidence) / 2.0))
    reach *= float(errors.std(ddof=1)) / math.sqrt(errors.size)
    return Finding(
        attack=attack,
        threat=threat,
        measure="normalised error",
        value=value,
        chance=float(blind.mean()),
        interval=(max(0.0, value - reach), value + reach),
        confidence=confidence,
        higher_is_worse=False,
        numbers={
            "privacy_score": min(1.0, value),
            "records": float(errors.size),
            "zero_records": float(np.count_nonzero(~counted)),
        },
        note=note,
    )
