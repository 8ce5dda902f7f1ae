"""CompactDP as published: class densities, anchors, feature contraction, and DP-SGD on what was contracted.

Nothing here proves anything about a record; every statement says why.
"""

from sfumato.learn.compact.allocation import (
    Allocation,
    class_release_guarantee,
    corrected_allocation,
    paper_allocation,
)
from sfumato.learn.compact.anchors import anchors_of
from sfumato.learn.compact.classifier import CompactClassifier
from sfumato.learn.compact.contraction import ContractionNetwork
from sfumato.learn.compact.kernel_density import ClassDensities
from sfumato.learn.compact.profile import ClassProfile
from sfumato.learn.compact.second_stage import CompactPrivate

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
