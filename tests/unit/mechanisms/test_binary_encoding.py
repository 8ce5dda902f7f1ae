"""Binary encoding: levels and bits in order, and the ε that its flips really have."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sfumato as sf
from sfumato.errors import BadInput

NEVER = 1e-18  # flips about one bit in 10¹⁸


@pytest.mark.parametrize(
    ("value", "bits"),
    [(0.0, "000"), (0.124, "000"), (0.125, "001"), (0.5, "100"), (0.99, "111"), (1.0, "111"), (7.0, "111")],
)
def test_the_highest_bit_comes_first(value, bits) -> None:
    encoded = sf.BinaryEncoding(3, NEVER).release([[value, 1.0 - value]]).value
    assert encoded.shape == (1, 6)
    assert "".join(f"{bit:.0f}" for bit in encoded[0, :3]) == bits


@pytest.mark.parametrize("bits", [1, 8, 16, 32])
def test_bits_decode_to_the_level_of_the_value(bits) -> None:
    low, high = np.array([-1.0, 0.0, 100.0]), np.array([1.0, 255.0, 101.0])
    X = np.random.default_rng(1).uniform(low - 0.1, high + 0.1, (200, 3))
    encoded = sf.BinaryEncoding(bits, NEVER, bounds=(low, high)).release(X).value
    places = 2.0 ** np.arange(bits - 1, -1, -1)
    levels = encoded.reshape(200, 3, bits) @ places
    middle = low + (levels + 0.5) * (high - low) / 2.0**bits
    inside = np.clip(X, low, high)
    assert (np.abs(middle - inside) <= 0.5 * (high - low) / 2.0**bits * (1.0 + 1e-5)).all()


@pytest.mark.parametrize(
    ("bits", "flip", "columns"), [(8, 0.1, 1), (4, 0.25, 784), (1, 1e-9, 3), (32, 0.499, 2)]
)
def test_epsilon_is_that_of_all_bits(bits, flip, columns) -> None:
    guarantee = sf.BinaryEncoding(bits, flip).guarantee(columns)
    with mpmath.workdps(60):
        exact = columns * bits * mpmath.log((1 - mpmath.mpf(flip)) / mpmath.mpf(flip))
        assert exact <= guarantee.epsilon(0.0) <= exact * (1 + 1e-10)
    assert str(guarantee.unit) == "record"
    assert str(guarantee.neighbours) == "replace"


@given(flip=st.floats(1e-100, 0.5, exclude_max=True), columns=st.integers(1, 50), bits=st.integers(1, 32))
def test_no_bit_is_flipped_less_often_than_declared(flip, columns, bits) -> None:
    mechanism = sf.BinaryEncoding(bits, flip)
    flipped = 1 - Fraction(mechanism._keep(columns), 2**64)
    assert Fraction(flip) <= flipped <= Fraction(flip) + Fraction(1, 2**64)


@given(epsilon=st.floats(1e-3, 1e4), columns=st.integers(1, 50), bits=st.integers(1, 32))
def test_flips_are_calibrated_to_the_epsilon_of_the_record(epsilon, columns, bits) -> None:
    mechanism = sf.BinaryEncoding(bits, None, epsilon=epsilon)
    keep = Fraction(mechanism._keep(columns), 2**64)
    odds = keep / (1 - keep)
    with mpmath.workdps(60):
        exact = columns * bits * mpmath.log(mpmath.mpf(odds.numerator) / odds.denominator)
        assert exact <= epsilon
    least = min(epsilon, columns * bits * 40.0)  # beyond e⁴⁰ the coin has no finer weight
    assert exact >= least * (1.0 - 1e-2)
    assert mechanism.guarantee(columns).epsilon(0.0) == pytest.approx(epsilon, rel=1e-14)
    assert mechanism.guarantee() == mechanism.guarantee(columns)


def test_flips_come_as_often_as_declared() -> None:
    """Seeded, so it cannot fail by chance; the bound is five standard errors."""
    count = 50_000
    encoded = sf.BinaryEncoding(4, 0.2, randomness=sf.Seeded(1)).release(np.zeros((count, 1))).value
    assert (np.abs(encoded.mean(axis=0) - 0.2) <= 5.0 * math.sqrt(0.16 / count)).all()


def test_the_promise_of_flips_depends_on_the_columns() -> None:
    with pytest.raises(BadInput, match="guarantee\\(columns=…\\)"):
        sf.BinaryEncoding(8, 0.1).guarantee()
    released = sf.BinaryEncoding(8, 0.1).release(np.zeros((2, 5)))
    assert released.statement.proven == sf.BinaryEncoding(8, 0.1).guarantee(5)


@pytest.mark.parametrize("flip", [0.0, -0.1, 0.5, 0.9, math.nan, math.inf, "0.1", True, [0.1]])
def test_a_flip_is_a_probability_below_one_half(flip) -> None:
    with pytest.raises(BadInput, match="`flip` must"):
        sf.BinaryEncoding(8, flip).guarantee(2)


@pytest.mark.parametrize("bits", [0, 33, -1, 8.0, "8", None, True, [8]])
def test_bits_are_a_whole_number_up_to_32(bits) -> None:
    with pytest.raises(BadInput, match="`bits` must be a whole number from 1 to 32"):
        sf.BinaryEncoding(bits).guarantee(2)


@pytest.mark.parametrize(("flip", "epsilon"), [(None, None), (0.1, 1.0)])
def test_exactly_one_of_flip_and_epsilon_is_declared(flip, epsilon) -> None:
    with pytest.raises(BadInput, match="exactly one of `flip`"):
        sf.BinaryEncoding(8, flip, epsilon=epsilon).guarantee(2)
