"""The Riemannian VAE-GAN of Yin et al. (2025): a decoder with a metric, and curvature that guides it.

Geometry, networks, losses and training; the curvature publisher says what is published and what is claimed.
"""

from sfumato.errors import BadInput
from sfumato.loading import names_of_stub

try:
    import torch  # noqa: F401  (imported here once, so that modules of this package need not check)
except ImportError:
    raise BadInput("the curvature publisher needs torch: pip install 'sfumato[learn]'.") from None

__getattr__, __dir__, __all__ = names_of_stub(__name__, __file__)
