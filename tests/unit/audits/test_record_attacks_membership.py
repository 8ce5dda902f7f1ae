"""Membership inference: strong without noise, a guess under much of it, and never flattered by its split."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import logsumexp
from sklearn.datasets import load_digits
from sklearn.metrics import roc_auc_score

import sfumato as sf
from sfumato.audits.record_attacks import membership_attacks
from sfumato.errors import BadInput

X = np.random.default_rng(0).permutation(load_digits().data / 16.0)
UNIT = X / np.linalg.norm(X, axis=1, keepdims=True)
NAMES = ["nearest neighbour", "likelihood", "logistic regression"]


@pytest.mark.parametrize("nonmembers", [None, UNIT[900:]])
def test_without_noise_every_member_is_known(nonmembers) -> None:
    inside = UNIT if nonmembers is None else UNIT[:900]
    released = sf.Gaussian(1e5, 1e-5, clip=1.0).release(inside).value
    found = membership_attacks(inside, released, nonmembers=nonmembers)
    for item, name in zip(found, NAMES, strict=True):
        assert item.attack == f"membership by {name}"
        assert item.value > 0.999
        assert item.beats_chance
        assert item.numbers["tpr_at_0.1%_fpr"] > 0.9


@pytest.mark.parametrize("mechanism", [sf.Gaussian(0.05, 1e-6, clip=1.0), sf.Laplace(0.05, clip=1.0)])
@pytest.mark.parametrize("nonmembers", [None, UNIT[900:]])
def test_under_much_noise_it_is_a_guess(mechanism, nonmembers) -> None:
    """Intervals at 1 − 1e-7 around three AUCs hold one half: alarms below 1e-6 in each case."""
    inside = UNIT if nonmembers is None else UNIT[:900]
    released = mechanism.release(inside).value
    for item in membership_attacks(inside, released, nonmembers=nonmembers, confidence=1.0 - 1e-7):
        assert item.chance == 0.5
        assert item.interval[0] < 0.52
        assert item.interval[1] > 0.48


def test_likelihood_and_logistic_regression_see_what_the_distance_does_not() -> None:
    """Expected AUCs 0.55, 0.82 and 0.82 with deviations of 0.015: alarms below 1e-6."""
    released = sf.Gaussian(256.0, 1e-5, clip=1.0).release(UNIT).value
    nearest, likely, learned = membership_attacks(UNIT, released)
    assert nearest.value < 0.66
    assert likely.value > 0.72
    assert learned.value > 0.72


@pytest.mark.parametrize("noise", [0.05, 0.4])
def test_the_scores_are_those_of_the_formula(noise) -> None:
    rng = np.random.default_rng(1)
    inside, outside = (rng.normal(1e4, 1.0, (size, 6)) for size in (150, 170))
    released = inside + rng.normal(0.0, noise, inside.shape)
    nearest, likely, _ = membership_attacks(inside, released, nonmembers=outside, sigma=noise)
    candidates = np.concatenate([inside, outside])
    member = np.arange(320) < 150
    distance = ((candidates[:, None] - released[None]) ** 2).sum(axis=2)
    logs = -distance / (2.0 * noise**2)
    explained = logsumexp(logs - logsumexp(logs, axis=0), axis=1)
    assert nearest.value == pytest.approx(roc_auc_score(member, -distance.min(axis=1)), abs=1e-4)
    assert likely.value == pytest.approx(roc_auc_score(member, explained), abs=1e-4)


def test_the_deviation_of_the_noise_is_estimated_when_it_is_not_known() -> None:
    mechanism = sf.Gaussian(256.0, 1e-5, clip=1.0, randomness=sf.Seeded(2))
    released = mechanism.release(UNIT).value
    known = membership_attacks(UNIT, released, sigma=mechanism.sigma(64))[1]
    assert membership_attacks(UNIT, released)[1].value == pytest.approx(known.value, abs=0.01)


def test_nonmembers_of_another_distribution_are_noticed_and_not_credited_to_the_release() -> None:
    """Members are told from brighter pictures without any release; chance says so and is not beaten."""
    inside, outside = X[:800], X[800:] + 0.3
    released = sf.Gaussian(0.05, 1e-6, clip=1.0).release(inside).value
    for item in membership_attacks(inside, released, nonmembers=outside):
        assert item.numbers["auc_without_release"] > 0.99
        assert item.chance == item.numbers["auc_without_release"]
        assert not item.beats_chance
        assert "already without the release" in item.note


def test_the_attacks_repeat_with_a_seed() -> None:
    released = sf.Gaussian(100.0, 1e-5, clip=1.0).release(UNIT).value
    found = membership_attacks(UNIT, released, seed=5)
    assert found == membership_attacks(UNIT, released, seed=5)
    assert found != membership_attacks(UNIT, released, seed=6)


def test_counts_add_up_and_the_limit_holds() -> None:
    nearest, _, learned = membership_attacks(UNIT, UNIT, limit=301)
    assert (nearest.numbers["members"], nearest.numbers["nonmembers"]) == (151, 150)
    assert (learned.numbers["members"], learned.numbers["nonmembers"]) == (101, 100)
    assert nearest.numbers["privacy_score"] == pytest.approx(1.0 - 2.0 * abs(nearest.value - 0.5))
    assert "row by row" in nearest.note
    given = membership_attacks(UNIT, UNIT, nonmembers=UNIT[:40], limit=200)[0]
    assert (given.numbers["members"], given.numbers["nonmembers"]) == (100, 40)
    assert "row by row" not in given.note


CONSTANT = np.ones((50, 3))


@pytest.mark.parametrize(
    ("original", "released", "options", "message"),
    [
        (X, X[:-1], {}, "1797 rows and the release 1796"),
        (X, X[:, :10], {}, "map released rows back"),
        (X[:19], X[:19], {}, "has 19 rows, but this attack needs at least 20"),
        (CONSTANT, CONSTANT, {}, "every candidate record is the same"),
        (X, np.where(X > 0.99, np.inf, X), {}, "of the release is not a finite number"),
        (X, X, {"nonmembers": X[:5]}, "table of non-members has 5 rows"),
        (X, X, {"nonmembers": X[:, :9]}, "non-members have 9 columns and the members 64"),
        (X, X, {"sigma": -1.0}, "`sigma` must be a positive number"),
        (X, X, {"limit": 10}, "`limit` must be"),
        (X, X, {"confidence": 0.0}, "`confidence` was 0"),
    ],
)
def test_bad_input_is_refused_in_a_sentence(original, released, options, message) -> None:
    with pytest.raises(BadInput, match=message):
        membership_attacks(original, released, **options)
