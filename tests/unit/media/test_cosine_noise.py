"""Losses of low frequencies against every placement and every corner of tiny pictures, tried one by one."""

import itertools
import math

import numpy as np
import pytest
from every_placement import placements
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.fft import dctn

from linear_sensitivity import linear_sensitivity
from sfumato.errors import BadInput
from sfumato.media.images.cosine_noise import (
    Band,
    bands_epsilon,
    bands_mu,
    basis,
    coefficient_bounds,
    shaped_scales,
)

GREY = (1.0,)
COLOURS = [(0.299, 0.587, 0.114), (-0.169, -0.331, 0.5), (0.5, -0.419, -0.081)]


def random_band(seed, kept, colour=GREY, step=0.0):
    rng = np.random.default_rng(seed)
    return Band(kept, colour, rng.uniform(0.5, 2.0, kept[0]), rng.uniform(0.5, 2.0, kept[1]), step)


def full_map(bands, shape):
    """What one step of each value (row, column, channel) does to each coefficient, in units of its noise."""
    parts = []
    for band in bands:
        down = basis(shape[0], band.kept[0]) / band.rows[:, None]
        across = basis(shape[1], band.kept[1]) / band.columns[:, None]
        parts.append(np.kron(np.kron(down, across), np.array(band.colour)[None, :]))
    return np.vstack(parts)


def parts_of(bands, name, size, shape):
    full, channels = full_map(bands, shape), shape[2] if len(shape) == 3 else 1
    for placement in placements(name, size, shape):
        where = [(y * shape[1] + x) * channels + c for y, x in placement for c in range(channels)]
        yield full[:, where]


def worst(bands, name, size, shape, norm):
    largest = 0.0
    for part in parts_of(bands, name, size, shape):
        signs = np.array(list(itertools.product((1.0, -1.0), repeat=part.shape[1] - 1)))
        moved = part @ np.hstack([np.ones((len(signs), 1)), signs]).T
        norms = np.abs(moved).sum(axis=0) if norm == "l1" else np.sqrt(np.square(moved).sum(axis=0))
        largest = max(largest, float(norms.max()))
    return largest


def unit_of(name, size):
    return name if name == "item" else f"{name}({size})"


@pytest.mark.parametrize(("size", "kept"), [(1, 1), (5, 5), (8, 3), (224, 28), (1000, 1000)])
def test_the_basis_is_orthonormal(size, kept):
    rows = basis(size, kept)
    assert np.abs(rows @ rows.T - np.eye(kept)).max() < 1e-13


def test_the_basis_is_the_cosine_transform():
    picture = np.random.default_rng(0).uniform(size=(12, 17))
    ours = basis(12, 5) @ picture @ basis(17, 9).T
    assert np.abs(ours - dctn(picture, norm="ortho")[:5, :9]).max() < 1e-13


CASES = [
    ("pixels", 1, (5, 4), (3, 2)),
    ("pixels", 2, (4, 4), (2, 3)),
    ("pixels", 3, (3, 4), (3, 4)),
    ("region", 1, (5, 4), (3, 3)),
    ("region", 2, (5, 6), (2, 2)),
    ("region", 3, (5, 4), (4, 2)),
    ("region", 9, (3, 4), (2, 4)),
    ("item", None, (4, 3), (2, 2)),
    ("item", None, (3, 4), (3, 4)),
]


@pytest.mark.parametrize(("name", "size", "shape", "kept"), CASES)
def test_one_plane_is_bounded_and_no_worse_than_the_general_bound(name, size, shape, kept):
    band = random_band(sum(kept), kept)
    for bound, norm in ((bands_epsilon, "l1"), (bands_mu, "l2")):
        got, true = bound([band], unit_of(name, size), shape, 1.0), worst([band], name, size, shape, norm)
        general = linear_sensitivity(parts_of([band], name, size, shape), 1.0, norm)
        assert true <= got
        assert got <= true * (1.0 + 3e-12) if size == 1 else got <= 1.4 * true
        if name != "pixels":  # of any m pixels the general bound tries each set of them, ours none
            assert got <= general * (1.0 + 3e-12)


