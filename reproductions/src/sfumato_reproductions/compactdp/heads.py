"""Linear heads that are no learners of ours: one without noise, and those of other private optimisers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sfumato.noise import Seeded
from sfumato.privacy import Guarantee
from sfumato_reproductions.compactdp.protocol import DELTA

__all__ = ["OptimisedHead", "PlainHead"]

Features = NDArray[np.float32]
Labels = NDArray[np.int64]
Shares = NDArray[np.float64]

_PASSES = 200


class PlainHead:
    """Softmax regression on features of unit variance, with scikit-learn's regularisation and no noise."""

    def fit(self, X: Features, y: Labels) -> Self:
        """Learn from features (n, d) and labels (n,)."""
        import warnings

        from sklearn.exceptions import ConvergenceWarning
        from sklearn.linear_model import LogisticRegression
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler

        self.fitted = make_pipeline(StandardScaler(), LogisticRegression(max_iter=_PASSES))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            self.fitted.fit(X, y)
        return self

    def predict(self, X: Features) -> Labels:
        """The most probable class of each row."""
        return np.asarray(self.fitted.predict(X))

    def predict_proba(self, X: Features) -> Shares:
        """Class probabilities (n, classes)."""
        return np.asarray(self.fitted.predict_proba(X), dtype=np.float64)

    def get_params(self, deep: bool = False) -> dict[str, Any]:
        """What it is made with."""
        return {"passes": _PASSES}


class OptimisedHead:
    """A linear head from zero weights by ``fit_private`` with ``options``, at ε = 1."""

    def __init__(self, classes: int, seed: int, options: Mapping[str, Any]) -> None:
        self.classes, self.seed, self.options = classes, seed, options

    def fit(self, X: Features, y: Labels) -> Self:
        """Learn from features (n, d) and labels (n,)."""
        import torch

        from sfumato.learners import fit_private

        layer = torch.nn.Linear(X.shape[1], self.classes)
        torch.nn.init.zeros_(layer.weight)
        torch.nn.init.zeros_(layer.bias)
        self.fitted = fit_private(
            layer, X, y, epsilon=1.0, delta=DELTA, randomness=Seeded(self.seed), **self.options
        )
        return self

    def predict(self, X: Features) -> Labels:
        """The most probable class of each row."""
        return self.fitted.predict(X)

    def predict_proba(self, X: Features) -> Shares:
        """Class probabilities (n, classes)."""
        return self.fitted.predict_proba(X)

    def guarantee(self) -> Guarantee:
        """What ``fit_private`` proved."""
        return self.fitted.guarantee

    def get_params(self, deep: bool = False) -> dict[str, Any]:
        """What it is made with."""
        return dict(self.options)
