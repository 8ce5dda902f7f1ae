"""Attribute inference: what a released row says about a label of its record.

*TADP-RME*, section 6.2.2: a logistic regression infers a sensitive attribute (there the class label) from
the protected rows; its privacy score is 1 − (Acc − 1/C)/(1 − 1/C).
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sfumato.audits.findings import Finding
from sfumato.audits.proportions import interval
from sfumato.audits.reidentification import Report, View, rows_of
from sfumato.errors import BadInput

__all__ = ["LogisticRegression", "attribute_inference"]

Floats = NDArray[np.float64]


def attribute_inference(
    released: ArrayLike,
    labels: ArrayLike,
    *,
    view: View | None = None,
    folds: int | None = None,
    held_out: float = 0.2,
    confidence: float = 0.99,
    seed: int = 0,
    report: Report | None = None,
) -> Finding:
    """The accuracy with which logistic regression on released rows (n, d′) infers ``labels`` (n,).

    The attacker knows the labels of some released rows and infers those of the rest: a stratified share
    ``held_out``, or, with ``folds``, every row once by stratified cross-validation (whose interval treats
    the folds as one sample). A ``view`` undoes a public transform first, which can only help. Chance is the
    share of the most frequent label, which somebody names who has seen no release. ``numbers`` holds the
    paper's privacy score, which compares with 1/C instead.
    """
    features = rows_of(released, "release")
    if view is not None:
        features = rows_of(view(features), "view of the release", fewest=len(features))
    classes, codes = _codes(labels, len(features))
    counts = np.bincount(codes)
    rng = np.random.default_rng(seed)
    if folds is None:
        parts = [_stratified_share(codes, held_out, rng)]
    else:
        parts = _stratified_folds(codes, folds, rng)
    right = asked = 0
    for index, test in enumerate(parts):
        train = np.setdiff1d(np.arange(len(codes)), test)
        guess = LogisticRegression.fit(features[train], codes[train]).classes(features[test])
        right, asked = right + int(np.count_nonzero(guess == codes[test])), asked + test.size
        if report is not None:
            report("attribute inference", (index + 1) / len(parts))
    accuracy, even = right / asked, 1.0 / len(classes)
    return Finding(
        attack="attribute inference",
        threat="knows the label of some released rows and infers it for the others by logistic regression",
        measure="accuracy",
        value=accuracy,
        chance=float(counts.max()) / len(codes),
        interval=interval(right, asked, confidence),
        confidence=confidence,
        numbers={
            "privacy_score": 1.0 - (accuracy - even) / (1.0 - even),
            "classes": float(len(classes)),
            "rows": float(asked),
        },
        note="every row was inferred once by cross-validation" if folds is not None else "",
    )


@dataclass(frozen=True)
class LogisticRegression:
    """A fitted logistic regression on standardised features."""

    mean: Floats
    scale: Floats
    model: Any

    @classmethod
    def fit(cls, features: NDArray[Any], codes: NDArray[np.integer]) -> LogisticRegression:
        """Learn classes 0, 1, … from rows; features that are all constant teach nothing and are refused.

        The squared coefficients weigh as much as there are features: that holds from clean data to data that
        is mostly noise, where scikit-learn's default learns the noise by heart.
        """
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.linear_model import LogisticRegression as Model

        mean, deviation = features.mean(axis=0, dtype=np.float64), features.std(axis=0, dtype=np.float64)
        if (features == features[0]).all():
            raise BadInput("every feature is constant over the rows that the attack learns from.")
        fitted = cls(mean, np.where(deviation > 0.0, deviation, 1.0), Model(C=1.0 / mean.size, max_iter=200))
        with warnings.catch_warnings():
            # An attack that is stopped early is still an attack; how well it does is measured on other rows.
            warnings.simplefilter("ignore", ConvergenceWarning)
            fitted.model.fit(fitted._standardised(features), codes)
        return fitted

    def classes(self, features: NDArray[Any]) -> NDArray[np.integer]:
        """The most likely class of each row."""
        return np.asarray(self.model.predict(self._standardised(features)))

    def scores(self, features: NDArray[Any]) -> Floats:
        """The log-odds of class 1 of two, for each row."""
        return np.asarray(self.model.decision_function(self._standardised(features)), dtype=np.float64)

    def _standardised(self, features: NDArray[Any]) -> NDArray[np.float32]:
        return ((features - self.mean) / self.scale).astype(np.float32)


def _codes(labels: ArrayLike, rows: int) -> tuple[NDArray[Any], NDArray[np.intp]]:
    """The classes and, for each row, the number of its class."""
    names = np.asarray(labels)
    if names.ndim != 1:
        raise BadInput(f"the labels have shape {names.shape}, but one label a row is needed: (n,).")
    if names.size != rows:
        raise BadInput(f"there are {names.size} labels for {rows} released rows; give one a row.")
    if names.dtype.kind == "f" and not np.isfinite(names).all():
        row = int(np.flatnonzero(~np.isfinite(names))[0]) + 1
        raise BadInput(f"the label of row {row} is not a finite number.")
    if names.dtype.kind == "O":
        names = names.astype(str)
    classes, codes = np.unique(names, return_inverse=True)
    if classes.size < 2:
        raise BadInput("all labels are of one class: there is nothing to infer.")
    if classes.size > rows // 2:
        raise BadInput(
            f"there are {classes.size} different labels for {rows} rows; attribute inference needs classes, "
            "each with at least two rows on average."
        )
    return classes, codes


def _stratified_share(codes: NDArray[np.intp], share: float, rng: np.random.Generator) -> NDArray[np.intp]:
    """Rows to be tested: of every class the given share, at least one in all, and never a whole class."""
    if not 0.0 < share < 1.0:
        raise BadInput(
            f"`held_out` was {share:g}: it is the share of rows to test on, between 0 and 1.",
            parameter="held_out",
        )
    test = []
    for label in range(codes.max() + 1):
        rows = rng.permutation(np.flatnonzero(codes == label))
        test.append(rows[: min(round(share * rows.size), rows.size - 1)])
    chosen = np.sort(np.concatenate(test))
    if not chosen.size:
        raise BadInput(f"no class has enough rows to hold out a share of {share:g}; give more rows.")
    return chosen


def _stratified_folds(
    codes: NDArray[np.intp], folds: int, rng: np.random.Generator
) -> list[NDArray[np.intp]]:
    """The rows of each fold, every class spread evenly over them."""
    if isinstance(folds, bool) or not isinstance(folds, int) or folds < 2:
        raise BadInput(
            f"`folds` was {folds!r}: cross-validation needs a whole number of folds, 2 or more.",
            parameter="folds",
        )
    counts = np.bincount(codes)
    if counts.min() < folds:
        raise BadInput(
            f"one class has {counts.min()} rows, fewer than the {folds} folds; ask for fewer folds or give "
            "more rows."
        )
    fold = np.empty(codes.size, dtype=np.intp)
    for label in range(counts.size):
        rows = rng.permutation(np.flatnonzero(codes == label))
        fold[rows] = np.arange(rows.size) % folds
    return [np.flatnonzero(fold == index) for index in range(folds)]
