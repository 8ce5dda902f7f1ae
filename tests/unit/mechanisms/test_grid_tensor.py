"""TLDP repaired: the best channel for an ε, what it proves, what it does to values, and what it refuses."""

import math
import time
from itertools import product

import numpy as np
import pytest
from scipy.stats import chi2, norm

import sfumato as sf
from sfumato.errors import BadInput
from sfumato.mechanisms import grid_tensor
from sfumato.mechanisms.grid_tensor import best_channel


@pytest.mark.parametrize("epsilon", [0.01, 0.5, 1.0, 2.0, 4.0])
def test_for_a_small_epsilon_the_best_is_never_to_keep(epsilon):
    p, scale, _ = best_channel(epsilon, 256)
    assert p == 0.0
    assert scale == pytest.approx(255.0 / epsilon, rel=1e-6)  # as Laplace noise has it


def test_for_a_large_epsilon_the_best_is_randomised_response():
    p, scale, channel = best_channel(8.0, 256)
    assert p == pytest.approx(0.92, abs=0.005)
    assert scale == math.inf
    off = 1.0 / (math.exp(8.0) + 255.0)
    expected = np.full((256, 256), off) + np.eye(256) * (math.exp(8.0) - 1.0) * off
    np.testing.assert_allclose(channel.matrix, expected, rtol=1e-7)


def test_two_levels_are_binary_randomised_response():
    for epsilon in (0.1, 1.0, 3.0):
        keep = 1.0 / (1.0 + math.exp(-epsilon))
        matrix = best_channel(epsilon, 2)[2].matrix
        np.testing.assert_allclose(matrix, [[keep, 1 - keep], [1 - keep, keep]], rtol=1e-6)


@pytest.mark.parametrize(
    ("rest", "scale", "levels"),
    list(product((1e-6, 0.3, 1.0), (0.05, 0.7, 3.0, 500.0, math.inf), (2, 3, 10, 33))),
)
def test_the_loss_and_the_error_are_those_of_the_whole_matrix(rest, scale, levels):
    """What is computed from the two ends and the diagonal, against all pairs of inputs."""
    matrix = grid_tensor._channel(rest, scale, levels)
    np.testing.assert_allclose(matrix.sum(axis=1), 1.0, rtol=1e-12)
    with np.errstate(divide="ignore"):
        logs = np.log(matrix)
    if np.isfinite(logs).all():
        brute = (logs[:, None, :] - logs[None, :, :]).max()
        assert grid_tensor._loss(rest, scale, levels) == pytest.approx(brute, rel=1e-9, abs=1e-12)
    else:
        assert grid_tensor._loss(rest, scale, levels) > 700.0
    assert grid_tensor._squared_error(matrix) == pytest.approx(
        sum(matrix[x, y] * (x - y) ** 2 for x in range(levels) for y in range(levels)) / levels, rel=1e-9
    )


@pytest.mark.parametrize(("epsilon", "levels"), [(0.3, 8), (1.0, 8), (2.0, 5), (4.0, 64), (6.0, 16)])
def test_no_other_channel_of_the_family_has_a_smaller_error(epsilon, levels):
    best = grid_tensor._squared_error(best_channel(epsilon, levels)[2].matrix)
    for rest in np.linspace(0.001, 1.0, 60):
        for scale in np.exp(np.linspace(-3.0, 12.0, 120)):
            if grid_tensor._loss(rest, scale, levels) <= epsilon:
                matrix = grid_tensor._channel(rest, scale, levels)
                assert grid_tensor._squared_error(matrix) >= best * (1.0 - 1e-3)


