"""Floats to integers and back: sums are exact and never wrap around."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from secure_rounds import summed

from sfumato.errors import BadInput
from sfumato.learners.federated.secure import Quantiser, SecureSum
from sfumato.noise import NORMAL, Rounded, Seeded

FLOATS = st.floats(-1e300, 1e300)


@given(st.lists(FLOATS, min_size=1, max_size=20), st.integers(-40, 10), st.floats(1.0, 2.0**30))
def test_values_are_clipped_and_rounded_toward_zero(values, power, width):
    step = 2.0**power
    grid = Quantiser(clip=width * step, step=step)
    integers = grid.integers(values)
    assert np.abs(integers).max() <= grid.largest
    back = grid.values(integers)
    clipped = np.clip(values, -grid.clip, grid.clip)
    assert np.all(np.abs(back) <= np.abs(clipped))
    assert np.all(np.abs(clipped - back) < step)
    np.testing.assert_array_equal(grid.integers(back), integers)


@pytest.mark.parametrize("bits", [16, 32, 64])
@pytest.mark.parametrize("clients", [2, 3, 7])
def test_the_largest_sums_that_are_admitted_are_exact(bits, clients):
    terms = SecureSum(clients=clients, length=2, bits=bits)
    steps = min(terms.limit, 2**53 // clients)
    grid = Quantiser(clip=float(steps), step=1.0)
    grid.check(terms)
    server = summed(terms, dict.fromkeys(range(clients), grid.integers([1e300, -1e300])))
    assert grid.values(server.total()).tolist() == [float(clients * steps), -float(clients * steps)]
    with pytest.raises(BadInput, match=f"{clients} clients with values up to .* do not fit into sums of"):
        Quantiser(clip=float(steps + 1), step=1.0).check(terms)


def test_grid_exact_noise_is_summed_exactly():
    """Noisy integers times their step, as float64 and as float32, through a secure sum: no bit is lost."""
    step, count = 2.0**-20, 1000
    rows = [Rounded(NORMAL, [4096.0]).draw(Seeded(name).stream(b""), count)[0] for name in range(3)]
    grid, terms = Quantiser(clip=64.0, step=step), SecureSum(clients=3, length=count)
    grid.check(terms)
    for dtype in (np.float64, np.float32):
        vectors = {name: grid.integers((row * step).astype(dtype)) for name, row in enumerate(rows)}
        total = grid.values(summed(terms, vectors, {1: 2}).total())
        np.testing.assert_array_equal(total, (rows[0] + rows[2]) * step)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_values_that_are_no_numbers_are_refused(value):
    with pytest.raises(BadInput, match="holds NaN or infinities: finite numbers are summed"):
        Quantiser().integers([1.0, value])


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"clip": 0.0}, "`clip` was 0.0: it must be a positive number"),
        ({"clip": float("nan")}, "`clip` was nan"),
        ({"step": True}, "`step` was True"),
        ({"step": 0.3}, "`step` was 0.3: it must be a power of two"),
        ({"step": 2.0**-1000}, "it must be a power of two, such as"),
        ({"clip": 0.1, "step": 1.0}, "the clip must be 1 to 2⁵³ steps wide"),
        ({"clip": 2.0**54, "step": 1.0}, "the clip must be 1 to 2⁵³ steps wide"),
    ],
)
def test_a_grid_that_cannot_be_is_refused(options, sentence):
    with pytest.raises(BadInput, match=sentence):
        Quantiser(**options)


def test_the_usual_grid_holds_the_weights_of_a_thousand_clients():
    Quantiser().check(SecureSum(clients=1000, length=1))
    weights = np.random.default_rng(0).normal(size=1000).astype(np.float32)
    large = weights[np.abs(weights) > 2.0**-6]
    np.testing.assert_array_equal(Quantiser().values(Quantiser().integers(large)), large)
