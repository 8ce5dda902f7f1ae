"""The standard audit of a model, and when it may speak of ε."""

import numpy as np
import pytest
from model_targets import CERTAIN, exchangeable, forest
from scipy import stats

from sfumato.audits.model_attacks import audit_model, one_run_finding
from sfumato.audits.predictions import Predictions
from sfumato.errors import BadInput

BATTERY = [
    "loss threshold",
    "loss threshold a class",
    "label only",
    "configuration enhanced_probs",
    "configuration loss_features",
    "configuration confidence_correctness",
    "configuration probs_correctness",
    "configuration label_only",
    "configuration confidence_only_enhanced",
    "difference in accuracy",
    "difference in confidence",
    "difference in entropy",
    "difference in calibration error",
]


def small(group, count):
    return group.rows(np.arange(count))


def test_the_battery_finds_out_a_forest_and_states_no_epsilon():
    told = []
    found = audit_model(*forest(), report=lambda stage, share: told.append(share))
    assert [item.attack for item in found] == BATTERY
    assert all(item.beats_chance for item in found if item.attack != "difference in calibration error")
    for item in found:
        assert item.epsilon_lower is None
        assert "one trained model is one run, so these rates bound no ε" in item.note
    assert told == sorted(told)
    assert (told[0], told[-1]) == (0.0, 1.0)


def test_the_battery_finds_nothing_in_exchangeable_records():
    """False-alarm rate 1e-6 a finding."""
    members, nonmembers = exchangeable()
    found = audit_model(small(members, 300), small(nonmembers, 300), confidence=CERTAIN)
    assert [item.attack for item in found] == BATTERY
    for item in found:
        assert item.interval[0] <= item.chance <= item.interval[1], item


def coin_world(epsilon, seed, count=2000):
    """Answers that give each record's coin away with exactly ``epsilon``, by randomised response."""
    rng = np.random.default_rng(seed)
    coins = rng.random(count) < 0.5
    told = coins ^ (rng.random(count) > np.exp(epsilon) / (1 + np.exp(epsilon)))
    sure = np.where(told, 0.9, 0.6) + rng.uniform(0, 0.05, count)
    answers = Predictions(np.column_stack([sure, 1 - sure]), np.zeros(count, dtype=int))
    return answers.rows(coins), answers.rows(~coins)


def test_one_run_with_fair_coins_bounds_epsilon():
    """A mechanism of ε = 2 exactly: the bound exceeds 2 in at most 1% of 200 runs (false-alarm rate 1e-6)."""
    bounds = [one_run_finding(*coin_world(2.0, seed), delta=0.0).epsilon_lower for seed in range(200)]
    assert np.sum(np.array(bounds) > 2.0) <= stats.binom.isf(1e-6, 200, 0.01)
    assert np.median(bounds) > 1.0
    found = one_run_finding(*coin_world(4.0, 0, 600), delta=1e-5)
    assert 1.0 < found.epsilon_lower < 4.0
    assert (found.delta, found.evidence().epsilon_lower) == (1e-5, found.epsilon_lower)
    assert "add or remove a record" in found.note
    silent = [one_run_finding(*coin_world(0.0, seed), delta=0.0).epsilon_lower for seed in range(200)]
    assert np.sum(np.array(silent) > 0.0) <= stats.binom.isf(1e-6, 200, 0.01)


def test_only_the_order_of_the_logits_matters():
    """A model that is unsure or wrong about all canaries gives away as much as one that is sure."""
    rng = np.random.default_rng(0)
    logits, labels = rng.normal(0, 1, 400), np.zeros(200, dtype=int)
    logits[:200] += 1.0
    found = [
        one_run_finding(
            *(
                Predictions.from_logits(np.column_stack([half + shift, np.zeros(200)]), labels)
                for half in (logits[:200], logits[200:])
            ),
            delta=0.0,
        ).numbers
        for shift in (0.0, -8.0, 8.0)
    ]
    assert found[0] == found[1] == found[2]
    assert found[0]["correct"] > 0.6 * found[0]["guesses"]


def test_equal_answers_give_nothing_away_whatever_their_order():
    """All scores tied: the guesses must not follow the order in which the groups are given.

    Guesses are fair coins then, and a share beyond 0.5 ± 0.2 has probability below 1e-6 in 175 of them.
    """
    answers = Predictions(np.tile([0.6, 0.4], (2000, 1)), np.zeros(2000, dtype=int))
    found = one_run_finding(answers.rows(np.arange(1000)), answers.rows(np.arange(1000, 2000)), delta=0.0)
    assert abs(found.value - 0.5) < 0.2
    assert found.epsilon_lower == 0.0


def test_bad_input_is_refused_in_a_sentence():
    members, nonmembers = forest()
    with pytest.raises(BadInput, match="at least 10 members"):
        audit_model(small(members, 4), nonmembers)
    two = Predictions(np.array([[0.5, 0.5]]), np.array([0]))
    for call in (audit_model, lambda a, b: one_run_finding(a, b, delta=0.0)):
        with pytest.raises(BadInput, match="4 classes in one group and 2 in another"):
            call(members, two)
    same = Predictions(np.tile([0.6, 0.4], (50, 1)), np.zeros(50, dtype=int))
    with pytest.raises(BadInput, match="same for every record"):
        audit_model(same, same)
