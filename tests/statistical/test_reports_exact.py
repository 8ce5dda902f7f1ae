"""The law of what PrivUnit draws, held against the law that its ε is computed from.

On a coarse grid of few points the public law can be summed up point by point, so that every part of the
drawing is checked: which points belong to a cap, the turning of vectors, the shift, and the acceptance. What
depends on the fine grid itself, the ratio of the probabilities of two points, is checked by mpmath.
"""

import math

import mpmath
import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import binom, chi2

import sfumato as sf
from sfumato.mechanisms import caps, privunit

DRAWS = 300_000
# Direction, threshold, public length (0: lengths do not matter). The first needs no shift, others several.
CASES = [
    ((0.6, 0.8), 0.0, 0.0),
    ((0.6, 0.8), 0.31, 0.0),
    ((-0.6, 0.8), 1.52, 0.0),
    ((0.0, -1.0), 2.6, 0.0),
    ((1.0, 0.0), 0.0, 0.7),
    ((0.6, -0.8), 0.33, 0.7),
    ((-0.7, -0.7), 0.71, 1.3),
    ((0.1, 1.0), 0.93, 1.9),
]


@pytest.fixture
def coarse(monkeypatch):
    """A grid of eight points a deviation, and directions of small whole numbers."""
    monkeypatch.setattr(caps, "STEP", 2.0**-3)
    monkeypatch.setattr(caps, "_DIRECTION", 4.0)
    return 2.0**-3


def public_law(step, reach=7.0):
    """The points of the grid (n, 2) in whole numbers, and the probability of each under B."""
    axis = np.arange(-round(reach / step), round(reach / step) + 1.0)
    each = ndtr((axis + 0.5) * step) - ndtr((axis - 0.5) * step)
    points = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
    return points, np.outer(each, each).reshape(-1)


