"""Extrinsic curvature of a cloud of points: how much of each neighbourhood leaves its tangent space."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput

__all__ = ["extrinsic_curvature"]

# Numbers gathered at once for the covariances of neighbourhoods.
GATHERED = 4_000_000


def extrinsic_curvature(
    points: Any, *, neighbours: int = 20, dimension: int | None = None
) -> NDArray[np.float64]:
    """Share of the local variance outside its ``dimension`` leading directions, for each row of ``points``.

    The eigenvalue ratio of the local covariance (section 5.6 of Yin et al., 2025): with λ₁ ≥ λ₂ ≥ … the
    eigenvalues of the covariance of a point and its nearest ``neighbours``, Σ_{i > dimension} λ_i / Σ_i λ_i.
    It is 0 on a flat piece, and for a disc of radius ρ on a sphere of radius R it is ρ²/24R² to first order.
    The default ``dimension`` is one less than that of ``points`` (n, D): the smallest eigenvalue over all.
    A neighbourhood of coinciding points is flat.

    Raises:
        BadInput: If ``points`` is no finite ``(n, D)`` array with D at least 2, there are fewer than
            ``neighbours`` + 1 rows, or ``dimension`` is not from 1 to below D.
    """
    data = np.asarray(points)
    if data.dtype.kind not in "iuf" or data.ndim != 2 or data.shape[1] < 2 or not np.isfinite(data).all():
        raise BadInput(
            "`points` must be an array (n, D) of finite numbers with D at least 2.", parameter="points"
        )
    data = data.astype(np.float64)
    count, width = data.shape
    tangent = width - 1 if dimension is None else dimension
    if not 1 <= tangent < width:
        raise BadInput(f"the dimension of the manifold must be from 1 to {width - 1}, not {tangent}.")
    if not tangent <= neighbours < count:
        raise BadInput(
            f"{neighbours} neighbours must be at least {tangent} and fewer than the {count} points."
        )
    from sklearn.neighbors import NearestNeighbors

    nearest = NearestNeighbors(n_neighbors=neighbours + 1).fit(data)
    result = np.empty(count)
    size = max(1, GATHERED // ((neighbours + 1) * width))
    for first in range(0, count, size):
        part = slice(first, first + size)
        around = data[nearest.kneighbors(data[part], return_distance=False)]
        around -= around.mean(axis=1, keepdims=True)
        variances = np.linalg.svd(around, compute_uv=False) ** 2
        total = variances.sum(axis=1)
        result[part] = variances[:, tangent:].sum(axis=1) / np.where(total > 0.0, total, 1.0)
    return result
