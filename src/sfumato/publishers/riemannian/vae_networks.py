"""What a Riemannian VAE-GAN is made of: readers of pictures and mean decoders, dense or convolutional.

Every activation is smooth, because the curvature of a decoder is made of its second derivatives. Nothing here
normalises over a batch: a decoded row depends on its own latent point only.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Generator, Tensor, nn

from sfumato.errors import BadInput

__all__ = ["Architecture", "initialise", "mean_decoder", "reader"]

#: Sides of pictures that the networks are made for.
SMALLEST, LARGEST = 4, 128
# Channels of the two convolutions, from the picture inwards.
CHANNELS = (32, 64)


@dataclass(frozen=True)
class Architecture:
    """Everything that decides the shapes of a model's weights; two models that are equal here are alike.

    ``shape`` is that of one picture, (height, width) or (height, width, channels) with 1 or 3 channels;
    ``decoder`` is ``"dense"`` (two hidden layers of ``width`` units) or ``"conv"``.
    """

    shape: tuple[int, ...]
    latent: int = 10
    centres: int = 256
    decoder: str = "dense"
    width: int = 512

    def __post_init__(self) -> None:
        sides, channels = self.shape[:2], self.shape[2:]
        if (
            len(self.shape) not in (2, 3)
            or not all(SMALLEST <= side <= LARGEST for side in sides)
            or channels not in ((), (1,), (3,))
        ):
            raise BadInput(
                f"pictures of shape {self.shape} were given: (height, width) or (height, width, channels) "
                f"with sides from {SMALLEST} to {LARGEST} and 1 or 3 channels are needed."
            )
        if self.decoder not in ("dense", "conv"):
            raise BadInput(f"the decoder must be 'dense' or 'conv', not {self.decoder!r}.")

    @property
    def channels(self) -> int:
        """Numbers of one pixel."""
        return self.shape[2] if len(self.shape) == 3 else 1

    @property
    def numbers(self) -> int:
        """Numbers of one picture."""
        return math.prod(self.shape)

    @property
    def coarse(self) -> tuple[int, int]:
        """The sides after two convolutions that halve them, rounded up."""
        return -(-self.shape[0] // 4), -(-self.shape[1] // 4)

    def to_dict(self) -> dict[str, Any]:
        """As plain values."""
        return {**asdict(self), "shape": list(self.shape)}


def reader(architecture: Architecture) -> tuple[nn.Module, int]:
    """A network from flat pictures (n, numbers) to features (n, f), and f."""
    width = architecture.width
    if architecture.decoder == "dense":
        layers = nn.Sequential(
            nn.Linear(architecture.numbers, width), nn.SiLU(), nn.Linear(width, width // 2), nn.SiLU()
        )
        return layers, width // 2
    inner, outer = CHANNELS
    high, wide = architecture.coarse
    layers = nn.Sequential(
        _Planes(architecture),
        nn.Conv2d(architecture.channels, inner, 3, stride=2, padding=1),
        nn.SiLU(),
        nn.Conv2d(inner, outer, 3, stride=2, padding=1),
        nn.SiLU(),
        nn.Flatten(),
        nn.Linear(outer * high * wide, width // 2),
        nn.SiLU(),
    )
    return layers, width // 2


def mean_decoder(architecture: Architecture) -> nn.Module:
    """A network from latent points (n, d) to flat mean pictures (n, numbers) in (0, 1)."""
    width, latent = architecture.width, architecture.latent
    if architecture.decoder == "dense":
        return nn.Sequential(
            nn.Linear(latent, width // 2),
            nn.SiLU(),
            nn.Linear(width // 2, width),
            nn.SiLU(),
            nn.Linear(width, architecture.numbers),
            nn.Sigmoid(),
        )
    inner, outer = CHANNELS
    high, wide = architecture.coarse
    return nn.Sequential(
        nn.Linear(latent, width // 2),
        nn.SiLU(),
        nn.Linear(width // 2, outer * high * wide),
        nn.SiLU(),
        nn.Unflatten(1, (outer, high, wide)),
        nn.ConvTranspose2d(outer, inner, 4, stride=2, padding=1),
        nn.SiLU(),
        nn.ConvTranspose2d(inner, architecture.channels, 4, stride=2, padding=1),
        _Rows(architecture),
        nn.Sigmoid(),
    )


def initialise(module: nn.Module, generator: Generator) -> None:
    """Draw the weights of every layer anew from ``generator``; biases are 0."""
    for layer in module.modules():
        if isinstance(layer, nn.Linear | nn.Conv2d | nn.ConvTranspose2d):
            nn.init.xavier_uniform_(layer.weight, generator=generator)
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)


class _Planes(nn.Module):
    """Flat rows, whose channels lie side by side in every pixel, as planes (n, channels, height, width)."""

    def __init__(self, architecture: Architecture) -> None:
        super().__init__()
        self.sides, self.channels = architecture.shape[:2], architecture.channels

    def forward(self, flat: Tensor) -> Tensor:
        return flat.reshape(len(flat), *self.sides, self.channels).movedim(3, 1)


class _Rows(nn.Module):
    """Planes cut to the size of a picture, as flat rows."""

    def __init__(self, architecture: Architecture) -> None:
        super().__init__()
        self.sides = architecture.shape[:2]

    def forward(self, planes: Tensor) -> Tensor:
        high, wide = self.sides
        return torch.flatten(planes[:, :, :high, :wide].movedim(1, 3), 1)
