"""The pullback metric: lengths in the data space, measured in latent coordinates."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.func import jvp, vmap

from sfumato.errors import BadInput
from sfumato.publishers.geometry.manifold import Manifold, embedded, latent_points

__all__ = ["log_determinant", "pullback_metric", "pushed"]

# Latent points differentiated at once: enough for fast products, few enough for d tangents of M numbers each.
ROWS = 512


def pullback_metric(manifold: Manifold, z: Tensor) -> Tensor:
    """G(z) = JμᵀJμ + JσᵀJσ as ``(n, d, d)``, for latent points ``(n, d)``.

    Equation 3 of Yin et al. (2025). The Jacobians are d forward-mode products that share one pass through
    the manifold, so the cost is about that of d + 1 passes whatever the dimension of the data. The result
    can be differentiated by the parameters of the manifold and by ``z``.

    Raises:
        BadInput: If ``z`` is no finite ``(n, d)`` tensor, or the metric is not finite at some point.
    """
    points = latent_points(z)
    metric = torch.cat([_metric(manifold, part) for part in torch.split(points, ROWS)])
    finite = metric.detach().isfinite().flatten(1).all(dim=1)
    if not finite.all():
        row = int(finite.int().argmin())
        raise BadInput(f"the metric is not finite at latent point {row}: the manifold must be smooth there.")
    return metric


def log_determinant(metric: Tensor) -> Tensor:
    """Logarithm of |det G| as ``(n,)`` for metrics ``(n, d, d)``; −∞ where a metric is exactly singular.

    Raises:
        BadInput: If ``metric`` is not a stack of square matrices.
    """
    if not isinstance(metric, Tensor) or metric.ndim != 3 or metric.shape[1] != metric.shape[2]:
        given = tuple(metric.shape) if isinstance(metric, Tensor) else type(metric).__name__
        raise BadInput(f"metrics must be a tensor of shape (n, d, d), not {given}.")
    logarithm: Tensor = torch.linalg.slogdet(metric).logabsdet
    return logarithm


def pushed(manifold: Manifold, z: Tensor, direction: Tensor) -> tuple[Tensor, Tensor]:
    """Jμ v and Jσ v, one row for every latent point and its direction v.

    Raises:
        BadInput: If torch has no forward derivative of some operation of the manifold.
    """

    def embedding(points: Tensor) -> tuple[Tensor, Tensor]:
        return embedded(manifold, points)

    try:
        tangents: tuple[Tensor, Tensor] = jvp(embedding, (z,), (direction,))[1]
    except NotImplementedError as error:
        if "forward AD" not in str(error):
            raise
        raise BadInput(
            "the manifold uses an operation without a forward derivative in torch, such as cdist."
        ) from error
    return tangents


def _metric(manifold: Manifold, z: Tensor) -> Tensor:
    count, dimension = z.shape
    axes = torch.eye(dimension, dtype=z.dtype, device=z.device).unsqueeze(1).expand(-1, count, -1)

    def along(axis: Tensor) -> tuple[Tensor, Tensor]:
        return pushed(manifold, z, axis)

    # Only the axes are mapped over, so the pass through the manifold itself happens once. A layer that draws
    # at random has to draw the same for every axis, or the columns would belong to different manifolds.
    columns: tuple[Tensor, Tensor] = vmap(along, randomness="same")(axes)
    mean, deviation = (column.movedim(0, 1) for column in columns)
    return mean @ mean.mT + deviation @ deviation.mT
