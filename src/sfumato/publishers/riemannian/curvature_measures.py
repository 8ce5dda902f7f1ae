"""Curvature measure of Yin et al. (2025), eq. 12 and 13: how fast the eigenvalues of the metric change.

K(z) = ‖∇λ(G(z))‖ is the Frobenius norm of the d × d table of slopes, one for each eigenvalue and latent axis.

Where eigenvalues coincide they have no gradient: to first order a tied group moves along axis j by the
eigenvalues of Vᵀ (∂G/∂z_j) V, with V any orthonormal basis of the group's eigenvectors, and these depend on
the axis in a way that is not linear. The slopes here are those one-sided derivatives. For a simple
eigenvalue that is the ordinary gradient; for all, it is the limit of the paper's finite differences. K is
then the root of Σ_j ‖Vᵀ (∂G/∂z_j) V‖² over all groups, which no choice of V and no rotation of the latent
axes changes. It is still not continuous where a tie breaks: the entries between two groups count only
while the two are one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.func import grad, vmap

from sfumato.errors import BadInput
from sfumato.publishers.riemannian.manifold import Manifold, latent_points, pullback_metric, pushed

__all__ = ["curvature"]


# Latent points differentiated at once, see the metric; each holds about three times as many numbers here.
ROWS = 256
# Eigenvalues closer than this many roundings of the largest one are tied: their eigenvectors, known to one
# part in a thousand at best, are as good as arbitrary.
TIE = 1000.0


def curvature(manifold: Manifold, z: Tensor, *, method: str = "exact", step: float = 1e-3) -> Tensor:
    """Return K(z) as ``(n,)``, by ``exact`` derivatives or by finite ``differences`` with the given step.

    Raises:
        BadInput: If the method is another one, ``z`` is no finite ``(n, d)`` tensor, or the metric is not
            finite somewhere.
    """
    if method == "exact":
        slopes = eigenvalue_slopes(manifold, z)
    elif method == "differences":
        slopes = eigenvalue_differences(manifold, z, step=step)
    else:
        raise BadInput(f"the method of curvature must be 'exact' or 'differences', not {method!r}.")
    return slopes.square().sum(dim=(1, 2)).sqrt()


def eigenvalue_slopes(manifold: Manifold, z: Tensor) -> Tensor:
    """Return exact one-sided derivatives of the eigenvalues of G along the latent axes, as ``(n, d, d)``.

    Entry (k, j) belongs to the k-th smallest eigenvalue and axis j. For fixed v the gradient of vᵀGv is that
    of ‖Jv‖², one reverse pass over one forward product; with the eigenvector as v it is the eigenvalue's. The
    d products share their pass through the manifold. Only points with tied eigenvalues cost more, a pass for
    each pair of tied ones.

    Raises:
        BadInput: If ``z`` is no finite ``(n, d)`` tensor, or the metric is not finite somewhere.
    """
    points = latent_points(z).detach()
    # Rows are independent, so nobody needs the graph of the parameters here; `grad` makes its own.
    with torch.no_grad():
        return torch.cat([_slopes(manifold, part) for part in torch.split(points, ROWS)])


def eigenvalue_differences(manifold: Manifold, z: Tensor, *, step: float = 1e-3) -> Tensor:
    """Return (λ(G(z + step·e_j)) − λ(G(z))) / step for every axis e_j, as ``(n, d, d)``; equation 13.

    Eigenvalues are compared in order of size. The error is of the order of ``step``, plus that of rounding
    divided by it.

    Raises:
        BadInput: If ``step`` is not above 0, ``z`` is no finite ``(n, d)`` tensor, or the metric is not
            finite at a point or one step from it.
    """
    points = latent_points(z).detach()
    if not step > 0.0 or step == float("inf"):
        raise BadInput(f"the step of finite differences must be a finite number above 0, not {step}.")
    with torch.no_grad():
        here: Tensor = torch.linalg.eigvalsh(pullback_metric(manifold, points))
        moves = step * torch.eye(points.shape[1], dtype=points.dtype, device=points.device)
        there = [torch.linalg.eigvalsh(pullback_metric(manifold, points + move)) for move in moves]
    return (torch.stack(there, dim=2) - here.unsqueeze(2)) / step


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
        mean, deviation = pushed(manifold, points, direction)
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
