"""The manifold interface, its pullback metric, and surfaces whose geometry is known in closed form.

A manifold is one method: it maps a latent point to its mean and deviation in the data space. The pullback
metric measures lengths in the data space, in latent coordinates. The surfaces are for tests of a method.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor
from torch.func import jvp, vmap

from sfumato.errors import BadInput

__all__ = ["pullback_metric"]

# Latent points differentiated at once: enough for fast products, few enough for d tangents of M numbers each.
ROWS = 512


@runtime_checkable
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
    """Return mean and deviation with one flat row for every latent point.

    Raises:
        BadInput: If ``embed`` is missing or answers with anything but two tensors of ``len(z)`` rows.
    """
    if not isinstance(manifold, Manifold):
        raise BadInput(f"a manifold must have a method embed(z), and {type(manifold).__name__} has none.")
    answer = manifold.embed(z)
    if not isinstance(answer, tuple) or len(answer) != 2 or not all(isinstance(a, Tensor) for a in answer):
        raise BadInput("embed must return a pair of tensors, the mean and the deviation.")
    for name, part in zip(("mean", "deviation"), answer, strict=True):
        if part.ndim < 2 or len(part) != len(z):
            raise BadInput(
                f"embed of {len(z)} points has a {name} of shape {tuple(part.shape)}: one row each is needed."
            )
    mean, deviation = answer
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
    """Return log |det G| as ``(n,)`` for metrics ``(n, d, d)``; −∞ where a metric is exactly singular.

    Raises:
        BadInput: If ``metric`` is not a stack of square matrices.
    """
    if not isinstance(metric, Tensor) or metric.ndim != 3 or metric.shape[1] != metric.shape[2]:
        given = tuple(metric.shape) if isinstance(metric, Tensor) else type(metric).__name__
        raise BadInput(f"metrics must be a tensor of shape (n, d, d), not {given}.")
    logarithm: Tensor = torch.linalg.slogdet(metric).logabsdet
    return logarithm


def pushed(manifold: Manifold, z: Tensor, direction: Tensor) -> tuple[Tensor, Tensor]:
    """Return Jμ v and Jσ v, one row for every latent point and its direction v.

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


@dataclass(frozen=True)
class Sphere:
    """Colatitude θ and longitude φ: G = R² diag(1, sin² θ); geodesics are great circles."""

    radius: float = 1.0

    def embed(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Return the point of the sphere; no deviation."""
        across, around = z.unbind(dim=1)
        ring = across.sin()
        mean = self.radius * torch.stack([ring * around.cos(), ring * around.sin(), across.cos()], dim=1)
        return mean, torch.zeros_like(mean)


@dataclass(frozen=True)
class Cylinder:
    """Angle φ and height h: G = diag(R², 1), flat; geodesics are helices, straight in (φ, h)."""

    radius: float = 1.0

    def embed(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Return the circle as the mean, the height as the deviation."""
        angle, height = z.unbind(dim=1)
        return self.radius * torch.stack([angle.cos(), angle.sin()], dim=1), height.unsqueeze(1)


@dataclass(frozen=True)
class Pseudosphere:
    """The upper half plane (x, y) above y = 1: G = diag(1, 1)/y², the hyperbolic plane.

    Geodesics are half circles about a point of the axis y = 0, and the distance of two points is
    arcosh(1 + ((x₁ − x₂)² + (y₁ − y₂)²) / 2y₁y₂). Below y = 1 the surface ends: the
    deviation is not finite.
    """

    def embed(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Return the circle about the axis as mean, the way along the axis, never negative, as deviation."""
        along, height = z.unbind(dim=1)
        mean = torch.stack([along.cos() / height, along.sin() / height], dim=1)
        return mean, (height.acosh() - (1.0 - height**-2).sqrt()).unsqueeze(1)


@dataclass(frozen=True)
class Paraboloid:
    """The graph of a‖z‖² over any space: G = 1 + 4a² zzᵀ, with eigenvalues 1 and 1 + 4a²‖z‖²."""

    bend: float = 1.0

    def embed(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Return the point itself as the mean, its height as the deviation."""
        return z, self.bend * z.square().sum(dim=1, keepdim=True)
