# Written by `make index` from the `__all__` of every module.
from .detectors import Box as Box
from .detectors import Detector as Detector
from .detectors import Faces as Faces
from .detectors import Plates as Plates
from .detectors import Saliency as Saliency
from .detectors import Text as Text
from .detectors import named_detectors as named_detectors
from .thresholds import exponential_threshold as exponential_threshold
from .thresholds import functional_threshold as functional_threshold
from .thresholds import projected_gradient_threshold as projected_gradient_threshold
from .thresholds import threshold_cost as threshold_cost
