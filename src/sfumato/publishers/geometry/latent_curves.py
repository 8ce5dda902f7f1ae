"""Length and energy of curves in the latent space, measured where they lie in the data space."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from sfumato.errors import BadInput
from sfumato.publishers.geometry.manifold import Manifold, embedded, latent_points

__all__ = ["curve_energy", "curve_length", "squared_steps"]


def curve_energy(manifold: Manifold, curves: Tensor) -> Tensor:
    """½ Σ (‖Δμ‖² + ‖Δσ‖²) over the samples of each curve ``(n, samples, d)``, as ``(n,)``.

    Equation 4 of Yin et al. (2025), without a factor for the number of samples: for equally spaced times,
    (samples − 1) times this tends to the integral ½ ∫ c′ᵀ G c′ dt over [0, 1].

    Raises:
        BadInput: If ``curves`` is not finite, or has fewer than two samples.
    """
    return 0.5 * squared_steps(manifold, _curves(curves)).sum(dim=1)


def curve_length(manifold: Manifold, curves: Tensor) -> Tensor:
    """Length of each curve ``(n, samples, d)`` as the sum of its chords in the data space, as ``(n,)``.

    Never more than the length of the smooth curve through the samples; at least the energy bound: the
    square of the length is at most 2 (samples − 1) times ``curve_energy``.

    Raises:
        BadInput: If ``curves`` is not finite, or has fewer than two samples.
    """
    return squared_steps(manifold, _curves(curves)).sqrt().sum(dim=1)


def squared_steps(manifold: Manifold, curves: Tensor) -> Tensor:
    """‖Δμ‖² + ‖Δσ‖² between neighbouring samples, ``(n, samples − 1)``."""
    count, samples, dimension = curves.shape
    parts = embedded(manifold, curves.reshape(count * samples, dimension))
    total = torch.zeros((), dtype=curves.dtype, device=curves.device)
    for part in parts:
        total = total + part.reshape(count, samples, -1).diff(dim=1).square().sum(dim=2)
    return total


def _curves(curves: Any) -> Tensor:
    if not isinstance(curves, Tensor) or curves.ndim != 3 or curves.shape[1] < 2:
        given = tuple(curves.shape) if isinstance(curves, Tensor) else type(curves).__name__
        raise BadInput(
            f"`curves` must be a tensor of shape (n, samples, d) with 2 samples or more, not {given}.",
            parameter="curves",
        )
    latent_points(curves.flatten(0, 1), "samples of curves")
    return curves
