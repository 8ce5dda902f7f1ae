"""Membership attacks on a model's answers, and the standard audit that runs all of them.

Members and non-members must come from one distribution; otherwise the attacks find the difference between
the distributions.

**Loss threshold**: members have a smaller loss; one threshold for all records (Yeom et al. 2018), or one for
each class.

**Label only**: predictions for members are right more often.

**Configurations**: the six attacks of CompactDP's Table 1, cross-validated. The attacker knows for some
records whether they are members and trains a classifier on what the model says about them; the classifier
then scores records it has not seen.

**Differences** between members and non-members in accuracy, confidence, entropy and calibration, as CompactDP
reports them (its appendix H). A difference of 0 is no proof of privacy: the averages may agree where single
records give themselves away.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import special

from sfumato.audits import lower_bounds
from sfumato.audits.findings import Finding
from sfumato.audits.predictions import Predictions, check_comparable
from sfumato.audits.roc import Placements, finding_from_scores
from sfumato.errors import BadInput
from sfumato.mechanisms import whole

__all__ = [
    "CONFIGURATIONS",
    "Configuration",
    "audit_model",
    "class_scorer",
    "cross_fit",
    "model_differences",
]

_GROUPS = "sees the model's answers about all members and all non-members, as two groups"
_LEARNED = "sees the model's answers and the true labels, and knows of other records whether they are members"
#: The note of every finding of one trained model.
NO_EPSILON = "one trained model is one run, so these rates bound no ε"
FOLDS = 5
Floats = npt.NDArray[np.float64]
Scorer = Callable[[Predictions], Floats]


def loss_threshold(members: Predictions, nonmembers: Predictions, *, confidence: float = 0.99) -> Finding:
    """Attack with minus the loss of a record as its score; nothing is learned."""
    check_comparable(members, nonmembers)
    return finding_from_scores(
        "loss threshold",
        "sees the probability the model gives to the true label",
        -members.loss,
        -nonmembers.loss,
        confidence=confidence,
    )


def class_scorer(members: Predictions, nonmembers: Predictions) -> Scorer:
    """Calibrate the threshold of each class on records of known membership (Song & Mittal 2021).

    The score is the scaled logit minus the point halfway between the means of the class's known members and
    non-members, so that 0 is the threshold of every class. Where a class has few of either, its mean is
    drawn towards that of all classes, as if ten records had that one.
    """
    check_comparable(members, nonmembers)
    halfway = (_class_means(members) + _class_means(nonmembers)) / 2.0

    def score(predictions: Predictions) -> Floats:
        return np.asarray(predictions.scaled_logit - halfway[predictions.labels])

    return score


def class_threshold(
    members: Predictions, nonmembers: Predictions, *, confidence: float = 0.99, seed: int = 0
) -> Finding:
    """Attack with one threshold for each class, calibrated by stratified cross-validation."""
    return cross_fit(class_scorer, members, nonmembers, seed=seed).finding(
        "loss threshold a class",
        "sees the probability the model gives to the true label, and knows of other records whether they are "
        "members",
        confidence,
    )


def _class_means(known: Predictions) -> Floats:
    logits = known.scaled_logit
    counts = np.bincount(known.labels, minlength=known.classes)
    sums = np.bincount(known.labels, weights=logits, minlength=known.classes)
    return np.asarray((sums + 10.0 * float(np.mean(logits))) / (counts + 10.0))


def model_differences(
    members: Predictions,
    nonmembers: Predictions,
    *,
    resamples: int = 400,
    confidence: float = 0.99,
    seed: int = 0,
) -> tuple[Finding, ...]:
    """Four findings: the value for members minus that for non-members, 0 being the chance of each.

    A model that knows its members is more accurate and more confident on them, and has a lower entropy and a
    lower calibration error; ``beats_chance`` is judged in these directions. Intervals: of the accuracy by
    joining the Clopper–Pearson intervals of both groups (Newcombe 1998), of the means by Welch's normal
    approximation, of the calibration error by the normal approximation with its bootstrapped deviation.
    So that its bias is that of equal numbers of records, the larger group's calibration error is the mean
    over ``resamples`` random parts of the size of the smaller.
    """
    check_comparable(members, nonmembers)
    whole("resamples", resamples, smallest=50)
    for group, name in ((members, "members"), (nonmembers, "non-members")):
        if len(group) < 2:
            raise BadInput(f"a difference needs at least two {name} to show their spread: got {len(group)}.")
    rng = np.random.default_rng(seed)
    both = (members, nonmembers)
    found = (
        ("accuracy", True, *_accuracy(both, confidence)),
        ("confidence", True, *_means([group.confidence for group in both], confidence)),
        ("entropy", False, *_means([group.entropy for group in both], confidence)),
        ("calibration error", False, *_calibration(both, resamples, confidence, rng)),
    )
    return tuple(
        Finding(
            attack=f"difference in {name}",
            threat=_GROUPS,
            measure=f"{name}, members minus non-members",
            value=values[0] - values[1],
            chance=0.0,
            interval=interval,
            confidence=confidence,
            higher_is_worse=higher,
            numbers={"members": values[0], "nonmembers": values[1]},
        )
        for name, higher, values, interval in found
    )


def _accuracy(
    both: tuple[Predictions, Predictions], confidence: float
) -> tuple[list[float], tuple[float, float]]:
    hits = [int(group.correct.sum()) for group in both]
    values = [hit / len(group) for hit, group in zip(hits, both, strict=True)]
    (low, high), (other_low, other_high) = (
        lower_bounds.interval(hit, len(group), confidence) for hit, group in zip(hits, both, strict=True)
    )
    difference = values[0] - values[1]
    return values, (
        difference - math.hypot(values[0] - low, other_high - values[1]),
        difference + math.hypot(high - values[0], values[1] - other_low),
    )


def _means(both: list[Floats], confidence: float) -> tuple[list[float], tuple[float, float]]:
    values = [float(np.mean(group)) for group in both]
    deviation = math.sqrt(sum(float(np.var(group, ddof=1)) / group.size for group in both))
    return values, _normal(values[0] - values[1], deviation, confidence)


def _calibration(
    both: tuple[Predictions, Predictions],
    resamples: int,
    confidence: float,
    rng: np.random.Generator,
) -> tuple[list[float], tuple[float, float]]:
    size = min(len(group) for group in both)
    values, variance = [], 0.0
    for group in both:
        parts = np.stack([rng.permutation(len(group))[:size] for _ in range(resamples)])
        values.append(float(np.mean(calibration_errors(group, parts))))
        drawn = rng.integers(len(group), size=(resamples, size))
        variance += float(np.var(calibration_errors(group, drawn), ddof=1))
    return values, _normal(values[0] - values[1], math.sqrt(variance), confidence)


def calibration_errors(group: Predictions, rows: npt.NDArray[np.int64], bins: int = 15) -> Floats:
    """Return the expected calibration error of each row of ``rows``, which lists records.

    It is the mean distance between confidence and accuracy over ``bins`` equal bins of the confidence. Its
    estimate is biased upwards, the more so the fewer the records.
    """
    gaps = group.correct - group.confidence
    cells = np.minimum((group.confidence * bins).astype(np.int64), bins - 1)
    offsets = np.arange(len(rows))[:, np.newaxis] * bins
    totals = np.bincount(
        (cells[rows] + offsets).ravel(), weights=gaps[rows].ravel(), minlength=len(rows) * bins
    )
    return np.asarray(np.abs(totals).reshape(len(rows), bins).sum(axis=1) / rows.shape[1])


def _normal(value: float, deviation: float, confidence: float) -> tuple[float, float]:
    reach = -float(special.ndtri(lower_bounds.failure_chance(confidence) / 2.0)) * deviation
    return value - reach, value + reach


def label_only(members: Predictions, nonmembers: Predictions, *, confidence: float = 0.99) -> Finding:
    """Attack with whether a record's predicted label is right: the AUC is (1 + the gap in accuracy)/2."""
    first, second = (group.correct.astype(np.float64) for group in (members, nonmembers))
    return finding_from_scores(
        "label only",
        "sees only the predicted label",
        first,
        second,
        confidence=confidence,
        note=f"accuracy {np.mean(first):.4g} on members and {np.mean(second):.4g} on non-members",
    )


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
    whole("folds", folds, smallest=2)
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
        findings.append(found.finding(name, _LEARNED, confidence, note=item.description))
    return tuple(findings)


