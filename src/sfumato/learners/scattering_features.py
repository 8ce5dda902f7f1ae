"""Scattering features with group normalisation: the public features that private linear heads do best on.

Tramèr & Boneh, "Differentially Private Learning Needs Better Features (or Much More Data)", ICLR 2021: a
scattering transform over two scales, then normalisation inside each picture, which needs no statistics of
other records and so costs no budget.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.learners.extractor import Extractor, Report, checked_pictures
from sfumato.learners.rowwise import in_blocks
from sfumato.learners.scattering import Scattering

__all__ = ["ScatteringFeatures"]

_BLOCK = 64
# Added to variances of pictures with values from 0 to 1: groups without contrast stay near 0.
_EPSILON = 1e-5


class ScatteringFeatures(Extractor):
    """Scattering of pictures over ``scales`` octaves in 8 directions, normalised in ``groups`` a colour.

    The channels of each colour are split into ``groups`` groups of consecutive channels; each group is
    brought to mean 0 and deviation 1 over its channels and places within each picture (a group that is
    constant becomes 0), and all d numbers are divided by √d: no picture is longer than 1.
    """

    name = "scattering"
    origin = "Fixed wavelets and a normalisation within each picture; nothing is trained."

    def __init__(self, shape: tuple[int, ...], scales: int = 2, groups: int = 27) -> None:
        self.scattering = Scattering(tuple(shape), scales)
        if not isinstance(groups, int) or groups < 1 or self.scattering.channels % groups:
            raise BadInput(
                f"`groups` was {groups!r}: a whole number that divides the {self.scattering.channels} "
                "channels "
                "of one colour is needed.",
                parameter="groups",
            )
        self.shape, self.scales, self.groups = tuple(shape), scales, groups
        self.dimension = math.prod(self.scattering.features)

    def transform(self, pictures: Any, *, report: Report | None = None) -> NDArray[np.float32]:
        """Features (n, d) of ``pictures`` (n, *``shape``), values from 0 to 255."""
        given = checked_pictures(pictures, self.shape)
        return in_blocks(
            self._rows, given, size=_BLOCK, dimension=self.dimension, stage=self.name, report=report
        )

    def _rows(self, block: NDArray[np.float32]) -> NDArray[np.float32]:
        found = self.scattering.transform(block / np.float32(255.0))
        colours = (*self.shape, 1)[2]
        grouped = found.reshape(len(block), self.groups * colours, -1)
        grouped -= grouped.mean(axis=2, keepdims=True)
        variance = np.einsum("ngk,ngk->ng", grouped, grouped)[:, :, None] / np.float32(grouped.shape[2])
        grouped /= np.sqrt(variance + np.float32(_EPSILON)) * np.float32(math.sqrt(self.dimension))
        return grouped.reshape(len(block), self.dimension)
