"""The Riemannian VAE-GAN of Yin et al. (2025): a decoder with a metric, and curvature that guides it.

Networks, losses and training only; what is published, and what may be said of it, is the curvature
publisher's.
"""

from sfumato.errors import BadInput

try:
    import torch  # noqa: F401  (asked for here, so that every module of this folder may count on it)
except ImportError:
    raise BadInput("the curvature publisher needs torch: pip install 'sfumato[learn]'.") from None

from sfumato.publish.riemannian.estimator import CurvatureEstimator, fit_estimator
from sfumato.publish.riemannian.model import RiemannianVAE
from sfumato.publish.riemannian.networks import Architecture
from sfumato.publish.riemannian.obfuscator import Obfuscator
from sfumato.publish.riemannian.schedule import Rates, Schedule
from sfumato.publish.riemannian.stage import Run, new_run
from sfumato.publish.riemannian.training import Trainer

__all__ = [
    "Architecture",
    "CurvatureEstimator",
    "Obfuscator",
    "Rates",
    "RiemannianVAE",
    "Run",
    "Schedule",
    "Trainer",
    "fit_estimator",
    "new_run",
]
