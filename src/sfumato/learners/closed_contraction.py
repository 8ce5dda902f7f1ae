"""A contraction in closed form from noisy class sums and noisy second moments.

With class anchors a_c and the second moment S of all features, W = S − Σ_c (n_c/n)·a_c a_cᵀ is how features
vary inside classes. The map

    g(z) = (W + ρ)^(−½) (z − mean),   brought to length 1,

shrinks every direction by how much it varies inside classes: what all members of a class share is kept and
what tells them apart is contracted. Along the directions that separate classes, members come to lie nearer to
each other relative to the distance between classes; it is no smaller ruler, which would change nothing. It is
computed from released numbers alone and applied to each record by itself, so it costs nothing more.

Noise on S of deviation s off the diagonal has eigenvalues inside ±e, e = 2s√d. An eigenvalue v above e is
that of λ + e²/4λ (Benaych-Georges & Nadakuditi 2011), so λ is taken; the others get their common mean, which
the trace tells well. ρ is a share of e: directions that noise has hidden are contracted alike.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.learners.examples import Floats
from sfumato.mechanisms.cell_sums import Sums

__all__ = ["MOST_FEATURES", "ClosedContraction", "check_width"]

#: A second moment has the square of so many values, of which some copies are held at once: half a gigabyte.
MOST_FEATURES = 4_000

# The share ρ of the edge of the noise.
_RIDGE = 0.4
_LEAST = 1e-9


def check_width(dimension: int) -> None:
    """Refuse a contraction of more than ``MOST_FEATURES`` features."""
    if dimension > MOST_FEATURES:
        raise BadInput(
            f"a certified contraction of {dimension:,} features would release a square of that side, and "
            f"{MOST_FEATURES:,} are the most: take an extractor with fewer features, or dp-sgd."
        )


@dataclass(frozen=True, eq=False)
class ClosedContraction:
    """The map z ↦ (z − ``mean``) ``matrix``, brought to length 1; ``mean`` (d,), ``matrix`` (d, d)."""

    mean: Floats
    matrix: Floats

    @classmethod
    def of(cls, anchors: Sums, moments: Sums, records: int) -> ClosedContraction:
        """From sums of each class, and the second moment of all in one cell, of ``records`` features."""
        counts = np.maximum(anchors.counts, 1.0)
        centres = anchors.firsts / counts[:, None]
        assert moments.seconds is not None
        inside = moments.seconds[0] / records - (centres.T * (counts / counts.sum())) @ centres
        values, axes = np.linalg.eigh(0.5 * (inside + inside.T))
        edge = 2.0 * moments.second_noise * np.sqrt(len(values)) / records
        above = values > edge
        clean = np.where(above, 0.5 * (values + np.sqrt(np.maximum(values**2 - edge**2, 0.0))), 0.0)
        if not above.all():
            rest = (values.sum() - clean.sum()) / np.count_nonzero(~above)
            clean = np.where(above, clean, max(rest, _LEAST))
        matrix = (axes / np.sqrt(clean + _RIDGE * edge + _LEAST)) @ axes.T
        return cls(anchors.firsts.sum(axis=0) / records, matrix)

    def __call__(self, rows: NDArray[Any]) -> Floats:
        """The contracted rows (n, d), each of length 1, from its own row alone."""
        turned = (rows - self.mean) @ self.matrix
        return np.asarray(turned / np.maximum(np.linalg.norm(turned, axis=1, keepdims=True), 1e-12))
