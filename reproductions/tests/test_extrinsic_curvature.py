"""Extrinsic curvature of clouds of points, by the ratio of local variances."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_digits

from sfumato.errors import BadInput
from sfumato_reproductions.curvature_publication.extrinsic_curvature import extrinsic_curvature


def disc(radius, count=2000):
    """Points spread evenly over a disc, along a spiral of golden angles."""
    place = np.arange(count) + 0.5
    way, angle = radius * np.sqrt(place / count), place * np.pi * (3.0 - np.sqrt(5.0))
    return way * np.cos(angle), way * np.sin(angle)


@pytest.mark.parametrize("size", [1.0, 3.0])
@pytest.mark.parametrize(("shape", "divisor"), [("sphere", 24.0), ("cylinder", 32.0)])
def test_a_disc_on_a_curved_surface(shape, divisor, size):
    x, y = disc(0.1)
    squares = x**2 + y**2 if shape == "sphere" else x**2
    points = np.stack([x, y, size - np.sqrt(size**2 - squares)], axis=1)
    found = extrinsic_curvature(points[:200], neighbours=199)
    expected = (0.1**2 * 200 / 2000) / (divisor * size**2)
    np.testing.assert_allclose(found, expected, rtol=0.05)


def test_flat_pieces_have_none():
    x, y = disc(1.0, 300)
    plane = np.stack([x, y, 2.0 * x - y], axis=1)
    assert extrinsic_curvature(plane).max() < 1e-25
    line = np.outer(np.linspace(0, 1, 100), [1.0, 2.0, 3.0, 4.0])
    assert extrinsic_curvature(line, dimension=1).max() < 1e-25


def test_a_crease_stands_out():
    way = np.linspace(-1.0, 1.0, 401)
    found = extrinsic_curvature(np.stack([way, np.abs(way)], axis=1), neighbours=10)
    assert abs(way[found.argmax()]) < 0.01
    assert found[np.abs(way) > 0.1].max() < 1e-25


def test_more_directions_leave_less_outside():
    digits = load_digits().data[:400]
    shares = [extrinsic_curvature(digits, dimension=dimension) for dimension in (1, 5, 10)]
    assert (shares[0] > shares[1]).all()
    assert (shares[1] > shares[2]).all()
    assert (shares[2] > 0.0).all()
    assert (shares[0] < 1.0).all()


def test_neighbourhoods_do_not_depend_on_scale_or_place():
    digits = load_digits().data[:200]
    np.testing.assert_allclose(
        extrinsic_curvature(7.0 * digits + 3.0, dimension=5), extrinsic_curvature(digits, dimension=5)
    )


def test_points_that_coincide_are_flat():
    assert extrinsic_curvature(np.ones((30, 3))).max() == 0.0


@pytest.mark.parametrize(
    ("points", "options", "sentence"),
    [
        (np.full((30, 3), np.nan), {}, "finite numbers"),
        (np.zeros(30), {}, r"array \(n, D\)"),
        (np.zeros((30, 1)), {}, "D at least 2"),
        (np.zeros((30, 0)), {}, "D at least 2"),
        ("points", {}, r"array \(n, D\)"),
        (np.zeros((30, 3)), {"dimension": 3}, "from 1 to 2, not 3"),
        (np.zeros((30, 3)), {"dimension": 0}, "from 1 to 2, not 0"),
        (np.zeros((20, 3)), {"neighbours": 20}, "fewer than the 20 points"),
        (np.zeros((20, 3)), {"neighbours": 1}, "at least 2"),
    ],
)
def test_what_has_no_neighbourhoods_is_refused(points, options, sentence):
    with pytest.raises(BadInput, match=sentence):
        extrinsic_curvature(points, **options)
