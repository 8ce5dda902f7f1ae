"""Paths from latent points towards their centres, and the samples that were chosen on them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from sfumato.publishers.riemannian.strategies import peaks

__all__ = ["Paths"]


@dataclass(frozen=True)
class Paths:
    """``curves (n, samples, d)`` from each point to its centre, both included, and what was found on them.

    ``curvatures (n, samples)`` are the estimated ones, ``chosen (n,)`` the index of the sample taken, and
    ``centres (n,)`` the number of the centre at the end.
    """

    curves: Tensor
    curvatures: Tensor
    chosen: Tensor
    centres: Tensor

    @property
    def points(self) -> Tensor:
        """The samples taken, ``(n, d)``."""
        return self.curves[torch.arange(len(self.curves), device=self.curves.device), self.chosen]

    @property
    def unmoved(self) -> float:
        """The share of points that stay exactly where they are: the sample taken is the point itself."""
        return float((self.chosen == 0).double().mean())

    @property
    def unmoved_peaks(self) -> float:
        """The share of points that stay where they are although nothing on their path is more curved."""
        return float(((self.chosen == 0) & (peaks(self.curvatures) == 0)).double().mean())

    @classmethod
    def joined(cls, parts: list[Self]) -> Self:
        """One after the other."""
        names = ("curves", "curvatures", "chosen", "centres")
        return cls(*(torch.cat([getattr(part, name) for part in parts]) for name in names))
