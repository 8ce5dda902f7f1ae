"""The Riemannian VAE-GAN of Yin et al. (2025): a decoder with a metric, and curvature that guides it.

Networks, losses and training only; what is published, and what may be said of it, is the curvature
publisher's.
"""

from sfumato.errors import BadInput

try:
    import torch  # noqa: F401  (asked for here, so that every module of this folder may count on it)
except ImportError:
    raise BadInput("the curvature publisher needs torch: pip install 'sfumato[learn]'.") from None

from sfumato.publishers.riemannian.curvature_estimator import CurvatureEstimator, fit_estimator
from sfumato.publishers.riemannian.obfuscator import Obfuscator
from sfumato.publishers.riemannian.riemannian_training import Trainer
from sfumato.publishers.riemannian.riemannian_vae import RiemannianVAE
from sfumato.publishers.riemannian.schedule import Rates, Schedule
from sfumato.publishers.riemannian.stage import Run, new_run
from sfumato.publishers.riemannian.vae_networks import Architecture

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
