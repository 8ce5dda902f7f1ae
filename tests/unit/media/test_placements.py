"""Losses of block sums against every placement and every corner of tiny pictures, tried one by one."""

import itertools
import math
import time

import numpy as np
import pytest
from every_placement import placements
from hypothesis import given, settings
from hypothesis import strategies as st

from linear_sensitivity import linear_sensitivity
from sfumato.errors import BadInput
from sfumato.media.images import placements as bounds
from sfumato.media.images.image_mechanism import FOOTPRINTS, Footprint, footprint
from sfumato.media.images.placements import Layer, gaussian_mu, laplace_epsilon
from sfumato.privacy import Unit

GREY = (1.0,)
COLOURS = [(0.299, 0.587, 0.114), (-0.169, -0.331, 0.5), (0.5, -0.419, -0.081)]
ROUNDING = 1.0 + 3e-12


def scale_at(layer, row, column):
    if np.ndim(layer.scale) == 0:
        return float(layer.scale)
    return float(layer.scale[row // layer.block, column // layer.block])


def matrix(layers, placement, channels):
    """What one step of each value of ``placement`` does to each noised sum, in units of its noise."""
    outputs, entries = {}, []
    for number, layer in enumerate(layers):
        for j, (row, column) in enumerate(placement):
            block = (number, row // layer.block, column // layer.block)
            place = outputs.setdefault(block, len(outputs))
            for c in range(channels):
                entries.append((place, j * channels + c, layer.colour[c] / scale_at(layer, row, column)))
    full = np.zeros((len(outputs), len(placement) * channels))
    for place, column, value in entries:
        full[place, column] = value
    return full


def worst(layers, unit, size, shape, norm):
    """The exact worst loss: the largest norm over every placement and every corner of its box."""
    channels = shape[2] if len(shape) == 3 else 1
    largest = 0.0
    for placement in placements(unit, size, shape):
        full = matrix(layers, placement, channels)
        signs = np.array(list(itertools.product((1.0, -1.0), repeat=full.shape[1] - 1)))
        moved = full @ np.hstack([np.ones((len(signs), 1)), signs]).T
        norms = np.abs(moved).sum(axis=0) if norm == "l1" else np.sqrt(np.square(moved).sum(axis=0))
        largest = max(largest, float(norms.max()))
    return largest


def unit_of(name, size):
    return name if name == "item" else f"{name}({size})"


def random_layer(seed, block, colour, shape, even):
    rng = np.random.default_rng(seed)
    grid = (-(-shape[0] // block), -(-shape[1] // block))
    return Layer(block, colour, float(rng.uniform(0.5, 3.0)) if even else rng.uniform(0.5, 3.0, grid))


GREY_CASES = [
    (name, size, shape, block)
    for name, size in [
        ("pixels", 1),
        ("pixels", 2),
        ("pixels", 5),
        ("region", 1),
        ("region", 2),
        ("region", 3),
    ]
    for shape, block in [((4, 4), 2), ((5, 3), 2), ((4, 4), 3), ((3, 4), 1)]
] + [
    ("item", None, (4, 3), 2),
    ("region", 9, (4, 3), 2),
    ("pixels", 12, (3, 4), 2),
    ("pixels", 99, (3, 4), 2),
]


@pytest.mark.parametrize("even", [True, False])
@pytest.mark.parametrize(("name", "size", "shape", "block"), GREY_CASES)
def test_one_grey_layer_is_bounded_and_exact(name, size, shape, block, even):
    """Laplace is exact everywhere; Gaussian too, but for many pixels where border blocks are smaller."""
    layer = random_layer(7 * block + shape[0], block, GREY, shape, even)
    epsilon = laplace_epsilon([layer], unit_of(name, size), shape, 1.0)
    assert epsilon == pytest.approx(worst([layer], name, size, shape, "l1"), rel=3e-12)
    mu = gaussian_mu([layer], unit_of(name, size), shape, 1.0)
    true = worst([layer], name, size, shape, "l2")
    assert true <= mu
    whole = shape[0] % block == 0 and shape[1] % block == 0
    if name != "pixels" or size == 1 or size >= shape[0] * shape[1] or whole:
        assert mu <= true * ROUNDING


def test_every_unit_of_pictures_says_what_it_covers():
    assert {*FOOTPRINTS} == {*Unit.names("picture"), "item"}
    assert footprint("region:4", (3, 9, 3)) == Footprint(3, 4)
    assert footprint("pixels:5", (3, 9)) == Footprint(0, 0, 5)
    assert footprint("pixels:99", (3, 9)) == footprint("item", (3, 9)) == Footprint(3, 9)
    assert footprint("pixels:5", (3, 9)).pixels == 5


@pytest.mark.parametrize("even", [True, False])
@pytest.mark.parametrize("covered", [Footprint(2, 5), Footprint(1, 3), Footprint(3, 2)])
def test_rectangles_are_bounded_and_exact_too(monkeypatch, covered, even):
    """For units to come: a strip of rows, say."""
    shape, layer = (4, 5), random_layer(3, 2, GREY, (4, 5), even)
    corners = itertools.product(range(5 - covered.rows), range(6 - covered.columns))
    places = [
        list(itertools.product(range(y, y + covered.rows), range(x, x + covered.columns))) for y, x in corners
    ]
    monkeypatch.setattr(bounds, "footprint", lambda unit, shape: covered)
    sums = [np.abs(matrix([layer], place, 1)).sum(axis=1) for place in places]
    epsilon, mu = (bound([layer], "item", shape, 1.0) for bound in (laplace_epsilon, gaussian_mu))
    assert epsilon == pytest.approx(max(each.sum() for each in sums), rel=3e-12)
    assert mu == pytest.approx(max(np.sqrt(np.square(each).sum()) for each in sums), rel=3e-12)


@pytest.mark.parametrize("even", [True, False])
@pytest.mark.parametrize(
    ("name", "size", "shape", "blocks"),
    [
        ("pixels", 1, (3, 3, 3), (1, 2, 2)),
        ("pixels", 2, (3, 2, 3), (1, 2, 2)),
        ("pixels", 3, (2, 3, 3), (1, 2, 2)),
        ("region", 2, (4, 3, 3), (1, 2, 2)),
        ("region", 2, (3, 4, 3), (2, 2, 2)),
        ("region", 2, (5, 4, 3), (2, 3, 3)),
        ("item", None, (2, 2, 3), (1, 2, 2)),
    ],
)
def test_colour_layers_are_bounded_and_close(name, size, shape, blocks, even):
    layers = [random_layer(i + size if size else i, b, COLOURS[i], shape, even) for i, b in enumerate(blocks)]
    for bound, norm in ((laplace_epsilon, "l1"), (gaussian_mu, "l2")):
        got, true = bound(layers, unit_of(name, size), shape, 1.0), worst(layers, name, size, shape, norm)
        assert true <= got
        # One pixel is exact, and so are even Laplace scales, where one corner is the worst for every pixel.
        slack = ROUNDING if size == 1 or (even and norm == "l1") else 1.12
        assert got <= true * slack


@pytest.mark.parametrize(("name", "size"), [("region", 2), ("item", None)])
def test_layers_on_the_same_blocks_in_a_fixed_ratio_are_exact(name, size):
    shape, rng = (2, 3, 3), np.random.default_rng(3)
    scale = rng.uniform(1.0, 2.0, (1, 2))
    layers = [Layer(2, colour, scale * k) for colour, k in zip(COLOURS, (1.0, 0.5, 0.7), strict=True)]
    for bound, norm in ((laplace_epsilon, "l1"), (gaussian_mu, "l2")):
        assert bound(layers, unit_of(name, size), shape, 1.0) == pytest.approx(
            worst(layers, name, size, shape, norm), rel=3e-12
        )


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    height=st.integers(1, 12),
    width=st.integers(1, 12),
    blocks=st.lists(st.integers(1, 5), min_size=1, max_size=3),
    name=st.sampled_from(["region", "pixels"]),
    size=st.integers(1, 14),
    even=st.booleans(),
)
def test_random_signs_never_exceed_the_bounds(seed, height, width, blocks, name, size, even):
    """Climbing from random placements and every common corner finds nothing larger."""
    rng, shape = np.random.default_rng(seed), (height, width, 3)
    layers = [random_layer(seed + i, b, COLOURS[i], shape, even) for i, b in enumerate(blocks)]
    every = list(itertools.product(range(height), range(width)))
    bounds = [f(layers, f"{name}({size})", shape, 1.0) for f in (laplace_epsilon, gaussian_mu)]
    tried = placements("region", size, shape) if name == "region" else []
    for trial in range(6):
        if name == "region":
            placement = tried[rng.integers(len(tried))]
        else:
            placement = [every[i] for i in rng.permutation(len(every))[:size]] if trial else every[:size]
        full = matrix(layers, placement, 3)
        for corner in itertools.product((1.0, -1.0), repeat=3):
            signs = np.tile(corner, len(placement))
            for _ in range(3):  # the best answer to the present corner: ascent on a convex function
                moved = full @ signs
                assert np.abs(moved).sum() <= bounds[0]
                assert np.linalg.norm(moved) <= bounds[1]
                signs = np.where(full.T @ moved >= 0, 1.0, -1.0)


@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_one_uniform_plane_agrees_with_the_general_bound_on_linear_maps(norm):
    layer, shape = Layer(3, GREY, 2.0), (7, 8)
    for name, size in (("region", 2), ("region", 4), ("pixels", 1), ("item", None)):
        matrices = (matrix([layer], placement, 1) for placement in placements(name, size, shape))
        general = linear_sensitivity(matrices, 255.0, norm)
        ours = (laplace_epsilon if norm == "l1" else gaussian_mu)([layer], unit_of(name, size), shape, 255.0)
        # The general bound is exact for the L1 norm; its L2 form is not where a unit fills blocks unevenly.
        assert ours <= general * ROUNDING
        if norm == "l1" or size == 1:
            assert ours == pytest.approx(general, rel=1e-11)


def test_an_array_of_equal_scales_is_the_same_as_one_number():
    shape = (30, 41, 3)
    for name in ("region(5)", "pixels(70)", "item"):
        for bound in (laplace_epsilon, gaussian_mu):
            even = [Layer(4, COLOURS[0], 2.0), Layer(8, COLOURS[1], 3.0)]
            listed = [Layer(4, COLOURS[0], np.full((8, 11), 2.0)), Layer(8, COLOURS[1], np.full((4, 6), 3.0))]
            nearly = [listed[0], Layer(8, COLOURS[1], np.full((4, 6), 3.0))]
            nearly[1].scale[3, 5] *= 1.0 + 1e-9  # no longer equal, so every placement is looked at
            assert bound(listed, name, shape, 255.0) == pytest.approx(
                bound(even, name, shape, 255.0), rel=1e-8
            )
            assert bound(nearly, name, shape, 255.0) == pytest.approx(
                bound(even, name, shape, 255.0), rel=1e-8
            )


@given(factor=st.floats(1e-3, 1e3))
@settings(max_examples=20, deadline=None)
def test_losses_are_proportional_to_high_over_scale(factor):
    scale = np.random.default_rng(0).uniform(1.0, 2.0, (3, 4))
    for bound in (laplace_epsilon, gaussian_mu):
        one = bound([Layer(4, GREY, scale)], "region(5)", (12, 16), 1.0)
        assert bound([Layer(4, GREY, scale * factor)], "region(5)", (12, 16), factor) == pytest.approx(one)


def test_a_weaker_place_is_found_wherever_it_stands():
    """One block with half the noise doubles the loss of a unit that fits into it."""
    for row, column in itertools.product((0, 3, 6), (0, 4, 7)):
        scale = np.full((7, 8), 2.0)
        scale[row, column] = 1.0
        layer = [Layer(4, GREY, scale)]
        for unit, pixels in (("pixels(1)", 1), ("pixels(16)", 16), ("region(4)", 16), ("region(2)", 4)):
            assert laplace_epsilon(layer, unit, (28, 32), 1.0) == pytest.approx(pixels)
            assert gaussian_mu(layer, unit, (28, 32), 1.0) == pytest.approx(pixels)


def test_a_picture_of_224_pixels_takes_no_time():
    """Processor time of ten calls, the fastest of five runs; noise differs from block to block."""
    rng, shape = np.random.default_rng(0), (224, 224, 3)
    share = rng.uniform(0.2, 1.0, (28, 28))
    layers = [Layer(8, colour, 10.0 / share) for colour in COLOURS]
    for bound in (laplace_epsilon, gaussian_mu):
        fastest = math.inf
        for _ in range(5):
            start = time.process_time()
            for _ in range(10):
                bound(layers, "region(16)", shape, 255.0)
            fastest = min(fastest, time.process_time() - start)
        assert fastest / 10 < 0.005


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((2, GREY, 0.0), "a scale from 0 to 0"),
        ((2, GREY, np.array([[1.0, 1e200]])), "a scale from 1 to 1e"),
        ((2, GREY, np.array([[1.0, math.nan]])), "a scale from nan"),
    ],
)
def test_scales_that_cannot_be_drawn_are_refused(arguments, message):
    with pytest.raises(BadInput, match=message):
        Layer(*arguments)


@pytest.mark.parametrize(
    ("unit", "shape", "message"), [("frame", (4, 4), "region"), ("item", (4,), "`shape` must be")]
)
def test_units_and_shapes_that_pictures_do_not_have_are_refused(unit, shape, message):
    for bound in (laplace_epsilon, gaussian_mu):
        with pytest.raises(BadInput, match=message):
            bound([Layer(2, GREY, 1.0)], unit, shape, 1.0)
