"""Learning from private records with a proven guarantee: sampling, clipping, noise and their accounting."""

from sfumato.errors import BadInput

try:
    import torch  # noqa: F401  (asked for here, so that every module of this room may count on it)
except ImportError:
    raise BadInput("learning needs torch: pip install 'sfumato[learn]'.") from None

from sfumato.learners.certified_compact import CertifiedCompact
from sfumato.learners.compact import (
    ClassDensities,
    ClassProfile,
    CompactClassifier,
    CompactPrivate,
    corrected_allocation,
    paper_allocation,
)
from sfumato.learners.correlated_noise import CorrelatedSteps
from sfumato.learners.dp_sgd import DPSGD
from sfumato.learners.extractor import Extractor
from sfumato.learners.factored_noise import Factor, FactoredSteps, Momentum
from sfumato.learners.feature_extractors import EXTRACTORS, make_extractor
from sfumato.learners.learner import Learner
from sfumato.learners.linear_head import LinearHead
from sfumato.learners.noise_schedule import NoiseSchedule
from sfumato.learners.noisy_sum import NoisySum
from sfumato.learners.private_adam import PrivateAdam
from sfumato.learners.private_fit import Fitted, fit_private
from sfumato.learners.private_learner import PrivateLearner
from sfumato.learners.private_softmax import PrivateSoftmax
from sfumato.learners.quantile_clipping import QuantileSum
from sfumato.learners.scattering import Scattering
from sfumato.learners.scattering_features import ScatteringFeatures
from sfumato.learners.whitening import Whitened

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