@pytest.mark.parametrize(
    ("name", "size", "shape", "kepts"),
    [
        ("pixels", 1, (3, 3, 3), ((2, 2), (2, 2), (1, 2))),
        ("pixels", 2, (3, 3, 3), ((3, 2), (2, 1), (2, 1))),
        ("region", 2, (3, 4, 3), ((2, 2), (2, 2), (2, 2))),
        ("item", None, (2, 2, 3), ((2, 2), (1, 1), (2, 1))),
    ],
)
def test_colour_planes_are_bounded_and_close(name, size, shape, kepts):
    bands = [random_band(i, kept, COLOURS[i]) for i, kept in enumerate(kepts)]
    for bound, norm in ((bands_epsilon, "l1"), (bands_mu, "l2")):
        got, true = bound(bands, unit_of(name, size), shape, 1.0), worst(bands, name, size, shape, norm)
        assert true <= got
        assert got <= true * (1.0 + 3e-12) if size == 1 else got <= 1.4 * true


def test_planes_in_a_fixed_ratio_are_one_plane_at_its_worst_colour():
    """Near pixels in a low band, where no product is negative: exact for all three planes together."""
    shape, rng = (6, 6, 3), np.random.default_rng(5)
    rows, columns = rng.uniform(0.9, 1.0, 2), rng.uniform(0.9, 1.0, 2)
    bands = [Band((2, 2), c, rows * k, columns) for c, k in zip(COLOURS, (1.0, 0.6, 0.8), strict=True)]
    assert bands_mu(bands, "region(2)", shape, 1.0) == pytest.approx(
        worst(bands, "region", 2, shape, "l2"), rel=3e-12
    )


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    height=st.integers(2, 12),
    width=st.integers(2, 12),
    name=st.sampled_from(["region", "pixels"]),
    size=st.integers(1, 14),
    planes=st.integers(1, 3),
    flat=st.booleans(),
)
def test_climbing_never_exceeds_the_bounds(seed, height, width, name, size, planes, flat):
    rng, shape = np.random.default_rng(seed), (height, width, 3)
    kepts = [(int(rng.integers(1, height + 1)), int(rng.integers(1, width + 1))) for _ in range(planes)]
    bands = [random_band(seed + i, kept, COLOURS[i]) for i, kept in enumerate(kepts)]
    if flat:
        bands = [Band(b.kept, b.colour, np.ones(b.kept[0]), np.ones(b.kept[1])) for b in bands]
    epsilon, mu = (f(bands, f"{name}({size})", shape, 1.0) for f in (bands_epsilon, bands_mu))
    full, every = full_map(bands, shape), list(itertools.product(range(height), range(width)))
    squares = placements("region", size, shape)
    for trial in range(5):
        if name == "region":
            placement = squares[rng.integers(len(squares))]
        else:
            placement = [every[i] for i in rng.permutation(len(every))[:size]] if trial else every[:size]
        part = full[:, [(y * width + x) * 3 + c for y, x in placement for c in range(3)]]
        for start in (np.ones(part.shape[1]), rng.choice([-1.0, 1.0], part.shape[1])):
            signs = start
            for _ in range(
                4
            ):  # each step is the corner that the present slope of a convex function likes best
                moved = part @ signs
                assert np.linalg.norm(moved) <= mu
                assert np.abs(moved).sum() <= epsilon
                signs = np.where(part.T @ moved >= 0, 1.0, -1.0)
            signs = start
            for _ in range(4):
                signs = np.where(part.T @ np.sign(part @ signs) >= 0, 1.0, -1.0)
                assert np.abs(part @ signs).sum() <= epsilon


def test_rounding_to_the_grid_is_paid_for():
    """Coefficients of 50 pairs of neighbours, rounded: never further apart than the bounds with the step."""
    rng, shape, kept, step = np.random.default_rng(0), (9, 7), (4, 5), 0.25
    band, plain = random_band(1, kept, GREY, step), random_band(1, kept)
    scales = np.outer(band.rows, band.columns)
    for unit, added in (("region(3)", 1), ("pixels(1)", 1)):
        epsilon, mu = (f([band], unit, shape, 1.0) for f in (bands_epsilon, bands_mu))
        assert epsilon == pytest.approx(
            bands_epsilon([plain], unit, shape, 1.0) + added * step * (1 / scales).sum(), rel=1e-9
        )
        assert mu == pytest.approx(
            bands_mu([plain], unit, shape, 1.0) + added * step * math.sqrt((1 / scales**2).sum()), rel=1e-9
        )
        side, further = (3 if unit.startswith("region") else 1), 0
        for _ in range(50):
            one = rng.uniform(size=shape)
            other = one.copy()
            other[:side, :side] = rng.integers(0, 2, (side, side))
            one[:side, :side] = 1.0 - other[:side, :side]
            cells = [np.rint(dctn(x, norm="ortho")[:4, :5] / step) * step for x in (one, other)]
            moved = (cells[0] - cells[1]) / scales
            assert np.abs(moved).sum() <= epsilon
            assert np.linalg.norm(moved) <= mu
            exact = dctn(one - other, norm="ortho")[:4, :5] / scales
            further += np.abs(moved).sum() > np.abs(exact).sum()
        assert further  # rounding does carry neighbours further apart, so the step is needed


