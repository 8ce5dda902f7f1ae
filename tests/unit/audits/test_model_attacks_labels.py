"""The label-only attack: the gap in accuracy between members and non-members."""

import numpy as np
import pytest
from model_targets import CERTAIN, exchangeable, forest, regression, tree

from sfumato.audits.model_attacks import label_only
from sfumato.audits.predictions import Predictions


@pytest.mark.parametrize(("target", "floor"), [(forest, 0.58), (tree, 0.64)])
def test_the_correctness_gap_finds_a_model_that_remembers(target, floor):
    """600 records a side; better than chance at 1 − 1e-6."""
    members, nonmembers = target()
    found = label_only(members, nonmembers, confidence=CERTAIN)
    assert found.value > floor
    assert found.beats_chance
    gap = members.correct.mean() - nonmembers.correct.mean()
    assert found.value == pytest.approx(0.5 + gap / 2)


@pytest.mark.parametrize("target", [exchangeable, regression])
def test_nothing_is_found_where_there_is_nothing(target):
    """False-alarm rate 1e-6."""
    low, high = label_only(*target(), confidence=CERTAIN).interval
    assert low <= 0.5 <= high < 0.65


def test_a_model_that_is_always_right_is_no_silent_half():
    right = Predictions(np.array([[0.1, 0.9], [0.9, 0.1], [0.1, 0.9]]), np.array([1, 0, 1]))
    found = label_only(right, right.rows(np.array([0, 2])))
    assert found.value == 0.5
    assert "can only guess" in found.note
    assert found.interval[1] - found.interval[0] > 0.5
