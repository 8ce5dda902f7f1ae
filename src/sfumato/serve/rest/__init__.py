"""REST, version 1: the operations of the service over HTTP, with JSON, files and problem details."""

from sfumato.loading import names_of_stub

__getattr__, __dir__, __all__ = names_of_stub(__name__, __file__)
