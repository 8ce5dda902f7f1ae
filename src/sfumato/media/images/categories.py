"""The five content categories of Adaptive multimedia DP, and which of them a sensitivity score falls into.

The numbers are those of the paper's Table 1, quoted as claimed: it does not say how they were measured, and
an ε there has no unit. Here a range bounds the ε of one place of a picture, in the unit that the caller asks
for.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.mechanisms.parameters import share

__all__ = ["BOUNDARIES", "CATEGORIES", "SOURCE", "Category", "category_indices", "category_of"]

SOURCE = "Adaptive multimedia DP, Table 1"


@dataclass(frozen=True)
class Category:
    """A row of Table 1: the scores that the paper saw there, the ε it spends there, and how it protects."""

    name: str
    mean: float
    deviation: float
    percentile_95: float
    epsilon: tuple[float, float]
    strategy: str


#: From the least to the most sensitive, by mean score.
CATEGORIES = (
    Category("abstract patterns", 0.091, 0.054, 0.194, (5.0, 10.0), "pass-through"),
    Category("landscapes", 0.187, 0.093, 0.352, (1.5, 5.0), "minimal noise"),
    Category("crowd scenes", 0.623, 0.142, 0.847, (0.3, 0.7), "selective masking"),
    Category("facial close-ups", 0.892, 0.067, 0.981, (0.05, 0.2), "aggressive perturbation"),
    Category("identity documents", 0.944, 0.041, 0.995, (0.01, 0.1), "maximum protection"),
)

#: Scores halfway between the means of neighbouring categories.
BOUNDARIES = tuple((one.mean + two.mean) / 2.0 for one, two in pairwise(CATEGORIES))


def category_of(score: float) -> Category:
    """The category whose mean score is nearest; halfway between two, the more sensitive one."""
    number = share("score", score)
    return CATEGORIES[bisect_right(BOUNDARIES, number)]


def category_indices(scores: Any) -> NDArray[np.intp]:
    """The place in :data:`CATEGORIES` of every score in [0, 1], by the rule of :func:`category_of`."""
    array = np.asarray(scores, dtype=np.float64)
    if not ((array >= 0.0) & (array <= 1.0)).all():
        raise BadInput("a sensitivity score must lie between 0 and 1; clip the scores first.")
    return np.asarray(np.searchsorted(BOUNDARIES, array, side="right"), dtype=np.intp)
