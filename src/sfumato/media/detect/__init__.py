"""Detectors of sensitive content in images: faces, licence plates, text, and salient regions.

Each finds boxes in a whole picture and scores tiles, every tile from its own pixels alone. What a detector
finds is as private as the picture.
"""

# Below this line: written by `make index` from the `__all__` of every module.
from typing import TYPE_CHECKING

from sfumato.loading import when_used

if TYPE_CHECKING:
    from sfumato.media.detect.detectors import Box as Box
    from sfumato.media.detect.detectors import Detector as Detector
    from sfumato.media.detect.detectors import Faces as Faces
    from sfumato.media.detect.detectors import Plates as Plates
    from sfumato.media.detect.detectors import Saliency as Saliency
    from sfumato.media.detect.detectors import Text as Text
    from sfumato.media.detect.detectors import named_detectors as named_detectors
    from sfumato.media.detect.thresholds import exponential_threshold as exponential_threshold
    from sfumato.media.detect.thresholds import functional_threshold as functional_threshold
    from sfumato.media.detect.thresholds import projected_gradient_threshold as projected_gradient_threshold
    from sfumato.media.detect.thresholds import threshold_cost as threshold_cost

__all__ = [
    "Box",
    "Detector",
    "Faces",
    "Plates",
    "Saliency",
    "Text",
    "exponential_threshold",
    "functional_threshold",
    "named_detectors",
    "projected_gradient_threshold",
    "threshold_cost",
]

if not TYPE_CHECKING:  # a type checker knows the names above, and refuses any other
    __getattr__, __dir__ = when_used(
        __name__,
        {
            "Box": "detectors",
            "Detector": "detectors",
            "Faces": "detectors",
            "Plates": "detectors",
            "Saliency": "detectors",
            "Text": "detectors",
            "named_detectors": "detectors",
            "exponential_threshold": "thresholds",
            "functional_threshold": "thresholds",
            "projected_gradient_threshold": "thresholds",
            "threshold_cost": "thresholds",
        },
    )
