# Written by `make index` from the `__all__` of every module.
from .detector import Box as Box
from .detector import Detector as Detector
from .detectors import Faces as Faces
from .detectors import Plates as Plates
from .detectors import Saliency as Saliency
from .detectors import named_detectors as named_detectors
from .learned_scorer import Learned as Learned
from .learned_scorer import SensitivityScorer as SensitivityScorer
from .learned_scorer import tile_embedding as tile_embedding
from .text_detector import Text as Text
from .thresholds import exponential_threshold as exponential_threshold
from .thresholds import functional_threshold as functional_threshold
from .thresholds import projected_gradient_threshold as projected_gradient_threshold
from .thresholds import threshold_cost as threshold_cost
