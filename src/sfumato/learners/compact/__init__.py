"""CompactDP as published: class densities, anchors, feature contraction, and DP-SGD on what was contracted.

Nothing here proves anything about a record; every statement says why.
"""

from sfumato.loading import names_of_stub

__getattr__, __dir__, __all__ = names_of_stub(__name__, __file__)
