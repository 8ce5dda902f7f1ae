"""The standard audit of a model, and when it may speak of ε."""

import numpy as np
import pytest
from model_targets import CERTAIN, exchangeable, forest

from sfumato.audits.model_attacks import audit_model
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


def test_bad_input_is_refused_in_a_sentence():
    members, nonmembers = forest()
    with pytest.raises(BadInput, match="at least 10 members"):
        audit_model(small(members, 4), nonmembers)
    two = Predictions(np.array([[0.5, 0.5]]), np.array([0]))
    with pytest.raises(BadInput, match="4 classes in one group and 2 in another"):
        audit_model(members, two)
    same = Predictions(np.tile([0.6, 0.4], (50, 1)), np.zeros(50, dtype=int))
    with pytest.raises(BadInput, match="same for every record"):
        audit_model(same, same)
