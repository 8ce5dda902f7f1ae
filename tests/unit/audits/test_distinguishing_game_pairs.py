"""The pair game: what it measures never exceeds what is proven, and finds noise that is too small."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_digits

import sfumato as sf
from sfumato.audits.distinguishing_game import draw_pairs, pair_games
from sfumato.audits.lower_bounds import interval
from sfumato.audits.one_run import best_guesses, one_run_bound
from sfumato.errors import BadInput

X = load_digits().data / 16.0
UNIT = X / np.linalg.norm(X, axis=1, keepdims=True)


def _antipodes(rows, columns=3):
    """Records at the two ends of a diameter of the unit ball: the worst pairs that a clip of 1 allows."""
    table = np.zeros((rows, columns))
    table[:, 0] = np.where(np.arange(rows) % 2, 1.0, -1.0)
    return table


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0, 4.0, 8.0])
def test_measured_is_at_most_proven(epsilon) -> None:
    """Worst-case records under Gaussian noise; three bounds at 1 − 1e-7 exceed ε with probability 3e-7."""
    records = _antipodes(2000)
    released = sf.Gaussian(epsilon, 1e-12, clip=1.0).release(records).value
    found = pair_games(records, released, delta=1e-12, law="gaussian", confidence=1.0 - 1e-7)
    assert len(found) == 3
    for item in found:
        assert item.epsilon_lower <= epsilon
        assert (item.unit, item.neighbours, item.delta) == ("record", "replace", 1e-12)


@pytest.mark.parametrize(("epsilon", "least"), [(1.0, 0.35), (3.0, 1.9)])
def test_laplace_noise_is_measured_at_delta_zero(epsilon, least) -> None:
    """Below ε at 1 − 1e-7; at 0.99 within six deviations of what is expected, 0.79 and 2.6; alarms 1e-6."""
    records = _antipodes(4000, 1)
    released = sf.Laplace(epsilon, clip=1.0).release(records).value
    (sure,) = pair_games(records, released, delta=0.0, law="laplace", confidence=1.0 - 1e-7)
    assert sure.epsilon_lower <= epsilon
    (usual,) = pair_games(records, released, delta=0.0, law="laplace")
    assert usual.epsilon_lower > least


def test_of_many_sound_releases_few_are_accused() -> None:
    """At 0.99, at most 12 of 200 bounds exceed ε = 1, for each of the three; false alarms below 1e-6."""
    records = _antipodes(120)
    mechanism = sf.Gaussian(1.0, 1e-3, clip=1.0)
    above = np.zeros(3)
    for seed in range(200):
        released = mechanism.release(records).value
        found = pair_games(records, released, delta=1e-3, law="gaussian", seed=seed)
        above += [item.epsilon_lower > 1.0 for item in found]
    assert (above <= 12).all()


@pytest.mark.parametrize(("epsilon", "least"), [(64.0, (3.3, 4.7, 12.0)), (1e5, (4.9, 8.0, 30.0))])
def test_weak_promises_are_seen_in_real_digits(epsilon, least) -> None:
    """Seven deviations below what is expected of 898 pairs of digits: alarms below 1e-6."""
    released = sf.Gaussian(epsilon, 1e-5, clip=1.0).release(UNIT).value
    found = pair_games(UNIT, released, delta=1e-5, law="gaussian")
    for item, bound in zip(found, least, strict=True):
        assert bound < item.epsilon_lower < epsilon
        assert item.beats_chance


def test_noise_of_half_the_size_is_caught() -> None:
    """σ is halved at a promise of ε = 4: the two-row game proves about 7.6 ± 0.3; missed below 1e-6."""
    records = _antipodes(4000)
    sound = sf.Gaussian(4.0, 1e-5, clip=1.0).release(records).value
    broken = records + (sound - records) / 2.0
    *_, two_rows = pair_games(records, broken, delta=1e-5, law="gaussian", confidence=1.0 - 1e-7)
    assert two_rows.epsilon_lower > 4.0


def test_under_much_noise_nothing_is_measured() -> None:
    """Shares of right guesses within exact intervals of one half, and no ε above 0.01; alarms 3e-7."""
    released = sf.Gaussian(0.01, 1e-6, clip=1.0).release(UNIT).value
    for item in pair_games(UNIT, released, delta=1e-6, law="gaussian", confidence=1.0 - 1e-7):
        assert item.interval[0] <= 0.505
        assert item.epsilon_lower <= 0.01


def test_guesses_go_to_the_nearer_record_by_the_coins() -> None:
    """Without noise every guess is right, so ε is what that many right guesses prove, paid for four tries."""
    (found,) = pair_games(X, X, delta=1e-5, confidence=0.96)
    assert found.value == 1.0
    pairs = 898
    assert found.numbers == {"correct": pairs, "guesses": pairs, "canaries": pairs}
    expected = one_run_bound(pairs, pairs, pairs, delta=1e-5, confidence=0.99).epsilon
    assert found.epsilon_lower == pytest.approx(expected, rel=1e-9)
    assert found.interval == pytest.approx(interval(pairs, pairs, 0.99))
    assert found.confidence == 0.96


def test_the_game_is_that_of_one_run_on_the_chosen_rows() -> None:
    """The same pairs and coins by hand, with distances computed in full."""
    released = sf.Gaussian(20.0, 1e-5, clip=1.0, randomness=sf.Seeded(1)).release(UNIT).value
    (found,) = pair_games(UNIT, released, delta=1e-5, seed=9)
    rng = np.random.default_rng(9)
    pairs = draw_pairs(UNIT, law=None, rng=rng)
    coins = rng.integers(0, 2, size=len(pairs))
    shown = released[np.where(coins == 1, pairs[:, 0], pairs[:, 1])]
    far = [((shown - UNIT[pairs[:, side]]) ** 2).sum(axis=1) for side in (0, 1)]
    guesses = int(found.numbers["guesses"])
    assert found.numbers["correct"] == best_guesses(far[1] - far[0], coins, guesses=guesses)[0]


@pytest.mark.parametrize("rows", [21, 200])
@pytest.mark.parametrize("law", [None, "laplace"])
def test_pairs_are_disjoint(rows, law) -> None:
    pairs = draw_pairs(X[:rows], law=law, rng=np.random.default_rng(1))
    assert pairs.shape == (rows // 2, 2)
    assert len(set(pairs.ravel())) == 2 * (rows // 2)
    assert pairs.max() < rows


def test_farthest_partners_are_farther() -> None:
    rng = np.random.default_rng(2)
    drawn = draw_pairs(UNIT, law=None, rng=rng), rng.permutation(1796).reshape(-1, 2)
    far, usual = (np.linalg.norm(np.subtract(*UNIT[pairs.T]), axis=1).mean() for pairs in drawn)
    assert far > 1.1 * usual


def test_the_law_decides_what_is_returned_and_how_it_is_measured() -> None:
    released = sf.Laplace(60.0, bounds=(0.0, 1.0), randomness=sf.Seeded(3)).release(X).value
    unknown = pair_games(X, released, delta=1e-5)
    laplace = pair_games(X, released, delta=1e-5, law="laplace")
    assert len(unknown) == len(laplace) == 1
    assert laplace[0].value > unknown[0].value
    assert len(pair_games(X, released, delta=0.0, law="gaussian")) == 1
    for item in pair_games(X, released, delta=1e-5, law="gaussian")[1:]:
        assert "holds only if" in item.note
    assert "from its own record alone" in unknown[0].note


def test_results_repeat() -> None:
    released = sf.Gaussian(4.0, 1e-5, clip=1.0, randomness=sf.Seeded(8)).release(UNIT).value
    once = pair_games(UNIT, released, delta=1e-5, seed=4)
    assert once == pair_games(UNIT, released, delta=1e-5, seed=4)
    assert once != pair_games(UNIT, released, delta=1e-5, seed=5)


@pytest.mark.parametrize(
    ("original", "released", "options", "message"),
    [
        (X, X[:-1], {}, "1797 rows and the release 1796"),
        (X[:19], X[:19], {}, "has 19 rows"),
        (X, X[:, :5], {}, "map released rows back"),
        (np.ones((40, 2)), np.ones((40, 2)), {}, "the two records of every pair are the same"),
        (X, np.full(X.shape, np.inf), {}, "not a finite number"),
        (X, X, {"law": "cauchy"}, "`law` was 'cauchy'"),
        (X, X, {"delta": 1.0}, "`delta` was 1.0"),
        (X, X, {"confidence": 1.0}, "`confidence` was 1.0"),
    ],
)
def test_bad_input_is_refused_in_a_sentence(original, released, options, message) -> None:
    with pytest.raises(BadInput, match=message):
        pair_games(original, released, **({"delta": 1e-5} | options))
