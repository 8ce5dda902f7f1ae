"""Rows of a table: numeric columns share one additive mechanism, coded columns one randomised response.

**Guarantee.** The composition of the two, for one record under replace: a row is numeric values, all
covered by one mechanism on the box of their declared bounds, and category codes, one response each.
Column weights are public: a numeric column of weight w is stretched by w before the noise and shrunk
after it, a coded column gets its share of ε.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.mechanisms.additive import Box, Gaussian, Laplace, Personalised
from sfumato.mechanisms.base import ExpectedError, Mechanism
from sfumato.mechanisms.randomised_response import RandomisedResponse
from sfumato.mechanisms.trust_adaptive import TrustAdaptive
from sfumato.privacy import Claim, Guarantee, Statement

__all__ = ["Rows"]

Array = NDArray[np.float64]
Codes = NDArray[np.int64]


class Rows:
    """A mechanism for table rows of numeric columns and coded columns.

    ``mechanism`` is a ``Gaussian``, ``Laplace`` or ``TrustAdaptive`` that holds the budget of a whole row
    and no bound. ``bounds`` is (m, 2); ``categories`` holds the number of categories of each of the c coded
    columns; ``weights`` holds m + c positive shares of the budget, numeric columns first.
    """

    def __init__(
        self,
        mechanism: Mechanism,
        bounds: Sequence[Sequence[float]],
        categories: Sequence[int],
        weights: Sequence[float],
    ) -> None:
        # Personalised is a Gaussian with a budget for each row, which the coded columns could not share.
        if not isinstance(mechanism, Gaussian | Laplace | TrustAdaptive) or isinstance(
            mechanism, Personalised
        ):
            raise BadInput(
                "tables are released by gaussian, laplace or trust-adaptive noise, "
                f"not by {type(mechanism).__name__}.",
                parameter="mechanism",
            )
        if mechanism.clip is not None or mechanism.bounds is not None:
            raise BadInput(
                "a table's bounds stand in its schema; leave out `clip` and `bounds`.",
                parameter="bounds" if mechanism.clip is None else "clip",
            )
        # A guarantee on some bounds checks every parameter, also those that this table's columns do not need.
        type(mechanism)(**(mechanism.get_params(deep=False) | {"bounds": (0.0, 1.0)})).guarantee()
        shares = np.asarray(weights, dtype=np.float64) / np.sum(weights)
        limits = np.asarray(bounds, dtype=np.float64).reshape(-1, 2)
        if len(limits):
            Box(*limits.T)  # refuses bounds of which no width or middle can be computed
        count = len(limits)
        self._name, self._wire = type(mechanism).__name__, mechanism.wire
        self._parameters, self._terms = mechanism.parameters(), mechanism.terms()
        self._half = (limits[:, 1] - limits[:, 0]) / 2.0
        self._centre = limits[:, 0] + self._half
        self._weights = [float(share) for share in shares]
        self._stretch = shares[:count] * (count / max(shares[:count].sum(), np.finfo(float).tiny))
        self.numeric = _part(mechanism, float(shares[:count].sum()), self._stretch) if count else None
        total = mechanism.budget() if isinstance(mechanism, TrustAdaptive) else float(mechanism.epsilon)
        self.coded = (
            RandomisedResponse(
                total * float(shares[count:].sum()),
                [int(k) for k in categories],
                weights=[float(share) for share in shares[count:]],
                randomness=mechanism.randomness,
            )
            if len(categories)
            else None
        )

    def guarantee(self) -> Guarantee:
        """The composition of the numeric part and of the coded part."""
        return Guarantee.compose([part.guarantee() for part in self._parts()])

    def statement(self) -> Statement:
        """The statement of a release of rows; its parameters name the budget and each part's share."""
        claims = [claim for claim in (part.claim() for part in self._parts()) if claim is not None]
        parts: Mapping[str, Any] = {
            "numeric_columns": self._half.size,
            "numeric_epsilon": None if self.numeric is None else self.numeric.parameters()["epsilon"],
            "coded_columns": len(self.coded.categories) if self.coded else 0,
            "coded_epsilon": self.coded.epsilon if self.coded else None,
            "categories": list(self.coded.categories) if self.coded else [],
            "weights": self._weights,
        }
        proven = self.guarantee()
        return Statement(
            mechanism=self._named(self._name),
            parameters={**self._parameters, **parts},
            claimed=Claim(
                text="basic composition of the columns' mechanisms",
                source="; ".join(dict.fromkeys(claim.source for claim in claims)),
                epsilon=sum(claim.epsilon or 0.0 for claim in claims),
                delta=sum(claim.delta or 0.0 for claim in claims),
                unit=proven.unit,
                neighbours=proven.neighbours,
            ),
            proven=proven,
            notes=self._parts()[0]._notes(),
            terms={"mechanism": self._named(self._wire), "parameters": {**self._terms, **parts}},
        )

    def expected_error(self, numeric: Sequence[str], coded: Sequence[str]) -> tuple[ExpectedError, ...]:
        """For each column, by name: the deviation of its noise in its own unit, or its wrong answers."""
        errors: list[ExpectedError] = []
        if self.numeric is not None:
            (each,) = self.numeric.expected_error(len(numeric))
            own = each.value / self._stretch * self._half
            errors += [ExpectedError(n, each.measure, float(v)) for n, v in zip(numeric, own, strict=True)]
        if self.coded is not None:
            wrong = self.coded.expected_error(len(coded))
            errors += [replace(e, of=name) for e, name in zip(wrong, coded, strict=True)]
        return tuple(errors)

    def prepare(self) -> None:
        """Refuse what could not be drawn; see :meth:`Mechanism.prepare`."""
        if self.numeric is not None:
            self.numeric.prepare(self._half.size, np.dtype(np.float64))
        if self.coded is not None:
            self.coded.prepare(len(self.coded.categories), np.dtype(np.float64))

    def perturb(self, numeric: Array, codes: Codes, first: int = 0) -> tuple[Array, Codes]:
        """Released rows for values (k, m) and codes (k, c), which are rows ``first`` on of the table."""
        released = numeric
        if self.numeric is not None:
            # Within three times the bounds first: the mechanism clips to them, and nothing overflows here.
            near = np.clip(numeric, self._centre - 3.0 * self._half, self._centre + 3.0 * self._half)
            scaled = (near - self._centre) / self._half * self._stretch
            released = self.numeric.perturb(scaled, first) / self._stretch * self._half + self._centre
        answers = codes
        if self.coded is not None:
            answers = self.coded.perturb(codes.astype(np.float64), first).astype(np.int64)
        return released, answers

    def _named(self, numeric: str) -> str:
        """The mechanisms of both parts of a row, where that of the numeric columns is called ``numeric``."""
        parts = [f"{numeric} on numeric columns"] if self.numeric else []
        return ", ".join([*parts, *(["RandomisedResponse on coded columns"] if self.coded else [])])

    def _parts(self) -> list[Mechanism]:
        return [part for part in (self.numeric, self.coded) if part is not None]


def _part(
    mechanism: Gaussian | Laplace | TrustAdaptive, share: float, stretch: Array
) -> Gaussian | Laplace | TrustAdaptive:
    """``mechanism`` with its share of the budget, on the box of the stretched columns."""
    parameters = mechanism.get_params(deep=False) | {"bounds": (-stretch, stretch)}
    if isinstance(mechanism, TrustAdaptive):
        parameters["epsilon"] = tuple(share * float(e) for e in mechanism.epsilon)
    else:
        parameters["epsilon"] = share * float(mechanism.epsilon)
    return type(mechanism)(**parameters)
