"""Reconstruction: three attackers against oracles, and chance where the release says nothing."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from sklearn.datasets import load_digits
from sklearn.linear_model import Ridge

import sfumato as sf
from sfumato.audits.record_attacks import (
    error_finding,
    informed_inverter,
    posterior_mean,
    ridge_reconstruction,
)
from sfumato.errors import BadInput

X = load_digits().data / 16.0
UNIT = X / np.linalg.norm(X, axis=1, keepdims=True)


def _relative(guess, truth):
    return (np.linalg.norm(guess - truth, axis=1) / np.linalg.norm(truth, axis=1)).mean()


@pytest.mark.parametrize("rows", [60, 1000])
def test_ridge_is_ridge(rows) -> None:
    """Fewer and more known rows than columns: both forms of the solution."""
    released = sf.ReverseManifold(1.0).fit_transform(X[:rows])
    found = ridge_reconstruction(X[:rows], released, seed=7)
    order = np.random.default_rng(7).permutation(rows)
    known, tested = order[: round(0.8 * rows)], order[round(0.8 * rows) :]
    guess = Ridge().fit(released[known], X[known]).predict(released[tested])
    assert found.value == pytest.approx(_relative(guess, X[tested]), rel=1e-8)
    assert found.chance == pytest.approx(_relative(X[known].mean(axis=0), X[tested]))
    assert found.numbers["records"] == tested.size


def test_ridge_is_scored_on_rows_it_did_not_learn_from() -> None:
    """90 noise columns for 100 rows fit what was learned from, but reconstruct nothing."""
    rng = np.random.default_rng(1)
    original, noise = rng.normal(5.0, 1.0, (100, 4)), rng.normal(0.0, 1.0, (100, 90))
    found = ridge_reconstruction(original, noise)
    assert found.value > found.chance
    assert not found.beats_chance


def test_the_informed_inverter_undoes_an_embedding_completely() -> None:
    embedding = sf.ReverseManifold(2.0, b"0123456789abcdef")
    found = informed_inverter(X, embedding.inverse(embedding.fit_transform(X)))
    assert found.value < 1e-14
    assert found.beats_chance
    assert not found.higher_is_worse


def test_the_informed_inverter_keeps_the_noise() -> None:
    released = sf.Gaussian(200.0, 1e-5, bounds=(0.0, 1.0)).release(X).value
    found = informed_inverter(X, released)
    assert found.value == pytest.approx(_relative(released, X))
    assert found.chance == pytest.approx(_relative(X.mean(axis=0), X))


def test_the_posterior_mean_is_that_of_two_gaussians() -> None:
    rng = np.random.default_rng(2)
    mixing = rng.normal(0.0, 1.0, (5, 5))
    records = 3.0 + rng.normal(0.0, 1.0, (4000, 5)) @ mixing
    sigma = 1.5
    noised = records + rng.normal(0.0, sigma, records.shape)
    found = posterior_mean(records, noised, sigma=sigma, seed=3)
    order = np.random.default_rng(3).permutation(len(records))
    public, original, released = records[order[::2]], records[order[1::2]], noised[order[1::2]]
    mean, prior = public.mean(axis=0), np.cov(public.T)
    guess = mean + (released - mean) @ np.linalg.solve(prior + sigma**2 * np.eye(5), prior)
    assert found.value == pytest.approx(_relative(guess, original), rel=1e-9)
    assert found.chance == pytest.approx(_relative(mean, original))


@pytest.mark.parametrize("epsilon", [30.0, 100.0, 1000.0])
def test_the_posterior_mean_is_the_strongest_of_the_three(epsilon) -> None:
    """Differences of at least 0.01 with deviations of 0.001: alarms below 1e-6."""
    mechanism = sf.Gaussian(epsilon, 1e-5, clip=1.0)
    released = mechanism.release(UNIT).value
    best = posterior_mean(UNIT, released, sigma=mechanism.sigma(64))
    assert best.value < informed_inverter(UNIT, released).value
    assert best.value < ridge_reconstruction(UNIT, released).value + 0.01
    assert best.beats_chance
    assert best.numbers["records"] == 898
    assert "declared public" in best.threat


def test_under_much_noise_the_posterior_mean_is_the_prior_mean() -> None:
    """At ε = 0.01 the error is within 0.1% of chance, and no attack beats it; alarms below 1e-6."""
    mechanism = sf.Gaussian(0.01, 1e-6, clip=1.0)
    released = mechanism.release(UNIT).value
    found = posterior_mean(UNIT, released, sigma=mechanism.sigma(64), confidence=1.0 - 1e-6)
    assert found.value == pytest.approx(found.chance, rel=1e-3)
    for attack in (found, informed_inverter(UNIT, released), ridge_reconstruction(UNIT, released)):
        assert not attack.beats_chance


def test_the_error_is_a_mean_over_records_with_students_interval() -> None:
    truth = np.array([[3.0, 4.0], [0.0, 2.0], [1.0, 0.0], [0.0, 0.0]])
    guess = np.array([[3.0, 5.0], [1.0, 2.0], [1.0, 0.0], [9.0, 9.0]])
    found = error_finding("a", "b", truth, guess, np.array([0.0, 0.0]), 0.95, "why")
    errors = np.array([0.2, 0.5, 0.0])
    low, high = stats.t.interval(0.95, 2, errors.mean(), stats.sem(errors))
    assert found.value == pytest.approx(errors.mean())
    assert found.interval == pytest.approx((max(low, 0.0), high))
    assert found.chance == 1.0
    assert (found.numbers["records"], found.numbers["zero_records"], found.note) == (3, 1, "why")


@pytest.mark.parametrize(("factor", "score"), [(0.25, 0.25), (7.0, 1.0)])
def test_the_papers_privacy_score_is_the_error_up_to_one(factor, score) -> None:
    truth = np.arange(1.0, 21.0).reshape(10, 2)
    found = error_finding("a", "b", truth, truth * (1.0 + factor), truth[0], 0.99)
    assert found.numbers["privacy_score"] == pytest.approx(score)


RIDGE, INVERT, POSTERIOR = ridge_reconstruction, informed_inverter, posterior_mean


@pytest.mark.parametrize(
    ("attack", "original", "released", "options", "message"),
    [
        (RIDGE, X, X[:-1], {}, "1797 rows and the release 1796"),
        (RIDGE, X[:9], X[:9], {}, "has 9 rows"),
        (RIDGE, X, np.ones((1797, 5)), {}, "every released column is constant"),
        (RIDGE, X, X, {"confidence": 1.0}, "`confidence` was 1"),
        (RIDGE, np.where(X > 0.99, np.nan, X), X, {}, "of the original is not a finite number"),
        (INVERT, X, X[:, :3], {}, "map released rows back"),
        (INVERT, np.zeros((20, 3)), np.ones((20, 3)), {}, "fewer than two records differ from zero"),
        (POSTERIOR, X, X, {"sigma": 0.0}, "`sigma` must be a positive number"),
    ],
)
def test_bad_input_is_refused_in_a_sentence(attack, original, released, options, message) -> None:
    with pytest.raises(BadInput, match=message):
        attack(original, released, **options)
