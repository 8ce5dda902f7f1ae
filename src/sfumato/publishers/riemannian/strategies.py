"""Which sample of a path a point is moved to, by the estimated curvatures along it.

All take curvatures ``(n, samples)``, sample 0 being the point itself, and ``least``, the first sample that
may be chosen, and answer with indices ``(n,)``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import torch
from torch import Tensor

__all__ = ["STRATEGIES", "anywhere", "halfway", "highest", "lowest", "peaks"]


def peaks(curvatures: Tensor, least: int = 0) -> Tensor:
    """The sample of highest curvature, the first where several are equal."""
    return least + curvatures[:, least:].argmax(dim=1)


def lowest(curvatures: Tensor, least: int = 0) -> Tensor:
    """The sample of lowest curvature up to the highest one, the first where several are equal.

    Equation 15 of Yin et al. (2025) for ``least`` = 0. There the point stays where it is in two cases: the
    curvature rises from it to the peak, or the point itself is the peak. The second means that where the
    curvature is highest, and the paper sees the most danger, nothing is done. With ``least`` above 0 the
    equation is applied to the samples from that one on, and every point moves.
    """
    beyond = torch.arange(curvatures.shape[1], device=curvatures.device) > peaks(curvatures, least)[:, None]
    barred = curvatures.masked_fill(beyond, torch.inf)
    return least + barred[:, least:].argmin(dim=1)


def anywhere(curvatures: Tensor, least: int = 0) -> Tensor:
    """The sample of lowest curvature of the whole path, the first where several are equal.

    Ours. It moves what equation 15 leaves where it is because the point itself is the peak, and it may cross
    the most curved sample, which the paper avoids for the sake of labels.
    """
    return least + curvatures[:, least:].argmin(dim=1)


def highest(curvatures: Tensor, least: int = 0) -> Tensor:
    """The sample of highest curvature: the paper's control."""
    return peaks(curvatures, least)


def halfway(curvatures: Tensor, least: int = 0) -> Tensor:
    """The middle of the path, whatever the curvatures: sample ``samples`` // 2, or ``least`` if later.

    For straight lines. The paper does not say which of their points it takes, and this is our guess. Equation
    15 never moves a point past the most curved sample, which hardly fits the damage that the paper reports (a
    classifier learns 62.08 %); the end of the line is a centre, where it would not show distorted pictures.
    Halfway a straight line is farthest from both its ends.
    """
    middle = max(curvatures.shape[1] // 2, least)
    return torch.full((len(curvatures),), middle, dtype=torch.long, device=curvatures.device)


#: Name -> rule. ``linear`` is the one whose paths are straight lines.
STRATEGIES: Mapping[str, Callable[[Tensor, int], Tensor]] = MappingProxyType(
    {"lowest": lowest, "anywhere": anywhere, "highest": highest, "linear": halfway}
)
