"""Class-wise kernel densities of features: one Gaussian kernel, one bandwidth for all classes.

Equation 5 of CompactDP and line 6 of its Algorithm 1: p_c(z) = (1/n_c) Σ_j K_h(z − z_j), with
K_h(u) = (2πh²)^(−p/2) exp(−‖u‖²/2h²). Densities of hundreds of dimensions are outside the range of floats, so
only their logarithms are computed.

**What the paper leaves open.** It "adopted adapted bandwidth […] to remove h" and does not say how. Here the
adaptive bandwidth is Scott's rule with a spread that is robust: for each class the median distance between
two of its records, over √2 (the typical distance of a record from its class), times n_c^(−1/(p+4)); h is the
median of that over classes. One h serves all classes, as the paper's formula has it: with bandwidths of their
own, classes would be told apart by the factor h_c^(−p), which at p = 768 outweighs every distance. The spread
is that of whole vectors, not of single coordinates, so kernels reach across a class and its density has a
mode to contract to. The bandwidth is in the units of the features: it scales as they do.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.learners.compact.compact_inputs import checked_bandwidth, each_class_has
from sfumato.learners.compact.row_distances import squared_distances, within
from sfumato.learners.examples import Floats, Labels, checked_examples, checked_features

__all__ = ["ClassDensities", "adaptive_bandwidth"]

# Where records of a class coincide, kernels still have this part of the spread of all points as width.
_NARROWEST = 1e-6
# Records of a class whose distances are looked at; a median needs no more.
_LOOKED_AT = 1000


class ClassDensities:
    """Densities of ``classes`` classes, estimated from ``points`` (m, p) with ``labels`` 0…``classes``−1.

    ``bandwidth`` is ``"adaptive"`` or h itself, in the units of the points; :attr:`bandwidth` is the h in
    use. Every class needs a point, and for an adaptive bandwidth two.
    """

    def __init__(
        self,
        points: NDArray[np.floating],
        labels: NDArray[np.integer],
        classes: int,
        *,
        bandwidth: str | float = "adaptive",
    ) -> None:
        self.points, self.labels = checked_examples(points, labels, classes)
        self.classes = classes
        each_class_has(1, self.labels, classes, "a density")
        given = checked_bandwidth(bandwidth)
        self.bandwidth = adaptive_bandwidth(self.points, self.labels, classes) if given is None else given
        self._points = [self.points[self.labels == kind] for kind in range(classes)]

    def log_density(self, X: NDArray[np.floating], kind: int) -> Floats:
        """The log-densities (n,) of class ``kind`` at the rows of ``X``."""
        rows, points = checked_features(X, self.points.shape[1]), self._points[kind]
        found = np.empty(len(rows))
        for where, block in squared_distances(rows, points):
            block *= -0.5 / self.bandwidth**2
            most = block.max(axis=1)
            block -= most[:, None]
            found[where] = most + np.log(np.exp(block, out=block).mean(axis=1))
        dimension = self.points.shape[1]
        found -= dimension * (math.log(self.bandwidth) + 0.5 * math.log(2.0 * math.pi))
        return found

    def log_densities(self, X: NDArray[np.floating]) -> Floats:
        """The log-densities of every class at the rows of ``X``: (n, classes)."""
        rows = checked_features(X, self.points.shape[1])
        return np.stack([self.log_density(rows, kind) for kind in range(self.classes)], axis=1)

    def probabilities(self, X: NDArray[np.floating]) -> Floats:
        """p_c over the sum of all classes' densities, (n, classes): classes count as equally frequent."""
        logs = self.log_densities(X)
        shares = np.exp(logs - logs.max(axis=1, keepdims=True))
        return np.asarray(shares / shares.sum(axis=1, keepdims=True))


def adaptive_bandwidth(points: NDArray[np.floating], labels: Labels, classes: int) -> float:
    """The median over classes of (median distance within the class)/√2 · n_c^(−1/(p+4)).

    Of a class with more than 1,000 points, 1,000 evenly spaced ones are looked at. At least a millionth of
    the spread of all points, and refused where all of them coincide.
    """
    each_class_has(2, labels, classes, "an adaptive bandwidth")
    found = []
    for kind in range(classes):
        own = points[labels == kind]
        some = own[np.linspace(0, len(own) - 1, min(len(own), _LOOKED_AT)).astype(np.intp)]
        found.append(np.median(within(some)) / math.sqrt(2.0) * len(own) ** (-1.0 / (own.shape[1] + 4)))
    spread = math.sqrt(float(np.var(points, axis=0, dtype=np.float64).sum()))
    if spread <= 0.0:
        raise BadInput("all points coincide: a density needs features that differ.")
    return max(float(np.median(found)), _NARROWEST * spread)
