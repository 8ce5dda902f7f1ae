"""The linear probe: accuracy of a logistic regression that learns from a release."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.utility.paired_records import class_labels, label_columns, paired, rows_of

__all__ = ["fitted", "linear_probe"]

#: Standard errors that a measure must be better than a guess by; one exceeds them with probability 3.2e-5.
ERRORS = 4.0


@dataclass(frozen=True)
class Probe:
    """What a logistic regression reached on rows that it had not seen.

    ``chance`` is the accuracy of always naming the commonest class of the rows learned from. ``converged`` is
    False where ``iterations`` ran out first; ``differing`` counts the tested rows that either the model or
    always naming that class gets right.
    """

    accuracy: float
    weighted_f1: float
    chance: float
    classes: int
    learned_rows: int
    tested_rows: int
    converged: bool
    differing: int


def linear_probe(
    released: Any,
    labels: Any,
    *,
    tested_on: Any = None,
    seed: int = 0,
    standardise: bool = True,
    iterations: int = 1000,
) -> Probe:
    """Return accuracy and weighted F1 of a logistic regression on held-out rows (TADP-RME, eq. 8).

    A fifth of the rows, drawn with ``seed`` so that every class keeps its share, is tested. ``tested_on``
    holds the same rows in the original space: the probe then learns from the release and is tested on
    originals, which must have as many columns. With ``standardise`` columns are centred and scaled by what
    the learned rows say. The model is scikit-learn's logistic regression with its default penalty (C = 1).
    Columns of the release or of ``tested_on`` that hold nothing but the label are no features and left out.

    **Edge cases.** One class, a class with one row, a split in which a class would be missing on either side,
    columns that are all constant and columns that all are the label are refused.
    """
    rows = rows_of(released, "released")
    numbered = class_labels(labels, len(rows), least=2)
    tests = rows if tested_on is None else paired(tested_on, rows)[0]
    if tests.shape[1] != rows.shape[1]:
        raise BadInput(
            f"the release has {rows.shape[1]} columns and the original {tests.shape[1]}; a probe that "
            "learned from one cannot be tested on the other."
        )
    features = ~(label_columns(rows, numbered) | label_columns(tests, numbered))
    if not features.any():
        raise BadInput("every column is the label itself: there is no feature to learn it from.")
    rows, tests = rows[:, features], tests[:, features]
    parts = split(numbered, seed=seed)
    return fitted(rows, numbered, parts, standardise=standardise, iterations=iterations).scored(tests)


@dataclass(frozen=True)
class Learner:
    """A fitted probe that remembers which rows it must be tested on."""

    model: Any
    numbered: NDArray[np.intp]
    parts: tuple[NDArray[np.intp], NDArray[np.intp]]
    converged: bool

    def scored(self, tests: NDArray[Any]) -> Probe:
        """Return the accuracy on its held-out rows of ``tests``, all records in the space it learned in."""
        from sklearn.metrics import accuracy_score, f1_score

        learned, held = self.parts
        truth = self.numbered[held]
        answers = self.model.predict(tests[held].astype(np.float64))
        usual = np.bincount(self.numbered[learned]).argmax()
        return Probe(
            accuracy=float(accuracy_score(truth, answers)),
            weighted_f1=float(f1_score(truth, answers, average="weighted", zero_division=0.0)),
            chance=float((truth == usual).mean()),
            classes=int(self.numbered.max()) + 1,
            learned_rows=len(learned),
            tested_rows=len(held),
            converged=self.converged,
            differing=int(np.count_nonzero((answers == truth) != (truth == usual))),
        )


def split(numbered: NDArray[np.intp], *, seed: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return row numbers to learn from, and a fifth to test on, every class with its share on both sides."""
    from sklearn.model_selection import train_test_split

    classes = int(numbered.max()) + 1
    tested = math.ceil(0.2 * len(numbered))
    if tested < classes:
        raise BadInput(
            f"a fifth of {len(numbered)} rows leaves no room for each of {classes} classes; give more rows."
        )
    learned, held = train_test_split(
        np.arange(len(numbered)), test_size=tested, random_state=seed, stratify=numbered
    )
    return learned, held


def fitted(
    rows: NDArray[Any],
    numbered: NDArray[np.intp],
    parts: tuple[NDArray[np.intp], NDArray[np.intp]],
    *,
    standardise: bool = True,
    iterations: int = 1000,
) -> Learner:
    """Return a probe that learned from the first of ``parts``, as :func:`split` makes them."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    known = rows[parts[0]]
    if (known == known[0]).all():
        raise BadInput(
            "all columns are constant over the rows to learn from; no probe can tell classes apart."
        )
    model = make_pipeline(
        StandardScaler() if standardise else "passthrough", LogisticRegression(max_iter=iterations)
    )
    # On one thread: the same sums in the same order everywhere, and no threads waiting for a busy processor.
    with warnings.catch_warnings(), threadpool_limits(limits=1):
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(known.astype(np.float64), numbered[parts[0]])
    return Learner(model, numbered, parts, bool(model[-1].n_iter_.max() < iterations))


def related(features: NDArray[Any], labels: NDArray[np.intp], seed: int) -> bool:
    """Return whether a classifier of half of the rows predicts the other half's labels above their share.

    For a row with label y and predicted probabilities p, let d = p(y) − Σ p(k)·share(k). If labels have
    nothing to do with the features, d has mean 0 over the rows that the classifier did not see, and they are
    independent; more than four standard errors above 0 have probability 3.2e-5.
    """
    order = np.random.default_rng(seed).permutation(len(labels))
    halves = order[: len(order) // 2], order[len(order) // 2 :]
    gained = []
    for known, tested in (halves, halves[::-1]):
        if len(np.unique(labels[known])) < 2:
            return False
        model = fitted(features, labels, (known, tested)).model
        given = np.zeros((len(tested), int(labels.max()) + 1))
        given[:, model.classes_] = model.predict_proba(features[tested].astype(np.float64))
        shares = np.bincount(labels[tested], minlength=given.shape[1]) / len(tested)
        gained.append(given[np.arange(len(tested)), labels[tested]] - given @ shares)
    all_gained = np.concatenate(gained)
    return bool(all_gained.mean() > ERRORS * all_gained.std() / math.sqrt(len(all_gained)))