@pytest.mark.parametrize("unit", ["component", "tensor"])
@pytest.mark.parametrize("epsilon", [1e-3, 0.7, 5.0, 30.0, 37.0, 43.9, 1e3])
def test_the_proven_epsilon_is_exact_and_at_most_what_was_asked(unit, epsilon):
    """Also where counts of 2⁻⁶⁴ are coarse; beyond log 2⁶⁴ there is nothing more to spend."""
    size = 6
    made = sf.GridTensorLDP(epsilon, (0.0, 1.0), 16, unit=unit)
    channel = made.channel(size)
    counts = channel.counts.tolist()
    exact = max(math.log(max(column)) - math.log(min(column)) for column in zip(*counts, strict=True))
    statement = made.statement(size)
    proven = {str(part.unit): part.epsilon() for part in (statement.proven, *statement.also_proven)}
    assert proven["component"] == pytest.approx(exact, rel=1e-12, abs=1e-12)
    assert proven["tensor"] == pytest.approx(size * exact, rel=1e-12, abs=1e-12)
    assert str(statement.proven.unit) == unit
    assert proven[unit] <= epsilon
    if 0.01 < epsilon < 30.0:
        assert proven[unit] == pytest.approx(epsilon, rel=1e-8)


def test_the_tensor_guarantee_is_reached_by_the_worst_pair_in_every_component():
    """Two components of four levels: over all pairs of tensors and all outputs, exactly twice ε."""
    channel = best_channel(0.5, 4)[2]
    logs = np.log(channel.matrix)
    levels = range(4)
    largest = max(
        sum(logs[x, y] - logs[z, y] for x, z, y in zip(one, other, output, strict=True))
        for one in product(levels, repeat=2)
        for other in product(levels, repeat=2)
        for output in product(levels, repeat=2)
    )
    assert largest == pytest.approx(2 * channel.epsilon, rel=1e-9)
    made = sf.GridTensorLDP(0.5, (0.0, 1.0), 4, unit="component", shape=(2,))
    (tensor,) = made.statement().also_proven
    assert tensor.epsilon() == pytest.approx(largest, rel=1e-9)


def test_releases_follow_the_channel():
    """χ² of 300,000 releases of each of four levels; false alarm 1e-6 for each."""
    made = sf.GridTensorLDP(1.5, (-1.0, 2.0), 4, unit="component")
    matrix = made.channel(1).matrix
    for level, value in enumerate((-1.0, 0.0, 1.0, 2.0)):
        released = made.release(np.full((300_000, 1), value)).value[:, 0]
        seen = np.bincount((released + 1.0).astype(int), minlength=4)
        expected = 300_000 * matrix[level]
        assert (np.square(seen - expected) / expected).sum() < chi2.isf(1e-6, 3)


def test_values_go_to_the_nearer_level_and_only_levels_are_released():
    made = sf.GridTensorLDP(1e3, (0.0, 1.0), 5, unit="component")
    X = np.array([[0.0, 0.1, 0.13, 0.37, 0.38, 0.99, 1.0]])
    assert made.release(X).value.tolist() == [[0.0, 0.0, 0.25, 0.25, 0.5, 1.0, 1.0]]
    noisy = sf.GridTensorLDP(0.5, (0.1, 0.7), 4, unit="component").release(np.full((5000, 3), 0.4)).value
    assert np.unique(noisy).size == 4
    assert noisy.min() == 0.1
    assert noisy.max() == 0.7


