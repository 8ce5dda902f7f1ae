"""Re-identification: released rows are matched to the originals exactly, and no better than they should."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_digits

import sfumato as sf
from sfumato.audits import record_attacks
from sfumato.audits.lower_bounds import interval
from sfumato.audits.record_attacks import nearest_matching, rows_of
from sfumato.errors import BadInput

X = load_digits().data / 16.0
SURE = 1.0 - 1e-6


def _brute(original, released, order):
    """Top-1 and top-5 shares by a full matrix of distances of the given order."""
    distance = (np.abs(released[:, None] - original[None]) ** order).sum(axis=2)
    rank = (distance < np.diag(distance)[:, None]).sum(axis=1)
    return (rank < 1).mean(), (rank < 5).mean()


@pytest.mark.parametrize("noise", [0.1, 0.5, 3.0])
@pytest.mark.parametrize("offset", [0.0, 1e8])
def test_matches_are_those_of_the_full_distance_matrix(noise, offset) -> None:
    rng = np.random.default_rng(1)
    original = rng.normal(offset, 1.0, (300, 7))
    released = original + rng.normal(0.0, noise, original.shape)
    first, fifth = nearest_matching(original, released)
    assert (first.value, fifth.value) == _brute(original, released, 2)
    assert (first.chance, fifth.chance) == (1 / 300, 5 / 300)


@pytest.mark.parametrize("scale", [0.5, 2.0])
def test_laplace_likelihood_is_the_l1_distance(scale) -> None:
    rng = np.random.default_rng(2)
    original = rng.normal(0.0, 1.0, (50, 6))
    released = original + rng.laplace(0.0, scale, original.shape)
    first, fifth = nearest_matching(original, released, law="laplace")
    assert (first.value, fifth.value) == _brute(original, released, 1)


def test_the_likelihood_matches_more_rows_than_the_distance_under_laplace_noise() -> None:
    """Expected 0.62 against 0.48 of 1797 rows: 0.05 more is missed with probability below 1e-6."""
    mechanism = sf.Laplace(200.0, bounds=(0.0, 1.0))
    released = mechanism.release(X).value
    near = nearest_matching(X, released)[0].value
    likely = nearest_matching(X, released, law="laplace")[0].value
    assert likely > near + 0.05


def test_a_release_without_noise_is_matched_completely() -> None:
    released = sf.Gaussian(1e6, 1e-5, bounds=(0.0, 1.0)).release(X).value
    first, fifth = nearest_matching(X, released)
    assert first.value == fifth.value == 1.0
    assert first.beats_chance
    assert first.interval == interval(len(X), len(X), 0.99)
    assert first.higher_is_worse


@pytest.mark.parametrize("mechanism", [sf.Gaussian(0.01, 1e-6, clip=1.0), sf.Laplace(0.01, clip=1.0)])
def test_under_much_noise_matching_is_guessing(mechanism) -> None:
    """At ε = 0.01 nobody is right 1.02 times as often as by chance; exact intervals, alarm 1e-6 together."""
    released, sure = mechanism.release(X).value, 1.0 - 2.5e-7
    likely = nearest_matching(X, released, law="laplace", confidence=sure)
    for found in (*likely, *nearest_matching(X, released, confidence=sure)):
        assert found.interval[0] <= 1.02 * found.chance
        assert found.interval[1] >= 0.98 * found.chance


def test_equal_originals_are_told_apart_by_a_coin() -> None:
    """Every record stands there twice, so half of the first matches are right: 600 coins, alarm 1e-6."""
    rng = np.random.default_rng(4)
    original = np.repeat(rng.normal(0.0, 1.0, (300, 5)), 2, axis=0)
    first, fifth = nearest_matching(original, original, confidence=SURE)
    assert first.interval[0] <= 0.5 <= first.interval[1]
    assert fifth.value == 1.0


def test_other_columns_are_refused() -> None:
    with pytest.raises(BadInput, match="64 columns and the release 128: map released rows back"):
        nearest_matching(X, np.hstack([X, X]))


def test_at_most_the_limit_of_rows_is_matched_among_all_originals(monkeypatch) -> None:
    monkeypatch.setattr(record_attacks, "_LIMIT", 100)
    first, _ = nearest_matching(X, X)
    assert (first.numbers["rows"], first.numbers["originals"]) == (100, 1797)
    assert first.chance == 1 / 1797


def test_results_repeat() -> None:
    released = sf.Gaussian(50.0, 1e-5, clip=1.0).release(X).value
    assert nearest_matching(X, released) == nearest_matching(X, released)


@pytest.mark.parametrize(
    ("original", "released", "options", "message"),
    [
        (X, X[:-1], {}, "1797 rows and the release 1796"),
        (X[:9], X[:9], {}, "has 9 rows, but this attack needs at least 10"),
        (X[0], X[0], {}, r"shape \(64,\)"),
        (np.ones((20, 3)), np.ones((20, 3)), {}, "every original record is the same"),
        (X, np.where(np.arange(64) == 7, np.nan, X), {}, "row 1, column 8 of the release is not a finite"),
        ([["a", "b"]] * 20, X[:20], {}, "the original must be"),
        ([[1.0], [1.0, 2.0]], X[:2], {}, "with rows of equal length"),
        (X, X, {"confidence": 1.5}, "`confidence` was 1.5"),
    ],
)
def test_bad_input_is_refused_in_a_sentence(original, released, options, message) -> None:
    with pytest.raises(BadInput, match=message):
        nearest_matching(original, released, **options)


def test_errors_never_show_a_value() -> None:
    with pytest.raises(BadInput) as refused:
        rows_of([["4111 1111 1111 1111", "x"]], "original")
    assert "4111" not in str(refused.value)
