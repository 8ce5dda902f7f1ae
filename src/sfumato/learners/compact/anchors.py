"""Anchors of a class: its records of highest density (CompactDP, equation 2).

**What the paper leaves open.** With γ = 0.5 it names "approximately 50 samples per class of CIFAR10", which
has 5,000 of each, so the densities must have been those of about 100 records of a class. They are drawn here
at random, ``references`` of each class; ``None`` takes all of them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.learners.compact.compact_inputs import whole
from sfumato.learners.compact.kernel_density import ClassDensities
from sfumato.learners.examples import Labels
from sfumato.mechanisms.parameters import positive
from sfumato.noise import Stream, permutation

__all__ = ["anchors_of", "references_of"]


def references_of(labels: Labels, classes: int, references: int | None, stream: Stream) -> NDArray[np.intp]:
    """Positions of at most ``references`` records of each class, drawn by ``stream``; in rising order."""
    if references is not None:
        references = whole("references", references, least=2)
    chosen = []
    for kind in range(classes):
        own = np.flatnonzero(labels == kind)
        if references is not None and len(own) > references:
            own = own[permutation(stream, len(own))[:references]]
        chosen.append(own)
    return np.sort(np.concatenate(chosen))


def anchors_of(densities: ClassDensities, *, share: float = 0.5) -> NDArray[np.intp]:
    """Positions, among points of ``densities``, of those above the (1 − ``share``) quantile of their class.

    The density of a point counts the point itself, which adds the same to all of a class. A class keeps its
    densest point whatever the share; points as dense as the quantile are anchors. The quantile is taken of
    log-densities: that of densities lies between the same two points, so the anchors are the same.
    """
    if positive("share", share) > 1.0:
        raise BadInput(f"`share` was {share!r}: it must lie above 0 and be at most 1.", parameter="share")
    chosen = []
    for kind in range(densities.classes):
        own = np.flatnonzero(densities.labels == kind)
        logs = densities.log_density(densities.points[own], kind)
        chosen.append(own[logs >= np.quantile(logs, 1.0 - share)])
    return np.sort(np.concatenate(chosen))
