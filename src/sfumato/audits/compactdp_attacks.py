"""The six membership attacks of CompactDP's Table 1, cross-validated, on the answers of any model.

The attacker knows for some records whether they are members and trains a classifier on what the model says
about them; the classifier then scores records it has not seen. Members and non-members must come from one
distribution, or the classifier learns the difference between the distributions.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.audits.findings import Finding
from sfumato.audits.predictions import Predictions, check_comparable
from sfumato.audits.roc import Placements, finding_from_scores
from sfumato.errors import BadInput

__all__ = ["CONFIGURATIONS", "Configuration", "cross_fit"]

Floats = npt.NDArray[np.float64]
Scorer = Callable[[Predictions], Floats]
FOLDS = 5
THREAT = "sees the model's answers and the true labels, and knows of other records whether they are members"


@dataclass(frozen=True)
class Configuration:
    """One row of Table 1: what the attacker reads off an answer, and what learns from it.

    ``features`` maps predictions to a matrix (n, k). ``classifier`` makes an untrained scikit-learn
    estimator from a seed and the number of records it will be trained on.
    """

    name: str
    description: str
    features: Callable[[Predictions], Floats]
    classifier: Callable[[int, int], Any]

    def fit(self, members: Predictions, nonmembers: Predictions, *, seed: int = 0) -> Scorer:
        """Train the attack on records of known membership; the scorer it returns is higher for members.

        Where all known records have the same features there is nothing to learn, and every record gets
        the same score.
        """
        check_comparable(members, nonmembers)
        known = np.concatenate([self.features(members), self.features(nonmembers)])
        if all_equal(known):
            return lambda predictions: np.zeros(len(predictions))
        truth = np.repeat([1, 0], [len(members), len(nonmembers)])
        trained = self.classifier(seed, len(known))
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Stochastic Optimizer: Maximum iterations")
            trained.fit(known, truth)

        def score(predictions: Predictions) -> Floats:
            features = self.features(predictions)
            if hasattr(trained, "decision_function"):
                return np.asarray(trained.decision_function(features), dtype=np.float64)
            return np.asarray(trained.predict_proba(features)[:, 1], dtype=np.float64)

        return score


def _columns(*columns: npt.NDArray[Any]) -> Floats:
    return np.column_stack(columns).astype(np.float64)


def _mlp(seed: int, records: int) -> Any:
    """Standardised features, hidden layers (64, 32), 30 passes or more over the records, 300 steps at least.

    A fixed number of passes: stopping where accuracy stalls would stop at once if most records are members.
    """
    from sklearn.neural_network import MLPClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    passes = min(300, max(30, 60_000 // records))
    network = MLPClassifier((64, 32), alpha=0.01, max_iter=passes, random_state=seed)
    return make_pipeline(StandardScaler(), network)


def _gradient_boosting(seed: int, records: int) -> Any:
    """50 trees of depth 3, 1% of the records a leaf; features in 255 bins, so it takes linear time."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    leaf = max(1, records // 100)
    return HistGradientBoostingClassifier(
        max_iter=50, max_depth=3, min_samples_leaf=leaf, early_stopping=False, random_state=seed
    )


def _svm(seed: int, records: int) -> Any:
    """A linear support vector machine on 200 Nyström features of the RBF kernel.

    A kernel machine proper takes time quadratic in the number of records; this one takes linear time.
    """
    from sklearn.kernel_approximation import Nystroem
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import LinearSVC

    landmarks = Nystroem(n_components=min(200, records), random_state=seed)
    machine = LinearSVC(class_weight="balanced", dual=False, random_state=seed)
    return make_pipeline(StandardScaler(), landmarks, machine)


