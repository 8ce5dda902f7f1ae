"""Deterministic transforms, and the geometric and encoding baselines built from them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato.loading import when_used

if TYPE_CHECKING:
    from sfumato.transforms.binary import BinaryEncoding
    from sfumato.transforms.manifold import ReverseManifold
    from sfumato.transforms.projection import LocalitySensitiveHash, RandomProjection, ReconstructionResistant
    from sfumato.transforms.transform import Transform

__all__ = [
    "BinaryEncoding",
    "LocalitySensitiveHash",
    "RandomProjection",
    "ReconstructionResistant",
    "ReverseManifold",
    "Transform",
]

__getattr__ = when_used(
    "sfumato.transforms",
    {
        "BinaryEncoding": "binary",
        "LocalitySensitiveHash": "projection",
        "RandomProjection": "projection",
        "ReconstructionResistant": "projection",
        "ReverseManifold": "manifold",
        "Transform": "transform",
    },
)
