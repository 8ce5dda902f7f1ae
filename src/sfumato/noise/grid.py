"""The public grid that values and noise are put on, and how clipped values get there.

The step is a power of two chosen from declared parameters alone. Values are rounded toward zero,
so that a record inside the ball stays inside it; the norm is then checked in integers.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.noise.rounded import MAX_SCALE

__all__ = ["grid_step", "onto_grid"]

Array = NDArray[np.float64]

# Steps across one noise scale, and across a typical coordinate. The first makes the rounding of
# noise invisible (it adds 5e-9 of the variance); the second keeps the pull toward zero below 0.2%.
_STEPS_PER_SCALE = 2.0**12
_STEPS_PER_VALUE = 2.0**8
# Multiples of this step, and of any larger one, are no denormal numbers.
_FINEST = 2.0**-960
# float64 holds integers exactly up to 2⁵³, so sums of squares are exact for norms up to 2²⁶.
_MAX_RADIUS = {"l1": 2.0**52, "l2": 2.0**26}


def grid_step(scale: float, typical: float) -> float:
    """A power of two fine enough for noise of ``scale`` and for coordinates of size ``typical``."""
    finest = min(scale / _STEPS_PER_SCALE, typical / _STEPS_PER_VALUE)
    if not _FINEST <= finest < math.inf:
        raise BadInput(
            f"noise of scale {scale:g} on values of size {typical:g} needs a grid that double precision does "
            "not hold; rescale the data."
        )
    step = 2.0 ** math.floor(math.log2(finest))
    if scale / step > MAX_SCALE:
        raise BadInput(
            f"noise of scale {scale:g} on values of size {typical:g} drowns them beyond what the sampler "
            "resolves; ask for a larger `epsilon` or declare a larger `clip`.",
            parameter="epsilon",
        )
    return step


def onto_grid(values: Array, radius: float, norm: Literal["l1", "l2"], step: float) -> Array:
    """Rows of ``values`` clipped to the ball of ``radius`` and rounded toward zero, in grid steps.

    Returns integers held in float64, of the shape (n, d) of ``values``. Every row lies in the ball
    of radius ``radius / step`` by integer arithmetic, whatever floating-point error the norm had.
    """
    if radius / step > _MAX_RADIUS[norm]:
        raise BadInput(
            f"a `clip` of {radius:g} is more than {_MAX_RADIUS[norm]:g} grid steps of {step:g}; so little "
            "noise hides nothing: ask for a smaller ε.",
            parameter="clip",
        )
    size = _norms(values, norm)
    with np.errstate(divide="ignore", over="ignore"):  # of rows near zero, which are not scaled
        factor = np.minimum(radius / size, 1.0) / step
    cells = np.multiply(values, factor[:, None])
    np.trunc(cells, out=cells)
    limit = radius / step if norm == "l1" else _square_floor(radius / step)
    outside, less = np.flatnonzero(_integer_norms(cells, norm) > limit), 2.0**-40
    while outside.size:
        # A last-place error, unless radius / size was denormal: less and less, until the integers agree.
        factor[outside] *= 1.0 - less
        less = min(2.0 * less, 0.5)
        cells[outside] = np.trunc(values[outside] * factor[outside, None])
        outside = outside[_integer_norms(cells[outside], norm) > limit]
    return cells


def _norms(values: Array, norm: str) -> Array:
    with np.errstate(over="ignore"):
        if norm == "l1":
            return np.asarray(np.abs(values).sum(axis=1))
        squares = np.einsum("ij,ij->i", values, values)
    # Rows whose squares overflow or vanish are measured relative to their largest entry.
    odd = np.flatnonzero(~((squares > 1e-290) & (squares < 1e290)))
    size = np.sqrt(squares)
    if odd.size:
        largest = np.abs(values[odd]).max(axis=1)
        safe = np.where(largest > 0, largest, 1.0)[:, None]
        with np.errstate(over="ignore"):
            size[odd] = largest * np.sqrt(np.square(values[odd] / safe).sum(axis=1))
    return np.asarray(size)


def _integer_norms(cells: Array, norm: str) -> Array:
    """Σ|k| or Σk² of integer rows; exact below 2⁵³, which ``radius / step`` is kept under."""
    if norm == "l1":
        return np.asarray(np.abs(cells).sum(axis=1))
    return np.asarray(np.einsum("ij,ij->i", cells, cells))


def _square_floor(ratio: float) -> float:
    """⌊ratio²⌋ computed exactly; a float, since it is compared with sums held in floats."""
    square = Fraction(ratio) ** 2
    return float(square.numerator // square.denominator)
