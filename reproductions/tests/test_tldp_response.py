"""Composition of pure components, against enumeration of every outcome."""

from __future__ import annotations

import itertools
import math

import pytest

from sfumato_reproductions.tldp.response import composed_delta, composed_epsilon, largest_share


def enumerated(share: float, count: int, epsilon: float) -> float:
    """δ of ``count`` binary responses from all 2^count outcomes of the two worst tensors."""
    true = math.exp(share) / (1.0 + math.exp(share))
    total = 0.0
    for answers in itertools.product((True, False), repeat=count):
        first = math.prod(true if answer else 1.0 - true for answer in answers)
        second = math.prod(1.0 - true if answer else true for answer in answers)
        total += max(0.0, first - math.exp(epsilon) * second)
    return total


@pytest.mark.parametrize("count", [1, 2, 5, 9])
@pytest.mark.parametrize("share", [0.05, 0.7, 3.0])
@pytest.mark.parametrize("part", [0.0, 0.2, 0.6])
def test_delta_is_that_of_all_outcomes(count, share, part) -> None:
    epsilon = part * share * count
    exact = enumerated(share, count, epsilon)
    assert exact - 1e-15 <= composed_delta(share, count, epsilon) <= exact * (1.0 + 1e-8) + 1e-12


def test_nothing_is_left_at_the_sum() -> None:
    assert composed_delta(0.5, 784, 392.0) == 0.0
    assert composed_epsilon(0.5, 784, 0.0) <= 392.0


@pytest.mark.parametrize(("epsilon", "delta", "count"), [(1.0, 1e-5, 784), (78.4, 0.142, 784), (2.0, 0.3, 3)])
def test_the_share_uses_all_of_the_promise(epsilon, delta, count) -> None:
    share = largest_share(epsilon, delta, count)
    assert share >= epsilon / count
    assert composed_delta(share, count, epsilon) <= delta
    assert composed_delta(share * (1.0 + 1e-6), count, epsilon) > delta
    assert composed_epsilon(share, count, delta) == pytest.approx(epsilon, rel=1e-6)


def test_one_component_gets_all_of_epsilon_and_what_delta_adds() -> None:
    assert largest_share(1.0, 0.0, 1) == pytest.approx(1.0)
    # (e^s − e)/(1 + e^s) = δ for one response.
    delta = 0.1
    assert largest_share(1.0, delta, 1) == pytest.approx(math.log((math.e + delta) / (1.0 - delta)))
