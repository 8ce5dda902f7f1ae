"""Parallel composition, amplification by Poisson sampling and by shuffling, and noise correlated over time.

What releases of the same data promise together is computed by ``Guarantee.compose``.

**Correlated noise.** Noise n = L w with w independent and L lower triangular. Reading L⁻¹y instead of y loses
nothing, so the release equals independent noise on L⁻¹x: correlation multiplies the sensitivity by a factor
and is never free. For one frame the factor is the largest column norm of L⁻¹; for a whole clip at most its
spectral norm. First-order autoregressive noise

    n_t = βn_{t−1} + √(1−β²)·w_t,   n_0 = w_0   (unit marginal variance, 0 ≤ β < 1)

has factors √((1+β²)/(1−β²)) for a frame and at most √((1+β)/(1−β)) for a clip, for every length.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sfumato.errors import BadInput
from sfumato.privacy.analytic_gaussian import check_delta, check_epsilon
from sfumato.privacy.events import (
    Event,
    GaussianEvent,
    LaplaceEvent,
    PoissonSampledEvent,
    response_event,
)
from sfumato.privacy.guarantee import Guarantee
from sfumato.privacy.privacy_loss import Curve, GaussianLoss, LaplaceLoss, Loss, ResponseLoss, amplified
from sfumato.privacy.unit import Neighbours

__all__ = ["ar1_factor", "ar1_matrix", "correlated_gaussian", "poisson", "shuffled_epsilon"]

FrameOrClip = Literal["frame", "clip"]


def ar1_factor(beta: float, unit: FrameOrClip = "frame") -> float:
    """Return the factor on the sensitivity of AR(1) noise of any length; exact per frame from 3 frames on."""
    beta, unit = _check_beta(beta), _check_unit(unit)
    if unit == "frame":
        return math.sqrt((1.0 + beta * beta) / ((1.0 - beta) * (1.0 + beta)))
    return math.sqrt((1.0 + beta) / (1.0 - beta))


def ar1_matrix(beta: float, T: int) -> NDArray[np.float64]:
    """Return L of AR(1) noise over ``T`` frames, shape (T, T): stationary start, every row of norm 1."""
    beta = _check_beta(beta)
    if isinstance(T, bool) or not isinstance(T, int) or T < 1:
        raise BadInput(
            f"`T` was {T!r}: the number of frames must be a whole number, 1 or more.", parameter="T"
        )
    lag = np.subtract.outer(np.arange(T), np.arange(T))
    lower = np.where(lag >= 0, beta ** np.maximum(lag, 0).astype(np.float64), 0.0)
    lower[:, 1:] *= math.sqrt((1.0 - beta) * (1.0 + beta))
    return lower


def correlated_gaussian(
    lower: ArrayLike,
    sigma: float,
    frame_sensitivity: float,
    *,
    unit: FrameOrClip = "frame",
    neighbours: Neighbours | str = Neighbours.REPLACE,
    at_delta: float = 0.0,
) -> Guarantee:
    """Return the guarantee of adding σ·L w to T frames of L2 sensitivity ``frame_sensitivity`` each.

    Per frame the sensitivity is frame_sensitivity × factor. Per clip all T frames change at once: it is
    frame_sensitivity × min(√T × spectral norm of L⁻¹, sum of its column norms).
    """
    unit = _check_unit(unit)
    for name, value in (("sigma", sigma), ("frame_sensitivity", frame_sensitivity)):
        if not (math.isfinite(value) and value > 0.0):
            raise BadInput(f"`{name}` was {value!r}: it must be a finite number above 0.", parameter=name)
    inverse = _inverse(lower)
    columns = np.linalg.norm(inverse, axis=0)
    if unit == "frame":
        factor = float(np.max(columns))
    else:
        factor = min(math.sqrt(len(inverse)) * float(np.linalg.norm(inverse, 2)), float(np.sum(columns)))
    return Guarantee.gaussian(
        sigma / (frame_sensitivity * factor),
        unit=unit,
        neighbours=neighbours,
        theorem="analytic Gaussian, correlated noise",
        at_delta=at_delta,
    )


def _inverse(lower: ArrayLike) -> NDArray[np.float64]:
    matrix = np.asarray(lower, dtype=np.float64)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or matrix.size == 0:
        raise BadInput(f"the noise matrix has the shape {matrix.shape}: it must be square.")
    if not np.all(np.isfinite(matrix)):
        raise BadInput("the noise matrix holds a value that is not finite.")
    if np.any(np.triu(matrix, 1) != 0.0):
        raise BadInput("the noise matrix has entries above its diagonal: it must be lower triangular.")
    if np.any(np.diag(matrix) == 0.0):
        raise BadInput(
            "the noise matrix has a zero on its diagonal: it is singular, and one direction gets no noise."
        )
    from scipy.linalg import solve_triangular

    inverse = np.asarray(solve_triangular(matrix, np.eye(len(matrix)), lower=True), dtype=np.float64)
    if not np.all(np.isfinite(inverse)) or np.max(np.abs(inverse)) > 1e12 / np.max(np.abs(matrix)):
        raise BadInput(
            "the noise matrix is singular to working precision: one direction gets almost no noise."
        )
    return inverse


def _check_beta(beta: float) -> float:
    if not 0.0 <= beta < 1.0:
        raise BadInput(
            f"`beta` was {beta!r}: the correlation of AR(1) noise lies in [0, 1).", parameter="beta"
        )
    return float(beta)


def _check_unit(unit: FrameOrClip) -> FrameOrClip:
    if unit not in ("frame", "clip"):
        raise BadInput(
            f"`unit` was {unit!r}: correlated noise is accounted per 'frame' or per 'clip'.", parameter="unit"
        )
    return unit


def parallel(
    guarantees: Iterable[Guarantee], *, partition: Literal["public", "data"], delta: float | None = None
) -> Guarantee:
    """Return the guarantee of releases each of which sees its own part of the units: the largest of them.

    It needs each unit to affect one branch only. ``partition="public"``: which unit goes to which branch is
    fixed and known. ``partition="data"``: a unit's own value decides; fine where a unit is there or is not
    (add/remove, zero-out), but under ``replace`` a changed value leaves one branch and enters another, and
    the call is refused. Branches of one kind of event give the larger event exactly; mixed kinds need a
    ``delta`` and give (max ε(δ), δ).
    """
    parts = list(guarantees)
    if not parts:
        raise BadInput("no guarantees were given: parallel composition needs at least one branch.")
    if partition not in ("public", "data"):
        raise BadInput(
            f"`partition` was {partition!r}: accepted are 'public' or 'data'.", parameter="partition"
        )
    first = parts[0]
    for part in parts[1:]:
        first.require_same_unit(part)
    if partition == "data" and first.neighbours is Neighbours.REPLACE and len(parts) > 1:
        raise BadInput(
            f"a partition read off the data was given under replace neighbours: a {first.unit} that changes "
            "its branch affects two of them, so their costs add up; use compose, or a public partition."
        )
    for part in parts:
        if part.proves_nothing:
            return part
    slack, at_delta = max(part.slack for part in parts), max(part.at_delta for part in parts)
    revealed = max(part.revealed for part in parts)
    largest = _largest(parts)
    if largest is not None:
        theorem = largest.theorem if len(parts) == 1 else f"{largest.theorem}, parallel"
        return largest.changed(slack=slack, revealed=revealed, at_delta=at_delta, theorem=theorem)
    if delta is None:
        raise BadInput(
            "branches of different kinds were given without a delta: name the delta to compare them at."
        )
    worst = max(part.epsilon(delta) for part in parts)
    if not math.isfinite(worst):
        raise BadInput(f"a branch has no finite epsilon at delta {delta!r}: give a larger delta.")
    return Guarantee.approximate(
        worst, delta, unit=first.unit, neighbours=first.neighbours, theorem="parallel composition"
    )


def _largest(parts: list[Guarantee]) -> Guarantee | None:
    """Return the branch whose event dominates all others, where kinds can be ordered."""
    sizes = [_size(part.curve) for part in parts]
    if len({kind for kind, _ in sizes}) > 1:
        return None
    return max(zip(sizes, parts, strict=True), key=lambda pair: pair[0][1])[1]


def _size(curve: Curve) -> tuple[object, float]:
    """Return a kind and a size: within a kind, the curve of a larger size is nowhere below."""
    return (curve, 0.0) if curve.alone is None else _single_size(curve.alone)


def _single_size(loss: Loss) -> tuple[object, float]:
    if isinstance(loss, GaussianLoss):
        return "gaussian", loss.mu
    if isinstance(loss, LaplaceLoss):
        return "laplace", loss.pure
    if isinstance(loss, ResponseLoss):
        return ("response", loss.buckets), loss.pure
    kind, size = _single_size(loss.base)
    return ("sampled", kind, loss.rate), size


def poisson(guarantee: Guarantee, rate: float) -> Guarantee:
    """Return the guarantee of the mechanism on a sample that takes each unit with probability ``rate``.

    Gaussians (also several on one sample) and a single Laplace keep their whole curve; other pure events
    are amplified as their ε. Slack shrinks to rate × slack (Balle, Barthe & Gaboardi 2018, Theorem 8), and
    the chance of being revealed to rate × that chance, as slack. Under neighbours
    other than add/remove, or for a mixture of Gaussian and pure events, it refuses.
    """
    rate = _check_rate(rate)
    if guarantee.neighbours is not Neighbours.ADD_REMOVE:
        raise BadInput(
            f"Poisson sampling was asked for under {guarantee.neighbours} neighbours: it amplifies under "
            "add/remove neighbours only, so state the guarantee for those."
        )
    if guarantee.proves_nothing or rate == 1.0:
        return guarantee
    if rate == 0.0:
        raise BadInput(
            "`rate` was 0: a release that reads nobody needs no guarantee; give a rate above 0.",
            parameter="rate",
        )
    curve = guarantee.curve
    alone = curve.alone
    if isinstance(alone, GaussianLoss):
        event: Event = PoissonSampledEvent(rate, GaussianEvent(1.0 / alone.mu))
    elif isinstance(alone, LaplaceLoss):
        event = PoissonSampledEvent(rate, LaplaceEvent(1.0 / alone.pure))
    elif math.isfinite(curve.pure):
        event = response_event(amplified(curve.pure, rate), 2)
    else:
        raise BadInput(
            f"Poisson sampling of '{guarantee.theorem}' was asked for: it is computed for Gaussian noise, "
            "one Laplace mechanism, or pure events, not for a mixture."
        )
    theorem = f"{guarantee.theorem}, Poisson sample of rate {rate:g}"
    slack = rate * min(1.0, guarantee.slack + guarantee.revealed)
    return guarantee.changed(event=event, slack=slack, revealed=0.0, theorem=theorem)


def shuffled_epsilon(epsilon0: float, n: int, delta: float) -> float:
    """Return ε at ``delta`` of ``n`` shuffled ε₀-LDP reports (Feldman, McMillan & Talwar 2021, Theorem 3.1).

    log(1 + (e^ε₀ − 1)/(e^ε₀ + 1)·(8√(e^ε₀ log(4/δ)/n) + 8e^ε₀/n)), proven for ε₀ ≤ log(n/(16 log(2/δ))).
    Outside that range, or where the bound is larger, shuffling is taken to do nothing: the result is ε₀.
    """
    epsilon0, delta = check_epsilon(epsilon0), check_delta(delta)
    if isinstance(n, bool) or not isinstance(n, int) or n < 1:
        raise BadInput(
            f"`n` was {n!r}: the number of reports must be a whole number, 1 or more.", parameter="n"
        )
    if epsilon0 > math.log(n) - math.log(16.0 * math.log(2.0 / delta)):
        return epsilon0
    grown = math.exp(epsilon0)
    crowd = 8.0 * math.sqrt(grown * math.log(4.0 / delta) / n) + 8.0 * grown / n
    return min(epsilon0, math.log1p(math.tanh(0.5 * epsilon0) * crowd))


def shuffle(guarantee: Guarantee, n: int, delta: float) -> Guarantee:
    """Return the guarantee of ``n`` shuffled reports, each of which alone has ``guarantee``.

    The theorem needs pure reports and replaced values; anything else is refused.
    """
    if guarantee.proves_nothing:
        return guarantee
    if guarantee.neighbours is not Neighbours.REPLACE:
        raise BadInput(
            f"shuffling was asked for under {guarantee.neighbours} neighbours: "
            "its theorem is about replaced values."
        )
    slack = guarantee.slack + guarantee.revealed
    if slack > 0.0 or not math.isfinite(guarantee.curve.pure):
        raise BadInput(
            f"shuffling was asked for reports that are not pure ('{guarantee.theorem}', slack "
            f"{slack:g}): its theorem needs pure ε-LDP reports, "
            "such as Laplace or randomised response."
        )
    local = guarantee.curve.pure
    epsilon = shuffled_epsilon(local, n, delta)
    if epsilon >= local:
        return guarantee.changed(at_delta=delta)
    theorem = f"{guarantee.theorem}, shuffled among {n} (Feldman, McMillan & Talwar)"
    return Guarantee.approximate(
        epsilon, delta, unit=guarantee.unit, neighbours=guarantee.neighbours, theorem=theorem
    )


def _check_rate(rate: float) -> float:
    if isinstance(rate, bool) or not 0.0 <= rate <= 1.0:
        raise BadInput(f"`rate` was {rate!r}: a sampling rate lies between 0 and 1.", parameter="rate")
    return float(rate)
