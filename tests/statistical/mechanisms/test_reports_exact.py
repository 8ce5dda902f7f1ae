"""The law of what PrivUnit draws, held against the law that its ε is computed from.

On a coarse grid of few points the public law can be summed up point by point, so that every part of the
drawing is checked: which points belong to a cap, the lines, which of their points is drawn, the coin. What
depends on the fine grid itself, the ratio of the probabilities of two points, is checked by mpmath.
"""

import math

import mpmath
import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import binom, chi2, kstest, truncnorm

import sfumato as sf
from sfumato.mechanisms import privunit
from sfumato.mechanisms.privunit import HalfLine, half_line

#: Sizes of K, for tables of the fine grid.
SIZES = (2.0**14 - 14.0, 2.0**14 + 14.0)
STARTS = [-2.74, -0.4, 0.0, 0.4, 2.74, 8.0]
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
    monkeypatch.setattr(privunit, "STEP", 2.0**-3)
    monkeypatch.setattr(privunit, "_DIRECTION", 4.0)
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
    drawn = privunit.draw_sides(
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


@pytest.mark.parametrize("direction", [(1.0, 0.0), (0.6, 0.8), (-0.7, -0.7), (0.31, 0.95)])
@pytest.mark.parametrize("inside", [True, False])
def test_the_law_of_a_side_summed_up_over_all_lines_is_the_public_one(coarse, monkeypatch, direction, inside):
    """No chance: every vector takes every place of its line, with the probability that the coin gives it.

    What remains is the fourth order of the grid, h⁴(x⁴/2880 + x²/720); a wrong residue, a biased drop or a
    wrong flatness would show as h² or more.
    """
    chosen, threshold = {}, 0.9

    def every_place(self, stream, nearest, squares):
        if not nearest.size:
            return nearest, np.ones(0, dtype=bool)
        along = nearest + chosen["place"] * squares
        weight = float(self.weights[chosen["place"]])
        exponent = -0.5 * (1.0 - self.step**2 / 12.0) * np.square(along * self.step) / squares
        coin = np.exp(exponent) * self.scale / weight
        assert coin.max() <= 1.0
        chosen["chance"] = coin * weight * 2.0**-64
        return along, np.ones(nearest.size, dtype=bool)

    monkeypatch.setattr(HalfLine, "draw", every_place)
    points, chances = public_law(coarse, 9.0)
    width, K = round(math.sqrt(len(points))), np.rint(np.array(direction) * 4.0)
    sides = privunit._Sides(np.tile(K, (len(points), 1)), np.full(len(points), inside), threshold, 0.0)
    law = np.zeros(len(points))
    places = min(len(sides.lines[inside].weights), math.ceil(19.0 / (coarse * np.linalg.norm(K))))
    for place in range(places):
        chosen["place"] = place
        moved = points.copy()
        kept = sides.place(None, moved, slice(None)) & (np.abs(moved) <= width // 2).all(axis=1)
        reached = ((moved[kept] + width // 2) @ [width, 1]).astype(int)
        np.add.at(law, reached, (chances * chosen["chance"])[kept])
    core = coarse * np.linalg.norm(points, axis=1) <= 4.0
    wanted = (points @ K >= threshold * np.linalg.norm(K) / coarse) == inside
    assert np.array_equal(law[core] > 0.0, wanted[core])
    ratio = np.log(law[core & wanted] / chances[core & wanted])
    assert np.ptp(ratio) <= 2.0 * coarse**4 * (4.0**4 / 2880.0 + 4.0**2 / 720.0)


def test_rows_with_different_directions_and_sides_do_not_disturb_each_other(coarse):
    """Alternating rows in one call; each side's share of points beyond half the length, false alarm 1e-6."""
    directions = np.tile([[1.0, 0.0], [0.0, 1.0]], (50_000, 1))
    inside = np.tile([True, False], 50_000)
    drawn = privunit.draw_sides(sf.Seeded(2).stream(b"rows"), directions, inside, 1.0, 0.0)
    assert (drawn[::2, 0] >= 1.0).all()
    assert (drawn[1::2, 1] < 1.0).all()
    points, chances = public_law(coarse)
    other = chances[points[:, 1] * coarse >= 0.5].sum()
    count = int((drawn[::2, 1] >= 0.5).sum())
    assert binom.isf(1 - 5e-7, 50_000, other) <= count <= binom.isf(5e-7, 50_000, other)


def test_the_probability_of_a_point_is_what_lines_are_weighed_by_on_the_fine_grid():
    """log B(v) is a constant minus (1 − h²/12)·h²‖v‖²/2, within 10⁻¹³ for all v of length 1034 and less.

    Up to h⁴(x⁴/2800 + x²/300) a value, and Σx⁴ ≤ (Σx²)². By mpmath, to 400 digits, since a cell far out is a
    difference of two tails.
    """
    with mpmath.workdps(400):
        h = mpmath.mpf(privunit.STEP)

        def beside(x):
            cell = mpmath.ncdf(-(x - mpmath.mpf(0.5)) * h) - mpmath.ncdf(-(x + mpmath.mpf(0.5)) * h)
            return mpmath.log(cell) + (1 - h**2 / 12) * (h * x) ** 2 / 2

        middle = beside(0)
        for deviations in (0.5, 1.0, 3.0, 8.0, 40.0, 200.0, 1034.0):
            bound = h**4 * (mpmath.mpf(deviations) ** 4 / 2800 + mpmath.mpf(deviations) ** 2 / 300)
            assert abs(beside(round(deviations / privunit.STEP)) - middle) < bound
        assert h**4 * (mpmath.mpf(1034) ** 4 / 2800 + mpmath.mpf(1034) ** 2 / 300) < 1e-13
    assert math.hypot(privunit.LONGEST, 9.0) < 1034.0


@pytest.mark.parametrize("sizes", [SIZES, (2.0**14 - 256.0, 2.0**14 + 256.0)])
@pytest.mark.parametrize("start", STARTS)
def test_no_coin_exceeds_one_and_every_point_can_be_drawn(start, sizes):
    """Over the first and last places where the i-th point of a line can lie, for the extreme sizes of K."""
    line = half_line(start, privunit.LONGEST, privunit.STEP, sizes)
    weights = [int(weight) for weight in line.weights]
    assert sum(weights) == 2**64
    assert min(weights) >= 1
    assert np.array_equal(np.cumsum(line.weights[:-1]), line.edges)
    place = np.arange(len(weights))
    for size in (*sizes, 2.0**14):
        for begin in (start / privunit.STEP * size - 1.0, start / privunit.STEP * size + 1.0):
            ends = [(begin + place * size**2) * privunit.STEP / size]
            ends.append(ends[0] + size * privunit.STEP)
            crossed = (ends[0] < 0.0) & (ends[1] > 0.0)
            nearest = np.where(crossed, 0.0, np.minimum(*np.abs(ends)))
            with np.errstate(under="ignore"):
                assert (line.scale * np.exp(-0.5 * nearest**2) < np.array(weights, dtype=float)).all()
            assert ends[1][-1] > privunit.LONGEST


@pytest.mark.parametrize("start", STARTS)
def test_points_of_a_line_are_drawn_as_the_normal_law_says(start):
    """χ² over the places of 300,000 draws on one line, dropped ones included; false alarm 1e-6 each.

    What is dropped is what ``tries`` says, so a line is kept with the right probability too: averaged over
    all places where lines begin, since one line alone has more or less of the half-line.
    """
    line = half_line(start, privunit.LONGEST, privunit.STEP, SIZES)
    square, begin = 2.0**28 - 12_345.0, np.ceil(start / privunit.STEP * 2.0**14)
    offset = np.floor(0.37 * square)
    stream = sf.Seeded(9).stream(b"line %r" % start)
    along, kept = line.draw(stream, np.full(DRAWS, begin + offset), np.full(DRAWS, square))
    place = np.rint((along - begin - offset) / square).astype(np.int64)
    x = (begin + offset + np.arange(len(line.weights)) * square) * privunit.STEP / math.sqrt(square)
    with np.errstate(under="ignore"):
        chance = line.scale * 2.0**-64 * np.exp(-0.5 * x**2)
    expected = DRAWS * np.append(chance, 1.0 - chance.sum())
    seen = np.append(np.bincount(place[kept], minlength=len(chance)), (~kept).sum())
    common = expected >= 20.0
    pooled = np.append(expected[common], expected[~common].sum())
    counted = np.append(seen[common], seen[~common].sum())
    statistic = float((np.square(counted - pooled) / np.maximum(pooled, 1e-9)).sum())
    assert statistic < chi2.isf(1e-6, pooled.size - 1)
    everywhere = begin + np.floor(square * (np.arange(DRAWS) + 0.5) / DRAWS)
    held = int(line.draw(stream, everywhere, np.full(DRAWS, square))[1].sum())
    assert binom.isf(1 - 5e-7, DRAWS, 0.999 / line.tries) <= held
    assert held <= binom.isf(5e-7, DRAWS, min(1.0, 1.001 / line.tries))


def test_a_coin_is_decided_as_its_exact_weight_says():
    """Words beside the weight are decided at once, the word that holds it by further bits, evenly."""
    line = half_line(2.0, privunit.LONGEST, privunit.STEP, SIZES)
    along, square, weight = 9_876_543_217, 2**28 + 321, int(line.weights[5])
    with mpmath.workdps(60):
        h = mpmath.mpf(privunit.STEP)
        scaled = mpmath.exp(-(1 - h**2 / 12) * (h * along) ** 2 / (2 * square)) * line.scale / weight * 2**64
        word, share = int(scaled), float(scaled - int(scaled))
    stream = sf.Seeded(1).stream(b"coin")
    assert line._kept_exactly(stream, word - 1, along, square, weight)
    assert not line._kept_exactly(stream, word + 1, along, square, weight)
    held = sum(line._kept_exactly(stream, word, along, square, weight) for _ in range(2000))
    assert binom.isf(1 - 5e-7, 2000, share) <= held <= binom.isf(5e-7, 2000, share)


@pytest.mark.parametrize("epsilon", [1.0, 8.0])
def test_reports_on_the_fine_grid_fall_as_the_cap_and_the_coin_say(epsilon):
    """d = 784; the share of reports in the cap, where they lie along the record, and their length across it.

    Noise or a cap that were 20% off would fail each of the three; false alarm 1e-6 each.
    """
    rows, columns = 6_000, 784
    u = np.random.default_rng(5).standard_normal(columns)
    u = np.rint(u / np.linalg.norm(u) * 2.0**14)
    u /= np.linalg.norm(u)
    mechanism = sf.PrivUnitG(epsilon, randomness=sf.Seeded(11))
    cap = mechanism.cap(columns)
    V = mechanism.release(np.tile(u, (rows, 1))).value * cap.mean
    along = V @ u
    inside = along >= cap.threshold
    share = cap.coin / 2.0**64
    assert binom.isf(1 - 5e-7, rows, share) <= inside.sum() <= binom.isf(5e-7, rows, share)
    assert kstest(along[inside], truncnorm(cap.threshold, np.inf).cdf).pvalue > 1e-6
    assert kstest(along[~inside], truncnorm(-np.inf, cap.threshold).cdf).pvalue > 1e-6
    across = float(np.square(V).sum() - np.square(along).sum())
    freedom = rows * (columns - 1)
    assert chi2.isf(1 - 5e-7, freedom) <= across <= chi2.isf(5e-7, freedom)


@pytest.mark.parametrize(("columns", "short", "long"), [(784, 350.0, 370.0), (70_000, 1015.0, 1030.0)])
def test_vectors_that_are_too_long_are_drawn_again(columns, short, long):
    """On either side of a cap, among 40 draws of a point on the line through one vector."""
    direction = np.zeros((2, columns))
    direction[:, 0] = 1.0
    sides = privunit._Sides(direction * 2.0**14, np.array([True, False]), 0.0, 0.0)
    for length, kept in ((short, True), (long, False)):
        v = np.zeros((2, columns))
        v[:, 1] = length / privunit.STEP
        fell = np.zeros(2, dtype=bool)
        for trial in range(40):
            fell |= sides.place(sf.Seeded(trial).stream(b"long"), v.copy(), slice(None))
        assert fell.tolist() == [kept, kept]


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
    V = sf.noise.gaussian_noise(1.0, (total, columns), grid=privunit.STEP)
    lengths = np.linalg.norm(V, axis=1)
    V, lengths = V[lengths >= shortest], lengths[lengths >= shortest]
    fell = int((V @ K / np.linalg.norm(K) >= cap.threshold * (lengths if shortest else 1.0)).sum())
    assert binom.isf(1 - 5e-7, len(V), low) <= fell <= binom.isf(5e-7, len(V), high)


def test_the_most_columns_are_drawn_like_any_other():
    """The squared length of a vector has mean 2¹⁸ and deviation √2·2⁹; false alarm below 1e-6."""
    columns = privunit.MOST_COLUMNS
    mechanism = sf.PrivUnitG(1.0)
    Z = mechanism.release(np.ones((4, columns))).value
    squares = np.square(Z * mechanism.cap(columns).mean).sum(axis=1)
    assert np.abs(squares - columns).max() < 6.0 * math.sqrt(2.0 * columns)


def test_proposals_hit_their_cap_as_often_as_was_planned(monkeypatch):
    """No cap is chosen that takes more than 500 proposals a vector, however large ε is."""
    drawn = []
    original = privunit.Rounded.draw
    monkeypatch.setattr(
        privunit.Rounded,
        "draw",
        lambda self, stream, count: drawn.append(count) or original(self, stream, count),
    )
    for columns in (3, 8, 40):
        drawn.clear()
        sf.PrivUnit(1e3).release(np.ones((400, columns)))
        # A mean of 400 geometric numbers lies below 1.3 times what is expected but for 1e-6.
        assert sum(drawn) / columns / 400 < 1.3 * privunit._MOST_PROPOSALS
