"""Deterministic transforms, and the geometric and encoding baselines built from them."""

# Below this line: written by `make index` from the `__all__` of every module.
from typing import TYPE_CHECKING

from sfumato.loading import when_used

if TYPE_CHECKING:
    from sfumato.mechanisms.transforms.binary_encoding import BinaryEncoding as BinaryEncoding
    from sfumato.mechanisms.transforms.random_projection import LocalitySensitiveHash as LocalitySensitiveHash
    from sfumato.mechanisms.transforms.random_projection import RandomProjection as RandomProjection
    from sfumato.mechanisms.transforms.random_projection import (
        ReconstructionResistant as ReconstructionResistant,
    )
    from sfumato.mechanisms.transforms.reverse_manifold import ReverseManifold as ReverseManifold
    from sfumato.mechanisms.transforms.transform import Transform as Transform

__all__ = [
    "BinaryEncoding",
    "LocalitySensitiveHash",
    "RandomProjection",
    "ReconstructionResistant",
    "ReverseManifold",
    "Transform",
]

if not TYPE_CHECKING:  # a type checker knows the names above, and refuses any other
    __getattr__, __dir__ = when_used(
        __name__,
        {
            "BinaryEncoding": "binary_encoding",
            "LocalitySensitiveHash": "random_projection",
            "RandomProjection": "random_projection",
            "ReconstructionResistant": "random_projection",
            "ReverseManifold": "reverse_manifold",
            "Transform": "transform",
        },
    )
