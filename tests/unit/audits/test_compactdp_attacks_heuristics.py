"""The paper's conversions are computed as printed, and never pass for bounds."""

import math

import pytest

from sfumato.audits.compactdp_attacks import Heuristic, from_advantage, from_rates
from sfumato.errors import BadInput


@pytest.mark.parametrize("advantage", [-0.5, 0.0, 0.0114, 0.8, 1.0])
@pytest.mark.parametrize("delta", [0.0, 1e-5, 0.1])
def test_advantage(advantage, delta):
    found = from_advantage(advantage, delta=delta)
    assert found.epsilon == pytest.approx(math.log((1 + advantage - 2 * delta) / (1 - delta)), abs=1e-15)


@pytest.mark.parametrize(("tpr", "fpr"), [(0.5, 0.001), (1.0, 1.0), (0.001, 0.01)])
def test_rates(tpr, fpr):
    assert from_rates(tpr, fpr).epsilon == pytest.approx(math.log(tpr / fpr), abs=1e-12)


def test_each_is_labelled_a_heuristic_and_no_bound():
    found = [from_advantage(0.1, delta=0.0), from_rates(0.2, 0.1)]
    assert len({item.name for item in found}) == 2
    for item in found:
        assert isinstance(item, Heuristic)
        assert "heuristic" in item.caution
        assert "weak attack yields a small number" in item.caution
        assert "no bound" in item.caution


@pytest.mark.parametrize(
    ("convert", "said"),
    [
        (lambda: from_advantage(1.1, delta=0.0), "`advantage` was 1.1"),
        (lambda: from_advantage(math.nan, delta=0.0), "`advantage` was nan"),
        (lambda: from_advantage(-1.0, delta=0.0), "has no logarithm"),
        (lambda: from_advantage(-0.9, delta=0.1), "has no logarithm"),
        (lambda: from_advantage(0.1, delta=1.0), "`delta` was 1.0"),
        (lambda: from_rates(0.0, 0.1), "`tpr` was 0"),
        (lambda: from_rates(0.1, 0.0), "`fpr` was 0"),
        (lambda: from_rates(1.1, 0.1), "`tpr` was 1.1"),
        (lambda: from_rates(0.1, math.nan), "`fpr` was nan"),
    ],
)
def test_what_has_no_conversion_is_refused(convert, said):
    with pytest.raises(BadInput, match=said):
        convert()
