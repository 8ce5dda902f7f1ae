"""Deterministic transforms, and the geometric and encoding baselines built from them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato.loading import when_used

if TYPE_CHECKING:
    from sfumato.mechanisms.transforms.binary_encoding import BinaryEncoding
    from sfumato.mechanisms.transforms.random_projection import (
        LocalitySensitiveHash,
        RandomProjection,
        ReconstructionResistant,
    )
    from sfumato.mechanisms.transforms.reverse_manifold import ReverseManifold
    from sfumato.mechanisms.transforms.transform import Transform

__all__ = [
    "BinaryEncoding",
    "LocalitySensitiveHash",
    "RandomProjection",
    "ReconstructionResistant",
    "ReverseManifold",
    "Transform",
]

__getattr__ = when_used(
    "sfumato.mechanisms.transforms",
    {
        "BinaryEncoding": "binary_encoding",
        "LocalitySensitiveHash": "random_projection",
        "RandomProjection": "random_projection",
        "ReconstructionResistant": "random_projection",
        "ReverseManifold": "reverse_manifold",
        "Transform": "transform",
    },
)
