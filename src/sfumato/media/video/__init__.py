"""Mechanisms for video: frames, sound, and both together."""

from sfumato.loading import names_of_stub

__getattr__, __dir__, __all__ = names_of_stub(__name__, __file__)
