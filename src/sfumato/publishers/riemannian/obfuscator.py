"""The geodesic obfuscator: latent points are moved along geodesics towards the centres nearest to them.

Section 4.3.2 of Yin et al. (2025). This proves nothing: each answer is a function of one private point and of
networks that were trained on all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from sfumato.errors import BadInput
from sfumato.publishers.geometry import Manifold, Spline, geodesics
from sfumato.publishers.geometry.manifold import latent_points
from sfumato.publishers.publisher import Progress, whole
from sfumato.publishers.riemannian.latent_paths import Paths
from sfumato.publishers.riemannian.strategies import STRATEGIES

__all__ = ["CentredManifold", "Obfuscator"]

# Points moved at once: their splines and the memory of the descent stay small.
ROWS = 2048


@runtime_checkable
class CentredManifold(Manifold, Protocol):
    """A manifold with centres in its latent space."""

    centres: Tensor

    def contributions(self, z: Tensor) -> Tensor:
        """What each of k centres adds at the points ``z`` (n, d), as ``(n, k)``."""


class Obfuscator:
    """Moves latent points towards the centre that contributes most at them.

    ``strategy`` says along which path and how far: ``lowest`` (equation 15), ``anywhere`` and ``highest``
    take a sample of the geodesic by its curvature, ``linear`` the middle of the straight line; see
    :mod:`sfumato.publishers.riemannian.strategies`. ``samples`` are equally spaced in time, the point itself
    first and the centre last; ``least`` is the first that may be taken, 0 in the paper.

    Geodesics are cubic splines with ``knots``, moved for at most ``iterations`` steps or until a step
    promises less than ``tolerance`` of the energy, which is summed over ``looks`` times and all components of
    the data. A spline of a few knots is smooth enough for fewer looks than samples. Equal times are equal
    distances as far as the geodesic has converged.
    """

    def __init__(
        self,
        model: CentredManifold,
        estimator: Callable[[Tensor], Tensor],
        *,
        samples: int = 20,
        strategy: str = "lowest",
        least: int = 0,
        knots: int = 3,
        looks: int = 10,
        iterations: int = 8,
        tolerance: float = 0.01,
    ) -> None:
        if not isinstance(model, CentredManifold):
            raise BadInput(
                f"{type(model).__name__} has no centres to move points to: "
                "a model needs embed(z), contributions(z) and centres."
            )
        if strategy not in STRATEGIES:
            raise BadInput(
                f"there is no strategy {strategy!r}; choose from {', '.join(STRATEGIES)}.",
                parameter="strategy",
            )
        self.model, self.estimator, self.strategy = model, estimator, strategy
        self.samples, self.least = whole("samples", samples, 2), whole("least", least, 0)
        if self.least >= self.samples:
            raise BadInput(
                f"`least` was {least}: of {samples} samples the last one is {samples - 1}.", parameter="least"
            )
        self.knots, self.looks = whole("knots", knots, 1), whole("looks", looks, 3)
        if self.knots > self.looks - 2:
            raise BadInput(f"{knots} knots do not fit {looks} looks: at most {looks - 2} do.")
        self.iterations, self.tolerance = whole("iterations", iterations, 1), tolerance
        if not 0.0 <= tolerance < 1.0:
            raise BadInput(
                f"`tolerance` was {tolerance!r}: from 0 to below 1 is needed.", parameter="tolerance"
            )

    def perturb(self, z: Tensor, *, report: Progress | None = None) -> Tensor:
        """The points that stand in for ``z``, ``(n, d)`` both, in the same order."""
        return self.paths(z, report=report).points

    def paths(self, z: Tensor, *, report: Progress | None = None) -> Paths:
        """The paths of all points ``z`` (n, d), with what was estimated and chosen on them.

        Nothing is differentiated: the answer is a constant for whoever trains the model.

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
        # Times 0 and 1 are the ends up to rounding; whoever is not moved should be given back exactly.
        curves[:, 0], curves[:, -1] = z, ends
        with torch.no_grad():
            curvatures = self.estimator(curves.flatten(0, 1)).reshape(len(z), self.samples)
        return Paths(curves, curvatures, STRATEGIES[self.strategy](curvatures, self.least), nearest)

    def _spline(self, start: Tensor, end: Tensor) -> Spline:
        if self.strategy == "linear":
            return Spline(start, end, start.new_zeros((len(start), self.knots, start.shape[1])))
        found = geodesics(
            self.model,
            start,
            end,
            knots=self.knots,
            samples=self.looks,
            iterations=self.iterations,
            tolerance=self.tolerance,
        )
        return found.curves
