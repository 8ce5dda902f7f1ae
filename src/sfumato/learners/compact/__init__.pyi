# Written by `make index` from the `__all__` of every module.
from .class_densities import Allocation as Allocation
from .class_densities import ClassProfile as ClassProfile
from .class_densities import allocations as allocations
from .compact_classifier import CompactClassifier as CompactClassifier
from .compact_private import CompactPrivate as CompactPrivate
