"""The one path every release takes, from a file to a file.

Names are loaded when they are first used: a cluster gets ready while the rest of this room is loaded.
"""

from sfumato.loading import names_of_stub

__getattr__, __dir__, __all__ = names_of_stub(__name__, __file__)
