"""Exact-value leak: what is released as it was, beyond what coincidence explains."""

from __future__ import annotations

import math

import numpy as np
import pytest
from sklearn.datasets import load_digits

import sfumato as sf
from sfumato.audits.lower_bounds import interval
from sfumato.audits.noise_defects import exact_value_game, exact_value_leak
from sfumato.errors import BadInput

DIGITS = load_digits().data
SURE = 1.0 - 1e-6


def test_noise_on_a_grid_of_its_own_leaks_nothing() -> None:
    """A released value meets an original by chance with probability below 1e-4, a row rarely twice."""
    released = sf.Gaussian(1.0, 1e-6, bounds=(0.0, 16.0)).release(DIGITS).value
    found = exact_value_leak(DIGITS, released, confidence=SURE)
    assert found.value < 1e-3
    assert found.interval[0] <= found.chance


@pytest.mark.parametrize("share", [0.01, 0.3])
def test_values_kept_with_some_probability_are_counted(share) -> None:
    """The interval at 1 − 1e-6 holds the probability with which values are kept."""
    rng = np.random.default_rng(1)
    noised = sf.Laplace(1.0, bounds=(0.0, 16.0)).release(DIGITS).value
    released = np.where(rng.random(DIGITS.shape) < share, DIGITS, noised)
    found = exact_value_leak(DIGITS, released, confidence=SURE)
    assert found.interval[0] < share < found.interval[1] + 1e-3
    assert found.beats_chance
    assert found.chance < share / 2.0


def test_a_release_of_the_data_itself_leaks_all() -> None:
    found = exact_value_leak(DIGITS, DIGITS)
    assert found.value == 1.0
    assert found.interval == interval(1797, 1797, 0.99)
    assert found.numbers["records_with_a_leak"] == 1797
    assert found.numbers["share_of_all_values"] == 1.0
    assert found.chance < 0.25


def test_equal_zeros_of_strangers_are_no_leak() -> None:
    """Rows in another order: half of all values are equal, and none of that is more than coincidence."""
    released = np.random.default_rng(2).permutation(DIGITS)
    found = exact_value_leak(DIGITS, released, confidence=SURE)
    assert found.numbers["share_of_all_values"] > 0.4
    assert found.interval[0] <= found.chance <= found.interval[1]


def test_chance_is_the_mean_over_all_other_rows() -> None:
    rng = np.random.default_rng(3)
    original, released = rng.integers(0, 4, (30, 5)) * 1.0, rng.integers(0, 4, (30, 5)) * 1.0
    found = exact_value_leak(original, released)
    modes = [np.bincount(column.astype(int)).argmax() for column in original.T]
    telling = original != modes
    equal = sum(
        ((original[i] == released[j]) & telling[i]).sum() for i in range(30) for j in range(30) if i != j
    )
    assert found.chance == pytest.approx(equal / 29 / telling.sum())
    assert found.value == ((original == released) & telling).sum() / telling.sum()
    assert found.numbers["telling_values"] == telling.sum()


def test_the_interval_counts_records_and_not_values() -> None:
    """One record in twenty is released as it is: the interval is that of 1797 records, not of values."""
    rng = np.random.default_rng(4)
    released = np.where(rng.random((1797, 1)) < 0.05, DIGITS, -1.0)
    low, high = exact_value_leak(DIGITS, released).interval
    deviation = np.sqrt(0.05 * 0.95 / 1797)
    assert high - low == pytest.approx(2 * 2.576 * deviation, rel=0.25)


def test_rounding_to_single_precision_hides_nothing() -> None:
    original = np.random.default_rng(5).normal(0.0, 1.0, (50, 4))
    assert exact_value_leak(original, original.astype(np.float32)).value == 1.0
    assert exact_value_leak(original, original.astype(np.float32).astype(np.float64)).value == 0.0


@pytest.mark.parametrize(
    ("original", "released", "message"),
    [
        (DIGITS, DIGITS[:-1], "1797 rows and the release 1796"),
        (DIGITS, DIGITS[:, :2], "map released rows back"),
        (np.ones((10, 3)), np.ones((10, 3)), "one value only: there is nothing to leak"),
        (DIGITS, DIGITS * np.nan, "row 1, column 1 of the release"),
    ],
)
def test_bad_input_is_refused_in_a_sentence(original, released, message) -> None:
    with pytest.raises(BadInput, match=message):
        exact_value_leak(original, released)


def _kept(rng, records, share):
    """Each row as it was with some probability, and otherwise values that no record has."""
    shown = rng.random(len(records)) < share
    return np.where(shown[:, None], records, 2.0 + rng.random(records.shape)), int(shown.sum())


def test_rows_that_are_shown_bound_delta_at_every_epsilon_where_no_other_can_be() -> None:
    """δ is the share of rows that are shown: the bound lies below it at 1 − 1e-6, and within 0.1 of it."""
    rng = np.random.default_rng(4)
    records = rng.random((2000, 3))
    released, _ = _kept(rng, records, 0.4)
    counted = exact_value_game(records, released, delta=1e-5, at_epsilon=1.0, confidence=SURE)
    assert 0.3 < counted.delta_lower < 0.4
    assert counted.delta_lower == pytest.approx(counted.numbers["p"] - math.e * counted.numbers["q"])
    assert counted.epsilon_lower == pytest.approx(
        math.log((counted.numbers["p"] - 1e-5) / counted.numbers["q"])
    )
    # However seldom another record's value is seen, that it never happens is no count's to say.
    large = exact_value_game(records, released, delta=1e-5, at_epsilon=8.0, confidence=SURE)
    assert large.delta_lower == 0.0
    proven = exact_value_game(records, released, delta=1e-5, never=True, confidence=SURE)
    assert 0.3 < proven.delta_lower < 0.4
    assert (proven.at_epsilon, proven.epsilon_lower) == (None, None)


def test_half_a_step_is_what_two_steps_leave() -> None:
    """(2ε, (1 + e^ε)·δ) for a replacement: solved for ε at δ, and for δ at ε."""
    rng = np.random.default_rng(4)
    records = rng.random((1000, 3))
    released, _ = _kept(rng, records, 0.7)
    found = exact_value_game(records, released, delta=1e-3, at_epsilon=0.5, neighbours="zero-out")
    p, q, odds = found.numbers["p"], found.numbers["q"], math.exp(found.epsilon_lower)
    assert p - odds**2 * q == pytest.approx((1.0 + odds) * 1e-3)
    assert found.delta_lower == pytest.approx((p - math.e * q) / (1.0 + math.exp(0.5)))


def test_answers_that_keep_their_promise_bound_no_more_than_it() -> None:
    """Randomised response shows the truth often, and another's value often enough.

    False-alarm rate 8e-7: 4e-7 for each bound; below six tenths, six deviations away, far less.
    """
    bits = np.random.default_rng(5).integers(0, 2, size=(20_000, 1)).astype(np.float64)
    for epsilon in (0.5, 3.0):
        released = sf.RandomisedResponse(epsilon, 2).release(bits).value
        found = exact_value_game(bits, released, delta=0.0, at_epsilon=epsilon, confidence=1.0 - 4e-7)
        assert 0.6 * epsilon < found.epsilon_lower <= epsilon
        assert found.delta_lower == 0.0
