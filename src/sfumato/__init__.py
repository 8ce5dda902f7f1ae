"""Sfumato releases data so that nobody in it can be singled out, and says how far that promise goes.

Names are loaded when they are first used, so that ``import sfumato`` stays light.
"""

from sfumato.loading import names_of_stub

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = names_of_stub(__name__, __file__)
# `import *` needs no extra.
__all__ = ["__version__", *(name for name in __all__ if name != "fit_private")]
