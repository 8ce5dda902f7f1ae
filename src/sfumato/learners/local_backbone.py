"""A backbone from a folder of one's own: config.json and weights of a transformers model, nothing fetched.

The folder is read as it lies on the disk: no network, no code from the folder (``trust_remote_code`` is off,
pickled weights are read with ``weights_only``), and only kinds of models that are named here.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from sfumato.errors import BadInput
from sfumato.learners.network_extractor import NetworkExtractor

__all__ = ["LocalBackbone"]

_WEIGHTS = ("model.safetensors", "pytorch_model.bin")
# Transformers, whose first token stands for the picture, and convolutions, whose places are averaged.
_FIRST_TOKEN = ("vit", "deit", "dinov2")
_POOLED = ("resnet", "convnext")
# What transformers calls the layer that first tokens go through in training alone; not used here.
_UNUSED = "pooler."


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
