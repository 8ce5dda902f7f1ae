"""Rounded noise as integers: shapes, tiers, discrete laws, and what is refused."""

import numpy as np
import pytest

from sfumato.errors import BadInput
from sfumato.noise import LAPLACE, NORMAL, Rounded, Seeded, Stream
from sfumato.noise.samplers import discrete_gaussian, discrete_laplace


@pytest.mark.parametrize("law", [NORMAL, LAPLACE], ids=["normal", "laplace"])
@pytest.mark.parametrize("count", [0, 1, 100, 1 << 14, (1 << 16) + 3])
@pytest.mark.parametrize("rungs", [1, 3])
def test_draws_are_integers_one_row_a_tier(law, count, rungs):
    drawn = Rounded(law, [5.0] * rungs).draw(Stream(), count)
    assert drawn.shape == (rungs, count)
    assert np.all(drawn == np.rint(drawn))


@pytest.mark.parametrize("count", [100, 1 << 15])
def test_draws_are_written_into_a_given_array(count):
    room = np.empty((2, count))
    drawn = Rounded(NORMAL, [3.0, 4.0]).draw(Seeded(1).stream(b""), count, out=room)
    assert drawn is room
    np.testing.assert_array_equal(room, Rounded(NORMAL, [3.0, 4.0]).draw(Seeded(1).stream(b""), count))


@pytest.mark.parametrize("count", [100, 1 << 15])
def test_a_relative_scale_of_one_changes_nothing(count):
    plain = Rounded(NORMAL, [3.0]).draw(Seeded(1).stream(b""), count)
    relative = Rounded(NORMAL, [3.0]).draw(Seeded(1).stream(b""), count, relative=np.ones(count))
    np.testing.assert_array_equal(plain, relative)


@pytest.mark.parametrize("scale", [1e-300, 0.001])
def test_noise_far_below_one_step_rounds_to_zero(scale):
    assert not Rounded(NORMAL, [scale]).draw(Stream(), 20_000).any()


@pytest.mark.parametrize("scale", [0.0, -1.0, 2.0**40 * 1.001, float("inf"), float("nan")])
def test_a_scale_that_cannot_be_drawn_is_refused(scale):
    with pytest.raises(BadInput, match="grid steps"):
        Rounded(NORMAL, [1.0, scale])


@pytest.mark.parametrize("draw", [discrete_laplace, discrete_gaussian])
@pytest.mark.parametrize("count", [0, 1, 50_000])
def test_discrete_draws_are_int64_and_repeat_from_a_seed(draw, count):
    one = draw(Seeded(3).stream(b"d"), 12.5, count)
    assert one.dtype == np.int64
    assert one.shape == (count,)
    np.testing.assert_array_equal(one, draw(Seeded(3).stream(b"d"), 12.5, count))


@pytest.mark.parametrize("draw", [discrete_laplace, discrete_gaussian])
def test_a_tiny_discrete_scale_gives_zeros(draw):
    assert not draw(Stream(), 0.01, 1000).any()


@pytest.mark.parametrize("draw", [discrete_laplace, discrete_gaussian])
@pytest.mark.parametrize("scale", [0.0, -2.0, float("nan"), 2.0**41])
def test_a_discrete_scale_that_cannot_be_drawn_is_refused(draw, scale):
    with pytest.raises(BadInput):
        draw(Stream(), scale, 3)


def test_a_discrete_gaussian_above_two_to_the_thirty_is_refused():
    discrete_gaussian(Stream(), 2.0**30, 2)
    with pytest.raises(BadInput, match="2\\*\\*30"):
        discrete_gaussian(Stream(), 2.0**30 * 1.001, 2)
