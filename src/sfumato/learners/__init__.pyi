# Written by `make index` from the `__all__` of every module.
from .certified_compact import CertifiedCompact as CertifiedCompact
from .correlated_noise import Factor as Factor
from .correlated_noise import Momentum as Momentum
from .dp_sgd import DPSGD as DPSGD
from .extractor import Extractor as Extractor
from .extractor import checked_pictures as checked_pictures
from .feature_extractors import EXTRACTORS as EXTRACTORS
from .feature_extractors import make_extractor as make_extractor
from .learner import Learner as Learner
from .learner import checked_examples as checked_examples
from .learner import checked_features as checked_features
from .private_fit import PrivateLearner as PrivateLearner
from .private_fit import fit_private as fit_private
from .private_softmax import PrivateSoftmax as PrivateSoftmax
