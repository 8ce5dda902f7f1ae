"""Threshold games: the bound of a split that is known, atoms, certainty, both inequalities, refusals."""

import math

import numpy as np
import pytest

from sfumato.audits.lower_bounds import (
    best_threshold,
    count_errors,
    held_out_parts,
    joint_upper,
    threshold_bound,
)
from sfumato.errors import BadInput


def _scores(one, other, games):
    """Atoms 0, 1, … with the given shares of ``games`` scores in each world, exactly."""
    counts = (np.round(np.array(shares) * games).astype(int) for shares in (one, other))
    return [np.repeat(np.arange(count.size), count).astype(float) for count in counts]


def _forth(bound, delta):
    alpha, beta = bound.numbers["alpha_upper"], bound.numbers["beta_upper"]
    return math.log((1.0 - delta - beta) / alpha)


def test_the_bound_is_the_formula_at_the_errors_it_reports():
    first, second = _scores((0.8, 0.2), (0.3, 0.7), 2000)
    bound = threshold_bound(first, second, delta=0.01)
    numbers = bound.numbers
    errors = [
        (int(numbers[errors]), int(numbers[games]))
        for errors, games in (("false_positives", "record_games"), ("false_negatives", "neighbour_games"))
    ]
    assert [total for _, total in errors] == [1000, 1000]
    alpha, beta = joint_upper(*errors, 0.01)
    assert bound.epsilon == pytest.approx(np.log((0.99 - beta) / alpha).min(), rel=1e-12)
    assert bound.epsilon == pytest.approx(_forth(bound, 0.01), rel=1e-12)
    # Both worlds split 0.2 and 0.7 of their games; log(0.69/0.2) is the value without a margin for error.
    assert 0.8 * math.log(0.69 / 0.2) < bound.epsilon < math.log(0.69 / 0.2)


def test_both_inequalities_are_used():
    # The rare atom 0 is where the record shows: P(first) = 0.3 against P(second) = 0.01.
    first, second = _scores((0.3, 0.7), (0.01, 0.99), 20_000)
    bound = threshold_bound(first, second, delta=0.0)
    assert 0.9 * math.log(30.0) < bound.epsilon < math.log(30.0)
    assert _forth(bound, 0.0) < 0.5
    mirrored = threshold_bound(-second, -first, delta=0.0)
    assert mirrored.epsilon == pytest.approx(bound.epsilon, rel=0.1)


def test_atoms_are_never_split():
    assert count_errors(np.array([0.0, 1.0, 1.0, 2.0]), np.array([1.0, 1.0, 2.0]), 1.0) == ((1, 4), (2, 3))
    first, second = _scores((0.2, 0.55, 0.25), (0.15, 0.35, 0.5), 4000)
    bound = threshold_bound(first, second, delta=0.0)
    # The highest atom is twice as likely under the neighbour.
    assert bound.numbers["threshold"] == 1.0
    assert bound.numbers["false_positives"] == pytest.approx(0.25 * 2000, abs=110)
    assert 0.8 * math.log(2.0) < bound.epsilon < math.log(2.0)


def test_every_threshold_is_weighed():
    # Only the 30 highest of 3000 scores tell the worlds apart.
    rng = np.random.default_rng(0)
    first, second = rng.uniform(0.0, 1.0, 3000), rng.uniform(0.0, 1.0, 3000)
    second[:300] += 1.0
    threshold = best_threshold(first, second, lambda alpha, beta: np.log1p(-beta) - np.log(alpha))
    assert threshold == first.max() or 0.9 < threshold < 1.01


def test_certainty_is_a_score_like_any_other():
    rng = np.random.default_rng(1)
    first, second = rng.normal(size=4000), rng.normal(size=4000)
    second[:400], first[:400] = np.inf, -np.inf
    bound = threshold_bound(first, second, delta=0.0)
    # A tenth of 2000 judging games are certain, and no error was seen among 2000.
    assert bound.epsilon == pytest.approx(math.log(200 / 5.5), abs=0.5)
    assert math.isfinite(bound.numbers["threshold"])


def test_complete_certainty_gives_a_finite_bound():
    games = 10_000
    bound = threshold_bound(np.full(games, -np.inf), np.full(games, np.inf), delta=0.0)
    assert math.log(games / 20) < bound.epsilon < math.log(games / 2)


def test_infinite_scores_above_all_finite_ones_are_an_event_of_their_own():
    first = np.concatenate([np.full(900, 5.0), np.full(100, np.inf)])
    second = np.concatenate([np.full(500, 5.0), np.full(500, np.inf)])
    assert count_errors(first, second, np.finfo(float).max) == ((100, 1000), (500, 1000))
    assert threshold_bound(first, second, delta=0.0).epsilon > 1.0


