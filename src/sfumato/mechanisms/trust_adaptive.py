"""Trust-adaptive release: the less a reader is trusted, the more noise; several readers, one price.

The method of *TADP-RME* (section 4.2): an inverse trust score τ in [0, 1] sets the budget
ε(τ) = ε_max − τ(ε_max − ε_min). τ = 0 is the most trusted reader and gets the least noise.

**Guarantee.** That of the Gaussian noise alone, for one record, by the analytic Gaussian. Nested tiers:
the noise of the most trusted tier is drawn once and each less trusted tier adds an independent
N(0, σ²_{i+1} − σ²_i) to it, before rounding. All tiers together are then post-processing of the most
trusted one and cost what it costs.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from itertools import pairwise
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.mechanisms.additive import GaussianMechanism, noise_multiplier
from sfumato.mechanisms.base import Release, check_finite, records
from sfumato.mechanisms.parameters import (
    Bounds,
    Clip,
    Delta,
    Distrust,
    EpsilonRange,
    NeighboursName,
    RandomSource,
    delta_between,
    epsilon_range,
    known_neighbours,
    one_of,
    share,
)
from sfumato.mechanisms.registry import Parameter, shown
from sfumato.privacy import DELTA, RECORDS, REQUIRED, Claim, Guarantee, Statement, classical_sigma

__all__ = ["TrustAdaptive"]

CALIBRATIONS = ("analytic", "paper", "paper-tables")


@dataclass(eq=False, repr=False)
class TrustAdaptive(GaussianMechanism):
    """Gaussian noise for a reader of ``distrust`` τ, within the range ``epsilon`` = (ε_min, ε_max).

    ``calibration``:

    * ``"analytic"`` (default): noise that proves ε(τ) at ``delta``;
    * ``"paper"``: σ = clip·√(2 ln(1.25/δ))/ε(τ) as published; the proven column holds its true ε;
    * ``"paper-tables"``: the same, but without noise at τ = 0, which is what the paper's tables show;
      there the proven column is *nothing*.

    **Guarantee.** (ε(τ), δ) under replace or zero-out, by the analytic Gaussian; with ``calibration="paper"``
    the true ε of the paper's noise. All tiers of ``tiers([…])`` together prove what the most trusted one
    proves, by post-processing.
    """

    kinds = ("array", "table")
    units = ("record",)

    distrust: Distrust = 1.0
    epsilon: EpsilonRange = REQUIRED
    delta: Delta = DELTA
    clip: Clip = None
    _: KW_ONLY
    bounds: Bounds = None
    calibration: Annotated[
        str,
        Parameter("How much noise is added: what proves ε, or what the paper prints.", choices=CALIBRATIONS),
    ] = "analytic"
    neighbours: NeighboursName = RECORDS.neighbours
    randomness: RandomSource = None

    def budget(self) -> float:
        """Return ε(τ) = ε_max − τ(ε_max − ε_min)."""
        low, high = epsilon_range(self.epsilon)
        return high - share("distrust", self.distrust) * (high - low)

    def guarantee(self, columns: int | None = None) -> Guarantee:
        """Return ε(τ) of one record when analytic, the true ε of the paper's noise otherwise."""
        domain, delta, budget = self._domain_for(columns), delta_between(self.delta), self.budget()
        neighbours = known_neighbours(self.neighbours)
        if self._noiseless():
            return Guarantee.nothing("no noise is added at τ = 0", neighbours=neighbours)
        if self.calibration == "analytic":
            return self._gaussian(noise_multiplier(budget, delta))
        # The paper scales σ with Δ = clip; sigma / sensitivity does not depend on the columns then.
        return self._gaussian(math.nextafter(self.sigma(1) / domain.sensitivity("l2", 1, neighbours), 0.0))

    def claim(self) -> Claim | None:
        """Return theorem 1 of the paper, which rests on a formula proven for ε < 1 and on Δ ≤ clip."""
        return self._claimed(
            "(ε_τ, δ)-DP, ε_τ = ε_max − τ(ε_max − ε_min), for datasets that differ in one record",
            "TADP-RME, theorem 1",
            epsilon=self.budget(),
        )

    def sigma(self, columns: int) -> float:
        """Return the deviation of the noise on each coordinate of records with ``columns`` columns."""
        domain, delta = self._domain(), delta_between(self.delta)
        if one_of("calibration", self.calibration, CALIBRATIONS) == "analytic":
            return self._calibrated(domain, columns, noise_multiplier(self.budget(), delta))
        if self.clip is None:
            raise BadInput(
                "the paper's calibration is defined for records in an L2 ball; declare `clip`, not `bounds`.",
                parameter="bounds",
            )
        return 0.0 if self._noiseless() else classical_sigma(self.budget(), delta, float(self.clip))

    def tiers(self, levels: Sequence[float]) -> Tiers:
        """Return releases for several readers at the price of the most trusted of them."""
        return Tiers(self, levels)

    def perturb(self, X: NDArray[Any], first: int = 0) -> NDArray[Any]:
        """Return the released rows for ``X``; a plain copy where the paper's tables add no noise."""
        if not self._noiseless():
            return super().perturb(X, first)
        check_finite(X, first)
        return np.array(X)

    def _noiseless(self) -> bool:
        tables = one_of("calibration", self.calibration, CALIBRATIONS) == "paper-tables"
        return tables and share("distrust", self.distrust) == 0.0


