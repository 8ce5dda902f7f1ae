"""Randomised response and bit flips: inside the proven curve, outside it when values are kept more often."""

import mpmath
import numpy as np
import pytest
from games import LESS, rows_of, violations

from sfumato.errors import BadInput
from sfumato.mechanisms import RandomisedResponse, keep_threshold
from sfumato.mechanisms.transforms import BinaryEncoding

SAMPLES = 400_000  # a side


class WeakResponse(RandomisedResponse):
    def _budgets(self, columns):
        return [budget / LESS for budget in super()._budgets(columns)]


class WeakEncoding(BinaryEncoding):
    def _keep(self, columns):
        each = self.guarantee(columns).epsilon(0.0) / (columns * self.bits)
        return keep_threshold(each / LESS, 2)


@pytest.mark.parametrize("epsilon", [1.0, 3.0])
@pytest.mark.parametrize("categories", [2, 5, [5]])
def test_one_answer_stays_inside_the_curve_and_leaves_it_when_kept_more_often(categories, epsilon):
    """False-alarm rate 1e-6; 400 000 samples a side; miss rate below 1e-12."""
    sound = RandomisedResponse(epsilon, categories)
    pair, budgets = ((0.0,), (1.0,)), [epsilon]
    thresholds = [-0.5 * epsilon, 0.5 * epsilon]
    assert not response_game(sound, sound.guarantee(), pair, budgets, thresholds)
    weak = WeakResponse(epsilon, categories)
    assert response_game(weak, sound.guarantee(), pair, budgets, thresholds)


def test_three_columns_of_different_sizes_and_weights_compose_exactly():
    """False-alarm rate 1e-6; ε = 3 as 0.5 + 1 + 1.5, 400 000 samples a side; miss rate below 1e-12."""
    parameters = {"epsilon": 3.0, "categories": [2, 3, 5], "weights": [1.0, 2.0, 3.0]}
    sound = RandomisedResponse(**parameters)
    pair, budgets = ((0.0, 2.0, 4.0), (1.0, 0.0, 1.0)), [0.5, 1.0, 1.5]
    # The score is a multiple of one half, so these lie between its values.
    thresholds = np.arange(-2.75, 3.0, 0.5)
    assert not response_game(sound, sound.guarantee(), pair, budgets, thresholds)
    assert response_game(WeakResponse(**parameters), sound.guarantee(), pair, budgets, thresholds)


def test_equal_columns_under_one_number_of_categories_keep_the_whole_epsilon():
    """False-alarm rate 1e-6; two columns of k = 3 at ε = 2, 400 000 samples a side; miss rate below 1e-12."""
    sound = RandomisedResponse(2.0, 3)
    pair, thresholds = ((0.0, 0.0), (1.0, 2.0)), np.arange(-1.5, 2.0, 1.0)
    assert not response_game(sound, sound.guarantee(2), pair, [1.0, 1.0], thresholds)
    assert response_game(WeakResponse(2.0, 3), sound.guarantee(2), pair, [1.0, 1.0], thresholds)


@pytest.mark.parametrize(
    "parameters",
    [{"bits": 2, "flip": 0.25}, {"bits": 1, "flip": 0.1}, {"bits": 2, "flip": None, "epsilon": 2.0}],
)
def test_flipped_bits_stay_inside_the_curve_and_leave_it_when_flipped_less(parameters):
    """False-alarm rate 1e-6; one column, all bits differ, 400 000 samples a side; miss rate below 1e-12."""
    sound, bits = BinaryEncoding(**parameters), parameters["bits"]

    def game(mechanism):
        ones = [mechanism.release(rows_of([value], SAMPLES)).value.sum(axis=1) for value in (0.0, 1.0)]
        return violations(sound.guarantee(1), *ones, np.arange(bits) + 0.5)

    assert not game(sound)
    assert game(WeakEncoding(**parameters))


def test_flipped_bits_of_two_columns_share_the_record_epsilon():
    """False-alarm rate 1e-6; two columns of one bit at ε = 2, 400 000 samples a side."""
    sound = BinaryEncoding(bits=1, flip=None, epsilon=2.0)
    ones = [sound.release(rows_of([v, v], SAMPLES)).value.sum(axis=1) for v in (0.0, 1.0)]
    assert not violations(sound.guarantee(2), *ones, [0.5, 1.5])


@pytest.mark.parametrize(("epsilon", "categories"), [(1e-12, 2), (0.7, 3), (3.0, 5), (40.0, 2), (45.0, 1000)])
def test_the_coin_keeps_no_more_often_than_epsilon_allows(epsilon, categories):
    """No chance involved: p(k − 1)/(1 − p) ≤ e^ε in exact arithmetic, and one more in 2⁶⁴ would break it."""
    kept = keep_threshold(epsilon, categories)
    with mpmath.workprec(400):
        limit = mpmath.exp(mpmath.mpf(epsilon))
        assert 1 <= ratio(kept, categories) <= limit < ratio(kept + 1, categories)


def test_an_epsilon_below_what_a_coin_resolves_is_refused():
    """No chance involved: rounded down to 64 bits, p would lie below 1/3 and the ratio above e^ε."""
    with pytest.raises(BadInput, match="too small"):
        keep_threshold(1e-20, 3)
    assert keep_threshold(1e-20, 2) == 1 << 63


def ratio(kept, categories):
    """How much likelier the true answer is than another one, when it is kept with probability kept/2⁶⁴."""
    left = (1 << 64) - kept
    return mpmath.mpf(kept) * (categories - 1) / left if left else mpmath.inf


def response_game(mechanism, guarantee, pair, budgets, thresholds):
    record, neighbour = (np.asarray(point) for point in pair)
    scores = []
    for point in pair:
        answers = mechanism.release(rows_of(point, SAMPLES)).value
        scores.append(((answers == neighbour) * budgets - (answers == record) * budgets).sum(axis=1))
    return violations(guarantee, *scores, thresholds)
