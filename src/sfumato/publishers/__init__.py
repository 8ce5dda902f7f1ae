"""Publishers: they learn from private pictures and publish other pictures in their place.

Publishers that train networks need torch and are loaded when they are first used.
"""

from sfumato.loading import names_of_stub

__getattr__, __dir__, __all__ = names_of_stub(__name__, __file__)