@pytest.mark.parametrize("inside", [True, False])
@pytest.mark.parametrize(("direction", "threshold", "shortest"), CASES)
def test_every_point_is_drawn_as_often_as_the_public_law_says(coarse, direction, threshold, shortest, inside):
    """χ² over all points with 20 and more expected of 300,000 draws, the others pooled; false alarm 1e-6."""
    direction = np.array(direction) / np.linalg.norm(direction)
    points, chances = public_law(coarse)
    K = np.rint(direction * 4.0)
    lengths = coarse * np.linalg.norm(points, axis=1)
    reach = threshold * np.linalg.norm(K) / coarse * (lengths if shortest else 1.0)
    wanted = ((points @ K >= reach) == inside) & (lengths >= shortest)
    expected = np.where(wanted, chances, 0.0)
    expected *= DRAWS / expected.sum()
    stream = sf.Seeded(17).stream(b"coarse")
    drawn = caps.draw_sides(
        stream, np.tile(direction, (DRAWS, 1)), np.full(DRAWS, inside), threshold, shortest
    )
    cells = np.rint(drawn / coarse)
    assert np.array_equal(cells * coarse, drawn)
    width = round(math.sqrt(len(points)))
    places = ((cells + width // 2) @ [width, 1]).astype(np.int64)
    seen = np.bincount(places, minlength=len(points)).astype(float)
    assert not seen[~wanted].any()
    common = expected >= 20.0
    pooled = np.append(expected[common], expected[~common].sum())
    counted = np.append(seen[common], seen[~common].sum())
    statistic = float((np.square(counted - pooled) / np.maximum(pooled, 1e-9)).sum())
    assert statistic < chi2.isf(1e-6, pooled.size - 1)


def test_rows_with_different_directions_and_sides_do_not_disturb_each_other(coarse):
    """Alternating rows in one call; each side's share of points beyond half the length, false alarm 1e-6."""
    directions = np.tile([[1.0, 0.0], [0.0, 1.0]], (50_000, 1))
    inside = np.tile([True, False], 50_000)
    drawn = caps.draw_sides(sf.Seeded(2).stream(b"rows"), directions, inside, 1.0, 0.0)
    assert (drawn[::2, 0] >= 1.0).all()
    assert (drawn[1::2, 1] < 1.0).all()
    points, chances = public_law(coarse)
    other = chances[points[:, 1] * coarse >= 0.5].sum()
    count = int((drawn[::2, 1] >= 0.5).sum())
    assert binom.isf(1 - 5e-7, 50_000, other) <= count <= binom.isf(5e-7, 50_000, other)


def test_the_acceptance_is_the_ratio_of_two_probabilities_on_the_fine_grid():
    """log B(v) is a constant minus (1 − h²/12)·h²‖v‖²/2: over 2¹⁸ values of 40 and less, within 10⁻¹³.

    By mpmath, to 400 digits, since a cell far out is a difference of two tails.
    """
    with mpmath.workdps(400):
        h = mpmath.mpf(caps.STEP)

        def beside(x):
            cell = mpmath.ncdf(-(x - mpmath.mpf(0.5)) * h) - mpmath.ncdf(-(x + mpmath.mpf(0.5)) * h)
            return mpmath.log(cell) + (1 - h**2 / 12) * (h * x) ** 2 / 2

        middle = beside(0)
        for deviations in (0.5, 1.0, 3.0, 8.0, 20.0, 32.0, 40.0):
            assert abs(beside(round(deviations / caps.STEP)) - middle) * caps.MOST_COLUMNS < 1e-13


def test_a_coin_is_decided_as_its_exact_weight_says():
    """Words beside the weight are decided at once, the word that holds it by further bits, evenly."""
    move, beyond = 16.0, 2.0**33 + 7.0
    with mpmath.workdps(60):
        step = mpmath.mpf(caps.STEP) ** 2
        scaled = mpmath.exp(-(1 - step / 12) * step * 16 * (2**33 + 7)) * 2**64
        word, share = int(scaled), float(scaled - int(scaled))
    stream = sf.Seeded(1).stream(b"coin")
    assert caps._accepted_exactly(stream, word - 1, move, beyond)
    assert not caps._accepted_exactly(stream, word + 1, move, beyond)
    held = sum(caps._accepted_exactly(stream, word, move, beyond) for _ in range(2000))
    assert binom.isf(1 - 5e-7, 2000, share) <= held <= binom.isf(5e-7, 2000, share)


def test_coins_fall_as_often_as_their_weight():
    """500,000 coins of each of five weights; false alarm 1e-6 each. No shift, no coin."""
    for beyond in (0.0, 1e6, 2.0**32, 2.0**34, 2.0**37):
        weight = math.exp(-(caps.STEP**2) * 24.0 * beyond)
        fell = int(
            caps._accepted(
                sf.Seeded(5).stream(b"%d" % int(beyond)), np.full(500_000, 24.0), np.full(500_000, beyond)
            ).sum()
        )
        assert binom.isf(1 - 5e-7, 500_000, weight) <= fell <= binom.isf(5e-7, 500_000, weight)
    assert caps._accepted(sf.Seeded(5).stream(b""), np.zeros(9), np.full(9, 1e9)).all()


@pytest.mark.parametrize("kind", [sf.PrivUnit, sf.PrivUnitG])
@pytest.mark.parametrize("columns", [2, 5, 60])
def test_the_probability_of_a_cap_lies_between_its_two_bounds(kind, columns):
    """Public vectors of the fine grid fall in a cap as often as l ≤ B(C) ≤ c say; false alarm 1e-6."""
    cap, shortest = kind(3.0).cap(columns), kind._shortest(columns)
    chance, low, high = kind._probability(cap.threshold, columns)
    assert low < chance < high
    assert high / low < 1.01
    u = np.random.default_rng(columns).standard_normal(columns)
    K = np.rint(u / np.linalg.norm(u) * 2.0**14)
    total = 400_000
    V = sf.noise.gaussian_noise(1.0, (total, columns), grid=caps.STEP)
    lengths = np.linalg.norm(V, axis=1)
    V, lengths = V[lengths >= shortest], lengths[lengths >= shortest]
    fell = int((V @ K / np.linalg.norm(K) >= cap.threshold * (lengths if shortest else 1.0)).sum())
    assert binom.isf(1 - 5e-7, len(V), low) <= fell <= binom.isf(5e-7, len(V), high)


def test_proposals_hit_their_cap_as_often_as_was_planned(monkeypatch):
    """No cap is chosen that takes more than 500 proposals a vector, however large ε is."""
    drawn = []
    original = caps.Rounded.draw
    monkeypatch.setattr(
        caps.Rounded, "draw", lambda self, stream, count: drawn.append(count) or original(self, stream, count)
    )
    for columns in (3, 8, 40):
        drawn.clear()
        sf.PrivUnit(1e3).release(np.ones((400, columns)))
        # A mean of 400 geometric numbers lies below 1.3 times what is expected but for 1e-6.
        assert sum(drawn) / columns / 400 < 1.3 * privunit._MOST_PROPOSALS
