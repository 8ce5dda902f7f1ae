"""A manifold is one method: where a latent point lies in the data space, and how uncertain that is."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor

from sfumato.errors import BadInput

__all__ = ["Manifold", "embedded", "latent_points"]


@runtime_checkable
class Manifold(Protocol):
    """Anything that embeds latent points; a decoder, or a surface written as a formula."""

    def embed(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Mean ``(n, …)`` and deviation ``(n, …)`` of the latent points ``z`` of shape ``(n, d)``.

        Each row depends on its own latent point only (a batch norm has to be in evaluation mode), and the
        operations have forward and reverse derivatives in torch (``cdist``, for one, has not).
        """


def latent_points(z: Any, name: str = "latent points") -> Tensor:
    """``z`` if it is a tensor ``(n, d)`` of finite floating-point numbers, n and d at least 1.

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
    """Mean and deviation with one flat row for every latent point.

    Raises:
        BadInput: If ``embed`` is missing or answers with anything but two tensors of ``len(z)`` rows.
    """
    if not isinstance(manifold, Manifold):
        raise BadInput(f"a manifold must have a method embed(z), and {type(manifold).__name__} has none.")
    answer = manifold.embed(z)
    if not isinstance(answer, tuple) or len(answer) != 2 or not all(isinstance(a, Tensor) for a in answer):
        raise BadInput("embed must answer with a pair of tensors, the mean and the deviation.")
    for name, part in zip(("mean", "deviation"), answer, strict=True):
        if part.ndim < 2 or len(part) != len(z):
            raise BadInput(
                f"embed of {len(z)} points gave a {name} of shape {tuple(part.shape)}: not a row each."
            )
    mean, deviation = answer
    return torch.flatten(mean, 1), torch.flatten(deviation, 1)
