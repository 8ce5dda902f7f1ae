# Written by `make index` from the `__all__` of every module.
from .binary_encoding import BinaryEncoding as BinaryEncoding
from .random_projection import LocalitySensitiveHash as LocalitySensitiveHash
from .random_projection import RandomProjection as RandomProjection
from .random_projection import ReconstructionResistant as ReconstructionResistant
from .reverse_manifold import ReverseManifold as ReverseManifold
from .transform import Transform as Transform
