"""The objective: tell a picture from picture plus noise, at noise levels from faint to overwhelming.

Preconditioned as by Karras et al. 2022 (equations 7 and 8, table 1): with spread s of the data and noise
level σ, the denoised picture is D = c_skip·x + c_out·F(c_in·x, ln σ / 4, label), and the loss is the squared
error of the network F against (picture − c_skip·x)/c_out, which has unit variance at every level.
"""

from __future__ import annotations

import torch
from torch import Generator, Tensor, nn

__all__ = ["Denoiser"]

# Public constants: the spread of pictures in [−1, 1] that the preconditioning assumes, and the law of ln σ.
_SPREAD = 0.5
_MEAN = 0.3
_DEVIATION = 1.2


class Denoiser:
    """A network of pictures in [−1, 1] (n, c, h, w), levels and labels, used to take noise away."""

    def __init__(self, network: nn.Module) -> None:
        self.network = network

    def __call__(self, noisy: Tensor, levels: Tensor, labels: Tensor) -> Tensor:
        """What the pictures (n, c, h, w) with noise of deviation ``levels`` (n,) were, at best guess."""
        sigma = levels.reshape(-1, 1, 1, 1)
        skip, out = _factors(sigma)
        return skip * noisy + out * self._predicted(noisy, levels, labels)

    def losses(self, pictures: Tensor, labels: Tensor, multiplicity: int, generator: Generator) -> Tensor:
        """The loss (n,) of each picture: its mean over ``multiplicity`` draws of a level and of noise.

        Squared errors are summed over pixels, not averaged: gradients of single pictures are then much longer
        than usual clips, so that clipping makes them all equally long and noise weighs least.
        """
        many = pictures.repeat_interleave(multiplicity, dim=0)
        levels = torch.exp(_MEAN + _DEVIATION * torch.randn(len(many), generator=generator))
        sigma = levels.reshape(-1, 1, 1, 1)
        noisy = many + sigma * torch.randn(many.shape, generator=generator)
        skip, out = _factors(sigma)
        wanted = (many - skip * noisy) / out
        predicted = self._predicted(noisy, levels, labels.repeat_interleave(multiplicity))
        errors = (predicted - wanted).square().flatten(1).sum(dim=1)
        return errors.reshape(-1, multiplicity).mean(dim=1)

    def _predicted(self, noisy: Tensor, levels: Tensor, labels: Tensor) -> Tensor:
        sigma = levels.reshape(-1, 1, 1, 1)
        predicted: Tensor = self.network(
            noisy / (sigma.square() + _SPREAD**2).sqrt(), levels.log() / 4.0, labels
        )
        return predicted


def _factors(sigma: Tensor) -> tuple[Tensor, Tensor]:
    """c_skip and c_out."""
    whole = sigma.square() + _SPREAD**2
    return _SPREAD**2 / whole, _SPREAD * sigma / whole.sqrt()
