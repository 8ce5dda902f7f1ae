"""Detectors of sensitive content in images: faces, licence plates, text, and salient regions.

Each finds boxes in a whole picture and scores tiles, every tile from its own pixels alone. What a detector
finds is as private as the picture.
"""

from sfumato.loading import names_of_stub

__getattr__, __dir__, __all__ = names_of_stub(__name__, __file__)
