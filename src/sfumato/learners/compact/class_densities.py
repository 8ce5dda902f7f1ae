"""Class densities and class profile of CompactDP, and its noise allocation as printed and corrected.

**Allocation.** Equation 21 is printed as σ_c = Δ·ν_c·η_c^(3/2) / (ε·√(2 log(1.25/δ))): the less δ, the *less*
noise. The root belongs in the numerator, as in the Gaussian mechanism whose condition is
σ ≥ Δ·√(2 log(1.25/δ))/ε. Both carry ν_c, a length, so σ_c depends on the ruler with which features are
measured.

Equation 22, Σ Δ_c²/σ_c² ≤ 2ε²/log(1.25/δ), is checked as printed. The condition of the Gaussian mechanism for
the classes together would be Σ Δ_c²/σ_c² ≤ ε²/(2 log(1.25/δ)), a quarter of it, which is checked too.

**Guarantee.** An allocation has none: ν_c and η_c are diameters and counts of private records under a map
trained on them, so the noise itself depends on them.

**Densities.** Equation 5 of CompactDP and line 6 of its Algorithm 1: p_c(z) = (1/n_c) Σ_j K_h(z − z_j), with
K_h(u) = (2πh²)^(−p/2) exp(−‖u‖²/2h²): one Gaussian kernel, one bandwidth for all classes. Densities of
hundreds of dimensions are outside the range of floats, so only their logarithms are computed. Squared
distances between rows are matrix products, a block of rows at a time.

*What the paper leaves open.* It "adopted adapted bandwidth […] to remove h" and does not say how. Here the
adaptive bandwidth is Scott's rule with a spread that is robust: for each class the median distance between
two of its records, over √2 (the typical distance of a record from its class), times n_c^(−1/(p+4)); h is the
median of that over classes. One h serves all classes, as the paper's formula has it: with bandwidths of their
own, classes would be told apart by the factor h_c^(−p), which at p = 768 outweighs every distance. The spread
is that of whole vectors, not of single coordinates, so kernels reach across a class and its density has a
mode to contract to. The bandwidth is in the units of the features: it scales as they do.

**Profile**: how wide and how dense each class is, before and after contraction (definitions 1 and 6 of the
paper). They describe features; none of them bounds what leaves about a record, and a constant factor on all
features changes the diameters and no attack.

*What the paper leaves open.* Equation 18 writes d_c with contracted features and equation 19 divides
contracted diameters by it, so d_c is the diameter before contraction, as the paper's d_c = 67 and 18 with
vulnerabilities in the ratio 3.7 confirm. The expectation of equation 7 is the mean over the records of the
class. ρ_c leaves the range of floats in many dimensions, so its logarithm is kept.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp, softmax

from sfumato.errors import BadInput
from sfumato.learners.learner import (
    Floats,
    Labels,
    as_array,
    checked_examples,
    checked_features,
    whole_number,
)
from sfumato.mechanisms import delta_between, positive, shown

__all__ = ["Allocation", "ClassProfile", "allocations"]


def examples_of_all_classes(X: Any, y: Any, classes: int | None) -> tuple[NDArray[np.floating], Labels]:
    """Return checked features and labels, with two or more classes of two or more records each.

    ``classes`` None stands for those from 0 to the largest label.
    """
    labels = as_array("labels", y)
    if classes is None:
        found = int(labels.max()) if labels.dtype.kind in "ui" and labels.size else 0
        # A label for which no record could be among so many is left to be refused as one outside.
        classes = min(max(found, 0), labels.size) + 1
    features, checked = checked_examples(X, y, whole_number("classes", classes))
    if classes < 2:
        raise BadInput("one class was given: a classifier needs two or more.")
    require_records(2, checked, classes, "a class density")
    return features, checked


def require_records(least: int, labels: Labels, classes: int, what: str) -> None:
    """Refuse a class with fewer than ``least`` records, which ``what`` needs."""
    counts = np.bincount(labels, minlength=classes)
    short = np.flatnonzero(counts < least)
    if short.size:
        has = "no record" if not counts[short[0]] else "one record"
        raise BadInput(f"class {short[0]} has {has}: {what} needs {least} or more of every class.")


def checked_bandwidth(bandwidth: str | float) -> float | None:
    """Return a fixed bandwidth as a float, or None where it is ``"adaptive"``."""
    if isinstance(bandwidth, str):
        if bandwidth != "adaptive":
            raise BadInput(
                f"`bandwidth` was {shown(bandwidth)}: it is 'adaptive' or a positive number.",
                parameter="bandwidth",
            )
        return None
    return positive("bandwidth", bandwidth)


# Distances held at once: 32 MB of them.
_CELLS = 1 << 22
# Where records of a class coincide, kernels still have this part of the spread of all points as width.
_NARROWEST = 1e-6
# Records of a class whose distances are looked at; a median needs no more.
_LOOKED_AT = 1000
_COLUMNS = ("count", "diameter", "contracted_diameter", "log_rho", "contracted_log_rho")


def squared_distances(
    rows: NDArray[np.floating], points: NDArray[np.floating]
) -> Iterator[tuple[slice, Floats]]:
    """Yield blocks (where, ‖row − point‖²) that cover all ``rows`` (n, p) against all ``points`` (m, p).

    Computed in float64 around the mean of the points, so that features far from the origin lose no digits.
    """
    centre = points.mean(axis=0, dtype=np.float64)
    around = points - centre
    lengths = np.einsum("ij,ij->i", around, around)
    size = max(1, _CELLS // len(points))
    for first in range(0, len(rows), size):
        where = slice(first, min(first + size, len(rows)))
        block = rows[where] - centre
        found = block @ around.T
        found *= -2.0
        found += lengths
        found += np.einsum("ij,ij->i", block, block)[:, None]
        yield where, np.maximum(found, 0.0, out=found)


def within(points: NDArray[np.floating]) -> Floats:
    """Return the distances of all pairs of different ``points`` (m, p), m(m − 1)/2 of them."""
    first, second = np.triu_indices(len(points), 1)
    whole = np.concatenate([block for _, block in squared_distances(points, points)])
    return np.asarray(np.sqrt(whole[first, second]))


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
        require_records(1, self.labels, classes, "a density")
        given = checked_bandwidth(bandwidth)
        self.bandwidth = adaptive_bandwidth(self.points, self.labels, classes) if given is None else given
        self._points = [self.points[self.labels == kind] for kind in range(classes)]

    def log_density(self, X: NDArray[np.floating], kind: int) -> Floats:
        """Return the log-densities (n,) of class ``kind`` at the rows of ``X``."""
        rows, points = checked_features(X, self.points.shape[1]), self._points[kind]
        found = np.empty(len(rows))
        for where, block in squared_distances(rows, points):
            found[where] = logsumexp(block * (-0.5 / self.bandwidth**2), axis=1)
        return found - math.log(len(points)) - _log_kernel(points.shape[1], self.bandwidth)

    def log_densities(self, X: NDArray[np.floating]) -> Floats:
        """Return the log-densities of every class at the rows of ``X``: (n, classes)."""
        rows = checked_features(X, self.points.shape[1])
        return np.stack([self.log_density(rows, kind) for kind in range(self.classes)], axis=1)

    def probabilities(self, X: NDArray[np.floating]) -> Floats:
        """Return p_c over the sum of all densities, (n, classes): classes count as equally frequent."""
        return np.asarray(softmax(self.log_densities(X), axis=1))


def adaptive_bandwidth(points: NDArray[np.floating], labels: Labels, classes: int) -> float:
    """Return the median over classes of (median distance within the class)/√2 · n_c^(−1/(p+4)).

    Of a class with more than 1,000 points, 1,000 evenly spaced ones are looked at. At least a millionth of
    the spread of all points, and refused where all of them coincide.
    """
    require_records(2, labels, classes, "an adaptive bandwidth")
    found = []
    for kind in range(classes):
        own = points[labels == kind]
        some = own[np.linspace(0, len(own) - 1, min(len(own), _LOOKED_AT)).astype(np.intp)]
        found.append(np.median(within(some)) / math.sqrt(2.0) * len(own) ** (-1.0 / (own.shape[1] + 4)))
    spread = math.sqrt(float(np.var(points, axis=0, dtype=np.float64).sum()))
    if spread <= 0.0:
        raise BadInput("all points coincide: a density needs features that differ.")
    return max(float(np.median(found)), _NARROWEST * spread)


@dataclass(frozen=True)
class ClassProfile:
    """One entry a class: (classes,) arrays, in the units of the features.

    ``diameter`` is d_c, ``contracted_diameter`` d′_c, ``log_rho`` log ρ_c before contraction and
    ``contracted_log_rho`` after it, each at the bandwidth in use there; ``dimension`` is p.
    """

    count: Floats
    diameter: Floats
    contracted_diameter: Floats
    log_rho: Floats
    contracted_log_rho: Floats
    dimension: int

    @classmethod
    def of(
        cls,
        pairs: Iterable[tuple[NDArray[np.floating], NDArray[np.floating]]],
        *,
        bandwidth: float,
        contracted_bandwidth: float,
    ) -> Self:
        """Return the profile of ``pairs``: of each class features (n_c, p) and contracted ones; h of both."""
        rows = []
        for features, contracted in pairs:
            diameter, log_rho = _width_and_density(features, bandwidth)
            narrow, dense = _width_and_density(contracted, contracted_bandwidth)
            rows.append((len(features), diameter, narrow, log_rho, dense))
        return cls._of_columns(np.array(rows, dtype=np.float64), features.shape[1])

    @property
    def eta(self) -> Floats:
        """η_c = d′_c/d_c (equation 6); 1 for a class whose records coincide."""
        wide = self.diameter > 0.0
        return np.where(wide, self.contracted_diameter / np.where(wide, self.diameter, 1.0), 1.0)

    @property
    def kappa(self) -> Floats:
        """κ_c = 1 − η_c (equation 8)."""
        return 1.0 - self.eta

    @property
    def rho(self) -> Floats:
        """ρ_c (equation 7) before contraction: 0 or infinite where floats end."""
        with np.errstate(over="ignore"):
            return np.asarray(np.exp(self.log_rho))

    @property
    def vulnerability(self) -> Floats:
        """ν_c = d_c/n_c^(1/(p+4)) (equation 20)."""
        return np.asarray(self.diameter / self.count ** (1.0 / (self.dimension + 4)))

    def rows(self) -> list[dict[str, float]]:
        """Return one mapping for each class, with everything above by its name."""
        columns = {name: getattr(self, name) for name in (*_COLUMNS, "eta", "kappa", "rho", "vulnerability")}
        return [
            {"class": kind, **{name: float(column[kind]) for name, column in columns.items()}}
            for kind in range(len(self.count))
        ]

    def table(self) -> NDArray[Any]:
        """Return what :meth:`from_table` reads: (1 + classes, 5), the dimension first."""
        head = np.zeros((1, len(_COLUMNS)))
        head[0, 0] = self.dimension
        return np.concatenate([head, np.stack([getattr(self, name) for name in _COLUMNS], axis=1)])

    @classmethod
    def from_table(cls, table: NDArray[Any]) -> Self:
        """Return the profile of which ``table`` was kept."""
        return cls._of_columns(table[1:], int(table[0, 0]))

    @classmethod
    def _of_columns(cls, rows: NDArray[Any], dimension: int) -> Self:
        count, diameter, contracted, log_rho, contracted_log_rho = rows.T
        return cls(count, diameter, contracted, log_rho, contracted_log_rho, dimension)


def _width_and_density(rows: NDArray[np.floating], bandwidth: float) -> tuple[float, float]:
    """Return the largest distance of two rows, and the log of the mean kernel of all pairs, (i, i) too."""
    widest, logs = 0.0, []
    for _, block in squared_distances(rows, rows):
        widest = max(widest, float(block.max()))
        logs.append(logsumexp(block * (-0.5 / bandwidth**2)))
    density = float(logsumexp(logs)) - 2.0 * math.log(len(rows)) - _log_kernel(rows.shape[1], bandwidth)
    return math.sqrt(widest), density


def _log_kernel(dimension: int, bandwidth: float) -> float:
    """Return minus the log of the kernel's largest value, p·log(h√2π)."""
    return dimension * (math.log(bandwidth) + 0.5 * math.log(2.0 * math.pi))


