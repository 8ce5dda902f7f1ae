"""The six configurations of Table 1: their features, what they find, and what they do not find."""

import time

import numpy as np
import pytest
from model_targets import CERTAIN, exchangeable, forest, network, records, regression, split, tree
from scipy import stats
from sklearn.ensemble import RandomForestClassifier

from sfumato.audits.model_attacks import CONFIGURATIONS, attack_configurations, cross_fit
from sfumato.audits.predictions import Predictions
from sfumato.audits.roc import auc
from sfumato.errors import BadInput

NAMES = [item.name for item in CONFIGURATIONS]


def test_the_features_are_those_of_table_1():
    p = Predictions(np.array([[0.7, 0.2, 0.1], [0.1, 0.3, 0.6]]), np.array([0, 1]))
    probabilities, right, wrong = p.probabilities, [1.0], [0.0]
    expected = {
        "enhanced_probs": [
            [*row, p.entropy[i], p.confidence[i], *hit, p.gap[i], p.loss[i]]
            for i, (row, hit) in enumerate(zip(probabilities, (right, wrong), strict=True))
        ],
        "loss_features": [[p.loss[0], p.margin[0], 1.0], [p.loss[1], p.margin[1], 0.0]],
        "confidence_correctness": [[0.7, 1.0], [0.6, 0.0]],
        "probs_correctness": [[0.7, 0.2, 0.1, 1.0], [0.1, 0.3, 0.6, 0.0]],
        "label_only": [[1.0], [0.0]],
        "confidence_only_enhanced": [
            [0.7, 1.0, p.entropy[0], p.loss[0]],
            [0.6, 0.0, p.entropy[1], p.loss[1]],
        ],
    }
    assert list(expected) == NAMES
    for item in CONFIGURATIONS:
        assert item.features(p) == pytest.approx(np.array(expected[item.name]))


@pytest.mark.parametrize(
    ("name", "learner"),
    [
        ("enhanced_probs", "MLPClassifier"),
        ("loss_features", "HistGradientBoostingClassifier"),
        ("confidence_correctness", "MLPClassifier"),
        ("probs_correctness", "LinearSVC"),
        ("label_only", "HistGradientBoostingClassifier"),
        ("confidence_only_enhanced", "RandomForestClassifier"),
    ],
)
def test_the_classifiers_are_those_of_table_1(name, learner):
    made = CONFIGURATIONS[NAMES.index(name)].classifier(0, 1000)
    assert type(made[-1] if learner in ("MLPClassifier", "LinearSVC") else made).__name__ == learner


@pytest.mark.parametrize(
    ("target", "floor", "label_floor"), [(forest, 0.78, 0.58), (tree, 0.64, 0.64), (network, 0.62, 0.59)]
)
def test_a_model_that_remembers_is_found_out(target, floor, label_floor):
    """Forest, unpruned tree and torch network, 600 records a side; better than chance at 1 − 1e-6."""
    for item in attack_configurations(*target(), confidence=CERTAIN):
        assert item.value > (label_floor if item.attack == "configuration label_only" else floor), item
        assert item.beats_chance
        assert item.numbers["privacy_risk"] == pytest.approx(2 * item.value - 1)


@pytest.mark.parametrize("target", [exchangeable, regression])
def test_nothing_is_found_where_there_is_nothing(target):
    """False-alarm rate 1e-6 a configuration; a strongly regularised regression gives away next to nothing."""
    for item in attack_configurations(*target(), confidence=CERTAIN):
        assert item.interval[0] <= 0.5 <= item.interval[1], item
        assert item.interval[1] < 0.7, item


def test_cross_validation_does_not_pull_the_auc_below_a_half():
    """Mean of 20 label-only AUCs on exchangeable records; false-alarm rate 1e-6 (4.9 standard errors).

    Pooling the folds' scores instead gives 0.45 on average.
    """
    rng = np.random.default_rng(0)
    item = CONFIGURATIONS[NAMES.index("label_only")]
    values, pooled = [], []
    for _ in range(20):
        answers = Predictions(np.tile([0.6, 0.4], (100, 1)), rng.integers(2, size=100))
        found = cross_fit(item.fit, answers.rows(np.arange(50)), answers.rows(np.arange(50, 100)))
        values.append(found.placements.auc)
        pooled.append(auc(found.members, found.nonmembers))
    assert abs(np.mean(values) - 0.5) < 4.9 * np.std(values, ddof=1) / np.sqrt(len(values))
    assert np.mean(pooled) < np.mean(values)


