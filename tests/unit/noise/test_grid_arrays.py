"""Noise by the array: shape, grid, sources, and what is refused."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.errors import BadInput
from sfumato.noise import Keyed, Seeded, gaussian_noise, laplace_noise

NOISES = [gaussian_noise, laplace_noise]


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("size", [0, 1, 7, (0, 5), (2, 3), (), (2, 3, 4)])
def test_noise_has_the_asked_shape(noise, size):
    assert noise(1.0, size).shape == np.empty(size).shape


@settings(max_examples=50, deadline=None)
@given(st.sampled_from(NOISES), st.integers(-300, 300), st.floats(0.01, 1e6))
def test_noise_lies_on_its_grid(noise, exponent, steps):
    grid = 2.0**exponent
    values = noise(steps * grid, 50, grid=grid)
    assert np.all(values / grid == np.rint(values / grid))
    assert np.abs(values).max() < 100.0 * steps * grid + grid


@pytest.mark.parametrize("noise", NOISES)
def test_the_default_grid_has_four_to_eight_thousand_steps_a_scale(noise):
    values = noise(3.0, 1000)
    step = 2.0**-11
    assert np.all(values / step == np.rint(values / step))
    assert np.any(values / (2 * step) != np.rint(values / (2 * step)))


@pytest.mark.parametrize("noise", NOISES)
def test_a_seed_repeats_and_secure_noise_does_not(noise):
    assert noise(1.0, 100, randomness=Seeded(1)).tobytes() == noise(1.0, 100, randomness=Seeded(1)).tobytes()
    assert noise(1.0, 100, randomness=Seeded(1)).tobytes() != noise(1.0, 100, randomness=Seeded(2)).tobytes()
    assert noise(1.0, 100).tobytes() != noise(1.0, 100).tobytes()


@pytest.mark.parametrize("threads", [2, 5, None])
def test_seeded_noise_does_not_depend_on_threads(threads):
    count = 2**20 + 1000  # two blocks
    one = gaussian_noise(1.0, count, randomness=Seeded(1), threads=1)
    assert one.tobytes() == gaussian_noise(1.0, count, randomness=Seeded(1), threads=threads).tobytes()


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("scale", [0.0, -1.0, float("nan"), float("inf"), 1e-310])
def test_a_scale_must_be_positive_and_finite(noise, scale):
    with pytest.raises(BadInput):
        noise(scale, 3)


@pytest.mark.parametrize("grid", [0.0, -0.5, 0.3, 3.0, float("nan"), float("inf")])
def test_a_grid_must_be_a_power_of_two(grid):
    with pytest.raises(BadInput, match="power of two"):
        gaussian_noise(1.0, 3, grid=grid)


def test_a_grid_too_fine_for_the_scale_is_refused():
    with pytest.raises(BadInput, match="grid steps"):
        gaussian_noise(1.0, 3, grid=2.0**-41)


def test_keyed_noise_is_left_to_mechanisms():
    source = Keyed(bytes(32), dataset="d", version="1", release="r")
    with pytest.raises(BadInput, match="mechanism"):
        gaussian_noise(1.0, 3, randomness=source)
