"""Deterministic transforms, and the geometric and encoding baselines built from them."""

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
