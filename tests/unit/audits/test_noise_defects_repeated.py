"""Seed reuse: shared noise is found wherever it stands; independent noise and nested tiers raise no alarm."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.datasets import load_digits

import sfumato as sf
from sfumato.audits import noise_defects
from sfumato.audits.noise_defects import _Test, noise_across_rows, shared_noise
from sfumato.errors import BadInput

X = load_digits().data / 16.0
UNIT = X / np.linalg.norm(X, axis=1, keepdims=True)


def _seeded(epsilon, seed, law=sf.Gaussian):
    options = {"delta": 1e-5} if law is sf.Gaussian else {}
    return law(epsilon, clip=1.0, randomness=sf.Seeded(seed), **options)


@pytest.mark.parametrize(
    "mechanism",
    [sf.Gaussian(5.0, 1e-5, clip=1.0), sf.Laplace(5.0, clip=1.0), sf.Gaussian(5.0, 1e-5, clip=0.1)],
    ids=["gaussian", "laplace", "most of each record clipped away"],
)
def test_independent_noise_raises_no_alarm(mechanism) -> None:
    """False alarms below 1e-6 by the test itself, for records given as they were before clipping."""
    first, second = (mechanism.release(X).value for _ in range(2))
    found = shared_noise(X, first, second)
    assert found.numbers["alarm"] == 0
    assert found.numbers["threshold"] == pytest.approx(math.sqrt(2.0 * math.log(2.0 / 1e-6)))
    assert found.chance == pytest.approx(math.sqrt(0.5), rel=0.01)
    assert found.value == pytest.approx(found.chance, rel=0.03)
    rows = noise_across_rows(X, first)
    assert rows.numbers["alarm"] == 0
    # Pairs at random and at distances of 1, 2, …, 512 rows share the rate.
    assert rows.numbers["threshold"] == pytest.approx(math.sqrt(2.0 * math.log(2.0 * 11 / 1e-6)))


def test_the_stated_false_alarm_rate_is_kept(monkeypatch) -> None:
    """At a rate of 0.2, 200 repetitions alarm 84 times or more with probability below 1e-10."""
    monkeypatch.setattr(noise_defects, "_FALSE_ALARM", 0.2)
    rng = np.random.default_rng(1)
    original = rng.normal(0.0, 1.0, (40, 5))
    alarms = rows = 0
    for seed in range(200):
        first, second = (original + rng.standard_t(2, original.shape) for _ in range(2))
        alarms += shared_noise(original, first, second).numbers["alarm"]
        rows += noise_across_rows(original, first, seed=seed).numbers["alarm"]
    assert alarms < 84
    assert rows < 84


@pytest.mark.parametrize("law", [sf.Gaussian, sf.Laplace])
def test_one_seed_for_two_budgets_gives_the_table_away(law) -> None:
    weak, strong = _seeded(8.0, 7, law), _seeded(1.0, 7, law)
    first, second = weak.release(X).value, strong.release(X).value
    found = shared_noise(X, first, second)
    assert found.numbers["alarm"] == 1
    assert found.numbers["nested"] == 0
    assert found.numbers["correlation"] > 0.9999
    assert found.value < 0.01
    assert found.beats_chance
    assert not found.higher_is_worse


def test_nested_tiers_are_recognised_and_tell_no_more_than_the_best() -> None:
    """Noise that is shared by design: an increment that is independent of the base raises no alarm, 1e-6."""
    tiers = sf.TrustAdaptive(0.5, (1.0, 8.0), 1e-6, clip=1.0).tiers([0.0, 0.5, 1.0]).release(X)
    values = [release.value for release in tiers.values()]
    for first, second in [(0, 1), (0, 2), (2, 1)]:
        found = shared_noise(X, values[first], values[second])
        assert (found.numbers["alarm"], found.numbers["nested"]) == (1, 1)
        assert found.value == pytest.approx(1.0, abs=1e-3)
        assert not found.beats_chance
        assert "nested tiers" in found.note


def test_the_same_release_twice_tells_nothing_more() -> None:
    released = _seeded(8.0, 3).release(X).value
    found = shared_noise(X, released, released)
    assert (found.numbers["nested"], found.value) == (1, 1.0)
    assert not found.beats_chance


def test_opposite_noises_are_shared_noises() -> None:
    noise = np.random.default_rng(2).normal(0.0, 1.0, X.shape)
    found = shared_noise(X, X + noise, X - noise)
    assert (found.numbers["alarm"], found.numbers["nested"]) == (1, 0)
    assert found.numbers["correlation"] == pytest.approx(-1.0)
    assert found.value == pytest.approx(0.0, abs=1e-6)


def _correlated(correlation):
    """Two noises of that correlation, compared row by row."""
    base, fresh = np.random.default_rng(6).normal(0.0, 1.0, (2, *X.shape))
    return _Test(base, correlation * base + math.sqrt(1.0 - correlation**2) * fresh)


def test_a_weak_correlation_is_found_in_a_large_table() -> None:
    """Correlation 0.05 in 115,000 values is 17 deviations from none; its interval holds it, alarm 1e-6."""
    test = _correlated(0.05)
    assert abs(test.statistic) > math.sqrt(2.0 * math.log(2.0 / 1e-6))
    assert abs(test.correlation - 0.05) < test.reach(1.0 - 1e-6)


@pytest.mark.parametrize("correlation", [0.0, 0.8])
def test_the_interval_is_that_of_a_correlation(correlation) -> None:
    """Half its width is z·(1 − ρ²)/√N for Gaussian noise; the deviation is itself known to 2%."""
    expected = norm.isf(0.005) * (1.0 - correlation**2) / math.sqrt(X.size)
    assert _correlated(correlation).reach(0.99) == pytest.approx(expected, rel=0.15)


def test_the_interval_of_the_strongest_pairs_pays_for_all_of_them() -> None:
    """Eleven ways to pair rows, each at 1 − 0.01/11, are stated at 0.99."""
    found = noise_across_rows(UNIT, _seeded(5.0, 9).release(UNIT).value)
    expected = norm.isf(0.005 / 11) / math.sqrt(898 * 63)
    assert found.confidence == 0.99
    assert found.interval[1] - found.value == pytest.approx(expected, rel=0.12)


@pytest.mark.parametrize("period", [1, 2, 128, 512])
def test_noise_that_repeats_between_rows_is_found(period) -> None:
    noise = np.random.default_rng(4).normal(0.0, 1.0, (period, 64))
    released = UNIT + noise[np.arange(len(UNIT)) % period]
    found = noise_across_rows(UNIT, released)
    assert found.numbers["alarm"] == 1
    assert found.beats_chance
    assert "differences are bare" in found.note


@pytest.mark.parametrize(
    ("attack", "arguments", "message"),
    [
        (shared_noise, (X, X + 1.0, X[:-1]), "1797 rows and the release 1796"),
        (shared_noise, (X, X, X + 1.0), "no noise across the records"),
        (shared_noise, (X[:, :1], X[:, :1] + 1.0, X[:, :1] + 2.0), "in at least two columns"),
        (shared_noise, (X[:20], X[:20] + 1.0, X[:20] - 1.0), "20 rows to compare are too few"),
        (noise_across_rows, (X[:50], X[:50] + 1.0), "25 rows to compare are too few"),
        (noise_across_rows, (X, X * np.nan), "row 1, column 1 of the release"),
    ],
)
def test_bad_input_is_refused_in_a_sentence(attack, arguments, message) -> None:
    with pytest.raises(BadInput, match=message):
        attack(*arguments)
