"""A torch module trained by ``fit_private``, as the learner that audits ask for.

**Guarantee.** That of :func:`~sfumato.learners.private_fit.fit_private`, with options that are fixed when the
learner is made. How many records there are decides the noise, so before ``fit`` the guarantee is the (ε, δ)
that was asked for, and after it what was proven of the fit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np
from torch.nn import Module

from sfumato.errors import BadInput
from sfumato.learners.examples import Floats
from sfumato.learners.learner import Report
from sfumato.learners.private_fit import Fitted, fit_private
from sfumato.mechanisms.parameters import positive
from sfumato.privacy import Guarantee, Neighbours, Statement
from sfumato.privacy.defaults import DELTA, REQUIRED

__all__ = ["PrivateLearner"]


class PrivateLearner:
    """``fit_private`` with fixed ``options``, for ``one_run_audit(lambda: PrivateLearner(…), X, y)``.

    ``network`` returns an untrained module for records of so many features: audits put canaries on axes of
    their own, so that there are more of them than the records have. Its first weights must not depend on the
    records; they are the same in each fit if ``network`` makes them so.
    """

    def __init__(
        self,
        network: Callable[[int], Module],
        *,
        epsilon: float = REQUIRED,
        delta: float = DELTA,
        **options: Any,
    ) -> None:
        self.network, self.epsilon, self.delta, self.options = network, epsilon, delta, options

    def guarantee(self) -> Guarantee:
        """What was asked for, under zero-out neighbours; once something is fitted, what is proven of it."""
        if hasattr(self, "fitted_"):
            return self.fitted_.guarantee
        return Guarantee.approximate(
            positive("epsilon", self.epsilon),
            self.delta,
            neighbours=Neighbours.ZERO_OUT,
            theorem="fit_private, before the fit",
        )

    def fit(self, X: Any, y: Any, *, report: Report | None = None) -> Self:
        """Train a new module on features ``X`` (n, d) and labels ``y`` (n,); spends the guarantee."""
        made = self.network(int(np.shape(X)[1]))
        self.fitted_: Fitted = fit_private(
            made, X, y, epsilon=self.epsilon, delta=self.delta, report=report, **self.options
        )
        return self

    def predict_proba(self, X: Any) -> Floats:
        """Class probabilities (n, classes); costs nothing more."""
        return self._fit().predict_proba(X)

    def statement(self) -> Statement:
        """The statement of the fit."""
        return self._fit().statement

    def _fit(self) -> Fitted:
        if not hasattr(self, "fitted_"):
            raise BadInput("nothing has been fitted: call fit(X, y) first.")
        return self.fitted_
