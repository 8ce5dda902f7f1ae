"""Averaging: independent noise falls as σ²/k, keyed noise not at all, clipping stays."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_digits

import sfumato as sf
from sfumato.audits.noise_defects import averaging_attack
from sfumato.errors import BadInput

X = load_digits().data / 16.0
UNIT = X / np.linalg.norm(X, axis=1, keepdims=True)
# Six deviations of a mean square of 1797·64 Gaussians: false alarms below 1e-8.
WIDE = 6.0 * np.sqrt(2.0 / UNIT.size)


def test_independent_noise_averages_away() -> None:
    """Each mean square is within six deviations of σ²/k; alarms below 1e-6 together."""
    mechanism = sf.Gaussian(20.0, 1e-5, clip=1.0)
    found = averaging_attack(UNIT, [mechanism.release(UNIT).value for _ in range(10)])
    variance = mechanism.sigma(64) ** 2
    assert found.numbers["falling"] == pytest.approx(variance, rel=WIDE)
    assert abs(found.numbers["staying"]) < WIDE * variance
    assert found.numbers["identical"] == 0
    assert found.value == pytest.approx(found.numbers["error_of_one"] / np.sqrt(10), rel=WIDE)
    assert "each must be paid for" in found.note


def test_what_clipping_takes_stays() -> None:
    """Half of every record is clipped away: a mean square of ¼ · 1/64 that no averaging removes."""
    mechanism = sf.Gaussian(200.0, 1e-5, clip=0.5)
    found = averaging_attack(UNIT, [mechanism.release(UNIT).value for _ in range(6)])
    assert found.numbers["staying"] == pytest.approx(0.25 / 64, rel=0.02)
    assert found.numbers["falling"] == pytest.approx(mechanism.sigma(64) ** 2, rel=WIDE)


def test_keyed_noise_gives_nothing_more() -> None:
    keyed = sf.Keyed(b"0123456789abcdef0123456789abcdef", dataset="digits", version="1", release="a")
    mechanism = sf.Gaussian(20.0, 1e-5, clip=1.0, randomness=keyed)
    found = averaging_attack(UNIT, [mechanism.release(UNIT).value for _ in range(3)])
    assert found.numbers["identical"] == 1
    assert found.numbers["falling"] == 0
    assert found.value == pytest.approx(found.numbers["error_of_one"])
    assert "nothing more is owed" in found.note


def test_many_releases_beat_the_guess_that_one_does_not() -> None:
    """At ε = 100 one release is worse than naming the average digit, and sixteen are better."""
    mechanism = sf.TrustAdaptive(0.0, (1.0, 100.0), 1e-5, clip=1.0)
    releases = [mechanism.release(UNIT).value for _ in range(16)]
    found = averaging_attack(UNIT, releases)
    assert found.numbers["error_of_one"] > found.chance
    assert found.beats_chance


def test_one_release_that_differs_makes_them_not_identical() -> None:
    released = sf.Gaussian(20.0, 1e-5, clip=1.0).release(UNIT).value
    other = released.copy()
    other[3, 4] += 1e-9
    assert averaging_attack(UNIT, [released, released, other]).numbers["identical"] == 0


@pytest.mark.parametrize(
    ("releases", "message"),
    [
        ([X], "at least two releases of the same records, not 1"),
        ([X, X[:-1]], "1797 rows and the release 1796"),
        ([X, X * np.nan], "row 1, column 1 of the release"),
    ],
)
def test_bad_input_is_refused_in_a_sentence(releases, message) -> None:
    with pytest.raises(BadInput, match=message):
        averaging_attack(X, releases)