@pytest.mark.parametrize(("epsilon", "levels"), [(1.0, 4), (3.0, 16), (6.0, 256)])
def test_the_expected_error_is_the_measured_one(epsilon, levels):
    """Squared errors of 400,000 values on all levels alike; false alarm below 1e-6 at 5 deviations."""
    made = sf.GridTensorLDP(epsilon, (0.0, 10.0), levels, unit="component")
    X = np.tile(np.linspace(0.0, 10.0, levels), -(-400_000 // levels)).reshape(-1, levels)
    squares = np.square(made.release(X).value - X)
    (expected,) = made.expected_error(levels)
    limit = 5.0 * squares.std() / math.sqrt(squares.size)
    assert abs(squares.mean() - expected.value**2) < limit


@pytest.mark.parametrize("epsilon", [2.0, 12.0])
def test_means_are_estimated_without_bias(epsilon):
    """10,000 tensors (2, 3) of one value each; false alarm 1e-6 over all six components (Bonferroni)."""
    made = sf.GridTensorLDP(epsilon, (0.0, 1.0), 8, unit="tensor")
    truth = np.arange(6.0).reshape(2, 3) / 7.0
    X = np.tile(truth, (10_000, 1, 1))
    released = made.release(X).value
    estimates = made.unbiased(released)
    assert estimates.shape == X.shape
    limit = norm.isf(1e-6 / 12) * estimates.std(axis=0) / math.sqrt(len(X))
    assert (np.abs(estimates.mean(axis=0) - truth) < limit).all()
    # The released levels themselves are pulled toward the middle, and would fail the same test.
    assert (np.abs(released.mean(axis=0) - truth) > limit)[0, 0]


def test_the_estimate_undoes_the_channel_exactly():
    made = sf.GridTensorLDP(4.0, (-2.0, 2.0), 32, unit="component")
    values = np.linspace(-2.0, 2.0, 32)
    estimate = made.unbiased(values[:, None])[:, 0]
    np.testing.assert_allclose(made.channel(1).matrix @ estimate, values, atol=1e-9)


@pytest.mark.parametrize("wrong", [np.array([[0.4]]), np.array([[-1.0]]), np.array([[4.0]]), np.zeros(3)])
def test_only_released_values_are_estimated_from(wrong):
    with pytest.raises(BadInput, match=r"(off the 4 levels|expected tensors).*\.$"):
        sf.GridTensorLDP(1.0, (0.0, 3.0), 4, unit="component").unbiased(wrong * 1.0)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"levels": 1}, "`levels` must be a whole number from 2 to 4,096, not 1"),
        ({"levels": 0}, "`levels` must be"),
        ({"levels": 4097}, "`levels` must be a whole number from 2 to 4,096, not 4097"),
        ({"levels": 2.5}, "`levels` must be"),
        ({"levels": True}, "`levels` must be"),
        ({"levels": 2**70}, "`levels` must be"),
        ({"bounds": (1.0, 1.0)}, "each lower bound must lie below its upper bound"),
        ({"bounds": (1.0, 0.0)}, "each lower bound must lie below its upper bound"),
        ({"bounds": (0.0, math.inf)}, "`bounds` must be within"),
        ({"bounds": ([0.0], [1.0])}, "two numbers for all components"),
        ({"epsilon": 0.0}, "`epsilon` must be a positive number"),
        ({"epsilon": 1e-13}, "too small for a coin of 64 bits"),
        ({"unit": "pixel"}, "`unit` must be one of component, tensor"),
        ({"outside": "wrap"}, "`outside` must be one of refuse, clip"),
        ({"shape": (3, 3)}, "have 9 components, but the data has 4"),
        ({"shape": (2, 0)}, "sides of one tensor"),
    ],
)
def test_refusals(change, sentence):
    given = {"epsilon": 1.0, "bounds": (0.0, 1.0), "levels": 4} | change
    with pytest.raises(BadInput, match=sentence) as refusal:
        sf.GridTensorLDP(**given).release(np.full((3, 2, 2), 0.5))
    assert str(refusal.value).endswith(".")
    assert "\n" not in str(refusal.value)


def test_values_outside_the_bounds_are_refused_by_place_or_clipped():
    X = np.full((3, 2, 2), 0.5)
    X[2, 0, 1] = -7.25
    with pytest.raises(BadInput, match=r"row 3, component 2 lies outside the bounds 0 to 1") as refusal:
        sf.GridTensorLDP(1.0, (0.0, 1.0), 4).release(X)
    assert "7.25" not in str(refusal.value)
    clipped = sf.GridTensorLDP(1e3, (0.0, 1.0), 3, unit="component", outside="clip").release(X).value
    assert clipped[2, 0, 1] == 0.0


def test_levels_that_single_precision_cannot_hold_are_refused():
    made = sf.GridTensorLDP(1.0, (0.0, 1e100), 4)
    with pytest.raises(BadInput, match=r"do not fit in float32; give the records as float64\.$"):
        made.release(np.zeros((2, 2), dtype=np.float32))
    assert np.isfinite(made.release(np.zeros((2, 2))).value).all()


def test_many_levels_are_prepared_in_seconds():
    """The search for (p, b) does not grow with the square of the levels; that would take minutes here."""
    start = time.process_time()
    assert best_channel(2.0, 1024)[2].levels == 1024
    assert time.process_time() - start < 20.0
