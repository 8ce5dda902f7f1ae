"""Many small smooth problems minimised side by side, each with its own steps and its own memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

__all__ = ["Descent", "descend"]

# A step is taken if it gains this share of what the slope promises; otherwise it is made this much shorter.
ARMIJO, SHORTER, SHORTEST = 1e-4, 0.3, 1e-6


@dataclass(frozen=True)
class Descent:
    """Where each problem ended: ``points (n, p)``, ``values (n,)``, and which ones ``converged``."""

    points: Tensor
    values: Tensor
    converged: Tensor


def descend(
    evaluate: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]],
    start: Tensor,
    scale: Callable[[Tensor, Tensor], Tensor],
    *,
    iterations: int,
    tolerance: float,
    memory: int = 8,
    report: Callable[[float], None] | None = None,
) -> Descent:
    """Limited-memory BFGS on n problems of p variables at once; no value ever rises.

    ``evaluate(points, which)`` gives values and gradients of the problems numbered ``which``, and
    ``scale(gradients, which)`` a first guess of the inverse Hessian times them. A problem has converged, and
    is not evaluated again, once its next step promises less than ``tolerance`` of its value.
    """
    everyone = torch.arange(len(start), device=start.device)
    points = start.clone()
    values, slopes = evaluate(points, everyone)
    steps = torch.ones_like(values)
    past = _Past(start, memory)
    directions = -past.times(slopes, everyone, scale)
    converged = torch.zeros_like(values, dtype=torch.bool)
    active = everyone
    for done in range(iterations):
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
        if report is not None:
            report(max((done + 1) / iterations, 1.0 - len(active) / len(start)))
    return Descent(points, values, converged)


class _Past:
    """The last moves of every problem and how they turned its gradient."""

    def __init__(self, start: Tensor, memory: int) -> None:
        self.moves = start.new_zeros((memory, *start.shape))
        self.turns = torch.zeros_like(self.moves)
        self.weights = start.new_zeros((memory, len(start)))  # 1 / (move · turn); 0 for what is not used
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
        """The inverse Hessian, as far as remembered, times ``slopes``: the two-loop recursion."""
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
