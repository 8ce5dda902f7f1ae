"""k-ary randomised response for records of categorical columns.

**Guarantee.** A column with k categories keeps its value with probability p = e^ε′/(e^ε′ + k − 1) and
otherwise takes one of the others, all equally likely; the likelihood ratio of any answer is at most
p(k − 1)/(1 − p) = e^ε′ (Warner 1965; Kairouz, Oh & Viswanath 2016). The d columns of a record compose
to ε = dε′. Unit: record, neighbours: replace. Coins are exact and p is rounded down.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from functools import lru_cache
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.mechanisms.base import ExpectedError, Mechanism, finite
from sfumato.mechanisms.parameters import Epsilon, RandomSource, positive, positives
from sfumato.mechanisms.registry import Parameter, shown
from sfumato.noise import Stream, coins, mpmath_context, uniform_integers
from sfumato.privacy import REQUIRED, Claim, Guarantee

__all__ = ["RandomisedResponse", "keep_threshold"]

# Codes are held in float64, which has every whole number up to here.
_MOST_CATEGORIES = 2**53
# Every column has a coin and an expected error of its own.
_MOST_COLUMNS = 1 << 16


@lru_cache(maxsize=1024)
def keep_threshold(epsilon: float, categories: int) -> int:
    """Return ⌊2⁶⁴p⌋ for the largest p with p(k − 1)/(1 − p) ≤ e^ε: the coin that keeps a value."""
    mp = mpmath_context()
    with mp.workprec(256):
        weight = 1 / (1 + (categories - 1) * mp.exp(-mp.mpf(epsilon)))
        threshold = min(int(mp.floor(mp.ldexp(weight, 64))), (1 << 64) - 1)
    if threshold * categories < 1 << 64:
        # Below 1/k the other answers would be the likelier ones, by more than e^ε.
        raise BadInput(
            f"an `epsilon` of {epsilon:g} for {categories} categories is too small for a coin of 64 bits.",
            parameter="epsilon",
        )
    return threshold


def respond(
    stream: Stream, values: NDArray[np.float64], categories: int, threshold: int
) -> NDArray[np.float64]:
    """Return each value with probability ``threshold``/2⁶⁴, else another one, all equally likely."""
    other = uniform_integers(stream, categories - 1, values.size)
    # Of the k − 1 others, those from the value on move up by one.
    other += other >= values
    return np.where(coins(stream, threshold, values.size), values, other)


@dataclass(eq=False, repr=False)
class RandomisedResponse(Mechanism):
    """Keeps or replaces each category code; ``epsilon`` is for the whole record, shared by its columns.

    ``categories`` is the number of categories of every column, or one number a column. ``weights``, one
    positive number a column, share out ε unequally. X holds whole numbers 0 … categories−1; anything
    else is refused.

    **Guarantee.** ε for the row under replace: Warner 1965; Kairouz, Oh & Viswanath 2016.
    """

    kinds = ("array",)
    units = ("record",)

    epsilon: Epsilon = REQUIRED
    categories: Annotated[
        Any, Parameter("Number of categories: values are 0 … K−1.", symbol="K", type=int)
    ] = 2
    _: KW_ONLY
    weights: Annotated[
        Any,
        Parameter(
            "Shares of ε, one positive number for each column; equal unless given.", arity=None, array=True
        ),
    ] = None
    randomness: RandomSource = None

    def guarantee(self, columns: int | None = None) -> Guarantee:
        """Return the pure ε of one record; composed of its columns where ``categories`` lists them."""
        epsilon, counts = positive("epsilon", self.epsilon), self._counts(columns)
        if np.ndim(self.categories) == 0:
            if columns is None:
                self._weights()
            else:
                self._budgets(columns)
            return Guarantee.pure(epsilon, theorem="k-ary randomised response")
        budgets = self._budgets(counts.size)
        return Guarantee.compose(
            [Guarantee.randomised_response(e, int(k)) for e, k in zip(budgets, counts, strict=True)]
        )

    def claim(self) -> Claim | None:
        """Return the mechanism's own theorem: here claim and proof agree."""
        return self._claimed("ε-DP for k-ary randomised response", "Kairouz, Oh & Viswanath 2016, theorem 2")

    def expected_error(self, columns: int) -> tuple[ExpectedError, ...]:
        """Return the share of answers of each column that are not the true one."""
        return tuple(
            ExpectedError(f"column {column + 1}", "share of wrong answers", 1.0 - threshold / 2.0**64)
            for column, threshold in enumerate(self._keep(columns))
        )

    def check(self, X: NDArray[Any], first: int = 0) -> None:
        """Refuse what is no category code; see :meth:`Mechanism.check`."""
        self._codes(X, first, self._counts(X.shape[1]))

    def perturb(self, X: NDArray[Any], first: int = 0) -> NDArray[Any]:
        """Return the released codes for ``X``; see :meth:`Mechanism.perturb`."""
        columns = X.shape[1]
        counts = self._counts(columns)
        keep = self._keep(columns)
        out = np.empty(X.shape, dtype=X.dtype)

        def answer(stream: Stream, rows: slice, codes: NDArray[np.float64]) -> None:
            for column, (k, threshold) in enumerate(zip(counts, keep, strict=True)):
                out[rows, column] = respond(stream, codes[:, column], int(k), threshold)

        self._each_stream(X, first, lambda block, at: self._codes(block, at, counts), answer)
        return out

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = True
        return tags

    def _counts(self, columns: int | None) -> NDArray[np.int64]:
        try:
            counts = np.asarray(self.categories)
        except ValueError:
            counts = np.empty(0)
        whole = counts.dtype.kind in "iu" and counts.ndim <= 1 and counts.size > 0
        if not whole or (counts < 2).any() or (counts > _MOST_CATEGORIES).any():
            raise BadInput(
                f"`categories` must be a whole number from 2 to {_MOST_CATEGORIES}, or one for each column, "
                f"not {shown(self.categories)}.",
                parameter="categories",
            )
        if columns is not None and columns > _MOST_COLUMNS:
            raise BadInput(f"randomised response takes up to {_MOST_COLUMNS:,} columns, not {columns:,}.")
        if columns is None or counts.ndim == 0:
            return (
                np.full(columns or 1, counts, dtype=np.int64) if counts.ndim == 0 else counts.astype(np.int64)
            )
        if counts.size != columns:
            raise BadInput(
                f"`categories` were declared for {counts.size} columns, but the data has {columns}.",
                parameter="categories",
            )
        return counts.astype(np.int64)

    def _keep(self, columns: int) -> list[int]:
        """Return the coin that keeps a value of each column, in 2⁻⁶⁴."""
        pairs = zip(self._budgets(columns), self._counts(columns), strict=True)
        return [keep_threshold(epsilon, int(k)) for epsilon, k in pairs]

    def _budgets(self, columns: int) -> list[float]:
        """Return ε of each column; rounded down, so that they sum to at most ``epsilon``."""
        weights = self._weights()
        shares = np.ones(columns) if weights is None else weights
        if shares.size != columns:
            raise BadInput(
                f"`weights` were declared for {shares.size} columns, but the data has {columns}.",
                parameter="weights",
            )
        total = positive("epsilon", self.epsilon) * (1.0 - 2.0**-48)
        return [float(share) for share in total * (shares / shares.sum())]

    def _weights(self) -> NDArray[np.float64] | None:
        if self.weights is None:
            return None
        weights = positives(self.weights)
        if weights is None:
            raise BadInput(
                f"`weights` must be positive numbers, one a column, not {shown(self.weights)}.",
                parameter="weights",
            )
        return weights

    def _codes(self, block: NDArray[Any], first: int, counts: NDArray[np.int64]) -> NDArray[np.float64]:
        codes = finite(block, first)
        bad = np.argwhere((codes < 0) | (codes >= counts) | (codes != np.floor(codes)))
        if bad.size:
            row, column = bad[0]
            raise BadInput(
                f"row {first + row + 1}, column {column + 1} holds no category of that column; "
                f"accepted are the codes 0 to {counts[column] - 1}."
            )
        return codes
