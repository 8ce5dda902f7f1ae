"""The grid: a power of two from declared numbers alone, and records that stay in their ball on it."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from sfumato.errors import BadInput
from sfumato.noise import grid_step, onto_grid

sizes = st.floats(1e-90, 1e90)
values = st.one_of(
    st.floats(-2.0, 2.0),
    st.floats(allow_nan=False, allow_infinity=False),  # up to 1.8e308, and denormal numbers
    st.sampled_from([0.0, -0.0, 1e300, -1e300, 1e-300, 5e-324, 1.0, math.nextafter(1.0, 2.0)]),
)
records = st.integers(1, 6).flatmap(lambda d: arrays(np.float64, (3, d), elements=values))


@given(sizes, st.floats(1e-9, 1e9))
def test_a_step_is_a_power_of_two_fine_enough_for_noise_and_values(scale, ratio):
    try:
        step = grid_step(scale, scale * ratio)
    except BadInput:
        assert ratio < 2.0**-30  # noise that drowns the values beyond 2⁴⁰ steps
        return
    assert math.frexp(step)[0] == 0.5
    finest = min(scale / 2**12, scale * ratio / 2**8)
    assert finest / 2 < step * (1 + 1e-12)
    assert step <= finest * (1 + 1e-12)
    assert scale / step <= 2.0**40


@pytest.mark.parametrize(
    ("scale", "typical"), [(5e-324, 1.0), (1.0, 5e-324), (1e-300, 1e-300), (math.inf, math.inf), (0.0, 1.0)]
)
def test_a_grid_that_doubles_do_not_hold_is_refused(scale, typical):
    with pytest.raises(BadInput, match="rescale"):
        grid_step(scale, typical)


def test_noise_that_drowns_the_values_is_refused():
    with pytest.raises(BadInput, match="larger `epsilon`"):
        grid_step(1.0, 1e-12)


@settings(max_examples=300, deadline=None)
@given(records, st.sampled_from(["l1", "l2"]), st.sampled_from([1.0, 0.3, 1e-14, 3e50]), st.integers(0, 25))
def test_records_stay_in_the_ball_in_exact_arithmetic(rows, norm, radius, fineness):
    step = 2.0 ** (math.floor(math.log2(radius)) - fineness)
    before = rows.copy()
    cells = onto_grid(rows, radius, norm, step)
    assert cells.shape == rows.shape
    assert rows.tobytes() == before.tobytes()
    assert np.all(cells == np.trunc(cells))
    limit = Fraction(radius) / Fraction(step)
    for row, out in zip(rows, cells, strict=True):
        exact = [Fraction(float(cell)) for cell in out]
        size = sum(map(abs, exact)) if norm == "l1" else sum(cell * cell for cell in exact)
        assert size <= (limit if norm == "l1" else limit**2)
        for value, cell in zip(row, exact, strict=True):
            # Toward zero: never longer than it was, never on the other side.
            assert abs(cell) * Fraction(step) <= abs(Fraction(float(value)))
            assert cell * Fraction(float(value)) >= 0


@given(arrays(np.float64, (4, 3), elements=st.floats(-0.5, 0.5)), st.integers(1, 20))
def test_a_record_inside_the_ball_moves_by_less_than_one_step(rows, fineness):
    step = 2.0**-fineness
    cells = onto_grid(rows, 1.0, "l2", step)
    np.testing.assert_array_equal(cells, np.trunc(rows / step))
    assert np.all(np.abs(rows - cells * step) < step)


@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_zero_stays_zero(norm):
    assert not onto_grid(np.zeros((2, 3)), 1.0, norm, 2.0**-10).any()
    assert not onto_grid(np.full((2, 3), 5e-324), 1.0, norm, 2.0**-10).any()


@pytest.mark.parametrize("size", [1e5, 1e150, 1e300])
@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_a_record_outside_the_ball_keeps_its_direction(norm, size):
    step = 2.0**-20
    cells = onto_grid(np.array([[3.0, -4.0, 0.0]]) * size, 1.0, norm, step)[0] * step
    length = 7.0 if norm == "l1" else 5.0
    np.testing.assert_allclose(cells, np.array([3.0, -4.0, 0.0]) / length, atol=2 * step)


@pytest.mark.parametrize("norm", ["l1", "l2"])
@pytest.mark.parametrize("radius", [1e-10, 1e-15, 1e-90])
def test_records_so_long_that_their_factor_is_denormal_are_clipped_without_delay(norm, radius):
    step = 2.0 ** (math.floor(math.log2(radius)) - 20)
    rows = np.array([[1.37e308, 1.1e307], [-1.7e308, 1.0], [1.7e308, 1.7e308]])
    limit = Fraction(radius) / Fraction(step)
    for row in onto_grid(rows, radius, norm, step):
        exact = [Fraction(float(cell)) for cell in row]
        assert (sum(map(abs, exact)) if norm == "l1" else sum(c * c for c in exact)) <= limit ** (
            1 + (norm == "l2")
        )


@pytest.mark.parametrize(("norm", "step"), [("l2", 2.0**-27), ("l1", 2.0**-53)])
def test_a_ball_of_more_steps_than_doubles_count_is_refused(norm, step):
    with pytest.raises(BadInput, match="smaller ε"):
        onto_grid(np.ones((1, 2)), 1.0, norm, step)