def all_equal(*groups: npt.NDArray[Any]) -> bool:
    """Return whether all rows of all ``groups`` are the same."""
    return all(bool((group == groups[0][0]).all()) for group in groups)


def audit_model(
    members: Predictions,
    nonmembers: Predictions,
    *,
    confidence: float = 0.99,
    seed: int = 0,
    report: Callable[[str, float], None] | None = None,
) -> tuple[Finding, ...]:
    """Attack a model by its answers about records it was trained on and records it was not.

    The caller must see to it that both groups come from one distribution and that nobody chose between them
    by looking at the records: a random part of one data set held back from training. Otherwise the attacks
    find the difference between the distributions, which looks like memorisation.

    The attacks are the loss threshold, the loss threshold for each class, label only, the six configurations
    of CompactDP's Table 1, and the differences of its appendix H. The shadow-model attack, LiRA and RMIA need
    other models, which `audit_learner` trains. Each interval holds with ``confidence`` by itself, not all
    together.

    **Bounds on ε.** Rates over the records of one trained model are not those of independent runs, so no
    lower bound on ε follows from them, and the findings state none.
    """
    tell = report or (lambda stage, share: None)
    tell("thresholds", 0.0)
    found = (
        loss_threshold(members, nonmembers, confidence=confidence),
        class_threshold(members, nonmembers, confidence=confidence, seed=seed),
        label_only(members, nonmembers, confidence=confidence),
        *attack_configurations(
            members,
            nonmembers,
            confidence=confidence,
            seed=seed,
            report=lambda stage, share: tell(stage, 0.02 + 0.88 * share),
        ),
        *model_differences(members, nonmembers, confidence=confidence, seed=seed),
    )
    tell("model audited", 1.0)
    return tuple(map(bounds_no_epsilon, found))


def bounds_no_epsilon(finding: Finding) -> Finding:
    """Return ``finding`` with a note that rates over the records of one model bound no ε."""
    return replace(finding, note="; ".join(filter(None, (finding.note, NO_EPSILON))))