@pytest.mark.parametrize(("name", "size"), [("region", 3), ("item", None), ("pixels", 2), ("pixels", 1)])
def test_coefficient_bounds_hold_and_are_attained(name, size):
    shape, kept = (6, 7), (4, 3)
    rows, columns = coefficient_bounds(unit_of(name, size), shape, kept)
    flat = Band(kept, GREY, np.ones(kept[0]), np.ones(kept[1]))
    true = np.max([np.abs(part).sum(axis=1) for part in parts_of([flat], name, size, shape)], axis=0)
    bound = np.outer(rows, columns).ravel()
    assert (true <= bound * (1.0 + 1e-12)).all()
    if name != "pixels" or size == 1:
        assert bound == pytest.approx(true)


@pytest.mark.parametrize(("gaussian", "power"), [(True, 0.5), (False, 1.0 / 3.0)])
def test_shaped_scales_are_the_powers_that_spend_noise_best(gaussian, power):
    """Any small change of the shape, at an equal sum of losses, adds noise."""
    unit, shape, kept = "region(8)", (64, 48), (16, 12)
    rows, columns = shaped_scales(unit, shape, kept, gaussian)
    assert rows.max() == columns.max() == 1.0
    bound = np.outer(*coefficient_bounds(unit, shape, kept))
    scales = np.outer(rows, columns)
    assert scales / bound**power == pytest.approx(np.full(kept, scales[0, 0] / bound[0, 0] ** power))

    def noise(shape_):
        loss = np.square(bound / shape_).sum() ** 0.5 if gaussian else (bound / shape_).sum()
        return float(np.square(shape_ * loss).sum())

    rng = np.random.default_rng(0)
    for _ in range(20):
        assert noise(scales * rng.uniform(0.9, 1.1, kept)) > noise(scales)


@pytest.mark.parametrize("bound", [bands_epsilon, bands_mu])
def test_losses_are_proportional_to_one_over_scale(bound):
    band = random_band(2, (3, 4), GREY, 2.0**-8)
    third = Band(band.kept, GREY, band.rows * 3.0, band.columns, band.step)
    for unit in ("region(4)", "pixels(5)", "item"):
        assert bound([third], unit, (16, 20), 255.0) == pytest.approx(
            bound([band], unit, (16, 20), 255.0) / 3.0
        )


@pytest.mark.parametrize("unit", ["region(80)", "item", "pixels(5000)"])
def test_wide_bands_and_large_units_are_bounded_too(unit):
    """Where eigenvalues are not computed: a constant change and a chequered one stay below the bounds."""
    shape, kept = (90, 100), (80, 85)
    band = random_band(3, kept)
    mu, epsilon = bands_mu([band], unit, shape, 1.0), bands_epsilon([band], unit, shape, 1.0)
    side = 80 if unit.startswith("region") else 100
    place = np.zeros(shape)
    place[:side, :side] = 1.0
    if unit.startswith("pixels"):
        place[50:] = 0.0
    chequered = place * (-1.0) ** np.add.outer(np.arange(90), np.arange(100))
    for change in (place, chequered):
        moved = dctn(change, norm="ortho")[:80, :85] / np.outer(band.rows, band.columns)
        assert 0.0 < np.linalg.norm(moved) <= mu
        assert np.abs(moved).sum() <= epsilon


@pytest.mark.parametrize("scales", [(np.ones(2), np.zeros(2)), (np.array([1.0, 1e200]), np.ones(2))])
def test_scales_that_cannot_be_drawn_are_refused(scales):
    with pytest.raises(BadInput, match="the noise would have a scale"):
        Band((2, 2), GREY, *scales)
