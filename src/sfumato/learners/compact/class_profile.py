"""The class profile of CompactDP: how wide and how dense each class is, before and after contraction.

Definitions 1 and 6 of the paper. They describe features; none of them bounds what leaves about a record, and
a constant factor on all features changes the diameters and no attack.

**What the paper leaves open.** Equation 18 writes d_c with contracted features and equation 19 divides
contracted diameters by it, so d_c is the diameter before contraction, as the paper's d_c = 67 and 18 with
vulnerabilities in the ratio 3.7 confirm. The expectation of equation 7 is the mean over the records of the
class. ρ_c leaves the range of floats in many dimensions, so its logarithm is kept.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sfumato.learners.compact.row_distances import squared_distances
from sfumato.learners.examples import Floats

__all__ = ["ClassProfile"]

_COLUMNS = ("count", "diameter", "contracted_diameter", "log_rho", "contracted_log_rho")


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
        """Of ``pairs``, for each class its features (n_c, p) and what they were contracted to; h of both."""
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
        """One mapping a class, with everything above by its name."""
        columns = {name: getattr(self, name) for name in (*_COLUMNS, "eta", "kappa", "rho", "vulnerability")}
        return [
            {"class": kind, **{name: float(column[kind]) for name, column in columns.items()}}
            for kind in range(len(self.count))
        ]

    def table(self) -> NDArray[Any]:
        """What :meth:`from_table` reads: (1 + classes, 5), the dimension first."""
        head = np.zeros((1, len(_COLUMNS)))
        head[0, 0] = self.dimension
        return np.concatenate([head, np.stack([getattr(self, name) for name in _COLUMNS], axis=1)])

    @classmethod
    def from_table(cls, table: NDArray[Any]) -> Self:
        """The profile of which ``table`` was kept."""
        return cls._of_columns(table[1:], int(table[0, 0]))

    @classmethod
    def _of_columns(cls, rows: NDArray[Any], dimension: int) -> Self:
        count, diameter, contracted, log_rho, contracted_log_rho = rows.T
        return cls(count, diameter, contracted, log_rho, contracted_log_rho, dimension)


def _width_and_density(rows: NDArray[np.floating], bandwidth: float) -> tuple[float, float]:
    """The largest distance of two rows, and the log of the mean kernel over all pairs, (i, i) included."""
    widest, tops, sums = 0.0, [], []
    for _, block in squared_distances(rows, rows):
        widest = max(widest, float(block.max()))
        block *= -0.5 / bandwidth**2
        tops.append(float(block.max()))
        sums.append(float(np.exp(block - tops[-1]).sum()))
    top = max(tops)
    total = math.fsum(part * math.exp(own - top) for part, own in zip(sums, tops, strict=True))
    size = rows.shape[1] * (math.log(bandwidth) + 0.5 * math.log(2.0 * math.pi))
    return math.sqrt(widest), top + math.log(total) - 2.0 * math.log(len(rows)) - size