@pytest.mark.parametrize("name", ["probs_correctness", "label_only"])
def test_the_interval_allows_for_folds_that_help_each_other(name):
    """On exchangeable records at 99%: false-alarm rate 1e-6 for a coverage of 96% over 60 repetitions.

    Were the folds taken to be independent, about 6% of the intervals of a support vector machine would miss.
    """
    rng = np.random.default_rng(0)
    item = CONFIGURATIONS[NAMES.index(name)]
    squares, misses = [], 0
    for _ in range(60):
        logits, labels = rng.normal(0, 1.5, (180, 4)), rng.integers(4, size=180)
        answers = Predictions.from_logits(logits + 1.5 * np.eye(4)[labels], labels)
        found = cross_fit(
            item.fit, answers.rows(np.arange(100)), answers.rows(np.arange(100, 180))
        ).placements
        low, high = found.interval(0.99)
        misses += not low <= 0.5 <= high
        squares.append((found.auc - 0.5) ** 2 / found.variance())
    assert misses <= stats.binom.isf(1e-6, 60, 0.04)
    # A mean of 60 squares with standard error below 0.25: 1 is what the variance promises.
    assert np.mean(squares) < 1.0 + 4.9 * 0.25


def test_scores_are_out_of_fold_and_folds_are_stratified():
    members, nonmembers = exchangeable()
    seen = []

    def remember(known, others):
        seen.append((len(known), len(others)))
        rows = {row.tobytes() for row in np.vstack([known.probabilities, others.probabilities])}
        return lambda asked: np.array([row.tobytes() in rows for row in asked.probabilities], dtype=float)

    unique = [
        Predictions(
            group.probabilities * 0.9 + np.random.default_rng(k).dirichlet([1] * 4, len(group)) * 0.1,
            group.labels,
        )
        for k, group in enumerate((members, nonmembers))
    ]
    found = cross_fit(remember, *unique, folds=4)
    assert seen == [(600, 300)] * 4
    assert not found.members.any()
    assert not found.nonmembers.any()


def test_the_same_seed_gives_the_same_findings_and_names_choose():
    members, nonmembers = forest()
    once, twice = (
        attack_configurations(members, nonmembers, names=["confidence_only_enhanced"], seed=3) for _ in "ab"
    )
    assert once == twice
    other = attack_configurations(members, nonmembers, names=["confidence_only_enhanced"], seed=4)
    assert other != once
    assert [item.attack for item in other] == ["configuration confidence_only_enhanced"]


def test_the_value_is_the_mean_over_folds_and_not_that_of_pooled_scores():
    item = CONFIGURATIONS[NAMES.index("loss_features")]
    found = cross_fit(item.fit, *regression())
    (told,) = attack_configurations(*regression(), names=["loss_features"])
    assert told.value == found.placements.auc
    assert told.interval == found.placements.interval(0.99)
    assert told.value != auc(found.members, found.nonmembers)


def test_progress_is_told():
    told = []
    attack_configurations(
        *forest(),
        names=["label_only", "loss_features"],
        report=lambda stage, share: told.append((stage, share)),
    )
    assert told == [("configuration loss_features", 0.0), ("configuration label_only", 0.5)]


def test_a_configuration_that_can_only_guess_says_so():
    """A model that is always right tells a label-only attacker nothing, and the others something."""
    rng = np.random.default_rng(0)
    sure = rng.uniform(0.6, 1.0, 200)
    answers = Predictions(np.column_stack([sure, 1 - sure]), np.zeros(200, dtype=int))
    halves = answers.rows(np.arange(100)), answers.rows(np.arange(100, 200))
    other, alone = attack_configurations(*halves, names=["label_only", "loss_features"])
    assert alone.value == 0.5
    assert "can only guess" in alone.note
    assert "can only guess" not in other.note


def same(count):
    return Predictions(np.tile([0.6, 0.4], (count, 1)), np.zeros(count, dtype=int))


@pytest.mark.parametrize(
    ("members", "nonmembers", "sentence"),
    [
        (same(50), same(50), "same for every record: there is nothing to attack"),
        (
            forest()[0].rows(np.arange(9)),
            forest()[1],
            "5 folds need at least 10 members, two a fold: got 9",
        ),
        (forest()[0], forest()[1].rows(np.arange(3)), "at least 10 non-members, two a fold: got 3"),
        (forest()[0], same(20), "4 classes in one group and 2 in another"),
    ],
)
def test_what_cannot_be_attacked_is_refused_in_a_sentence(members, nonmembers, sentence):
    with pytest.raises(BadInput) as refused:
        attack_configurations(members, nonmembers)
    assert sentence in str(refused.value)


def test_ten_members_are_enough():
    members, nonmembers = (group.rows(np.arange(10)) for group in forest())
    for item in attack_configurations(members, nonmembers):
        assert item.interval[0] <= item.value <= item.interval[1]


def test_all_six_take_less_than_a_minute_for_five_thousand_records():
    X, y = records(5000)
    pair = split(RandomForestClassifier(20, random_state=0), X, y, 4000)
    start = time.perf_counter()
    assert len(attack_configurations(*pair)) == 6
    assert time.perf_counter() - start < 60
