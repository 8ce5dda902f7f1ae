"""Geodesics between pairs of latent points, optimised all at once, and the energy of curves.

A curve is a straight line plus a cubic spline that is zero at both ends. Its energy is measured in the data
space. ``descend`` minimises many small smooth problems side by side, each with its own steps and
its own memory.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from sfumato.errors import BadInput
from sfumato.publishers.riemannian.manifold import Manifold, embedded, latent_points, pullback_metric

__all__ = ["geodesics"]

# Curves embedded at once: their samples should stay near the processor.
CURVES = 64


def curve_energy(manifold: Manifold, curves: Tensor) -> Tensor:
    """Return ½ Σ (‖Δμ‖² + ‖Δσ‖²) over the samples of each curve ``(n, samples, d)``, as ``(n,)``.

    Equation 4 of Yin et al. (2025), without a factor for the number of samples: for equally spaced times,
    (samples − 1) times this tends to the integral ½ ∫ c′ᵀ G c′ dt over [0, 1].
    """
    count, samples, dimension = curves.shape
    total = torch.zeros((), dtype=curves.dtype, device=curves.device)
    for part in embedded(manifold, curves.reshape(count * samples, dimension)):
        total = total + part.reshape(count, samples, -1).diff(dim=1).square().sum(dim=(1, 2))
    return 0.5 * total


# Moves that the approximate Hessian remembers.
MEMORY = 8
# A step is taken if it gains this share of what the slope promises; otherwise it is made this much shorter.
ARMIJO, SHORTER, SHORTEST = 1e-4, 0.3, 1e-6


def descend(
    evaluate: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]],
    start: Tensor,
    scale: Callable[[Tensor, Tensor], Tensor],
    *,
    iterations: int,
    tolerance: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """Minimise n problems of p variables at once by limited-memory BFGS; no value ever rises.

    Returns the points (n, p) where they end, their values (n,), and which of them converged.

    ``evaluate(points, which)`` gives values and gradients of the problems numbered ``which``, and
    ``scale(gradients, which)`` a first guess of the inverse Hessian times them. A problem has converged, and
    is not evaluated again, once its next step promises less than ``tolerance`` of its value.
    """
    everyone = torch.arange(len(start), device=start.device)
    points = start.clone()
    values, slopes = evaluate(points, everyone)
    steps = torch.ones_like(values)
    past = _Past(start)
    directions = -past.times(slopes, everyone, scale)
    converged = torch.zeros_like(values, dtype=torch.bool)
    active = everyone
    for _ in range(iterations):
        promised = -(slopes[active] * directions[active]).sum(dim=1)
        converged[active] = promised <= tolerance * values[active]
        active = active[~converged[active] & (steps[active] > SHORTEST)]
        if not len(active):
            break
        tried = points[active] + steps[active, None] * directions[active]
        found, turned = evaluate(tried, active)
        promised = -(slopes[active] * directions[active]).sum(dim=1)
        good = found <= values[active] - ARMIJO * steps[active] * promised  # a NaN is not good
        steps[active[~good]] *= SHORTER
        moved = active[good]
        if len(moved):
            past.add(moved, tried[good] - points[moved], turned[good] - slopes[moved])
            points[moved], values[moved], slopes[moved] = tried[good], found[good], turned[good]
            steps[moved] = 1.0
            directions[moved] = -past.times(slopes[moved], moved, scale)
    return points, values, converged


class _Past:
    """The last moves of every problem and how they turned its gradient."""

    def __init__(self, start: Tensor) -> None:
        self.moves = start.new_zeros((MEMORY, *start.shape))
        self.turns = torch.zeros_like(self.moves)
        self.weights = start.new_zeros((MEMORY, len(start)))  # 1 / (move · turn); 0 for what is not used
        self.count = torch.zeros(len(start), dtype=torch.long, device=start.device)

    def add(self, which: Tensor, moves: Tensor, turns: Tensor) -> None:
        """Remember a move where the gradient turned along with it, so that the model stays convex."""
        bend = (moves * turns).sum(dim=1)
        kept = bend > torch.finfo(bend.dtype).eps * moves.norm(dim=1) * turns.norm(dim=1)
        which, slot = which[kept], (self.count % len(self.moves))[which[kept]]
        self.moves[slot, which], self.turns[slot, which] = moves[kept], turns[kept]
        self.weights[slot, which] = 1.0 / bend[kept]
        self.count[which] += 1

    def times(self, slopes: Tensor, which: Tensor, scale: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
        """Return the inverse Hessian, as far as remembered, times ``slopes``: the two-loop recursion."""
        order = [(self.count[which] - age) % len(self.moves) for age in range(1, len(self.moves) + 1)]
        shares: list[Tensor] = []
        result = slopes
        for slot in order:
            share = self.weights[slot, which] * (self.moves[slot, which] * result).sum(dim=1)
            result = result - share[:, None] * self.turns[slot, which]
            shares.append(share)
        result = scale(result, which)
        turn, weight = self.turns[order[0], which], self.weights[order[0], which]
        size = weight * (turn * scale(turn, which)).sum(dim=1)
        result = result / torch.where(size > 0, size, torch.ones_like(size))[:, None]
        for slot, share in zip(reversed(order), reversed(shares), strict=True):
            back = self.weights[slot, which] * (self.turns[slot, which] * result).sum(dim=1)
            result = result + (share - back)[:, None] * self.moves[slot, which]
        return result


@dataclass(frozen=True)
class Spline:
    """n curves on [0, 1]: ``start`` and ``end`` of shape ``(n, d)``, ``offsets`` of shape ``(n, knots, d)``.

    Each curve passes at time (k + 1) / (knots + 1) through the point of the straight line moved by its k-th
    offset; between the knots it is the cubic spline with continuous second derivatives (third ones too at the
    outermost knots, so that no end is forced to be straight).
    """

    start: Tensor
    end: Tensor
    offsets: Tensor

    def samples(self, count: int) -> Tensor:
        """Return the points at ``count`` equally spaced times, both ends included, as ``(n, count, d)``."""
        times = torch.linspace(0.0, 1.0, count, dtype=torch.float64).to(self.start)
        line = torch.lerp(self.start.unsqueeze(1), self.end.unsqueeze(1), times.reshape(1, -1, 1))
        return line + spline_basis(times, self.offsets.shape[1]) @ self.offsets


def spline_basis(times: Tensor, knots: int) -> Tensor:
    """Return what each of the inner ``knots`` adds at each time: ``(samples, knots)``."""
    from scipy.interpolate import CubicSpline

    units = np.eye(knots + 2)[:, 1:-1]  # one knot is moved, all others and both ends stay
    spline = CubicSpline(np.linspace(0.0, 1.0, knots + 2), units, bc_type="not-a-knot")
    return torch.as_tensor(spline(times.double().cpu().numpy())).to(times)


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
) -> Geodesics:
    """Return cubic splines of least energy from each row of ``start`` to that of ``end``, (n, d) both.

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
    offsets, energy, converged = descend(
        problem.energy, flat, problem.scaled(), iterations=iterations, tolerance=tolerance
    )
    finite = energy.isfinite()  # no energy rises, so one that is not finite was not so at first
    if not finite.all():
        row = int(finite.int().argmin())
        raise BadInput(f"the straight line of geodesic {row} leaves the manifold: its energy is not finite.")
    return Geodesics(Spline(start, end, offsets.reshape(len(start), knots, -1)), energy, converged)


