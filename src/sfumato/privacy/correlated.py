"""Gaussian noise correlated over time: n = L w with w independent, L lower triangular.

Reading L⁻¹y instead of y loses nothing, so the release equals independent noise on L⁻¹x: correlation
multiplies the sensitivity by a factor and is never free. For one frame the factor is the largest column
norm of L⁻¹; for a whole clip at most its spectral norm. First-order autoregressive noise

    n_t = βn_{t−1} + √(1−β²)·w_t,   n_0 = w_0   (unit marginal variance, 0 ≤ β < 1)

has factors √((1+β²)/(1−β²)) for a frame and at most √((1+β)/(1−β)) for a clip, for every length.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sfumato.errors import BadInput
from sfumato.privacy.guarantee import Guarantee
from sfumato.privacy.unit import Neighbours

__all__ = ["ar1_factor", "ar1_matrix", "correlated_factor", "correlated_gaussian"]

FrameOrClip = Literal["frame", "clip"]


def ar1_factor(beta: float, unit: FrameOrClip = "frame") -> float:
    """Factor on the sensitivity of AR(1) noise, for any length (exact per frame from 3 frames on)."""
    beta, unit = _check_beta(beta), _check_unit(unit)
    if unit == "frame":
        return math.sqrt((1.0 + beta * beta) / ((1.0 - beta) * (1.0 + beta)))
    return math.sqrt((1.0 + beta) / (1.0 - beta))


def ar1_matrix(beta: float, T: int) -> NDArray[np.float64]:
    """L of AR(1) noise over ``T`` frames, shape (T, T): stationary start, every row of norm 1."""
    beta = _check_beta(beta)
    if isinstance(T, bool) or not isinstance(T, int) or T < 1:
        raise BadInput(
            f"`T` was {T!r}: the number of frames must be a whole number, 1 or more.", parameter="T"
        )
    lag = np.subtract.outer(np.arange(T), np.arange(T))
    lower = np.where(lag >= 0, beta ** np.maximum(lag, 0).astype(np.float64), 0.0)
    lower[:, 1:] *= math.sqrt((1.0 - beta) * (1.0 + beta))
    return lower


def correlated_factor(lower: ArrayLike, unit: FrameOrClip = "frame") -> float:
    """Factor on the L2 sensitivity under noise L w: exact for one frame, an upper bound for a clip."""
    unit = _check_unit(unit)
    inverse = _inverse(lower)
    if unit == "frame":
        return float(np.max(np.linalg.norm(inverse, axis=0)))
    return float(np.linalg.norm(inverse, 2))


def correlated_gaussian(
    lower: ArrayLike,
    sigma: float,
    frame_sensitivity: float,
    *,
    unit: FrameOrClip = "frame",
    neighbours: Neighbours | str = Neighbours.REPLACE,
    at_delta: float = 0.0,
) -> Guarantee:
    """The guarantee of adding σ·L w to T frames of L2 sensitivity ``frame_sensitivity`` each.

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
            "the noise matrix has a zero on its diagonal: it is singular and leaves a direction bare."
        )
    from scipy.linalg import solve_triangular

    inverse = np.asarray(solve_triangular(matrix, np.eye(len(matrix)), lower=True), dtype=np.float64)
    if not np.all(np.isfinite(inverse)) or np.max(np.abs(inverse)) > 1e12 / np.max(np.abs(matrix)):
        raise BadInput(
            "the noise matrix is singular to working precision: it leaves a direction almost bare."
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
