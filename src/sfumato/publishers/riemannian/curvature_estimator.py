"""A small network that learns the curvature K(z) of a manifold, to evaluate K along a path cheaply.

K ranges over orders of magnitude, and only its order along a path decides where a point is moved to
(equation 15 of Yin et al., 2025). The network is therefore trained on log K, brought to mean 0 and variance
1, where equation 14 is an error relative to K; its answer is turned back into K.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from sfumato.errors import BadInput
from sfumato.publishers.publisher import Progress, whole_number
from sfumato.publishers.riemannian.curvature_measures import curvature
from sfumato.publishers.riemannian.manifold import Manifold, latent_points

# A curvature below this part of the median is taken as this part: the logarithm of 0 is no target.
FLOOR = 1e-6
# Steps between two reports.
PACE = 25
# With fewer points than this nothing is held out.
FEW = 20


class CurvatureEstimator(nn.Module):
    """K̂(z) > 0 for latent points ``(n, latent)``: two hidden layers of ``hidden`` units.

    Weights are drawn from ``generator``, or from a fixed seed without one: torch's own generator is not
    touched. What brings points and log K to scale is kept with the weights, so it is saved with them too.
    """

    centre: Tensor
    spread: Tensor
    level: Tensor
    range: Tensor
    scaled: Tensor

    def __init__(self, latent: int, hidden: int = 128, *, generator: torch.Generator | None = None) -> None:
        super().__init__()
        self.latent, self.hidden = whole_number("latent", latent, 1), whole_number("hidden", hidden, 1)
        draw = torch.Generator().manual_seed(0) if generator is None else generator
        self.layers = nn.Sequential(
            *(_linear(self.latent, self.hidden, draw), nn.SiLU()),
            *(_linear(self.hidden, self.hidden, draw), nn.SiLU()),
            _linear(self.hidden, 1, draw),
        )
        self.register_buffer("centre", torch.zeros(self.latent))
        self.register_buffer("spread", torch.ones(self.latent))
        self.register_buffer("level", torch.zeros(()))
        self.register_buffer("range", torch.ones(()))
        self.register_buffer("scaled", torch.tensor(False))

    def standardised(self, z: Tensor) -> Tensor:
        """Return the network's own output: log K̂(z) less its level, over its range, as ``(n,)``."""
        answer: Tensor = self.layers((z - self.centre) / self.spread)
        return answer.squeeze(1)

    def forward(self, z: Tensor) -> Tensor:
        """Return K̂ as ``(n,)``, always above 0."""
        points = latent_points(z)
        if points.shape[1] != self.latent:
            raise BadInput(f"this estimator takes {self.latent} latent coordinates, not {points.shape[1]}.")
        smallest = torch.finfo(points.dtype).tiny
        return (self.level + self.range * self.standardised(points)).exp().clamp_min(smallest)

    def scale_to(self, points: Tensor, logarithms: Tensor) -> None:
        """Set the scale of points and of log K from these, the first time; later the scale stays."""
        if bool(self.scaled):
            return
        self.centre.copy_(points.mean(dim=0))
        self.spread.copy_(_unless_zero(points.std(dim=0, correction=0)))
        self.level.copy_(logarithms.mean())
        self.range.copy_(_unless_zero(logarithms.std(correction=0)))
        self.scaled.fill_(True)


@dataclass(frozen=True)
class EstimatorFit:
    """Quality of a fit of the curvature.

    ``loss`` is the mean square error of the standardised log K over the last steps. ``explained`` is the
    share of the variance of log K that K̂ explains on ``held_out`` points it did not learn from, NaN where
    none was held out or their curvature does not vary.
    """

    loss: float
    explained: float
    held_out: int


def fit_estimator(
    estimator: CurvatureEstimator,
    model: Manifold,
    points: Tensor,
    *,
    steps: int,
    generator: torch.Generator,
    batch: int = 256,
    rate: float = 1e-3,
    method: str = "exact",
    held_out: float = 0.1,
    report: Progress | None = None,
) -> EstimatorFit:
    """Train ``estimator`` for ``steps`` on K of ``model`` at ``points`` (n, d); equation 14 on log K.

    K is computed once at all points, by ``exact`` derivatives or by the paper's ``differences``. A share
    ``held_out`` of the points (none of fewer than 20) only measures. Batches and the points held out are
    drawn from ``generator``. The first fit also sets the estimator's scale; a later one, after the
    decoder has changed a little, begins where the last ended.

    Raises:
        BadInput: If steps, batch or rate are not above 0, the share is not from 0 to below 1, or the points
            do not fit the estimator.
    """
    steps, batch = whole_number("steps", steps, 1), whole_number("batch", batch, 1)
    if not 0.0 <= held_out < 1.0 or not 0.0 < rate < math.inf:
        raise BadInput("the share held out must be from 0 to below 1, and the learning rate above 0.")
    points = latent_points(points).detach()
    if points.shape[1] != estimator.latent:
        raise BadInput(f"the estimator takes {estimator.latent} latent coordinates, not {points.shape[1]}.")
    logarithms = _logarithms(curvature(model, points, method=method))
    order = torch.randperm(len(points), generator=generator)
    apart = int(held_out * len(points)) if len(points) >= FEW else 0
    tested, learned = order[:apart], order[apart:]
    estimator.scale_to(points[learned], logarithms[learned])
    targets = (logarithms - estimator.level) / estimator.range
    optimiser = torch.optim.Adam(estimator.layers.parameters(), lr=rate)
    losses = []
    for step in range(steps):
        # The rate falls to nothing, so that the last steps settle instead of rattling.
        optimiser.param_groups[0]["lr"] = rate * 0.5 * (1.0 + math.cos(math.pi * step / steps))
        chosen = learned[torch.randint(len(learned), (min(batch, len(learned)),), generator=generator)]
        loss = (estimator.standardised(points[chosen]) - targets[chosen]).square().mean()
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        losses.append(float(loss.detach()))
        if report is not None and (step % PACE == PACE - 1 or step == steps - 1):
            report("curvature estimator", (step + 1) / steps, {"loss": _recent(losses)})
    return EstimatorFit(_recent(losses), _explained(estimator, points[tested], targets[tested]), apart)


def _explained(estimator: CurvatureEstimator, points: Tensor, targets: Tensor) -> float:
    if len(points) < 2 or not bool(targets.var() > 0.0):
        return math.nan
    with torch.no_grad():
        error = (estimator.standardised(points) - targets).square().mean()
    return float(1.0 - error / targets.var(correction=0))


def _logarithms(curvatures: Tensor) -> Tensor:
    above = curvatures[curvatures > 0.0]
    tiny = torch.finfo(curvatures.dtype).tiny
    floor = max(FLOOR * float(above.median()), tiny) if len(above) else tiny
    return curvatures.clamp_min(floor).log()


def _recent(losses: list[float]) -> float:
    last = losses[-PACE:]
    return sum(last) / len(last)


def _unless_zero(spread: Tensor) -> Tensor:
    return torch.where(spread > 0.0, spread, torch.ones_like(spread))


def _linear(inputs: int, outputs: int, generator: torch.Generator) -> nn.Linear:
    # Without skip_init the layer would first draw from torch's own generator.
    layer: nn.Linear = nn.utils.skip_init(nn.Linear, inputs, outputs)  # type: ignore[no-untyped-call]
    bound = 1.0 / math.sqrt(inputs)
    nn.init.uniform_(layer.weight, -math.sqrt(3.0) * bound, math.sqrt(3.0) * bound, generator=generator)
    nn.init.zeros_(layer.bias)
    return layer
