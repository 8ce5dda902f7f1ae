"""The manifold interface, its pullback metric, and the curvature measure of Yin et al. (2025), eq. 12 and 13.

A manifold is one method: it maps a latent point to its mean and deviation in the data space. The pullback
metric measures lengths in the data space, in latent coordinates.

**Curvature.** K(z) = ‖∇λ(G(z))‖, how fast the eigenvalues of the metric change, is the Frobenius norm of the
d × d table of slopes, one for each eigenvalue and latent axis. Where eigenvalues coincide they have no
gradient: to first order a tied group moves along axis j by the eigenvalues of Vᵀ (∂G/∂z_j) V, with V any
orthonormal basis of the group's eigenvectors, and these depend on the axis in a way that is not linear. The
slopes here are those one-sided derivatives. For a simple eigenvalue that is the ordinary gradient; for all,
it is the limit of the paper's finite differences. K is then the root of Σ_j ‖Vᵀ (∂G/∂z_j) V‖² over all
groups, which no choice of V and no rotation of the latent axes changes. It is still not continuous where a
tie breaks: the entries between two groups count only while the two are one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.func import grad, jvp, vmap

from sfumato.errors import BadInput

__all__ = ["curvature"]

# Latent points differentiated at once: enough for fast products, few enough for d tangents of M numbers each.
ROWS = 512
# Eigenvalues closer than this many roundings of the largest one are tied: their eigenvectors, known to one
# part in a thousand at best, are as good as arbitrary.
TIE = 1000.0


class Manifold(Protocol):
    """Anything that embeds latent points; a decoder, or a surface written as a formula."""

    def embed(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Return mean ``(n, …)`` and deviation ``(n, …)`` of the latent points ``z`` of shape ``(n, d)``.

        Each row depends on its own latent point only (a batch norm has to be in evaluation mode), and the
        operations have forward and reverse derivatives in torch (``cdist``, for one, has not).
        """


def latent_points(z: Any, name: str = "latent points") -> Tensor:
    """Return ``z`` if it is a tensor ``(n, d)`` of finite floating-point numbers, n and d at least 1.

    Raises:
        BadInput: In one sentence, for anything else.
    """
    if not isinstance(z, Tensor) or not z.dtype.is_floating_point:
        given = f"{z.dtype} numbers" if isinstance(z, Tensor) else type(z).__name__
        raise BadInput(f"{name} must be a torch tensor of floating-point numbers, not {given}.")
    if z.ndim != 2 or 0 in z.shape:
        raise BadInput(f"{name} must have shape (n, d) with n and d at least 1, not {tuple(z.shape)}.")
    finite = z.detach().isfinite().all(dim=1)
    if not finite.all():
        raise BadInput(f"{name} must be finite: row {int(finite.int().argmin())} is not.")
    return z


def embedded(manifold: Manifold, z: Tensor) -> tuple[Tensor, Tensor]:
    """Return mean and deviation with one flat row for every latent point."""
    mean, deviation = manifold.embed(z)
    return torch.flatten(mean, 1), torch.flatten(deviation, 1)


