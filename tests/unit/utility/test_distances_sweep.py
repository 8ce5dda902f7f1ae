"""Swept distances lie within the bound that is promised of them, and every row is shown once."""

import numpy as np
import pytest

from sfumato.utility.distances import Points, sweep


def swept(points, queries):
    shown = np.full((queries, len(points)), np.nan)

    def visit(squared, first):
        assert squared.dtype == np.float32
        assert np.isnan(shown[first : first + len(squared)]).all()
        shown[first : first + len(squared)] = squared

    shares = []
    sweep(points, queries, [visit], shares.append)
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
    return shown


CASES = {
    "noise": (lambda rng: rng.standard_normal((600, 300)), np.float32),
    "pictures": (lambda rng: rng.integers(0, 256, (530, 784), dtype=np.uint8), np.float32),
    "skewed": (lambda rng: np.exp(3 * rng.standard_normal((600, 5))), None),
    "far away": (lambda rng: 1e5 + rng.standard_normal((600, 7)), np.float32),
    "tight": (
        lambda rng: rng.choice([-1.0, 1.0], (600, 1)) + 1e-7 * rng.standard_normal((600, 4)),
        np.float64,
    ),
    "equal rows": (lambda rng: np.full((5, 3), 0.1), np.float32),
    "wide": (lambda rng: rng.standard_normal((20, 60_000)), np.float64),
}


@pytest.mark.parametrize("name", CASES)
def test_distances_are_within_their_bound(name):
    make, kind = CASES[name]
    values = make(np.random.default_rng(1))
    points = Points.of(values)
    assert kind is None or points.moved.dtype == kind
    found = swept(points, len(values))
    rows, others = (index.ravel() for index in np.indices(found.shape))
    exact = points.exact(rows, others).reshape(found.shape)
    scaled = np.ldexp(values.astype(np.float64), -points.exponent)
    direct = ((scaled[:40, None] - scaled[None, :40]) ** 2).sum(axis=2)
    assert np.allclose(exact[:40, :40], direct, rtol=1e-13, atol=0.0)
    kappa, rate = points.error
    assert (np.abs(found - exact) <= kappa * points.norms[:, None].astype(float) + rate * exact).all()


def test_the_first_rows_alone_can_be_asked():
    values = np.random.default_rng(2).standard_normal((700, 6))
    points = Points.of(values)
    assert np.array_equal(swept(points, 130), swept(points, 700)[:130])


@pytest.mark.parametrize("offset", [0, 3, -1000])
def test_distances_between_whole_numbers_are_exact(offset):
    values = np.random.default_rng(3).integers(0, 17, (400, 64)) + offset
    points = Points.of(values)
    assert points.moved.dtype == np.float32
    exact = ((values[:, None, :] - values[None, :, :]) ** 2).sum(axis=2)
    assert np.array_equal(np.ldexp(swept(points, 400), 2 * points.exponent), exact)
