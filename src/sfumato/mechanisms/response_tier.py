"""One tier of nested randomised response: each tier answers about the answer of the one before it.

**Guarantee.** The most trusted tier keeps a value with probability p₀ and otherwise takes one of the k − 1
others, all equally likely. Tier i keeps the answer of tier i − 1 with probability q_i and otherwise takes one
of the others. Two such steps are one again: the value is kept with probability
p_i = p_{i−1}q_i + (1 − p_{i−1})(1 − q_i)/(k − 1), and all others stay equally likely. q_i, a multiple of
2⁻⁶⁴, is the largest for which p_i is at most what ε_i allows, found in exact fractions; so tier i alone is
k-ary randomised response with at most ε_i. All tiers together are post-processing of the most trusted one,
with coins that do not depend on the data, and cost what it costs. The coins are keyed as those of
``TrustTier`` are, so this holds for tiers that are drawn one at a time.

**Edge cases.** Those of ``RandomisedResponse``; noise that is not keyed is refused.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.mechanisms.declaration import Parameter
from sfumato.mechanisms.expected_error import ExpectedError
from sfumato.mechanisms.parameters import epsilon_range
from sfumato.mechanisms.randomised_response import RandomisedResponse
from sfumato.mechanisms.tiers import Tier
from sfumato.noise import Randomness, Stream, below, coins
from sfumato.privacy import Claim, Guarantee
from sfumato.privacy.defaults import REQUIRED

__all__ = ["ResponseTier"]

_WHOLE = 1 << 64


class ResponseTier(Tier, RandomisedResponse):
    """The tier of readers of ``distrust`` among ``levels`` of randomised response.

    ``epsilon`` is the range (ε_min, ε_max): a tier promises ε_max − distrust·(ε_max − ε_min) of a record.
    """

    epsilon: Any

    def __init__(
        self,
        distrust: Annotated[float, Parameter(wire="trust")] = 1.0,
        levels: Sequence[float] = (0.0, 1.0),
        epsilon: Sequence[float] = REQUIRED,
        categories: Any = 2,
        *,
        weights: Any = None,
        randomness: Randomness | None = None,
    ) -> None:
        self.distrust = distrust
        self.levels = levels
        self.epsilon = epsilon
        self.categories = categories
        self.weights = weights
        self.randomness = randomness

    def guarantee(self, columns: int | None = None) -> Guarantee:
        """That of randomised response with the ε of this tier."""
        self.ladder()
        return self._member(self.distrust).guarantee(columns)

    def claim(self) -> Claim | None:
        """That of randomised response with the ε of this tier."""
        return self._member(self.distrust).claim()

    def expected_error(self, columns: int) -> tuple[ExpectedError, ...]:
        """The share of answers of each column that are not the true one."""
        _, tier = self.ladder()
        return tuple(
            ExpectedError(f"column {column + 1}", "share of wrong answers", 1.0 - float(kept[tier]))
            for column, (_, kept) in enumerate(self.steps(columns))
        )

    def perturb(self, X: NDArray[Any], first: int = 0) -> NDArray[Any]:
        """The answers of this tier; those of all tiers are drawn, since they share one stream."""
        counts, steps = self._counts(X.shape[1]), self.steps(X.shape[1])
        _, tier = self.ladder()
        out = np.empty(X.shape, dtype=X.dtype)

        def answer(stream: Stream, rows: slice, codes: NDArray[np.float64]) -> None:
            for column, (k, (thresholds, _)) in enumerate(zip(counts, steps, strict=True)):
                told = codes[:, column]
                for number, threshold in enumerate(thresholds):
                    other = below(stream, int(k) - 1, told.size)
                    other += other >= told
                    told = np.where(coins(stream, threshold, told.size), told, other)
                    if number == tier:
                        out[rows, column] = told

        self._each_stream(X, first, lambda block, at: self._codes(block, at, counts), answer)
        return out

    def steps(self, columns: int) -> list[tuple[list[int], list[Fraction]]]:
        """For each column: the coins of all tiers, in 2⁻⁶⁴, and how likely each tier keeps the value."""
        levels, _ = self.ladder()
        low, high = epsilon_range(self.epsilon)
        if len(levels) > 1 and low == high:
            raise BadInput("tiers differ in their ε, but the range of it is one value.")
        allowed = [self._member(level)._keep(columns) for level in levels]
        counts = self._counts(columns)
        return [_steps([each[column] for each in allowed], int(counts[column])) for column in range(columns)]

    def _member(self, level: float) -> RandomisedResponse:
        """The mechanism that a tier is alone."""
        low, high = epsilon_range(self.epsilon)
        return RandomisedResponse(
            high - float(level) * (high - low),
            self.categories,
            weights=self.weights,
            randomness=self.randomness,
        )


def _steps(allowed: Sequence[int], k: int) -> tuple[list[int], list[Fraction]]:
    """The coin of each step, and what is kept after it: at most ``allowed``, in 2⁻⁶⁴, after each."""
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