def pullback_metric(manifold: Manifold, z: Tensor) -> Tensor:
    """Return G(z) = JμᵀJμ + JσᵀJσ as ``(n, d, d)``, for latent points ``(n, d)``.

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
    """Return log |det G| as ``(n,)`` for metrics ``(n, d, d)``; −∞ where a metric is exactly singular."""
    logarithm: Tensor = torch.linalg.slogdet(metric).logabsdet
    return logarithm


def _pushed(manifold: Manifold, z: Tensor, direction: Tensor) -> tuple[Tensor, Tensor]:
    """Return Jμ v and Jσ v, one row for every latent point and its direction v."""

    def embedding(points: Tensor) -> tuple[Tensor, Tensor]:
        return embedded(manifold, points)

    tangents: tuple[Tensor, Tensor] = jvp(embedding, (z,), (direction,))[1]
    return tangents


def _metric(manifold: Manifold, z: Tensor) -> Tensor:
    count, dimension = z.shape
    axes = torch.eye(dimension, dtype=z.dtype, device=z.device).unsqueeze(1).expand(-1, count, -1)

    def along(axis: Tensor) -> tuple[Tensor, Tensor]:
        return _pushed(manifold, z, axis)

    # Only the axes are mapped over, so the pass through the manifold itself happens once. A layer that draws
    # at random has to draw the same for every axis, or the columns would belong to different manifolds.
    columns: tuple[Tensor, Tensor] = vmap(along, randomness="same")(axes)
    mean, deviation = (column.movedim(0, 1) for column in columns)
    return mean @ mean.mT + deviation @ deviation.mT


def curvature(manifold: Manifold, z: Tensor) -> Tensor:
    """Return K(z) as ``(n,)``, by exact derivatives.

    Raises:
        BadInput: If ``z`` is no finite ``(n, d)`` tensor, or the metric is not finite somewhere.
    """
    return eigenvalue_slopes(manifold, z).square().sum(dim=(1, 2)).sqrt()


def eigenvalue_slopes(manifold: Manifold, z: Tensor) -> Tensor:
    """Return exact one-sided derivatives of the eigenvalues of G along the latent axes, as ``(n, d, d)``.

    Entry (k, j) belongs to the k-th smallest eigenvalue and axis j. For fixed v the gradient of vᵀGv is that
    of ‖Jv‖², one reverse pass over one forward product; with the eigenvector as v it is the eigenvalue's. The
    d products share their pass through the manifold. Only points with tied eigenvalues cost more, a pass for
    each pair of tied ones.
    """
    points = latent_points(z).detach()
    # Rows are independent, so nobody needs the graph of the parameters here; `grad` makes its own. Each point
    # holds about three times as many numbers as for the metric.
    with torch.no_grad():
        return torch.cat([_slopes(manifold, part) for part in torch.split(points, ROWS // 2)])


def _slopes(manifold: Manifold, z: Tensor) -> Tensor:
    values, vectors = torch.linalg.eigh(pullback_metric(manifold, z))
    over: Any = vmap(_stretch_gradient, in_dims=(None, None, 2), randomness="same")
    slopes: Tensor = over(manifold, z, vectors).movedim(0, 1).contiguous()
    finite = slopes.isfinite().flatten(1).all(dim=1)
    if not finite.all():
        raise BadInput(
            "the metric has no finite derivative at some latent point: the manifold must be smooth."
        )
    limit = TIE * torch.finfo(z.dtype).eps * values[:, -1:].abs()
    for rows, first, last in _groups(values.diff(dim=1) <= limit):
        slopes[rows, first:last] = _tied(
            manifold, z[rows], vectors[rows, :, first:last], slopes[rows, first:last]
        )
    return slopes


def _stretch_gradient(manifold: Manifold, z: Tensor, direction: Tensor) -> Tensor:
    """Return the gradient by z of ‖Jμ v‖² + ‖Jσ v‖² at fixed directions v, one of each in every row."""

    def stretch(points: Tensor) -> Tensor:
        mean, deviation = _pushed(manifold, points, direction)
        return mean.square().sum() + deviation.square().sum()

    gradient: Tensor = grad(stretch)(z)
    return gradient


def _groups(tied: Tensor) -> Iterator[tuple[Tensor, int, int]]:
    """Yield the rows with a tied group of eigenvalues from ``first`` to before ``last``, for all groups."""
    if not tied.any():
        return
    edge = torch.zeros_like(tied[:, :1])
    padded = torch.cat([edge, tied, edge], dim=1)  # column k: eigenvalue k − 1 is tied to eigenvalue k
    size = padded.shape[1] - 1
    for first in range(size - 1):
        begins = padded[:, first + 1] & ~padded[:, first]
        for last in range(first + 2, size + 1):
            whole = padded[:, first + 1 : last].all(dim=1) & ~padded[:, last]
            rows = (begins & whole).nonzero().flatten()
            if len(rows):
                yield rows, first, last


def _tied(manifold: Manifold, z: Tensor, vectors: Tensor, own: Tensor) -> Tensor:
    """Return slopes of one tied group: for each axis the eigenvalues of Vᵀ (∂G/∂z_j) V, smallest first.

    ``own`` (n, m, d) holds the diagonals of these matrices. The rest follows from the stretch along
    (v_k + v_l)/√2, which is half of both diagonals plus the entry between them.
    """
    matrices = torch.diag_embed(own.mT)
    size = own.shape[1]
    for k in range(size):
        for m in range(k + 1, size):
            between = _stretch_gradient(manifold, z, (vectors[:, :, k] + vectors[:, :, m]) / 2**0.5)
            entry = between - 0.5 * (own[:, k] + own[:, m])
            matrices[:, :, k, m], matrices[:, :, m, k] = entry, entry
    slopes: Tensor = torch.linalg.eigvalsh(matrices).mT
    return slopes
