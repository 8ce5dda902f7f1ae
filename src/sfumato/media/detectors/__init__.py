"""Detectors of what a picture gives away: faces, licence plates, text, and what stands out.

Each finds boxes in a whole picture and scores tiles, every tile from its own pixels alone. What a detector
finds is as private as the picture.
"""

from sfumato.media.detectors.cascades import Faces, Plates
from sfumato.media.detectors.detector import Box, Detector
from sfumato.media.detectors.learned import Learned
from sfumato.media.detectors.named import DETECTORS, named_detectors
from sfumato.media.detectors.saliency import Saliency
from sfumato.media.detectors.text import Text
from sfumato.media.embeddings import tile_embedding
from sfumato.media.scorer import SensitivityScorer
from sfumato.media.tiles import tiles_of

__all__ = [
    "DETECTORS",
    "Box",
    "Detector",
    "Faces",
    "Learned",
    "Plates",
    "Saliency",
    "SensitivityScorer",
    "Text",
    "named_detectors",
    "tile_embedding",
    "tiles_of",
]
