"""A score for distinguishing games where no density is known: a classifier that learned from other games."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sfumato.errors import BadInput

__all__ = ["classifier_scores"]

Array = NDArray[np.float64]


def classifier_scores(first: ArrayLike, second: ArrayLike, *, seed: int = 0) -> tuple[Array, Array]:
    """Scores for released rows ``first`` (n, d) and ``second`` (k, d), higher where ``second`` is likelier.

    Half of the rows of each, chosen at random, train the classifier; only the others are scored and returned,
    so that given the training half the scores are independent. Of a logistic regression on values and their
    squares and of gradient-boosted trees, the one that ranks a quarter of the training rows better is taken
    and fitted on all of them.
    """
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    worlds = [_rows(first, "record"), _rows(second, "neighbour")]
    if worlds[0].shape[1] != worlds[1].shape[1]:
        raise BadInput(
            f"releases of {worlds[0].shape[1]} and of {worlds[1].shape[1]} columns were given: both worlds "
            "need the same columns."
        )
    rng = np.random.default_rng(seed)
    worlds = [rng.permutation(rows) for rows in worlds]
    training = [rows[: len(rows) // 2] for rows in worlds]
    judged = [rows[: len(rows) // 4] for rows in training]
    learning = [rows[len(rows) // 4 :] for rows in training]
    # On a busy machine, threads that wait for each other make the trees ten times slower than one thread.
    with threadpool_limits(limits=1, user_api="openmp"):
        qualities = []
        for model in _models(seed):
            _fit(model, learning)
            qualities.append(_ranking(*(model.decision_function(rows) for rows in judged)))
        best = _models(seed)[int(np.argmax(qualities))]
        _fit(best, training)
        scores = [np.asarray(best.decision_function(rows[len(rows) // 2 :])) for rows in worlds]
    return scores[0], scores[1]


def _rows(outputs: ArrayLike, world: str) -> Array:
    rows = np.asarray(outputs, dtype=np.float64)
    if rows.ndim != 2 or rows.shape[0] < 8 or rows.shape[1] == 0:
        raise BadInput(
            f"the releases of the {world} have shape {rows.shape}: a classifier needs a table (n, d) of "
            "eight or more rows."
        )
    bad = np.flatnonzero(~np.isfinite(rows).all(axis=1))
    if bad.size:
        raise BadInput(f"release {bad[0] + 1} of the {world} holds a value that is no finite number.")
    return rows


def _models(seed: int) -> list[Any]:
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import FunctionTransformer, StandardScaler

    squares = FunctionTransformer(_with_squares)
    regression = make_pipeline(StandardScaler(), squares, StandardScaler(), LogisticRegression(max_iter=1000))
    return [regression, HistGradientBoostingClassifier(random_state=seed)]


def _with_squares(values: Array) -> Array:
    return np.hstack([values, np.square(values)])


def _fit(model: Any, worlds: list[Array]) -> None:
    labels = np.repeat([0, 1], [len(worlds[0]), len(worlds[1])])
    model.fit(np.concatenate(worlds), labels)


def _ranking(first: Array, second: Array) -> float:
    """The share of pairs in which the score of ``second`` is above that of ``first``, ties half."""
    ordered = np.sort(first)
    below = np.searchsorted(ordered, second, side="left") + np.searchsorted(ordered, second, side="right")
    return float(below.mean()) / (2.0 * first.size)
