"""Reconstruction: how near to a record its released row leads.

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
from sfumato.audits.proportions import failure_chance
from sfumato.audits.reidentification import View, corresponding, positive_scales, rows_of
from sfumato.errors import BadInput

__all__ = ["error_finding", "informed_inverter", "posterior_mean", "ridge_reconstruction"]

Floats = NDArray[np.float64]

_FEWEST = 10


def ridge_reconstruction(
    original: ArrayLike,
    released: ArrayLike,
    *,
    penalty: float = 1.0,
    held_out: float = 0.2,
    confidence: float = 0.99,
    seed: int = 0,
) -> Finding:
    """The paper's attack: ridge regression from released rows (n, d′) to originals (n, d).

    Learned on a random part of the pairs, scored on the share ``held_out``. ``penalty`` is the weight of
    the squared coefficients. ``numbers`` holds the paper's privacy score, the error cut at 1.
    """
    before = rows_of(original, "original", fewest=_FEWEST).astype(np.float64)
    after = rows_of(released, "release", fewest=_FEWEST).astype(np.float64)
    if len(before) != len(after):
        raise BadInput(
            f"the original has {len(before)} rows and the release {len(after)}: row i of one must be made "
            "from row i of the other."
        )
    if not (isinstance(penalty, int | float) and 0.0 < penalty < math.inf):
        raise BadInput(f"`penalty` was {penalty!r}: it must be a positive number.", parameter="penalty")
    if not 0.0 < held_out < 1.0:
        raise BadInput(
            f"`held_out` was {held_out:g}: it is the share of rows to test on, between 0 and 1.",
            parameter="held_out",
        )
    order = np.random.default_rng(seed).permutation(len(before))
    cut = min(max(round((1.0 - held_out) * len(order)), 2), len(order) - 2)
    known, tested = order[:cut], order[cut:]
    if (after[known] == after[known[0]]).all():
        raise BadInput("every released column is constant over the rows that the attack learns from.")
    guess = _ridge(after[known], before[known], after[tested], penalty)
    return error_finding(
        "reconstruction by ridge regression",
        f"knows {len(known)} records with their released rows; reconstructs the others by ridge regression",
        before[tested],
        guess,
        before[known].mean(axis=0),
        confidence,
    )


def informed_inverter(
    original: ArrayLike,
    released: ArrayLike,
    *,
    view: View | None = None,
    bounds: tuple[ArrayLike, ArrayLike] | None = None,
    confidence: float = 0.99,
) -> Finding:
    """Undoes the public transform by ``view`` and takes what is left as the record.

    With ``bounds`` = (low, high), numbers or one of each a column, values are clipped into the declared
    domain first. The guess without a release is the mean of the originals, which flatters the guess.
    """
    before, after = corresponding(original, released, view, fewest=_FEWEST)
    if bounds is not None:
        try:
            low, high = (
                np.broadcast_to(np.asarray(end, dtype=np.float64), before.shape[1]) for end in bounds
            )
        except (TypeError, ValueError):
            low = high = np.full(1, np.nan)
        if not (low < high).all():
            raise BadInput(
                "`bounds` must be (low, high): two numbers, or one of each a column, low below high.",
                parameter="bounds",
            )
        after = np.clip(after, low, high)
    known = "knows every public parameter, inverts the transform" if view is not None else "sees the release"
    return error_finding(
        "reconstruction by inversion",
        f"{known} and takes the noisy value as it stands",
        before,
        after,
        before.mean(axis=0),
        confidence,
    )


def posterior_mean(
    original: ArrayLike,
    released: ArrayLike,
    *,
    sigma: ArrayLike,
    public: ArrayLike | None = None,
    view: View | None = None,
    confidence: float = 0.99,
    seed: int = 0,
) -> Finding:
    """The mean of a record given its released row, for a Gaussian prior and noise of deviation ``sigma``.

    ``sigma`` is one number or one a column. Mean m and covariance S of the prior are those of ``public``
    rows; without them a random half of the originals is declared public and the attack is scored on the
    other half. The posterior mean is m + S (S + diag σ²)⁻¹ (y − m).
    """
    before, after = corresponding(original, released, view, fewest=_FEWEST)
    deviations = positive_scales(sigma, before.shape[1], "sigma")
    if public is None:
        order = np.random.default_rng(seed).permutation(len(before))
        prior, tested = before[order[::2]], order[1::2]
        before, after = before[tested], after[tested]
        source = "a random half of the originals, declared public"
    else:
        prior = rows_of(public, "public table", fewest=2).astype(np.float64)
        if prior.shape[1] != before.shape[1]:
            raise BadInput(
                f"the public rows have {prior.shape[1]} columns and the original {before.shape[1]}: both "
                "must describe the same kind of record."
            )
        source = "public rows"
    mean = prior.mean(axis=0)
    spread = (prior - mean) / deviations
    # In units of the noise the posterior shrinks each principal axis by s/(s + 1).
    values, axes = np.linalg.eigh(spread.T @ spread / (len(prior) - 1))
    shrink = np.maximum(values, 0.0) / (np.maximum(values, 0.0) + 1.0)
    guess = mean + ((((after - mean) / deviations) @ axes) * shrink) @ axes.T * deviations
    return error_finding(
        "reconstruction by posterior mean",
        f"knows the deviation of the noise, and mean and covariance of {source}",
        before,
        guess,
        mean,
        confidence,
    )


def error_finding(
    attack: str, threat: str, truth: Floats, guess: Floats, prior: Floats, confidence: float, note: str = ""
) -> Finding:
    """The mean of ‖x̂ − x‖/‖x‖ over records with Student's interval; ``prior`` is what a guess would name."""
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


def _ridge(inputs: Floats, outputs: Floats, asked: Floats, penalty: float) -> Floats:
    """Predictions of ridge regression with an intercept, from whichever Gram matrix is smaller."""
    centre, mean = inputs.mean(axis=0), outputs.mean(axis=0)
    rows, targets, new = inputs - centre, outputs - mean, asked - centre
    if rows.shape[0] >= rows.shape[1]:
        gram = rows.T @ rows
        gram[np.diag_indices_from(gram)] += penalty
        return np.asarray(new @ np.linalg.solve(gram, rows.T @ targets) + mean)
    gram = rows @ rows.T
    gram[np.diag_indices_from(gram)] += penalty
    return np.asarray(new @ (rows.T @ np.linalg.solve(gram, targets)) + mean)