@pytest.mark.parametrize("delta", [0.0, 1e-5, 0.1, 0.6, 0.999])
def test_a_larger_delta_never_gives_a_larger_bound_nor_a_negative_one(delta):
    first, second = _scores((0.9, 0.1), (0.4, 0.6), 1000)
    bound = threshold_bound(first, second, delta=delta)
    assert 0.0 <= bound.epsilon <= threshold_bound(first, second, delta=0.0).epsilon
    if delta >= 0.6:
        assert bound.epsilon == 0.0


def test_scores_that_say_nothing_or_the_opposite_bound_nothing():
    first, second = _scores((0.5, 0.5), (0.5, 0.5), 1000)
    assert threshold_bound(first, second, delta=0.0).epsilon == 0.0
    assert threshold_bound(np.zeros(100), np.zeros(100), delta=0.0).epsilon == 0.0
    assert threshold_bound(np.ones(1000), np.zeros(1000), delta=0.0).epsilon == 0.0


@pytest.mark.parametrize("sizes", [(2, 2), (3, 50_000), (10_000, 100)])
def test_any_number_of_games_in_either_world(sizes):
    rng = np.random.default_rng(2)
    bound = threshold_bound(rng.normal(0, 1, sizes[0]), rng.normal(5, 1, sizes[1]), delta=1e-6)
    numbers = bound.numbers
    assert numbers["record_games"] in (sizes[0] // 2, -(-sizes[0] // 2))
    assert numbers["neighbour_games"] in (sizes[1] // 2, -(-sizes[1] // 2))
    assert math.isfinite(bound.epsilon)


def test_no_game_both_chooses_the_threshold_and_is_judged():
    first, second = np.arange(100.0), np.arange(100.0, 140.0)
    choosing, judging = held_out_parts(first, second, held_out=0.3, seed=0)
    assert [part.size for part in (*choosing, *judging)] == [30, 12, 70, 28]
    for one, other, games in zip(choosing, judging, (first, second), strict=True):
        assert sorted([*one, *other]) == games.tolist()
    # Neither part is the beginning of the games, which might have been played at another time.
    assert choosing[0].tolist() != sorted(choosing[0])


def test_more_confidence_gives_less():
    first, second = _scores((0.8, 0.2), (0.3, 0.7), 2000)
    bounds = [threshold_bound(first, second, delta=0.0, confidence=c) for c in (0.5, 0.99, 1 - 1e-8)]
    epsilons = [bound.epsilon for bound in bounds]
    assert epsilons[0] > epsilons[1] > epsilons[2] > 0.0
    assert bounds[1].confidence == 0.99


def test_results_repeat_and_inputs_stay():
    rng = np.random.default_rng(3)
    first, second = rng.normal(0, 1, 500), rng.normal(1, 1, 500)
    kept = first.copy(), second.copy()
    bounds = [threshold_bound(first, second, delta=0.0, seed=seed) for seed in (0, 0, 1)]
    assert bounds[0] == bounds[1]
    assert bounds[0] != bounds[2]
    assert np.array_equal(first, kept[0])
    assert np.array_equal(second, kept[1])


@pytest.mark.parametrize(
    ("first", "second", "options", "said"),
    [
        (
            [0.0, float("nan")],
            [0.0, 1.0],
            {},
            "of the record are NaN in 1 of 2 rows, first in row 1",
        ),
        (
            [0.0, 1.0],
            [float("nan"), 1.0],
            {},
            "of the neighbour are NaN in 1 of 2 rows, first in row 0",
        ),
        ([0.0], [0.0, 1.0], {}, r"the record have shape \(1,\)"),
        ([0.0, 1.0], [[0.0, 1.0]], {}, r"the neighbour have shape \(1, 2\)"),
        (["a", "b"], [0.0, 1.0], {}, "are no numbers"),
        ([0.0, 1.0], [0.0, 1.0], {"delta": 1.0}, "`delta` was 1.0"),
        ([0.0, 1.0], [0.0, 1.0], {"delta": -0.1}, "`delta` was -0.1"),
        ([0.0, 1.0], [0.0, 1.0], {"confidence": 1.0}, "`confidence` was 1.0"),
        (
            [0.0, 1.0],
            [0.0, 1.0],
            {"held_out": 0.0},
            "`held_out` must lie strictly between.*not 0.0",
        ),
        (
            [0.0, 1.0],
            [0.0, 1.0],
            {"held_out": 1.0},
            "`held_out` must lie strictly between.*not 1.0",
        ),
    ],
)
def test_what_is_no_game_is_refused(first, second, options, said):
    with pytest.raises(BadInput, match=said):
        threshold_bound(first, second, **({"delta": 0.0} | options))
