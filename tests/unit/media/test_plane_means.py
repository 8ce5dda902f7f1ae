"""PlaneMeans: shapes and types, what is proven, keyed noise, shares, and what it refuses."""

import json

import numpy as np
import pytest

from sfumato.errors import BadInput
from sfumato.media.images.plane_means import PlaneMeans
from sfumato.media.images.planes import UNITY, block_sums
from sfumato.noise import Keyed, Seeded
from sfumato.privacy import Unit

SHAPES = [(1, 1), (1, 9, 3), (5, 7, 3), (24, 33), (33, 20, 4), (20, 20, 2), (64, 48, 3)]
TYPES = [np.uint8, np.uint16, np.float32, np.float64]


def picture(shape, dtype, seed=0):
    values = np.random.default_rng(seed).random(shape)
    return (values if np.dtype(dtype).kind == "f" else values * np.iinfo(dtype).max).astype(dtype)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", TYPES)
def test_any_shape_and_type_comes_back_in_its_own(shape, dtype):
    original = picture(shape, dtype)
    kept = original.copy()
    for mechanism in (
        PlaneMeans(4.0),
        PlaneMeans(4.0, 1e-6, "pixels(3)", restore="learned"),
        PlaneMeans(1.0, unit="item", restore="smooth"),
        PlaneMeans(8.0, unit="pixels(1)", block=4, shares=[[1.0, 0.3]], restore="none"),
    ):
        release = mechanism.release(original)
        assert release.value.shape == shape
        assert release.value.dtype == dtype
        assert release.statement.proven.epsilon() <= mechanism.epsilon
        units = {str(one.unit) for one in (release.statement.proven, *release.statement.also_proven)}
        assert units >= {"item", "pixels(1)", "region(8)"}
        json.dumps(release.statement.to_dict())
    assert np.array_equal(original, kept)


@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("unit", ["region(16)", "region(3)", "pixels(1)", "pixels(16)", "item"])
def test_what_is_asked_for_is_what_is_proven(unit, delta):
    for shape in ((224, 224, 3), (30, 50, 1), (40, 40, 4)):
        epsilon = PlaneMeans(3.0, delta, unit, shape=shape).guarantee().epsilon()
        assert 3.0 * (1.0 - 1e-9) < epsilon <= 3.0


def test_larger_units_lose_more():
    mechanism = PlaneMeans(2.0, unit="region(8)", shape=(64, 64, 3))
    losses = [mechanism.proven(Unit("region", side), (64, 64, 3)).epsilon() for side in (1, 4, 8, 16, 64)]
    assert losses == sorted(losses)
    assert losses[-1] == pytest.approx(mechanism.proven(Unit("item"), (64, 64, 3)).epsilon())


def test_many_pictures_are_released_one_by_one():
    stack = picture((5, 24, 20, 3), np.uint8)
    value = PlaneMeans(2.0, unit="pixels(4)", randomness=Seeded(1)).release(stack).value
    assert value.shape == stack.shape
    assert len({one.tobytes() for one in value}) == 5


def test_averages_of_blocks_are_unbiased_and_as_noisy_as_expected():
    """False-alarm rate below 1e-6: five deviations of means and of mean squares over 4,000 releases."""
    shape, count = (16, 16, 3), 4_000
    mechanism = PlaneMeans(2.0, unit="region(8)", block=8, shape=shape, randomness=Seeded(2))
    one = picture(shape, np.uint8)
    design = mechanism.design(shape)
    noisy = mechanism._noisy(design, np.repeat(one[None], count, axis=0), 255.0, 0)
    exact = block_sums(one[None], design.blocks, 255)[0] / UNITY / design.counts
    values = np.concatenate([part.reshape(count, -1) for part in noisy], axis=1) - exact
    deviations = np.concatenate([part.ravel() for part in design.noise.deviations])
    assert (np.abs(values.mean(axis=0)) < 5.5 * deviations / np.sqrt(count)).all()
    # Squares of Laplace noise have √5 times their mean as deviation.
    squares = (values**2).mean(axis=0) / deviations**2
    assert (np.abs(squares - 1.0) < 6.0 * np.sqrt(5.0 / count)).all()
    stated = {str(error.of): error.value for error in mechanism.expected_error(768)}
    assert stated["luma, average of a block, in 255ths of white"] == pytest.approx(deviations[0])


def test_without_restoring_every_block_is_flat():
    original = picture((20, 28, 3), np.uint16)
    value = PlaneMeans(50.0, unit="pixels(1)", block=4, restore="none").release(original).value
    for top in range(0, 20, 4):
        for left in range(0, 28, 4):
            assert np.ptp(value[top : top + 4, left : left + 4].reshape(16, 3).astype(int), axis=0).max() == 0


def test_much_budget_gives_the_picture_back():
    original = picture((12, 9, 4), np.uint8)
    for restore in ("none", "smooth", "wiener"):
        value = PlaneMeans(1e7, unit="pixels(1)", block=1, restore=restore).release(original).value
        assert np.abs(value.astype(int) - original).max() <= 1


def keyed(version="1"):
    return Keyed(bytes(range(32)), dataset="album", version=version, release="r")


