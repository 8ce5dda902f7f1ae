"""Attribute inference: how well a released row reveals a label.

*TADP-RME*, section 6.2.2: a logistic regression infers a sensitive attribute (there the class label) from
the protected rows; its privacy score is 1 − (Acc − 1/C)/(1 − 1/C).
"""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sfumato.audits.findings import Finding
from sfumato.audits.reidentification import rows_of
from sfumato.errors import BadInput

_HELD_OUT = 0.2


def attribute_inference(
    released: ArrayLike,
    labels: ArrayLike,
    *,
    confidence: float = 0.99,
    seed: int = 0,
) -> Finding:
    """Return the accuracy with which logistic regression on released rows (n, d′) infers ``labels`` (n,).

    The attacker knows the labels of some released rows and infers those of the rest: a stratified fifth.
    Chance is the share of the most frequent label, which somebody names who has seen no
    release. ``numbers`` holds the paper's privacy score, which compares with 1/C instead.
    """
    features = rows_of(released, "release")
    codes = _codes(labels, len(features))
    counts = np.bincount(codes)
    test = _held_out(codes, np.random.default_rng(seed))
    train = np.setdiff1d(np.arange(len(codes)), test)
    guess = logistic_regression(features[train], codes[train]).predict(features[test])
    right, even = int(np.count_nonzero(guess == codes[test])), 1.0 / counts.size
    return Finding.of_count(
        "attribute inference",
        "knows the label of some released rows and infers it for the others by logistic regression",
        "accuracy",
        right,
        test.size,
        confidence,
        chance=float(counts.max()) / len(codes),
        numbers={
            "privacy_score": 1.0 - (right / test.size - even) / (1.0 - even),
            "classes": float(counts.size),
            "rows": float(test.size),
        },
    )


def logistic_regression(features: NDArray[Any], codes: NDArray[np.integer]) -> Any:
    """Return a scikit-learn pipeline fitted to classes 0, 1, …; features that are all constant are refused.

    Features are standardised. The squared coefficients weigh as much as there are features: that holds from
    clean data to data that is mostly noise, where scikit-learn's default learns the noise by heart.
    """
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import FunctionTransformer, StandardScaler

    if (features == features[0]).all():
        raise BadInput("every feature is constant over the rows that the attack learns from.")
    single = FunctionTransformer(partial(np.asarray, dtype=np.float32))
    model = LogisticRegression(C=1.0 / features.shape[1], max_iter=200)
    with warnings.catch_warnings():
        # An attack that is stopped early is still an attack; how well it does is measured on other rows.
        warnings.simplefilter("ignore", ConvergenceWarning)
        return make_pipeline(StandardScaler(), single, model).fit(features, codes)


def _codes(labels: ArrayLike, rows: int) -> NDArray[np.intp]:
    """Return the number of each row's class."""
    names = np.asarray(labels)
    if names.shape != (rows,):
        raise BadInput(f"labels have shape {names.shape}: one for each of {rows} released rows is needed.")
    if names.dtype.kind == "f" and not np.isfinite(names).all():
        row = int(np.flatnonzero(~np.isfinite(names))[0]) + 1
        raise BadInput(f"the label of row {row} is not a finite number.")
    classes, codes = np.unique(names.astype(str) if names.dtype.kind == "O" else names, return_inverse=True)
    if classes.size < 2:
        raise BadInput("all labels are of one class: there is nothing to infer.")
    if classes.size > rows // 2:
        raise BadInput(
            f"there are {classes.size} different labels for {rows} rows; attribute inference needs classes, "
            "each with at least two rows on average."
        )
    return codes


def _held_out(codes: NDArray[np.intp], rng: np.random.Generator) -> NDArray[np.intp]:
    """Return the rows to test: a fifth of every class, never the whole class."""
    test = []
    for label in range(codes.max() + 1):
        rows = rng.permutation(np.flatnonzero(codes == label))
        test.append(rows[: min(round(_HELD_OUT * rows.size), rows.size - 1)])
    chosen = np.sort(np.concatenate(test))
    if not chosen.size:
        raise BadInput(f"no class has enough rows to hold out a share of {_HELD_OUT:g}; give more rows.")
    return chosen
