"""Neighbourhoods and distances against brute force in float64 and SciPy's Spearman correlation."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import cdist, pdist
from scipy.stats import spearmanr
from sklearn.datasets import load_digits

from sfumato.errors import BadInput
from sfumato.utility.distances import Nearest, Points, sweep
from sfumato.utility.structure_measures import structure

DIGITS = load_digits().data
LARGE = 2100  # rows beyond which distances are put into bins


def brute(X):
    """The 20 nearest neighbours by float64 differences, equal distances in the order of rows."""
    squared = cdist(X, X, "sqeuclidean")
    np.fill_diagonal(squared, np.inf)
    return np.argsort(squared, axis=1, kind="stable")[:, :20]


def overlaps(X, Y):
    pairs = list(zip(brute(X), brute(Y), strict=True))
    return {k: np.array([len({*a[:k]} & {*b[:k]}) / k for a, b in pairs]) for k in (5, 10, 20)}


def clusters(rng, rows, columns, spread):
    return rng.choice([-1.0, 1.0], size=(rows, 1)) + spread * rng.standard_normal((rows, columns))


SPACES = {
    "digits": lambda rng: DIGITS[:500],
    "digits as bytes": lambda rng: DIGITS[:300].astype(np.uint8),
    "float32": lambda rng: rng.standard_normal((300, 20)).astype(np.float32),
    "noise in many columns": lambda rng: rng.standard_normal((300, 900)),
    "one column": lambda rng: rng.standard_normal(200),
    "pictures": lambda rng: rng.standard_normal((100, 6, 5, 3)),
    "far from the origin": lambda rng: 1e7 + rng.standard_normal((300, 5)),
    "tight clusters far apart": lambda rng: clusters(rng, 300, 6, 1e-5),
    "binary": lambda rng: rng.integers(0, 2, (300, 10)),
    "true and false": lambda rng: rng.integers(0, 2, (100, 30)).astype(bool),
    "few distinct rows": lambda rng: rng.standard_normal((7, 40))[rng.integers(0, 7, 200)],
    "an outlier": lambda rng: np.vstack([rng.standard_normal((200, 4)), np.full((1, 4), 1e6)]),
    "huge": lambda rng: 1e300 * rng.standard_normal((100, 4)),
    "tiny": lambda rng: 1e-300 * rng.standard_normal((100, 4)),
    "as many neighbours as rows allow": lambda rng: rng.standard_normal((21, 3)),
}


@pytest.mark.parametrize("name", SPACES)
def test_neighbours_are_those_of_exact_distances(name):
    rng = np.random.default_rng(3)
    X = SPACES[name](rng)
    flat = X.reshape(len(X), -1).astype(np.float64)
    flat = flat / np.abs(flat).max()
    Y = flat @ rng.standard_normal((flat.shape[1], 3)) + 0.01 * rng.standard_normal((len(X), 3))
    found = structure(X, Y)
    for k, expected in overlaps(flat, Y).items():
        assert np.array_equal(found.by_row[k], expected)
        assert found.overlap[k] == pytest.approx(expected.mean(), abs=1e-12)
        assert found.chance[k] == k / (len(X) - 1)
    assert found.spearman == pytest.approx(spearmanr(pdist(flat), pdist(Y)).statistic, abs=1e-9)
    assert (found.spearman_error, found.sampled, found.pairs) == (0.0, False, len(X) * (len(X) - 1) // 2)
    assert np.array_equal(found.rows, np.arange(len(X)))


def test_neighbours_that_float32_cannot_tell_apart():
    """Twenty centres, thirty satellites around each, whose distances differ by 1e-8 of themselves."""
    rng = np.random.default_rng(8)
    centres = 10.0 * rng.standard_normal((20, 40))
    ways = rng.standard_normal((20, 30, 40))
    lengths = 1.0 + 1e-8 * np.stack([rng.permutation(30) for _ in range(20)])
    satellites = centres[:, None] + ways / np.linalg.norm(ways, axis=2, keepdims=True) * lengths[:, :, None]
    X = np.vstack([centres, satellites.reshape(-1, 40)])
    points = Points.of(X)
    assert points.moved.dtype == np.float32
    nearest = Nearest(points, len(X), [5, 10, 20])
    sweep(points, len(X), [nearest.visit], lambda share: None)
    expected = brute(X)
    for centre in range(20):
        order = 20 + 30 * centre + np.argsort(lengths[centre])
        assert np.array_equal(expected[centre], order[:20])
    for k in (5, 10, 20):
        assert np.array_equal(np.sort(nearest.found[:, :k]), np.sort(expected[:, :k]))


def large_spaces(name):
    rng = np.random.default_rng(4)
    if name == "bell-shaped":
        X = rng.standard_normal((LARGE, 12))
        return X, X + rng.standard_normal(X.shape)
    if name == "skewed":
        X = np.exp(1.5 * rng.standard_normal((LARGE, 3)))
        return X, X + rng.standard_normal(X.shape)
    if name == "around a circle":
        angle = np.sort(rng.random(LARGE))
        return angle, np.column_stack([np.cos(6.3 * angle), np.sin(6.3 * angle)])
    if name == "sorted by class":
        X = np.repeat(np.arange(3.0), LARGE // 3)[:, None] + 0.1 * rng.standard_normal((LARGE, 5))
        return X, np.sqrt(np.abs(X))
    if name == "binary":
        X = rng.integers(0, 2, (LARGE, 12))
        return X, X ^ (rng.random(X.shape) < 0.1)
    if name == "tight clusters far apart":
        X = clusters(rng, LARGE, 6, 1e-6)
        return X, np.tanh(X) + 1e-6 * rng.standard_normal(X.shape)
    assert name == "few distinct rows"
    X = rng.standard_normal((9, 5))[rng.integers(0, 9, LARGE)]
    return X, X + np.where(rng.random((LARGE, 1)) < 0.2, 1.0, 0.0)


@pytest.mark.parametrize(
    ("name", "by_bins"),
    [
        ("bell-shaped", True),
        ("skewed", True),
        ("around a circle", False),
        ("sorted by class", True),
        ("binary", False),
        ("tight clusters far apart", False),
        ("few distinct rows", False),
    ],
)
def test_correlation_of_millions_of_pairs(name, by_bins):
    """Bins where they are fine enough, exact ranks where not; always within 1e-4, and mostly within 3e-6.

    In tight clusters far apart, distances between clusters differ by less than float32 tells apart.
    """
    X, Y = large_spaces(name)
    found = structure(X, Y, neighbours=[5])
    expected = spearmanr(pdist(np.reshape(X, (LARGE, -1))), pdist(Y)).statistic
    assert abs(found.spearman - expected) < (1e-4 if name == "tight clusters far apart" else 3e-6)
    assert (0.0 < found.spearman_error <= 1e-4) if by_bins else found.spearman_error == 0.0


def test_neighbours_of_many_rows():
    X, Y = DIGITS, DIGITS[:, ::2] + np.random.default_rng(0).standard_normal((len(DIGITS), 32))
    found = structure(X, Y)
    for k, expected in overlaps(X, Y).items():
        assert np.array_equal(found.by_row[k], expected)


def test_rows_drawn_give_what_all_rows_would():
    rng = np.random.default_rng(5)
    X = rng.standard_normal((700, 8))
    Y = X + rng.standard_normal(X.shape)
    whole, drawn = structure(X, Y), structure(X, Y, most_rows=150, seed=7)
    assert drawn.sampled
    assert len(set(drawn.rows)) == 150
    assert drawn.pairs == 150 * 149 // 2
    for k in (5, 10, 20):
        shares = whole.by_row[k][drawn.rows]
        assert np.array_equal(drawn.by_row[k], shares)
        assert drawn.overlap_standard_error[k] == pytest.approx(shares.std(ddof=1) / 150**0.5)
    some = drawn.rows
    assert drawn.spearman == pytest.approx(spearmanr(pdist(X[some]), pdist(Y[some])).statistic, abs=1e-9)
    again = structure(X, Y, most_rows=150, seed=7)
    assert np.array_equal(again.rows, drawn.rows)
    assert not np.array_equal(structure(X, Y, most_rows=150, seed=8).rows, drawn.rows)


def test_standard_error_of_drawn_rows_errs_upwards_but_not_far():
    rng = np.random.default_rng(6)
    X = rng.standard_normal((1500, 2)) * np.array([3.0, 1.0])
    Y = X + rng.standard_normal(X.shape)
    found = [structure(X, Y, neighbours=[5], most_rows=200, seed=seed) for seed in range(25)]
    spread = np.std([one.spearman for one in found], ddof=1)
    assert spread < 1.2 * np.mean([one.spearman_standard_error for one in found]) < 5 * spread


def test_standard_error_from_bins_is_that_of_the_groups():
    X, Y = large_spaces("bell-shaped")
    X, Y = np.vstack([X, X[:50] + 0.5]), np.vstack([Y, Y[:50]])
    found = structure(X, Y, neighbours=[5], most_rows=LARGE)
    groups = np.array_split(found.rows, 10)
    values = [spearmanr(pdist(X[rows]), pdist(Y[rows])).statistic for rows in groups]
    assert found.spearman_standard_error == pytest.approx(np.std(values, ddof=1) / 10**0.5, rel=1e-3)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(22, 60), st.integers(1, 6), st.floats(1e-6, 1e6))
def test_turning_moving_and_scaling_change_nothing(seed, rows, columns, scale):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((rows, columns))
    turn = np.linalg.qr(rng.standard_normal((columns, columns)))[0]
    found = structure(X, scale * (X @ turn + rng.standard_normal(columns)))
    assert found.overlap == {5: 1.0, 10: 1.0, 20: 1.0}
    assert found.spearman == pytest.approx(1.0, abs=1e-6)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(6, 40), st.integers(1, 4))
def test_overlap_is_symmetric_and_at_most_one(seed, rows, columns):
    rng = np.random.default_rng(seed)
    X, Y = rng.integers(0, 3, (rows, columns)), rng.standard_normal((rows, 2))
    X[0] = 5
    X[1] = -4
    one, other = structure(X, Y, neighbours=(1, 5)), structure(Y, X, neighbours=(5, 1))
    assert one.overlap == pytest.approx(other.overlap)
    assert one.spearman == pytest.approx(other.spearman, abs=1e-12)
    assert all(0.0 <= share <= 1.0 for share in one.overlap.values())
    assert structure(X, X, neighbours=(1, 5)).overlap == {1: 1.0, 5: 1.0}


def test_inputs_are_left_alone_and_progress_is_told():
    X = DIGITS[:100].copy()
    Y = X[:, :9] + 1.0
    told = []
    structure(X, Y, report=lambda stage, share: told.append((stage, share)))
    assert np.array_equal(X, DIGITS[:100])
    assert np.array_equal(Y, DIGITS[:100, :9] + 1.0)
    shares = [share for _, share in told]
    assert shares == sorted(shares)
    assert shares[-1] == 1.0


def test_standard_errors_are_those_of_drawn_rows():
    X = DIGITS[:200]
    whole = structure(X, X + 1.0)
    assert whole.overlap == {5: 1.0, 10: 1.0, 20: 1.0}
    assert (len(whole.rows), whole.sampled, whole.spearman_standard_error) == (200, False, None)
    drawn = structure(X, X[:, ::3], most_rows=120)
    assert set(drawn.overlap_standard_error) == {5, 10, 20}
    assert drawn.spearman_standard_error > 0.0


@pytest.mark.parametrize(
    ("original", "released", "options", "sentence"),
    [
        (np.ones((5, 2)), np.ones((4, 2)), {}, "original has 5 rows and the release 4"),
        (
            DIGITS[:50],
            np.full((50, 3), 2.5),
            {},
            "all distances between rows of the released array are equal",
        ),
        (np.full(50, 0.1), DIGITS[:50], {}, "all distances between rows of the original array are equal"),
        (np.eye(30) * 0.1, DIGITS[:30], {}, "original array are equal"),
        (np.zeros(LARGE), np.arange(LARGE), {}, "original array are equal"),
        (np.arange(LARGE), np.full((LARGE, 2), 0.3), {}, "released array are equal"),
        (DIGITS[:20], DIGITS[:20], {}, "20 rows cannot have 20 neighbours each; give at least 21"),
        (DIGITS[:2], DIGITS[:2], {"neighbours": [1]}, "give at least 3"),
        (DIGITS[:50], DIGITS[:50], {"neighbours": []}, "whole numbers of at least 1"),
        (DIGITS[:50], DIGITS[:50], {"neighbours": [0]}, "whole numbers of at least 1"),
        (DIGITS[:50], DIGITS[:50], {"neighbours": [2.5]}, "whole numbers of at least 1"),
        (DIGITS[:50], DIGITS[:50], {"most_rows": 99}, "`most_rows` must be a whole number, 100 or more"),
    ],
)
def test_what_has_no_structure_is_refused(original, released, options, sentence):
    with pytest.raises(BadInput, match=sentence):
        structure(original, released, **options)
