"""Learning from private records with a proven guarantee: sampling, clipping, noise and their accounting."""

from sfumato.errors import BadInput

try:
    import torch  # noqa: F401  (asked for here, so that every module of this room may count on it)
except ImportError:
    raise BadInput("learning needs torch: pip install 'sfumato[learn]'.") from None

from sfumato.learn.certified_compact import CertifiedCompact
from sfumato.learn.compact import (
    ClassDensities,
    ClassProfile,
    CompactClassifier,
    CompactPrivate,
    corrected_allocation,
    paper_allocation,
)
from sfumato.learn.correlated_noise import CorrelatedSteps
from sfumato.learn.dp_sgd import DPSGD
from sfumato.learn.extractor import Extractor
from sfumato.learn.extractors import EXTRACTORS, make_extractor
from sfumato.learn.factored_noise import Factor, FactoredSteps, Momentum
from sfumato.learn.fit_private import Fitted, fit_private
from sfumato.learn.learner import Learner
from sfumato.learn.linear_head import LinearHead
from sfumato.learn.noise_schedule import NoiseSchedule
from sfumato.learn.noisy_sum import NoisySum
from sfumato.learn.private_adam import PrivateAdam
from sfumato.learn.private_learner import PrivateLearner
from sfumato.learn.private_softmax import PrivateSoftmax
from sfumato.learn.quantile_clipping import QuantileSum
from sfumato.learn.scattered import ScatteringFeatures
from sfumato.learn.scattering import Scattering
from sfumato.learn.whitened import Whitened

__all__ = [
    "DPSGD",
    "EXTRACTORS",
    "CertifiedCompact",
    "ClassDensities",
    "ClassProfile",
    "CompactClassifier",
    "CompactPrivate",
    "CorrelatedSteps",
    "Extractor",
    "Factor",
    "FactoredSteps",
    "Fitted",
    "Learner",
    "LinearHead",
    "Momentum",
    "NoiseSchedule",
    "NoisySum",
    "PrivateAdam",
    "PrivateLearner",
    "PrivateSoftmax",
    "QuantileSum",
    "Scattering",
    "ScatteringFeatures",
    "Whitened",
    "corrected_allocation",
    "fit_private",
    "make_extractor",
    "paper_allocation",
]
