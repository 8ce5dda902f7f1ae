"""Membership attacks one class at a time: which classes leak, and which are too small to say."""

import json

import numpy as np
import pytest
from model_targets import CERTAIN, CLASSES, exchangeable, forest

from sfumato.audits.learner_audit import class_leakage
from sfumato.audits.model_attacks import loss_threshold
from sfumato.audits.predictions import Predictions
from sfumato.errors import BadInput


def one_class_leaks(leaking=2, count=900, classes=3, seed=0):
    """Answers about members and others that differ for one class alone."""
    rng = np.random.default_rng(seed)
    groups = []
    for member in (True, False):
        labels = np.arange(count) % classes
        logits = rng.normal(0, 1, (count, classes))
        logits[np.arange(count), labels] += np.where((labels == leaking) & member, 3.0, 1.0)
        groups.append(Predictions.from_logits(logits, labels))
    return groups


def test_every_class_of_a_forest_leaks_and_the_numbers_are_those_of_its_records():
    members, nonmembers = forest()
    rows = class_leakage(members, nonmembers)
    assert [row.label for row in rows] == list(range(CLASSES))
    for row in rows:
        inside, outside = (group.rows(group.labels == row.label) for group in (members, nonmembers))
        alone = loss_threshold(inside, outside)
        assert (row.members, row.nonmembers) == (len(inside), len(outside))
        document = json.loads(json.dumps(row.to_dict()))
        assert document["auc"] == alone.value
        assert document["interval"] == list(alone.interval)
        for name in ("tpr_at_0.1%_fpr", "advantage"):
            assert document[name] == alone.numbers[name]
        assert document["leakage"] == pytest.approx(2 * alone.value - 1)
        assert row.finding.beats_chance
        assert row.finding.epsilon_lower is None
        assert "bound no ε" in row.note


@pytest.mark.parametrize("attack", ["loss threshold", "loss_features"])
def test_the_class_that_leaks_is_found_and_the_others_are_not(attack):
    """False-alarm rate 1e-6 for each class that does not leak."""
    rows = class_leakage(*one_class_leaks(), attack=attack, confidence=CERTAIN)
    assert rows[2].finding.beats_chance
    assert rows[2].to_dict()["leakage"] > 0.4
    for row in rows[:2]:
        assert row.finding.interval[0] <= 0.5 <= row.finding.interval[1]


def test_nothing_is_found_in_exchangeable_records():
    """False-alarm rate 1e-6 for each class."""
    for row in class_leakage(*exchangeable(), confidence=CERTAIN):
        assert row.finding.interval[0] <= 0.5 <= row.finding.interval[1]


def test_a_class_with_too_few_records_is_answered_in_words():
    members, nonmembers = one_class_leaks()
    few = np.concatenate([np.flatnonzero(nonmembers.labels != 1), np.flatnonzero(nonmembers.labels == 1)[:4]])
    rows = class_leakage(members, nonmembers.rows(few))
    assert rows[1].finding is None
    assert rows[1].note == "class 1 has 300 members and 4 non-members: 10 of each are needed"
    assert all(rows[1].to_dict()[name] is None for name in ("auc", "interval", "tpr_at_0.1%_fpr", "leakage"))
    assert rows[0].finding is not None


def test_a_class_with_one_answer_for_everybody_has_nothing_to_learn_from():
    probabilities = np.tile([0.7, 0.3], (100, 1))
    probabilities[50:] = np.random.default_rng(0).dirichlet([1.0, 1.0], 50)
    answers = Predictions(probabilities, np.repeat([0, 1], 50))
    rows = class_leakage(answers, answers, attack="loss_features")
    assert rows[0].finding is None
    assert "every record of class 0 the same answer" in rows[0].note
    assert rows[1].finding is not None
    # The loss threshold says so itself.
    assert "every record has the same score" in class_leakage(answers, answers)[0].note


def test_bad_input_is_refused_in_a_sentence():
    members, nonmembers = one_class_leaks()
    with pytest.raises(BadInput, match="'shadows' is no attack on a class: choose loss threshold or one of"):
        class_leakage(members, nonmembers, attack="shadows")
    with pytest.raises(BadInput, match="3 classes in one group and 4 in another"):
        class_leakage(members, forest()[1])
