# Written by `make index` from the `__all__` of every module.
from .geodesic_solver import geodesics as geodesics
from .manifold import curvature as curvature
from .obfuscator import Obfuscator as Obfuscator
from .riemannian_vae import Architecture as Architecture
from .riemannian_vae import RiemannianVAE as RiemannianVAE
