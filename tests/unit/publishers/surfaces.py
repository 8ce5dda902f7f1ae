"""Oracles of geometry: surfaces that are known in closed form, and curvature by finite differences."""

from dataclasses import dataclass

import torch
from torch import Tensor

from sfumato.publishers.riemannian.manifold import pullback_metric


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


def eigenvalue_differences(manifold, z, step):
    """(λ(G(z + step·e_j)) − λ(G(z))) / step for every axis e_j, as ``(n, d, d)``; equation 13."""
    here = torch.linalg.eigvalsh(pullback_metric(manifold, z).detach())
    moves = step * torch.eye(z.shape[1], dtype=z.dtype)
    there = [torch.linalg.eigvalsh(pullback_metric(manifold, z + move).detach()) for move in moves]
    return (torch.stack(there, dim=2) - here.unsqueeze(2)) / step


def by_differences(manifold, z, step):
    """K(z) by equation 13."""
    return eigenvalue_differences(manifold, z, step).square().sum(dim=(1, 2)).sqrt()
