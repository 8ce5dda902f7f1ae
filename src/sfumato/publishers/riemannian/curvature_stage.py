"""Phase 2 of Algorithm 1 (Yin et al., 2025): the curvature estimator learns K before it guides anything."""

from __future__ import annotations

import torch
from torch import Tensor

from sfumato.publishers.geometry import curvature
from sfumato.publishers.riemannian.stage import Run, Stage

__all__ = ["CurvatureStage", "curvature_error", "on_the_way"]

# Points whose curvature is computed before the first step, and in each step; it is the dearest number here.
FIRST, EACH = 512, 64
# Steps of the estimator on all points known so far, for every time that new ones are added, and their batch.
REPEATS, BATCH = 10, 256


class CurvatureStage(Stage):
    """Each step computes K exactly at new points and then learns from all that are known (equation 14).

    The points lie on straight lines from posterior means to the centre that contributes most at them, which
    is about where the obfuscator will ask.
    """

    name = "curvature"

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self.add("estimator", run.estimator.parameters(), run.rates.curvature)

    def begin(self) -> None:
        """Bring the estimator to scale by a first few points."""
        run = self.run
        rows = torch.randint(len(run.pictures), (FIRST,), generator=run.generator)
        self.memory = dict(zip(("points", "targets"), self._known(rows), strict=True))
        run.estimator.scale_to(self.memory["points"], self.memory["targets"])

    def step(self, rows: Tensor, number: int) -> dict[str, float]:
        """The mean of the losses of the estimator's steps."""
        points, targets = self._known(rows[:EACH])
        self.memory = {
            "points": torch.cat([self.memory["points"], points]),
            "targets": torch.cat([self.memory["targets"], targets]),
        }
        known, total = len(self.memory["points"]), 0.0
        for _ in range(REPEATS):
            chosen = torch.randint(known, (BATCH,), generator=self.run.generator)
            error = curvature_error(self.run, self.memory["points"][chosen], self.memory["targets"][chosen])
            total += self.descend("estimator", error)
        return {"curvature": total / REPEATS}

    def _known(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        points = on_the_way(self.run, self.run.model.means(self.run.pictures[rows]))
        return points, log_curvature(self.run, points)


def on_the_way(run: Run, z: Tensor) -> Tensor:
    """A point on the straight line from each row of ``z`` to its centre, anywhere with equal chance."""
    with torch.no_grad():
        ends = run.model.centres[run.model.contributions(z).argmax(dim=1)]
        return torch.lerp(z, ends, torch.rand((len(z), 1), generator=run.generator))


def log_curvature(run: Run, z: Tensor) -> Tensor:
    """Logarithms of K, exact, at ``z``; where K is 0 that of the smallest normal number."""
    return curvature(run.model, z).clamp_min(torch.finfo(z.dtype).tiny).log()


def curvature_error(run: Run, points: Tensor, targets: Tensor) -> Tensor:
    """Equation 14 on standardised logarithms of K."""
    estimator = run.estimator
    return (estimator.standardised(points) - (targets - estimator.level) / estimator.range).square().mean()
