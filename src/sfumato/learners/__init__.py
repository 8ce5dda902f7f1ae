"""Learning from private records with a proven guarantee: sampling, clipping, noise and their accounting."""

from sfumato.errors import BadInput
from sfumato.loading import names_of_stub

try:
    import torch  # noqa: F401  (imported here once, so that modules of this room need not check)
except ImportError:
    raise BadInput("learning needs torch: pip install 'sfumato[learn]'.") from None

__getattr__, __dir__, __all__ = names_of_stub(__name__, __file__)
