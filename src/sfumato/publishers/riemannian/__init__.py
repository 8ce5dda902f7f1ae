"""The Riemannian VAE-GAN of Yin et al. (2025): a decoder with a metric, and curvature that guides it.

Geometry, networks, losses and training; the curvature publisher says what is published and what is claimed.
"""

from sfumato.errors import BadInput

try:
    import torch  # noqa: F401  (imported here once, so that modules of this package need not check)
except ImportError:
    raise BadInput("the curvature publisher needs torch: pip install 'sfumato[learn]'.") from None

# Below this line: written by `make index` from the `__all__` of every module.
from typing import TYPE_CHECKING

from sfumato.loading import when_used

if TYPE_CHECKING:
    from sfumato.publishers.riemannian.geodesic_solver import geodesics as geodesics
    from sfumato.publishers.riemannian.manifold import curvature as curvature
    from sfumato.publishers.riemannian.obfuscator import Obfuscator as Obfuscator
    from sfumato.publishers.riemannian.riemannian_vae import Architecture as Architecture
    from sfumato.publishers.riemannian.riemannian_vae import RiemannianVAE as RiemannianVAE

__all__ = ["Architecture", "Obfuscator", "RiemannianVAE", "curvature", "geodesics"]

if not TYPE_CHECKING:  # a type checker knows the names above, and refuses any other
    __getattr__, __dir__ = when_used(
        __name__,
        {
            "geodesics": "geodesic_solver",
            "curvature": "manifold",
            "Obfuscator": "obfuscator",
            "Architecture": "riemannian_vae",
            "RiemannianVAE": "riemannian_vae",
        },
    )
