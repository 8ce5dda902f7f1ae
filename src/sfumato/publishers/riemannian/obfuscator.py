"""Geodesic obfuscator: latent points are moved along geodesics towards the centres nearest to them.

Section 4.3.2 of Yin et al. (2025). This proves nothing: each answer is a function of one private point and of
networks that were trained on all of them.

A strategy chooses the sample of a path that a point is moved to, by the estimated curvatures along it. All
strategies take curvatures ``(n, samples)``, sample 0 being the point itself, and ``least``, the first sample
that may be chosen, and return indices ``(n,)``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Protocol, Self

import torch
from torch import Tensor

from sfumato.publishers.publisher import Progress
from sfumato.publishers.riemannian.geodesic_solver import Spline, geodesics
from sfumato.publishers.riemannian.manifold import Manifold, latent_points

__all__ = ["Obfuscator"]

# Points moved at once: their splines and the memory of the descent stay small.
ROWS = 2048
# Geodesics are splines of a few knots, which are smooth enough for fewer looks at their energy than samples.
KNOTS, LOOKS, ITERATIONS, TOLERANCE = 3, 10, 8, 0.01


def peaks(curvatures: Tensor, least: int = 0) -> Tensor:
    """Return the sample of highest curvature, the first where several are equal: the paper's control."""
    return least + curvatures[:, least:].argmax(dim=1)


def lowest(curvatures: Tensor, least: int = 0) -> Tensor:
    """Return the sample of lowest curvature up to the highest one, the first where several are equal.

    Equation 15 of Yin et al. (2025) for ``least`` = 0. There the point stays where it is in two cases: the
    curvature rises from it to the peak, or the point itself is the peak. The second means that where the
    curvature is highest, and the paper sees the most danger, nothing is done. With ``least`` above 0 the
    equation is applied to the samples from that one on, and every point moves.
    """
    beyond = torch.arange(curvatures.shape[1], device=curvatures.device) > peaks(curvatures, least)[:, None]
    barred = curvatures.masked_fill(beyond, torch.inf)
    return least + barred[:, least:].argmin(dim=1)


def anywhere(curvatures: Tensor, least: int = 0) -> Tensor:
    """Return the sample of lowest curvature of the whole path, the first where several are equal.

    Ours. It moves what equation 15 leaves where it is because the point itself is the peak, and it may cross
    the most curved sample, which the paper avoids for the sake of labels.
    """
    return least + curvatures[:, least:].argmin(dim=1)


def halfway(curvatures: Tensor, least: int = 0) -> Tensor:
    """Return the middle of the path, whatever the curvatures: sample ``samples`` // 2, or ``least`` if later.

    For straight lines. The paper does not say which of their points it takes, and this is our guess. Equation
    15 never moves a point past the most curved sample, which hardly fits the damage that the paper reports (a
    classifier learns 62.08 %); the end of the line is a centre, where it would not show distorted pictures.
    Halfway a straight line is farthest from both its ends.
    """
    middle = max(curvatures.shape[1] // 2, least)
    return torch.full((len(curvatures),), middle, dtype=torch.long, device=curvatures.device)


#: Name -> rule. ``linear`` is the one whose paths are straight lines.
STRATEGIES: Mapping[str, Callable[[Tensor, int], Tensor]] = MappingProxyType(
    {"lowest": lowest, "anywhere": anywhere, "highest": peaks, "linear": halfway}
)


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
        """Return several paths as one, one after the other."""
        names = ("curves", "curvatures", "chosen", "centres")
        return cls(*(torch.cat([getattr(part, name) for part in parts]) for name in names))


class CentredManifold(Manifold, Protocol):
    """A manifold with centres in its latent space."""

    centres: Tensor

    def contributions(self, z: Tensor) -> Tensor:
        """Return what each of k centres adds at the points ``z`` (n, d), as ``(n, k)``."""


class Obfuscator:
    """Moves latent points towards the centre that contributes most at them.

    ``strategy``, one of ``STRATEGIES``, says along which path and how far: ``lowest`` (equation 15),
    ``anywhere`` and ``highest`` take a sample of the geodesic by its curvature, ``linear`` the middle of the
    straight line. ``samples`` are equally spaced in time, the point itself first and the centre last;
    ``least`` is the first that may be taken, 0 in the paper. Equal times are equal distances as far as the
    geodesic has converged.
    """

    def __init__(
        self,
        model: CentredManifold,
        estimator: Callable[[Tensor], Tensor],
        *,
        samples: int = 20,
        strategy: str = "lowest",
        least: int = 0,
    ) -> None:
        self.model, self.estimator = model, estimator
        self.samples, self.strategy, self.least = samples, strategy, least

    def perturb(self, z: Tensor, *, report: Progress | None = None) -> Tensor:
        """Return the points that stand in for ``z``, ``(n, d)`` both, in the same order."""
        return self.paths(z, report=report).points

    def paths(self, z: Tensor, *, report: Progress | None = None) -> Paths:
        """Return the paths of all points ``z`` (n, d), with what was estimated and chosen on them.

        Nothing is differentiated: to training, the result is a constant.

        Raises:
            BadInput: If ``z`` is no finite ``(n, d)`` tensor, or the straight line to a centre leaves the
                manifold.
        """
        points = latent_points(z).detach()
        parts, stays = [], 0
        for part in torch.split(points, ROWS):
            parts.append(self._part(part))
            if report is not None:
                stays += int((parts[-1].chosen == 0).sum())
                done = sum(len(made.chosen) for made in parts)
                report("perturbation", done / len(points), {"unmoved": stays / done})
        return Paths.joined(parts)

    def _part(self, z: Tensor) -> Paths:
        with torch.no_grad():
            nearest = self.model.contributions(z).argmax(dim=1)
            ends = self.model.centres.detach()[nearest].to(z)
        curves = self._spline(z, ends).samples(self.samples)
        # Times 0 and 1 are the ends up to rounding; a point that is not moved is returned exactly.
        curves[:, 0], curves[:, -1] = z, ends
        with torch.no_grad():
            curvatures = self.estimator(curves.flatten(0, 1)).reshape(len(z), self.samples)
        return Paths(curves, curvatures, STRATEGIES[self.strategy](curvatures, self.least), nearest)

    def _spline(self, start: Tensor, end: Tensor) -> Spline:
        if self.strategy == "linear":
            return Spline(start, end, start.new_zeros((len(start), KNOTS, start.shape[1])))
        return geodesics(
            self.model, start, end, knots=KNOTS, samples=LOOKS, iterations=ITERATIONS, tolerance=TOLERANCE
        ).curves
