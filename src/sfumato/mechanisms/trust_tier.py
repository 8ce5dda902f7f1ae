"""One tier of a nested trust-adaptive release, drawn on its own whenever a reader of it asks.

**Guarantee.** Tier i adds the noises of rungs 0…i, rung 0 of the most trusted tier's deviation σ₀ and rung j
of √(σ²_j − σ²_{j−1}), to the same gridded records, and rounds the sum. Under keyed noise the rungs are a
function of the secret, the content, the parameters and the list of all tiers, and not of the tier that is
drawn: so whichever tiers are drawn, in whatever order, they are what ``TrustAdaptive.tiers`` would draw
together. All of them are post-processing of the most trusted tier with noise that is independent of the data,
and cost what it costs; one of them alone has noise of deviation σ_i and proves its own ε.

**Edge cases.** Without keyed noise the rungs would be drawn anew for each tier, and readers of several could
average them: that is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from numpy.typing import NDArray

from sfumato.mechanisms.declaration import Parameter
from sfumato.mechanisms.tiers import Tier
from sfumato.mechanisms.trust_adaptive import Tiers, TrustAdaptive
from sfumato.noise import Randomness
from sfumato.privacy import Guarantee
from sfumato.privacy.defaults import DELTA, RECORDS, REQUIRED

__all__ = ["TrustTier"]


class TrustTier(Tier, TrustAdaptive):
    """The tier of readers of ``distrust`` among ``levels``, for readers who come one at a time.

    ``epsilon``, ``delta``, ``clip`` and ``bounds`` are those of :class:`TrustAdaptive`, calibrated
    analytically. ``guarantee()`` is that of the tier alone; ``together()`` that of all tiers.
    """

    calibration = "analytic"

    def __init__(
        self,
        distrust: Annotated[float, Parameter(wire="trust")] = 1.0,
        levels: Sequence[float] = (0.0, 1.0),
        epsilon: Sequence[float] = REQUIRED,
        delta: float = DELTA,
        clip: float | None = None,
        *,
        bounds: Any = None,
        neighbours: str = RECORDS.neighbours,
        randomness: Randomness | None = None,
    ) -> None:
        self.distrust = distrust
        self.levels = levels
        self.epsilon = epsilon
        self.delta = delta
        self.clip = clip
        self.bounds = bounds
        self.neighbours = neighbours
        self.randomness = randomness

    def together(self) -> Guarantee:
        """What is proven for a reader, or a coalition of readers, who sees every tier."""
        return self._tiers().guarantee()

    def perturb(self, X: NDArray[Any], first: int = 0) -> NDArray[Any]:
        """The released rows of this tier; every rung is drawn, since all of them share one stream."""
        levels, tier = self.ladder()
        rungs = self._tiers().rungs(X.shape[1])
        assert len(rungs) == len(levels)
        return self._perturb_tiers(X, first, rungs)[tier]

    def _tiers(self) -> Tiers:
        levels, _ = self.ladder()
        parameters = self.get_params(deep=False)
        del parameters["levels"], parameters["randomness"]
        return TrustAdaptive(**parameters).tiers(levels)

    def _notes(self) -> tuple[str, ...]:
        count = len(self.levels)
        return (*super()._notes(), f"one of {count} nested tiers; all {count} together: {self.together()}")
