"""The attacks of appendix N: logistic regression and a random forest, each on three kinds of answers.

The appendix names both classifiers and all three outputs, and the caption of figure 13 says *4 combinations*,
without saying which of the six; all six are made. Of a single bit both classifiers learn the same order.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.audits import CONFIGURATIONS, Configuration, Predictions
from sfumato_reproductions.compactdp.attack import Attack, attack_all
from sfumato_reproductions.compactdp.bench import Bench
from sfumato_reproductions.compactdp.methods import Method

__all__ = ["COMBINATIONS", "appendix_n_attacks"]

Floats = NDArray[np.float64]


def _logistic_regression(seed: int, records: int) -> Any:
    """On features of unit variance, with scikit-learn's regularisation."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return make_pipeline(StandardScaler(), LogisticRegression(max_iter=500))


_OUTPUTS: dict[str, Callable[[Predictions], Floats]] = {
    "probabilities": lambda said: np.asarray(said.probabilities, dtype=np.float64),
    "confidence and correctness": lambda said: np.column_stack([said.confidence, said.correct]).astype(float),
    "label only": lambda said: said.correct[:, np.newaxis].astype(np.float64),
}
_CLASSIFIERS: dict[str, Callable[[int, int], Any]] = {
    "logistic regression": _logistic_regression,
    # The forest of table 1.
    "random forest": next(item for item in CONFIGURATIONS if "random forest" in item.description).classifier,
}
#: Every output with every classifier.
COMBINATIONS = tuple(
    Configuration(f"{output}, {classifier}", f"{output}; {classifier}", features, make)
    for output, features in _OUTPUTS.items()
    for classifier, make in _CLASSIFIERS.items()
)


def appendix_n_attacks(bench: Bench, method: Method) -> tuple[Attack, ...]:
    """The six combinations on ``method``, from memory or made now."""
    kept = bench.remembered(f"{method.name}, appendix N", partial(_made, bench, method), method.parameters())
    return tuple(map(Attack.read, kept))


def _made(bench: Bench, method: Method) -> list[dict[str, Any]]:
    found = attack_all(
        *bench.asked(method),
        folds=bench.run.folds,
        seed=bench.seed,
        report=lambda stage, share: None,
        configurations=COMBINATIONS,
    )
    return [attack.to_dict() for attack in found]
