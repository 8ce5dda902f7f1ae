"""Tiers that are drawn one at a time, whenever a reader of one asks: of records, of answers, of table rows.

Keyed noise is a function of the secret, the content and the list of all tiers, and not of the tier that is
drawn. So the tiers of a release are nested as if they had been drawn together, whichever are drawn and in
whatever order. Without keyed noise it would be drawn anew for each tier, and readers of several could average
it: that is refused.

**Guarantee of records.** Tier i adds the noises of rungs 0…i, rung 0 of the most trusted tier's deviation σ₀
and rung j of √(σ²_j − σ²_{j−1}), to the same gridded records, and rounds the sum. All tiers together are
post-processing of the most trusted one with noise that is independent of the data, and cost what it costs;
tier i alone has noise of deviation σ_i and proves its own ε.

**Guarantee of answers.** The most trusted tier keeps a value with probability p₀ and otherwise takes one of
the k − 1 others, all equally likely. Tier i keeps the answer of tier i − 1 with probability q_i and otherwise
takes one of the others. Two such steps are one again: the value is kept with probability
p_i = p_{i−1}q_i + (1 − p_{i−1})(1 − q_i)/(k − 1), and all others stay equally likely. q_i, a multiple of
2⁻⁶⁴, is the largest for which p_i is at most what ε_i allows, found in exact fractions; so tier i alone is
k-ary randomised response with at most ε_i. All tiers together are post-processing of the most trusted one,
with coins that do not depend on the data, and cost what it costs.

**Guarantee of table rows.** That of ``Rows`` with the ε of the tier. Both parts are nested, with noise and
coins that are independent of each other: so all tiers together are post-processing of the most trusted one,
and cost what it costs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.mechanisms.base import ExpectedError, Mechanism
from sfumato.mechanisms.parameters import Distrust, epsilon_range, share
from sfumato.mechanisms.randomised_response import RandomisedResponse, respond
from sfumato.mechanisms.registry import shown
from sfumato.mechanisms.table_rows import Rows
from sfumato.mechanisms.trust_adaptive import Tiers, TrustAdaptive
from sfumato.noise import Stream
from sfumato.privacy import REQUIRED, Claim, Guarantee, Statement

__all__ = ["ResponseTier", "Tier", "TierRows", "TrustTier"]


@dataclass(eq=False, repr=False, kw_only=True)
class Tier(Mechanism):
    """The tier of readers of ``distrust`` among ``levels`` of the base class that stands after this one."""

    distrust: Distrust = 1.0
    levels: Sequence[float] = (0.0, 1.0)

    def ladder(self) -> tuple[tuple[float, ...], int]:
        """Return all levels, the most trusted first, and which of them this tier is."""
        levels = self.levels
        given = list(levels) if isinstance(levels, Sequence) and not isinstance(levels, str) else []
        known = tuple(sorted({share("levels", level) for level in given}))
        if not known or len(known) != len(given):
            raise BadInput(
                f"`levels` must be one or more different numbers from 0 to 1, not {shown(levels)}.",
                parameter="levels",
            )
        if share("distrust", self.distrust) not in known:
            raise BadInput(
                f"`distrust` must be one of the levels {shown(list(known))}, not {shown(self.distrust)}.",
                parameter="distrust",
            )
        return known, known.index(float(self.distrust))

    def _stream(self, first: int, content: NDArray[Any]) -> Stream:
        # Drawn anew for each reader, rungs could be averaged away by readers of several tiers.
        if self.keyed is None:
            raise BadInput(
                "a tier that is drawn on its own needs keyed noise: randomness=sf.Keyed(…); "
                "TrustAdaptive.tiers draws all of them at once without.",
                parameter="randomness",
            )
        return super()._stream(first, content)

    def _context(self, columns: int) -> dict[str, Any]:
        # Keyed by the whole ladder: no rung's noise serves at two scales, and every tier finds the same.
        # These are wire names.
        levels, _ = self.ladder()
        return super()._context(columns) | {"trust": list(levels), "levels": list(levels)}


_WHOLE = 1 << 64


@dataclass(eq=False, repr=False)
class ResponseTier(Tier, RandomisedResponse):
    """The tier of readers of ``distrust`` among ``levels`` of randomised response.

    ``epsilon`` is the range (ε_min, ε_max): a tier promises ε_max − distrust·(ε_max − ε_min) of a record.
    """

    epsilon: Any = REQUIRED

    def guarantee(self, columns: int | None = None) -> Guarantee:
        """Return that of randomised response with the ε of this tier."""
        self.ladder()
        return self._member(self.distrust).guarantee(columns)

    def claim(self) -> Claim | None:
        """Return that of randomised response with the ε of this tier."""
        return self._member(self.distrust).claim()

    def expected_error(self, columns: int) -> tuple[ExpectedError, ...]:
        """Return the share of answers of each column that are not the true one."""
        _, tier = self.ladder()
        return tuple(
            ExpectedError(f"column {column + 1}", "share of wrong answers", 1.0 - float(kept[tier]))
            for column, (_, kept) in enumerate(self.steps(columns))
        )

    def perturb(self, X: NDArray[Any], first: int = 0) -> NDArray[Any]:
        """Return the answers of this tier; those of all tiers are drawn, since they share one stream."""
        counts, steps = self._counts(X.shape[1]), self.steps(X.shape[1])
        _, tier = self.ladder()
        out = np.empty(X.shape, dtype=X.dtype)

        def answer(stream: Stream, rows: slice, codes: NDArray[np.float64]) -> None:
            for column, (k, (thresholds, _)) in enumerate(zip(counts, steps, strict=True)):
                answers = codes[:, column]
                for number, threshold in enumerate(thresholds):
                    answers = respond(stream, answers, int(k), threshold)
                    if number == tier:
                        out[rows, column] = answers

        self._each_stream(X, first, lambda block, at: self._codes(block, at, counts), answer)
        return out

    def steps(self, columns: int) -> list[tuple[list[int], list[Fraction]]]:
        """Return for each column the coins of all tiers, in 2⁻⁶⁴, and how likely each keeps the value."""
        levels, _ = self.ladder()
        low, high = epsilon_range(self.epsilon)
        if len(levels) > 1 and low == high:
            raise BadInput("tiers differ in their ε, but the range of it is one value.")
        allowed = [self._member(level)._keep(columns) for level in levels]
        counts = self._counts(columns)
        return [_steps([each[column] for each in allowed], int(counts[column])) for column in range(columns)]

    def _member(self, level: float) -> RandomisedResponse:
        """Return the mechanism that the tier at ``level`` is alone."""
        low, high = epsilon_range(self.epsilon)
        return RandomisedResponse(
            high - float(level) * (high - low),
            self.categories,
            weights=self.weights,
            randomness=self.randomness,
        )


def _steps(allowed: Sequence[int], k: int) -> tuple[list[int], list[Fraction]]:
    """Return the coin of each step, and what is kept after it: at most ``allowed``, in 2⁻⁶⁴."""
    coins_of, kept = [allowed[0]], [Fraction(allowed[0], _WHOLE)]
    for most in allowed[1:]:
        before = kept[-1]
        other = (1 - before) / (k - 1)
        if before <= other:
            raise BadInput(
                f"the `epsilon` for {k} categories is too small for tiers below it.", parameter="epsilon"
            )
        coin = min(math.floor((Fraction(most, _WHOLE) - other) / (before - other) * _WHOLE), _WHOLE - 1)
        after = other + (before - other) * Fraction(coin, _WHOLE)
        if after * k < 1:
            # The other answers would be the likelier ones.
            raise BadInput(
                f"the `epsilon` for {k} categories is too small for a coin of 64 bits.", parameter="epsilon"
            )
        coins_of.append(coin)
        kept.append(after)
    return coins_of, kept


@dataclass(eq=False, repr=False)
class TrustTier(Tier, TrustAdaptive):
    """The tier of readers of ``distrust`` among ``levels``, for readers who come one at a time.

    ``epsilon``, ``delta``, ``clip`` and ``bounds`` are those of :class:`TrustAdaptive`, calibrated
    analytically. ``guarantee()`` is that of the tier alone; ``together()`` that of all tiers.
    """

    calibration: str = field(default="analytic", init=False)

    def together(self) -> Guarantee:
        """Return what is proven for a reader, or a coalition of readers, who sees every tier."""
        return self._tiers().guarantee()

    def perturb(self, X: NDArray[Any], first: int = 0) -> NDArray[Any]:
        """Return the released rows of this tier; every rung is drawn, since all share one stream."""
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


class TierRows(Rows):
    """The rows of a table for the tier of ``mechanism``; the other arguments are those of :class:`Rows`."""

    def __init__(
        self,
        mechanism: TrustTier,
        bounds: Sequence[Sequence[float]],
        categories: Sequence[int],
        weights: Sequence[float],
    ) -> None:
        super().__init__(mechanism, bounds, categories, weights)
        self._given = (mechanism, bounds, categories, weights)
        if self.coded is not None:
            share = float(np.sum(weights[len(bounds) :]) / np.sum(weights))
            low, high = epsilon_range(mechanism.epsilon)
            self.coded = ResponseTier(
                (low * share, high * share),
                self.coded.categories,
                distrust=mechanism.distrust,
                levels=mechanism.levels,
                weights=self.coded.weights,
                randomness=mechanism.randomness,
            )

    def together(self) -> Guarantee:
        """Return what is proven for a reader, or a coalition of readers, who sees every tier."""
        mechanism, bounds, categories, weights = self._given
        levels, _ = mechanism.ladder()
        best = TrustTier(**(mechanism.get_params(deep=False) | {"distrust": levels[0]}))
        return TierRows(best, bounds, categories, weights).guarantee()

    def statement(self) -> Statement:
        """Return that of the rows; what all tiers promise together is said of both parts of a row."""
        stated, count = super().statement(), len(self._given[0].levels)
        notes = [note for note in stated.notes if "nested tiers" not in note]
        together = f"one of {count} nested tiers; all {count} together: {self.together()}"
        return replace(stated, notes=(*notes, together))