def test_keyed_noise_repeats_and_depends_on_what_is_released_only():
    original = picture((16, 16, 3), np.uint8)
    mechanism = PlaneMeans(2.0, unit="region(4)", block=8, shape=(16, 16, 3), randomness=keyed())
    first = mechanism.release(original).value
    assert np.array_equal(first, mechanism.release(original).value)
    # Pixels that change places within a block change no sum: the edit must not buy fresh noise.
    moved = original.copy()
    moved[:8, :8] = original[:8, :8][::-1]
    assert np.array_equal(first, mechanism.release(moved).value)
    changed = original.copy()
    changed[0, 0, 0] ^= 1
    with pytest.raises(BadInput, match="other content"):
        mechanism.release(changed)
    assert not np.array_equal(first, mechanism.set_params(randomness=keyed("2")).release(original).value)


def test_equal_pictures_of_one_release_do_not_share_noise():
    original = np.repeat(picture((1, 16, 16, 3), np.uint8), 2, axis=0)
    value = PlaneMeans(2.0, unit="region(4)", randomness=keyed()).release(original).value
    assert not np.array_equal(value[0], value[1])


def test_black_pictures_of_two_depths_do_not_share_noise():
    """Their sums are the same zeros, but noise of another scale from one stream would show them."""
    mechanisms = [
        PlaneMeans(2.0, unit="region(4)", block=8, shape=(16, 16), randomness=keyed()) for _ in range(2)
    ]
    noisy = [
        made._noisy(made.design((16, 16, 1)), np.zeros((1, 16, 16, 1), dtype), high, 0)[0]
        for made, dtype, high in zip(mechanisms, (np.uint8, np.uint16), (255.0, 65_535.0), strict=True)
    ]
    assert np.abs(noisy[0] - noisy[1]).max() > 1.0


def test_planes_of_a_jpeg_hold_the_same_noise():
    original = picture((2, 32, 24, 3), np.uint8)
    mechanism = PlaneMeans(8.0, unit="pixels(1)", shape=(32, 24, 3), randomness=Seeded(3))
    red, green, blue = np.moveaxis(mechanism.soften(original, 255.0, 0), -1, 0)
    luma, cb, cr = mechanism.soften_planes(original, 255.0)
    assert np.allclose(luma, 0.299 * red + 0.587 * green + 0.114 * blue, atol=0.05)
    assert cb.shape == cr.shape == (2, 16, 12)
    with pytest.raises(BadInput, match="colour pictures"):
        mechanism.soften_planes(original[..., :1], 255.0)


def test_shares_put_more_noise_where_they_are_small_and_prove_the_worst_place():
    shape = (32, 32, 1)
    even = PlaneMeans(2.0, unit="region(4)", block=8, shape=shape)
    shares = np.array([[1.0, 0.25]])
    uneven = PlaneMeans(2.0, unit="region(4)", block=8, shares=shares, shape=shape)
    wide = [design.noise.deviations[0] for design in (even.design(shape), uneven.design(shape))]
    assert np.allclose(wide[1][:, :2], wide[0][:, :2])
    assert np.allclose(wide[1][:, 2:], 4.0 * wide[0][:, 2:])
    assert uneven.guarantee().epsilon() == pytest.approx(2.0, rel=1e-9)
    half = PlaneMeans(2.0, unit="region(4)", block=8, shares=[[0.5]], shape=shape)
    assert half.guarantee().epsilon() == pytest.approx(1.0, rel=1e-9)
    named = uneven.parameters()["shares"]
    assert (named["shape"], named["smallest"], named["largest"]) == ([1, 2], 0.25, 1.0)


def test_a_share_that_a_block_touches_counts_if_it_is_the_smallest():
    shares = np.ones((32, 32))
    shares[9, 9] = 0.1
    mechanism = PlaneMeans(2.0, unit="region(4)", block=8, shares=shares, shape=(32, 32))
    deviation = mechanism.design((32, 32, 1)).noise.deviations[0]
    assert deviation[1, 1] == pytest.approx(10.0 * deviation[0, 0])


def test_sixteen_bits_lose_their_last_ones_under_noise_that_needs_a_coarser_grid():
    mechanism = PlaneMeans(1.0, unit="item", shape=(600, 800))
    design = mechanism.design((600, 800, 1))
    assert design.white(255.0) == 255
    assert design.white(65_535.0) < 65_535
    assert mechanism.release(np.zeros((600, 800), np.uint16)).value.dtype == np.uint16


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"epsilon": 0.0}, "`epsilon` must be"),
        ({"delta": 1.0}, "`delta` must"),
        ({"block": 0}, "whole number of pixels"),
        ({"block": 2.5}, "whole number of pixels"),
        ({"restore": "sharpen"}, "`restore` must be one of"),
        ({"chroma": 1.0}, "`chroma` must"),
        ({"unit": "frame"}, "pictures have the units"),
        ({"shares": [0.5]}, "`shares` must be"),
        ({"shares": [[0.0]]}, "`shares` must be"),
        ({"shares": [[1.5]]}, "`shares` must be"),
    ],
)
def test_parameters_are_refused_in_a_sentence(options, words):
    with pytest.raises(BadInput, match=words):
        PlaneMeans(**({"epsilon": 1.0} | options)).release(np.zeros((8, 8), np.uint8))


def test_a_guarantee_needs_a_shape():
    with pytest.raises(BadInput, match="give `shape="):
        PlaneMeans(1.0).guarantee()
