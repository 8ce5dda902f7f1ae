"""Channels between levels: whole numbers that sum to 2⁶⁴, tables that draw exactly them, and an exact ε."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import chi2

import sfumato as sf
from sfumato.errors import BadInput
from sfumato.mechanisms.grid_tensor import Transition

TOTAL = 1 << 64


def random_channel(levels, seed=0):
    """Rows of very different probabilities, some of them far below 2⁻⁶⁴."""
    generator = np.random.default_rng(seed)
    raw = np.exp(-60.0 * generator.random((levels, levels)) ** 2)
    return raw / raw.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("levels", [2, 3, 5, 16, 100])
def test_every_row_sums_to_two_to_the_sixty_four_and_nothing_is_impossible(levels):
    probabilities = random_channel(levels)
    counts = Transition.nearest(probabilities).counts.tolist()
    for row, asked in zip(counts, probabilities.tolist(), strict=True):
        assert sum(row) == TOTAL
        assert min(row) >= 1
        # Rounded up, of shares that are good to 53 bits; the largest takes what is over.
        errors = [count - Fraction(share) * TOTAL for count, share in zip(row, asked, strict=True)]
        rooms = [Fraction(share) * 2**15 + 1 for share in asked]
        largest = row.index(max(row))
        rooms[largest] = sum(rooms)
        assert all(abs(error) <= room for error, room in zip(errors, rooms, strict=True))


@pytest.mark.parametrize("levels", [2, 3, 5, 16])
def test_epsilon_is_the_largest_ratio_over_all_inputs_and_outputs(levels):
    channel = Transition.nearest(random_channel(levels, seed=levels))
    counts = channel.counts.tolist()
    worst = max(
        Fraction(counts[x][y], counts[other][y])
        for y in range(levels)
        for x in range(levels)
        for other in range(levels)
    )
    exact = math.log(worst.numerator) - math.log(worst.denominator)
    assert exact <= channel.epsilon <= exact * (1 + 1e-13) + 1e-12


@pytest.mark.parametrize("levels", [2, 3, 4, 5, 16, 100])
def test_the_tables_hold_the_law_to_the_last_bit(levels):
    """Every word of 64 bits falls into one place of a table: counting the places gives back the counts."""
    channel = Transition.nearest(random_channel(levels, seed=1))
    cuts, others, shift = channel._table
    width = len(cuts) // levels
    assert width * (1 << shift) == TOTAL
    for x in range(levels):
        drawn = [0] * width
        for column in range(width):
            cut, other = int(cuts[x * width + column]), int(others[x * width + column])
            drawn[column] += cut
            drawn[other] += (1 << shift) - cut
        assert drawn[:levels] == channel.counts[x].tolist()
        assert not any(drawn[levels:])  # a width beyond the levels is never drawn


@pytest.mark.parametrize("levels", [2, 3, 7])
def test_what_is_drawn_follows_the_matrix(levels):
    """χ² of 200,000 draws from each level; false alarm 1e-6 for each level, outputs of 50 and more pooled."""
    probabilities = np.random.default_rng(2).dirichlet(np.ones(levels), size=levels)
    channel = Transition.nearest(probabilities)
    draws = 200_000
    inputs = np.repeat(np.arange(levels), draws)
    drawn = channel.draw(sf.Seeded(11).stream(b"law"), inputs).reshape(levels, draws)
    for x in range(levels):
        expected = draws * channel.matrix[x]
        seen = np.bincount(drawn[x], minlength=levels)
        kept = expected >= 50.0
        statistic = float((np.square(seen - expected) / expected)[kept].sum())
        assert statistic < chi2.isf(1e-6, max(1, int(kept.sum()) - 1))


def test_neighbouring_draws_are_independent():
    """Products of consecutive draws against the product of their means; false alarm 1e-6 (5 deviations)."""
    channel = Transition.nearest(np.full((4, 4), 0.25))
    drawn = channel.draw(sf.Seeded(3).stream(b"pairs"), np.zeros(400_000, dtype=np.int64)) - 1.5
    found = float(np.mean(drawn[:-1] * drawn[1:]))
    assert abs(found) < 5.0 * 1.25 / math.sqrt(drawn.size)


def test_the_shape_of_the_levels_is_kept_and_they_are_left_alone():
    channel = Transition.nearest(np.full((3, 3), 1 / 3))
    levels = np.array([[0, 1], [2, 0]])
    drawn = channel.draw(sf.Seeded(1).stream(b""), levels)
    assert drawn.shape == levels.shape
    assert levels.tolist() == [[0, 1], [2, 0]]


def test_a_certain_level_leaves_one_count_to_each_other():
    """ε ends at log 2⁶⁴, whatever is asked for."""
    channel = Transition.nearest(np.eye(5))
    assert channel.counts.tolist() == [[TOTAL - 4 if x == y else 1 for y in range(5)] for x in range(5)]
    assert channel.epsilon == pytest.approx(64 * math.log(2.0), rel=1e-12)


@pytest.mark.parametrize(
    "probabilities",
    [
        np.full((2, 2), 0.6),
        np.array([[1.5, -0.5], [0.5, 0.5]]),
        np.array([[np.nan, 1.0], [0.5, 0.5]]),
        np.array([[np.inf, 1.0], [0.5, 0.5]]),
        np.full((2, 3), 1 / 3),
        np.ones((1, 1)),
        np.full(4, 0.25),
    ],
)
def test_what_is_no_channel_is_refused(probabilities):
    with pytest.raises(BadInput, match=r"^a (row of a )?transition matrix .*\.$"):
        Transition.nearest(probabilities)
