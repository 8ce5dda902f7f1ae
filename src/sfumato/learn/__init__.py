"""Learning from private records with a proven guarantee: sampling, clipping, noise and their accounting."""

from sfumato.errors import BadInput

try:
    import torch  # noqa: F401  (asked for here, so that every module of this room may count on it)
except ImportError:
    raise BadInput("learning needs torch: pip install 'sfumato[learn]'.") from None

from sfumato.learn.dp_sgd import DPSGD
from sfumato.learn.extractor import Extractor
from sfumato.learn.learner import Learner
from sfumato.learn.linear_head import LinearHead
from sfumato.learn.noisy_sum import NoisySum
from sfumato.learn.private_softmax import PrivateSoftmax
from sfumato.learn.scattering import Scattering

__all__ = ["DPSGD", "Extractor", "Learner", "LinearHead", "NoisySum", "PrivateSoftmax", "Scattering"]
