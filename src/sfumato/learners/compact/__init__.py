"""CompactDP as published: class densities, anchors, feature contraction, and DP-SGD on what was contracted.

Nothing here proves anything about a record; every statement says why.
"""

# Below this line: written by `make index` from the `__all__` of every module.
from typing import TYPE_CHECKING

from sfumato.loading import when_used

if TYPE_CHECKING:
    from sfumato.learners.compact.class_densities import Allocation as Allocation
    from sfumato.learners.compact.class_densities import ClassProfile as ClassProfile
    from sfumato.learners.compact.class_densities import allocations as allocations
    from sfumato.learners.compact.compact_classifier import CompactClassifier as CompactClassifier
    from sfumato.learners.compact.compact_private import CompactPrivate as CompactPrivate

__all__ = ["Allocation", "ClassProfile", "CompactClassifier", "CompactPrivate", "allocations"]

if not TYPE_CHECKING:  # a type checker knows the names above, and refuses any other
    __getattr__, __dir__ = when_used(
        __name__,
        {
            "Allocation": "class_densities",
            "ClassProfile": "class_densities",
            "allocations": "class_densities",
            "CompactClassifier": "compact_classifier",
            "CompactPrivate": "compact_private",
        },
    )
