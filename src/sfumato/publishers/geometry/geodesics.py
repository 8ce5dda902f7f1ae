"""Shortest paths between pairs of latent points, all of them optimised at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from sfumato.errors import BadInput
from sfumato.publishers.geometry.descent import descend
from sfumato.publishers.geometry.latent_curves import squared_steps
from sfumato.publishers.geometry.manifold import Manifold, latent_points
from sfumato.publishers.geometry.metric import pullback_metric
from sfumato.publishers.geometry.spline import Spline, spline_basis

__all__ = ["Geodesics", "geodesics"]

# Curves embedded at once: their samples should stay near the processor.
CURVES = 64
# Where on the straight line the metric is looked at, to scale the first step; and how much of its mean
# eigenvalue is added, so that a direction the manifold ignores gets no endless step.
LOOKS, DAMPING = (1 / 6, 1 / 2, 5 / 6), 1e-3


@dataclass(frozen=True)
class Geodesics:
    """Curves of least energy, their ``energy`` (n,) over the samples optimised, and which ones ``converged``.

    A curve that has not converged is still no longer in energy than the straight line it began as.
    """

    curves: Spline
    energy: Tensor
    converged: Tensor


def geodesics(
    manifold: Manifold,
    start: Tensor,
    end: Tensor,
    *,
    knots: int = 5,
    samples: int = 20,
    iterations: int = 100,
    tolerance: float = 1e-4,
    report: Callable[[str, float], None] | None = None,
) -> Geodesics:
    """Cubic splines from each row of ``start`` to the same row of ``end``, (n, d) both, of least energy.

    The energy is that of ``curve_energy`` at ``samples`` equally spaced times (section 3.4 of Yin et al.,
    2025); a curve of least energy has constant speed, so equal times are equal distances along it. Each curve
    begins as the straight line and descends to the nearest minimum, which need not be the least of all: two
    points on opposite sides of a hole have a geodesic on either side. Ends that coincide give a point.

    ``tolerance`` is the share of its energy that a further step would have to promise to be taken. Nothing
    here is differentiated by the manifold's parameters: at a minimum the energy's derivative is that of
    ``curve_energy`` along the fixed curve.

    Raises:
        BadInput: If the ends are not finite ``(n, d)`` tensors of one shape, the knots do not fit between the
            samples, or the straight line leaves the manifold (its energy is not finite).
    """
    start, end = latent_points(start, "starts of geodesics"), latent_points(end, "ends of geodesics")
    if start.shape != end.shape or start.dtype != end.dtype:
        raise BadInput(
            f"starts {tuple(start.shape)} and ends {tuple(end.shape)} must be alike in shape and type."
        )
    if not 1 <= knots <= samples - 2:
        raise BadInput(
            f"{knots} knots do not fit: use 1 or more, and at least 2 fewer than {samples} samples."
        )
    if iterations < 1 or not 0.0 <= tolerance < 1.0:
        raise BadInput("geodesics need 1 iteration or more and a tolerance from 0 to below 1.")
    start, end = start.detach(), end.detach()
    problem = _Problem(manifold, start, end, knots, samples)
    flat = start.new_zeros((len(start), knots * start.shape[1]))
    ended = descend(
        problem.energy,
        flat,
        problem.scaled(),
        iterations=iterations,
        tolerance=tolerance,
        report=None if report is None else lambda share: report("geodesics", share),
    )
    finite = ended.values.isfinite()  # no energy rises, so one that is not finite was not so at first
    if not finite.all():
        row = int(finite.int().argmin())
        raise BadInput(f"the straight line of geodesic {row} leaves the manifold: its energy is not finite.")
    curves = Spline(start, end, ended.points.reshape(len(start), knots, -1))
    return Geodesics(curves, ended.values, ended.converged)


class _Problem:
    """The energy of all curves as a function of their flattened offsets."""

    def __init__(self, manifold: Manifold, start: Tensor, end: Tensor, knots: int, samples: int) -> None:
        self.manifold, self.start, self.end = manifold, start, end
        times = torch.linspace(0.0, 1.0, samples, dtype=torch.float64, device=start.device)
        self.basis = spline_basis(times, knots).to(start)
        self.lines = torch.lerp(start.unsqueeze(1), end.unsqueeze(1), times.to(start).reshape(1, -1, 1))

    def energy(self, offsets: Tensor, which: Tensor) -> tuple[Tensor, Tensor]:
        """Energies and gradients of the curves numbered ``which``, a few at a time."""
        pieces = zip(torch.split(offsets, CURVES), torch.split(which, CURVES), strict=True)
        parts = [self._part(*piece) for piece in pieces]
        return torch.cat([value for value, _ in parts]), torch.cat([slope for _, slope in parts])

    def _part(self, offsets: Tensor, which: Tensor) -> tuple[Tensor, Tensor]:
        with torch.enable_grad():
            moved = offsets.detach().requires_grad_()
            knots = moved.reshape(len(which), self.basis.shape[1], -1)
            value = 0.5 * squared_steps(self.manifold, self.lines[which] + self.basis @ knots).sum(dim=1)
            (slope,) = torch.autograd.grad(value.sum(), moved)
        return value.detach(), slope

    def scaled(self) -> Callable[[Tensor, Tensor], Tensor]:
        """The inverse Hessian of the energy if the metric were its mean along the straight line."""
        count, dimension = self.start.shape
        looks = [torch.lerp(self.start, self.end, look) for look in LOOKS]
        with torch.no_grad():
            metric = torch.stack([pullback_metric(self.manifold, points) for points in looks]).mean(dim=0)
        mean = metric.diagonal(dim1=1, dim2=2).mean(dim=1).clamp_min(torch.finfo(metric.dtype).tiny)
        unit = torch.eye(dimension, dtype=metric.dtype, device=metric.device)
        inverse: Tensor = torch.linalg.inv(metric + DAMPING * mean.reshape(count, 1, 1) * unit)
        differences = self.basis.diff(dim=0)
        times: Tensor = torch.linalg.inv(differences.mT @ differences)

        def apply(slopes: Tensor, which: Tensor) -> Tensor:
            knots = slopes.reshape(len(which), -1, dimension)
            return (times @ knots @ inverse[which]).reshape(slopes.shape)

        return apply
