"""A zoo of broken mechanisms, each a mistake that people make, and of sound ones, to try the audit on."""

from sfumato.loading import names_of_stub

__getattr__, __dir__, __all__ = names_of_stub(__name__, __file__)
