"""CompactDP as published: class densities, anchors, feature contraction, and DP-SGD on what was contracted.

Nothing here proves anything about a record; every statement says why.
"""

from sfumato.learners.compact.anchors import anchors_of
from sfumato.learners.compact.class_profile import ClassProfile
from sfumato.learners.compact.compact_classifier import CompactClassifier
from sfumato.learners.compact.compact_private import CompactPrivate
from sfumato.learners.compact.contraction import ContractionNetwork
from sfumato.learners.compact.kernel_density import ClassDensities
from sfumato.learners.compact.noise_allocation import (
    Allocation,
    class_release_guarantee,
    corrected_allocation,
    paper_allocation,
)

__all__ = [
    "Allocation",
    "ClassDensities",
    "ClassProfile",
    "CompactClassifier",
    "CompactPrivate",
    "ContractionNetwork",
    "anchors_of",
    "class_release_guarantee",
    "corrected_allocation",
    "paper_allocation",
]
