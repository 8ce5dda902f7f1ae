"""Chosen random words: the answer is the true quantile, correctly rounded, whichever attempt finds it."""

import math

import mpmath
import numpy as np
import pytest
from fed import Fed, nearest, true_probability, true_quantile

from sfumato.noise import LAPLACE, NORMAL, Rounded, Seeded, Stream
from sfumato.noise.grid import _exactly

LAWS = [NORMAL, LAPLACE]
LAST = 2**64 - 1


@pytest.mark.parametrize("scale", [0.01, 1.0, 4096.0, 2.0**22, 2.0**40])
@pytest.mark.parametrize("law", LAWS, ids=["normal", "laplace"])
@pytest.mark.parametrize(
    "word", [1, 2, 7, 8, 9, 2**48 - 1, 2**48, 2**63 - 1, 2**63, LAST - 8, LAST - 2, LAST - 1]
)
def test_extreme_words_give_the_rounded_quantile(law, scale, word):
    """No chance involved: the further bits are chosen, so u is known to 128 bits before it is rounded."""
    further = 0x9E3779B97F4A7C15
    stream = Fed([word, further])
    drawn = Rounded(law, [scale]).draw(stream, 1)[0, 0]
    longer = (word << 64) | further
    ends = [rounded_quantile(law, scale, at, 128) for at in (longer, longer + 1)]
    assert ends[0] == ends[1] == drawn
    assert stream.further == 0


@pytest.mark.parametrize("scale", [0.01, 1.0, 4096.0, 2.0**22])
@pytest.mark.parametrize("law", LAWS, ids=["normal", "laplace"])
@pytest.mark.parametrize("word", [0, LAST])
def test_an_end_cell_takes_more_bits_and_reaches_beyond_every_cut(law, scale, word):
    """No chance involved: an end cell is unbounded, so it is never rounded from 64 bits alone."""
    inner = 3 if word == 0 else LAST - 3
    stream = Fed([word, inner, 0x0123456789ABCDEF])
    drawn = Rounded(law, [scale]).draw(stream, 1)[0, 0]
    longer = (((word << 64) | inner) << 64) | 0x0123456789ABCDEF
    assert drawn == rounded_quantile(law, scale, longer, 192)
    # A 53-bit uniform ends at 8.29 deviations and a 64-bit one at 9.08; this one lies far outside both.
    assert scale < 1 or abs(drawn) > 12.0 * scale


def test_no_cut_at_the_end_of_a_53_bit_uniform():
    """No chance involved: words down to one part in 2¹²⁸ reach 13.1 deviations."""
    reached = [
        -Rounded(NORMAL, [4096.0]).draw(Fed([0, 1 << (63 - k), 0]), 1)[0, 0] / 4096.0 for k in range(64)
    ]
    assert reached == sorted(reached)
    assert reached[0] > 9.0
    assert 13.0 < reached[-1] < 13.2


@pytest.mark.parametrize("law", LAWS, ids=["normal", "laplace"])
@pytest.mark.parametrize("scale", [0.3, 7.5, 4096.0, 2.0**30])
@pytest.mark.parametrize("share", [-2.5, -1.0, -0.1, 0.4, 3.0])
def test_a_word_on_a_rounding_boundary_is_decided_by_its_further_bits(law, scale, share):
    """No chance involved: one first word rounds down or up as the next falls below or above the boundary."""
    boundary = math.floor(share * scale) + 0.5
    with mpmath.workprec(400):
        place = true_probability(law.name, mpmath.mpf(boundary) / mpmath.mpf(scale)) * (1 << 64)
        word = int(mpmath.floor(place))
        split = int(mpmath.floor((place - word) * (1 << 64)))
    assert 0 < split < LAST
    below = Fed([word, split - 1])
    above = Fed([word, split + 1])
    assert Rounded(law, [scale]).draw(below, 1)[0, 0] == boundary - 0.5
    assert Rounded(law, [scale]).draw(above, 1)[0, 0] == boundary + 0.5
    assert below.further == above.further == 0
    # Where 128 bits leave it open, more are taken: the word of the boundary itself, and whatever follows.
    undecided = Fed([word, split])
    assert Rounded(law, [scale]).draw(undecided, 1)[0, 0] in (boundary - 0.5, boundary + 0.5)
    assert undecided.further >= 1


@pytest.mark.parametrize("law", LAWS, ids=["normal", "laplace"])
@pytest.mark.parametrize(
    "scales", [[0.05], [0.9], [13.7], [4096.0], [2.0**22], [1.0, 2.0], [4096.0, 3000.0, 70.0]]
)
def test_table_doubles_and_exact_arithmetic_agree(law, scales):
    """No chance of a false alarm: the three attempts answer the same words, and right answers are unique."""
    rungs, count = len(scales), 20_000
    words = Seeded(11).stream(law.name.encode()).words(rungs * count).reshape(rungs, count).copy()
    noise = Rounded(law, scales)
    by_table = noise.draw(Fed(words.ravel()), count)
    by_doubles = noise._from_doubles(words, np.ones(count), Stream(), np.arange(count), count)
    np.testing.assert_array_equal(by_table, by_doubles)
    # Held against exact arithmetic where they could err: next to where a tier rounds the other way.
    p = np.clip(words / 2.0**64, 2.0**-64, 1.0 - 2.0**-53)
    z = np.where(p < 0.5, law.quantile(p), -law.quantile(1.0 - p))
    sums = np.cumsum(z * np.array(scales)[:, None], axis=0)
    tested = np.argsort(np.abs(sums - np.floor(sums) - 0.5).min(axis=0))[:500]
    exact = np.array([_exactly(law, [int(w) for w in words[:, i]], scales, Stream()) for i in tested]).T
    np.testing.assert_array_equal(by_table[:, tested], exact)


@pytest.mark.parametrize("law", LAWS, ids=["normal", "laplace"])
def test_each_tier_is_rounded_once_from_the_real_sum(law):
    """No chance of a false alarm: random words, the sums taken in 400 bits by another formula."""
    scales, count = [0.7, 1.9, 0.4], 300
    words = Seeded(5).stream(law.name.encode()).words(3 * count).reshape(3, count).copy()
    drawn = Rounded(law, scales).draw(Fed(words.ravel()), count)
    separately, totals = np.zeros(count), [mpmath.mpf(0)] * count
    for tier in range(3):
        for column in range(count):
            rung = true_quantile(law.name, (2 * int(words[tier, column]) + 1, 65))
            with mpmath.workprec(400):
                totals[column] += rung * mpmath.mpf(scales[tier])
        np.testing.assert_array_equal(drawn[tier], [nearest(total) for total in totals])
        separately += Rounded(law, [scales[tier]]).draw(Fed(words[tier]), count)[0]
        if tier:
            assert np.any(separately != drawn[tier])  # adding rounded rungs is another thing


def test_relative_scales_are_rounded_exactly_too():
    """No chance of a false alarm: a factor a draw, through the table and through doubles."""
    count = 20_000
    words = Seeded(8).stream(b"relative").words(count).copy()
    factors = np.linspace(0.01, 1.0, count)
    drawn = Rounded(NORMAL, [50.0]).draw(Fed(words), count, relative=factors)[0]
    for i in range(0, count, 100):
        scale = 50.0 * factors[i]
        assert drawn[i] == _exactly(NORMAL, [int(words[i])], [scale], Stream())[0]


def rounded_quantile(law, scale, numerator, bits):
    with mpmath.workprec(900):
        return nearest(true_quantile(law.name, (numerator, bits), 800) * mpmath.mpf(scale))