@dataclass(frozen=True)
class Allocation:
    """The noise ``sigma`` (classes,) of Theorem 3 for ``epsilon`` and ``delta``, and whether it keeps to 22.

    ``spent`` is Σ 1/σ_c², ``allowed`` the right side of equation 22 as printed, ``sound`` the right side that
    the Gaussian mechanism would need. All with Δ = 1.
    """

    formula: str
    sigma: Floats
    epsilon: float
    delta: float
    spent: float
    allowed: float
    sound: float

    @property
    def within_paper(self) -> bool:
        """Whether equation 22 holds as printed."""
        return self.spent <= self.allowed

    @property
    def within_sound(self) -> bool:
        """Whether the condition of the Gaussian mechanism for all classes together holds."""
        return self.spent <= self.sound


def allocations(profile: ClassProfile, *, epsilon: float, delta: float) -> tuple[Allocation, Allocation]:
    """Return the noise of equation 21 as printed, and with its root in the numerator, both with Δ = 1."""
    epsilon, delta = positive("epsilon", epsilon), delta_between(delta)
    shape = profile.vulnerability * profile.eta**1.5
    if not (shape > 0.0).all():
        raise BadInput(
            f"class {int(np.flatnonzero(shape <= 0.0)[0])} has a diameter of 0, before contraction or after "
            "it: equation 21 would give it no noise."
        )
    logarithm = math.log(1.25 / delta)
    root = math.sqrt(2.0 * logarithm)

    def allocation(formula: str, sigma: Floats) -> Allocation:
        spent = float((sigma**-2.0).sum())
        allowed, sound = 2.0 * epsilon**2 / logarithm, epsilon**2 / (2.0 * logarithm)
        return Allocation(formula, sigma, epsilon, delta, spent, allowed, sound)

    return (
        allocation("equation 21 as printed", shape / (epsilon * root)),
        allocation("equation 21, corrected", shape * root / epsilon),
    )
