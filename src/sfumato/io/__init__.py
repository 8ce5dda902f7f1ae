"""Sources that stream and sinks that appear whole or not at all: NumPy arrays, tables under a schema, media.

Readers and writers of media are loaded when they are first used.
"""

from sfumato.loading import names_of_stub

__getattr__, __dir__, __all__ = names_of_stub(__name__, __file__)
