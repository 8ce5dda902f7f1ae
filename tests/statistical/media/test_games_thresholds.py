"""Private thresholds: inside the proven curve at the worst pair, outside it with a fifth less noise."""

from fractions import Fraction

import numpy as np
import pytest
from fed import Fed
from frequencies import fits
from games import LESS, NORMAL_THRESHOLDS, violations

from sfumato.media.detect import projected_gradient_threshold
from sfumato.media.detect.thresholds import Decisions, _exponents, _multiplier, _walk, exponential_choice
from sfumato.noise import Secure, Stream
from sfumato.privacy import Guarantee

DRAWS = 400_000  # a side
WALKS = 4_000  # a side
RATE = 2.0**-20  # so small that the walk never meets the ends of the range


@pytest.mark.parametrize(("epsilon", "costs"), [(1.0, (1.0, 1.0)), (2.0, (1.0, 1.0)), (1.5, (3.0, 1.0))])
def test_drawn_thresholds_stay_inside_the_curve_and_leave_it_with_less_noise(epsilon, costs):
    """One threshold below the record's score and 20 above it, where the loss of the lowest is almost ε.

    False-alarm rate 1e-6; 400 000 draws a side; miss rate below 1e-6.
    """
    grid = np.concatenate([[0.2], np.linspace(0.6, 0.9, 20)])
    exponents = [
        _exponents(Decisions.read([0.5], [label], costs, None, (0.0, 1.0)), grid, epsilon) for label in (0, 1)
    ]

    def game(strength):
        stream = Stream()
        # The record is a negative (the low threshold costs a false alarm), its neighbour a positive.
        scores = [
            (exponential_choice([strength * x for x in each], stream, DRAWS) == 0).astype(float)
            for each in exponents
        ]
        return violations(Guarantee.pure(epsilon), *scores, [0.5])

    assert not game(Fraction(1))
    assert game(1 / Fraction(LESS))


@pytest.mark.parametrize("steps", [1, 2])
@pytest.mark.parametrize("costs", [(1.0, 1.0), (4.0, 0.5)])
def test_walks_stay_inside_the_curve_and_leave_it_with_less_noise(steps, costs):
    """One record, a negative at the top or a positive at the bottom: its slope is −c_fp or c_fn all the way.

    The released threshold is then linear in the noise of all steps. False-alarm rate 1e-6; 4000 walks a side
    at (6, 0.02), where μ is about 2; miss rate below 1e-5.
    """
    epsilon, delta = 6.0, 0.02
    multiplier = _multiplier(epsilon, delta, steps)
    record, neighbour = ([1.0], [0]), ([0.0], [1])
    settings = {"costs": costs, "steps": steps, "rate": RATE}
    proven = projected_gradient_threshold(*record, epsilon=epsilon, delta=delta, **settings).statement.proven
    # The mean of the second half of the walk holds the slope this often, with noise this wide.
    late = [[k**-0.5 for k in range(1, end + 1)] for end in range(steps // 2 + 1, steps + 1)]
    pulls = np.array([sum(row[k] for row in late if k < len(row)) / len(late) for k in range(steps)])
    signal, spread = pulls.sum(), np.linalg.norm(pulls) * multiplier * sum(costs)

    def score(threshold):
        return ((0.5 - threshold) / RATE - signal * (costs[1] - costs[0]) / 2.0) / spread

    sound = [
        np.array(
            [
                score(projected_gradient_threshold(*data, epsilon=epsilon, delta=delta, **settings).value)
                for _ in range(WALKS)
            ]
        )
        for data in (record, neighbour)
    ]
    assert not violations(proven, *sound, NORMAL_THRESHOLDS)
    weak = []
    for data in (record, neighbour):
        problem = Decisions.read(*data, costs, None, (0.0, 1.0))
        weak.append(
            np.array([score(_walk(problem, LESS * multiplier, steps, RATE, Secure())) for _ in range(WALKS)])
        )
    assert violations(proven, *weak, NORMAL_THRESHOLDS)


@pytest.mark.parametrize("exponents", [[0, 1, 2, 3], [5, 5, 5], [0, Fraction(1, 3), 40, 2, Fraction(7, 2)]])
def test_choices_have_the_stated_law(exponents):
    """False-alarm rate 1e-6; 400 000 draws."""
    exponents = [Fraction(x) for x in exponents]
    weights = np.exp(-np.array([float(x) for x in exponents]))
    drawn = np.bincount(exponential_choice(exponents, Stream(), DRAWS), minlength=len(exponents))
    assert fits(drawn, weights / weights.sum())


def test_a_word_on_a_boundary_takes_more_bits():
    """No chance involved, but that 64 secret bits are not all equal (2e-19): both sides of one half."""
    half = [Fraction(0), Fraction(0)]
    below, above = Fed([2**63 - 1]), Fed([2**63])
    assert exponential_choice(half, below).tolist() == [0]
    assert exponential_choice(half, above).tolist() == [1]
    assert below.further >= 1
    assert above.further >= 1
    sure = Fed([2**62, 2**63 + 2**62, 0, 2**64 - 1])
    assert exponential_choice(half, sure, 4).tolist() == [0, 1, 0, 1]
    assert sure.further == 0


def test_choices_that_double_precision_cannot_see_still_have_their_probability():
    """No chance involved: the last 4279 of 2⁶⁴ words belong to the second choice."""
    exponents = [Fraction(0), Fraction(36)]
    weight = np.exp(-36.0) / (1.0 + np.exp(-36.0)) * 2.0**64
    for offset, expected in ((0.5, 1), (0.999, 1), (1.001, 0), (2.0, 0)):
        word = 2**64 - 1 - int(weight * offset)
        assert exponential_choice(exponents, Fed([word])).tolist() == [expected]


def test_exponents_far_beyond_double_precision_are_no_trouble():
    assert exponential_choice([Fraction(10**9), Fraction(0)], Stream(), 100).tolist() == [1] * 100