def _random_forest(seed: int, records: int) -> Any:
    """100 trees, each of half the records; 1% of the records a leaf, so that votes are shares."""
    from sklearn.ensemble import RandomForestClassifier

    leaf = max(1, records // 100)
    return RandomForestClassifier(
        100, min_samples_leaf=leaf, max_samples=0.5, class_weight="balanced", random_state=seed
    )


CONFIGURATIONS: tuple[Configuration, ...] = (
    Configuration(
        "enhanced_probs",
        "full probabilities, entropy, confidence, correctness, top-2 gap and loss; MLP",
        lambda p: _columns(p.probabilities, p.entropy, p.confidence, p.correct, p.gap, p.loss),
        _mlp,
    ),
    Configuration(
        "loss_features",
        "cross-entropy loss, prediction margin and correctness; gradient boosting",
        lambda p: _columns(p.loss, p.margin, p.correct),
        _gradient_boosting,
    ),
    Configuration(
        "confidence_correctness",
        "maximum confidence and correctness; MLP",
        lambda p: _columns(p.confidence, p.correct),
        _mlp,
    ),
    Configuration(
        "probs_correctness",
        "full probabilities and correctness; SVM",
        lambda p: _columns(p.probabilities, p.correct),
        _svm,
    ),
    Configuration(
        "label_only",
        "correctness only; gradient boosting",
        lambda p: _columns(p.correct),
        _gradient_boosting,
    ),
    Configuration(
        "confidence_only_enhanced",
        "confidence, correctness, entropy and loss; random forest",
        lambda p: _columns(p.confidence, p.correct, p.entropy, p.loss),
        _random_forest,
    ),
)


@dataclass(frozen=True, eq=False)
class CrossFitted:
    """Scores of records, each by an attacker that has not seen it, and their placements within folds."""

    members: Floats
    nonmembers: Floats
    placements: Placements

    def finding(self, attack: str, threat: str, confidence: float, note: str = "") -> Finding:
        """Return the scores as a finding; the AUC is compared within folds, the rates are of all scores."""
        return finding_from_scores(
            *(attack, threat, self.members, self.nonmembers),
            confidence=confidence,
            note=note,
            placements=self.placements,
        )


def cross_fit(
    fit: Callable[[Predictions, Predictions], Scorer],
    members: Predictions,
    nonmembers: Predictions,
    *,
    folds: int = FOLDS,
    seed: int = 0,
) -> CrossFitted:
    """Stratified cross-validation: every fold is scored by an attacker trained on the other folds.

    Each fold holds the same share of the members and of the non-members. Scores of two folds come from two
    attackers; pooling them would compare a record with one that its attacker was trained on, which pulls an
    AUC below a half where there is nothing to find. So the AUC is the mean over folds (LeDell et al. 2015),
    through `CrossFitted.placements`.
    """
    check_comparable(members, nonmembers)
    if folds < 2:
        raise BadInput(f"`folds` was {folds}: cross-validation needs 2 or more.", parameter="folds")
    for group, name in ((members, "members"), (nonmembers, "non-members")):
        if len(group) < 2 * folds:
            raise BadInput(f"{folds} folds need at least {2 * folds} {name}, two a fold: got {len(group)}.")
    rng = np.random.default_rng(seed)
    inside, outside = (rng.permutation(len(group)) % folds for group in (members, nonmembers))
    scores = np.empty(len(members)), np.empty(len(nonmembers))
    placed = []
    for fold in range(folds):
        score = fit(members.rows(inside != fold), nonmembers.rows(outside != fold))
        scores[0][inside == fold] = score(members.rows(inside == fold))
        scores[1][outside == fold] = score(nonmembers.rows(outside == fold))
        placed.append(Placements.of(scores[0][inside == fold], scores[1][outside == fold]))
    return CrossFitted(*scores, Placements.join(placed))


def attack_configurations(
    members: Predictions,
    nonmembers: Predictions,
    *,
    names: Sequence[str] | None = None,
    confidence: float = 0.99,
    seed: int = 0,
    report: Callable[[str, float], None] | None = None,
) -> tuple[Finding, ...]:
    """Return one finding for each configuration of Table 1, or of ``names``, by stratified cross-validation.

    The value is the cross-validated AUC with its interval; the true positive rate at 0.1% and the advantage
    come from the pooled out-of-fold scores. A configuration whose features are the same for every record (a
    model that is always right tells a label-only attacker nothing) says so in its note; predictions that
    are the same for every record altogether are refused. 4,000 members and 1,000 non-members of 10 classes
    take all six well under a minute on one core.
    """
    check_comparable(members, nonmembers)
    if all_equal(*(CONFIGURATIONS[0].features(group) for group in (members, nonmembers))):
        raise BadInput("the predictions are the same for every record: there is nothing to attack.")
    chosen = [item for item in CONFIGURATIONS if names is None or item.name in names]
    findings = []
    for done, item in enumerate(chosen):
        if report is not None:
            report(f"configuration {item.name}", done / len(chosen))
        found = cross_fit(partial(item.fit, seed=seed), members, nonmembers, seed=seed)
        name = f"configuration {item.name}"
        findings.append(found.finding(name, THREAT, confidence, note=item.description))
    return tuple(findings)


def all_equal(*groups: npt.NDArray[Any]) -> bool:
    """Return whether all rows of all ``groups`` are the same."""
    return all(bool((group == groups[0][0]).all()) for group in groups)
