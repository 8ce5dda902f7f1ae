"""Learning from private records with a proven guarantee: sampling, clipping, noise and their accounting."""

from sfumato.errors import BadInput

try:
    import torch  # noqa: F401  (imported here once, so that modules of this room need not check)
except ImportError:
    raise BadInput("learning needs torch: pip install 'sfumato[learn]'.") from None

# Below this line: written by `make index` from the `__all__` of every module.
from typing import TYPE_CHECKING

from sfumato.loading import when_used

if TYPE_CHECKING:
    from sfumato.learners.certified_compact import CertifiedCompact as CertifiedCompact
    from sfumato.learners.correlated_noise import Factor as Factor
    from sfumato.learners.correlated_noise import Momentum as Momentum
    from sfumato.learners.dp_sgd import DPSGD as DPSGD
    from sfumato.learners.extractor import Extractor as Extractor
    from sfumato.learners.extractor import checked_pictures as checked_pictures
    from sfumato.learners.feature_extractors import EXTRACTORS as EXTRACTORS
    from sfumato.learners.feature_extractors import make_extractor as make_extractor
    from sfumato.learners.learner import Learner as Learner
    from sfumato.learners.learner import checked_examples as checked_examples
    from sfumato.learners.learner import checked_features as checked_features
    from sfumato.learners.private_fit import PrivateLearner as PrivateLearner
    from sfumato.learners.private_fit import fit_private as fit_private
    from sfumato.learners.private_softmax import PrivateSoftmax as PrivateSoftmax

__all__ = [
    "DPSGD",
    "EXTRACTORS",
    "CertifiedCompact",
    "Extractor",
    "Factor",
    "Learner",
    "Momentum",
    "PrivateLearner",
    "PrivateSoftmax",
    "checked_examples",
    "checked_features",
    "checked_pictures",
    "fit_private",
    "make_extractor",
]

if not TYPE_CHECKING:  # a type checker knows the names above, and refuses any other
    __getattr__, __dir__ = when_used(
        __name__,
        {
            "CertifiedCompact": "certified_compact",
            "Factor": "correlated_noise",
            "Momentum": "correlated_noise",
            "DPSGD": "dp_sgd",
            "Extractor": "extractor",
            "checked_pictures": "extractor",
            "EXTRACTORS": "feature_extractors",
            "make_extractor": "feature_extractors",
            "Learner": "learner",
            "checked_examples": "learner",
            "checked_features": "learner",
            "PrivateLearner": "private_fit",
            "fit_private": "private_fit",
            "PrivateSoftmax": "private_softmax",
        },
    )