class Tiers:
    """Nested releases of one mechanism at several levels of distrust.

    ``guarantee()`` covers all tiers together and equals that of the most trusted tier. ``release(X)``
    returns ``{distrust: Release}``; each statement holds the guarantee of its own tier, for a reader who
    sees only that one, and says what the tiers promise together.
    """

    def __init__(self, mechanism: TrustAdaptive, levels: Sequence[float]) -> None:
        given = list(levels) if isinstance(levels, Iterable) else []
        known = sorted({share("distrust", level) for level in given})
        if not known or len(known) != len(given):
            raise BadInput(f"tiers need one or more different levels of distrust, not {shown(levels)}.")
        parameters = mechanism.get_params(deep=False)
        self._members = {level: TrustAdaptive(**(parameters | {"distrust": level})) for level in known}
        for level, member in self._members.items():
            if member.guarantee().proves_nothing:
                raise BadInput(f"the tier at distrust {level:g} has no noise for the others to stand on.")
        low, high = epsilon_range(mechanism.epsilon)
        if len(known) > 1 and low == high:
            raise BadInput(
                f"tiers differ in their ε, but the range `epsilon` {shown(mechanism.epsilon)} is one value.",
                parameter="epsilon",
            )

    def guarantee(self) -> Guarantee:
        """The guarantee for a reader, or a coalition of readers, who sees every tier."""
        return next(iter(self._members.values())).guarantee()

    def release(self, X: Any) -> dict[float, Release]:
        """One release for each level of distrust, from one draw of nested noise."""
        ladder = _Ladder(**next(iter(self._members.values())).get_params(deep=False))
        ladder.levels = list(self._members)
        data = records(ladder, X, reset=True)
        columns = data.shape[1]
        values = ladder._perturb_tiers(data, 0, self.rungs(columns))
        provenance = {"rows": data.shape[0], "columns": columns, "tiers": list(self._members)}
        return {
            distrust: Release(value, self._statement(member), provenance)
            for (distrust, member), value in zip(self._members.items(), values, strict=True)
        }

    def rungs(self, columns: int) -> list[float]:
        """The scales of the noise that each tier adds to the one before it."""
        sigmas = [member.sigma(columns) for member in self._members.values()]
        # Rounded up, so that no tier has less noise than its own guarantee says.
        steps = [
            math.nextafter(math.sqrt(max((b - a) * (b + a), 0.0)), math.inf) * (1.0 + 2.0**-50)
            for a, b in pairwise(sigmas)
        ]
        return [sigmas[0], *steps]

    def _statement(self, member: TrustAdaptive) -> Statement:
        own = member.statement()
        together = f"all {len(self._members)} tiers together: {self.guarantee()}"
        return replace(own, notes=(*own.notes, together))


class _Ladder(TrustAdaptive):
    """The most trusted tier's mechanism, keyed by the whole ladder: no rung's noise serves at two scales."""

    levels: Sequence[float] = ()

    def _context(self, columns: int) -> dict[str, Any]:
        return super()._context(columns) | {"trust": list(self.levels)}