class _Problem:
    """The energy of all curves as a function of their flattened offsets."""

    def __init__(self, manifold: Manifold, start: Tensor, end: Tensor, knots: int, samples: int) -> None:
        self.manifold, self.start, self.end = manifold, start, end
        times = torch.linspace(0.0, 1.0, samples, dtype=torch.float64, device=start.device)
        self.basis = spline_basis(times, knots).to(start)
        self.lines = torch.lerp(start.unsqueeze(1), end.unsqueeze(1), times.to(start).reshape(1, -1, 1))

    def energy(self, offsets: Tensor, which: Tensor) -> tuple[Tensor, Tensor]:
        """Return energies and gradients of the curves numbered ``which``, computed a few at a time."""
        pieces = zip(torch.split(offsets, CURVES), torch.split(which, CURVES), strict=True)
        parts = [self._part(*piece) for piece in pieces]
        return torch.cat([value for value, _ in parts]), torch.cat([slope for _, slope in parts])

    def _part(self, offsets: Tensor, which: Tensor) -> tuple[Tensor, Tensor]:
        with torch.enable_grad():
            moved = offsets.detach().requires_grad_()
            knots = moved.reshape(len(which), self.basis.shape[1], -1)
            value = curve_energy(self.manifold, self.lines[which] + self.basis @ knots)
            (slope,) = torch.autograd.grad(value.sum(), moved)
        return value.detach(), slope

    def scaled(self) -> Callable[[Tensor, Tensor], Tensor]:
        """Return the inverse Hessian of the energy if the metric were its mean along the straight line."""
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
