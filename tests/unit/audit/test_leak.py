"""Exact-value leak: what is released as it was, beyond what coincidence explains."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_digits

import sfumato as sf
from sfumato.audit.leak import exact_value_leak
from sfumato.audit.proportions import interval
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


def test_a_view_is_looked_through() -> None:
    assert exact_value_leak(DIGITS, DIGITS * 2.0, view=lambda rows: rows / 2.0).value == 1.0


@pytest.mark.parametrize(
    ("original", "released", "message"),
    [
        (DIGITS, DIGITS[:-1], "1797 rows and the release 1796"),
        (DIGITS, DIGITS[:, :2], "give a view"),
        (np.ones((10, 3)), np.ones((10, 3)), "one value only: there is nothing to leak"),
        (DIGITS, DIGITS * np.nan, "row 1, column 1 of the release"),
    ],
)
def test_bad_input_is_refused_in_a_sentence(original, released, message) -> None:
    with pytest.raises(BadInput, match=message):
        exact_value_leak(original, released)
