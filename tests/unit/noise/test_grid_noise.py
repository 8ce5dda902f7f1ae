"""Rounded noise as integers: shapes, tiers, and what is refused."""

import numpy as np
import pytest

from sfumato.errors import BadInput
from sfumato.noise import LAPLACE, NORMAL, Rounded, Seeded, Stream


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


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("count", [100, 1 << 15, (1 << 16) + 3])
def test_noise_is_added_to_cells_of_the_grid(count, dtype):
    noise = Rounded(NORMAL, [3000.0, 4000.0])
    cells, step = np.arange(count, dtype=np.float64) - 50.0, 2.0**-9
    out = [np.empty(count, dtype=dtype) for _ in range(2)]
    noise.add(Seeded(1).stream(b""), cells, step, out)
    drawn = noise.draw(Seeded(1).stream(b""), count)
    for tier in range(2):
        np.testing.assert_array_equal(out[tier], ((drawn[tier] + cells) * step).astype(dtype))
    np.testing.assert_array_equal(cells, np.arange(count) - 50.0)
