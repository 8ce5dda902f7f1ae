"""The paper's conversions are computed as printed, and never pass for bounds."""

import math

import pytest

from sfumato.audits.findings import Finding
from sfumato.audits.learner_audit import from_advantage, heuristics_of
from sfumato.errors import BadInput


@pytest.mark.parametrize("advantage", [-0.5, 0.0, 0.0114, 0.8, 1.0])
@pytest.mark.parametrize("delta", [0.0, 1e-5, 0.1])
def test_advantage(advantage, delta):
    found = from_advantage(advantage, delta=delta)
    assert found.epsilon == pytest.approx(math.log((1 + advantage - 2 * delta) / (1 - delta)), abs=1e-15)


def converted(tpr, delta=1e-5):
    numbers = {"advantage": 0.1, "tpr_at_0.1%_fpr": tpr}
    return heuristics_of(Finding("loss threshold", "", "AUC", 0.6, 0.5, numbers=numbers), delta=delta)


@pytest.mark.parametrize("tpr", [0.5, 0.001, 1.0])
def test_rates_at_a_false_positive_rate_of_a_thousandth(tpr):
    (_, rates), missing = converted(tpr)
    assert rates.epsilon == pytest.approx(math.log(tpr / 0.001), abs=1e-12)
    assert not missing


def test_each_is_labelled_a_heuristic_and_no_bound():
    found, _ = converted(0.2)
    assert [item.name for item in found] == ["advantage", "rates"]
    for item in found:
        assert "heuristic" in item.caution
        assert "weak attack yields a small number" in item.caution
        assert "no bound" in item.caution


def test_a_conversion_that_does_not_exist_is_said_to_be_missing():
    found, missing = converted(0.0, delta=0.6)
    assert not found
    assert "heuristic advantage: an advantage of 0.1 at a delta of 0.6 has no logarithm" in missing[0]
    assert missing[1] == "heuristic rates: log(TPR/FPR) does not exist for a true positive rate of 0"


@pytest.mark.parametrize(
    ("convert", "said"),
    [
        (lambda: from_advantage(1.1, delta=0.0), "`advantage` was 1.1"),
        (lambda: from_advantage(math.nan, delta=0.0), "`advantage` was nan"),
        (lambda: from_advantage(-1.0, delta=0.0), "has no logarithm"),
        (lambda: from_advantage(-0.9, delta=0.1), "has no logarithm"),
        (lambda: from_advantage(0.1, delta=1.0), "`delta` was 1.0"),
    ],
)
def test_what_has_no_conversion_is_refused(convert, said):
    with pytest.raises(BadInput, match=said):
        convert()
