"""Detectors of what a picture gives away: faces, licence plates, text, and what stands out.

Each finds boxes in a whole picture and scores tiles, every tile from its own pixels alone. What a detector
finds is as private as the picture.
"""

from sfumato.media.detect.cascades import Faces, Plates
from sfumato.media.detect.detector import Box, Detector
from sfumato.media.detect.detector_names import DETECTORS, named_detectors
from sfumato.media.detect.learned_detector import Learned
from sfumato.media.detect.learned_scorer import SensitivityScorer
from sfumato.media.detect.saliency_detector import Saliency
from sfumato.media.detect.text_detector import Text
from sfumato.media.detect.tile_embedding import tile_embedding
from sfumato.media.images.tiles import tiles_of

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
