"""TLDP as published: its formulas, what is proven of it, its weights, and what it refuses."""

import math

import numpy as np
import pytest

import sfumato as sf
from sfumato.errors import BadInput
from sfumato.mechanisms.tensor_ldp import saliency_weights
from sfumato.privacy import Guarantee, gaussian_epsilon

IMAGE = 784


@pytest.mark.parametrize(("span", "p"), [(256.0, 1 / 513), (1.0, 1 / 3)])
def test_the_probability_of_keeping_depends_on_the_unit_of_measurement(span, p):
    """With b = Δ/ε algorithm 1 gives p = 1/(2b + 1)."""
    assert sf.TensorLDP(1.0, (0.0, span)).keep_probability(IMAGE) == pytest.approx(p, rel=1e-12)


def test_the_two_formulas_of_the_paper_disagree():
    """Algorithm 1 has ε − Δ/b in the exponent, the proof of theorem 1 has ε − IΔ/b."""
    epsilon, span, size = 0.5, 4.0, 6
    spread, sigma = 2 * span / epsilon, span / math.sqrt(2 * epsilon)
    gain, wide = math.exp(epsilon - size * epsilon), sigma * math.sqrt(2 * math.pi)
    expected = {
        ("laplace", "algorithm"): 1.0 / (spread + 1.0),
        ("laplace", "proof"): gain / (spread + gain),
        ("gaussian", "algorithm"): math.exp(-epsilon) / (wide + math.exp(-epsilon)),
        ("gaussian", "proof"): gain / (wide + gain),
    }
    for (noise, retain), p in expected.items():
        made = sf.TensorLDP(epsilon, (0.0, span), noise=noise, retain=retain)
        assert made.keep_probability(size) == pytest.approx(p, rel=1e-12), (noise, retain)


def test_what_is_proven_of_mnist_at_a_claimed_epsilon_of_one():
    """Some pixel leaks exactly with probability 0.78, and the noise alone is ε = 784."""
    statement = sf.TensorLDP(1.0, (0.0, 256.0)).statement(IMAGE)
    component, (tensor,) = statement.proven, statement.also_proven
    assert (str(component.unit), str(tensor.unit)) == ("component", "tensor")
    assert statement.claimed.epsilon == 1.0
    assert component.epsilon() == pytest.approx(1.0)
    assert component.at_delta == pytest.approx(0.00195, rel=1e-3)
    assert tensor.revealed == pytest.approx(0.7834, abs=1e-4)
    assert tensor.epsilon() == pytest.approx(784.0)
    assert component.epsilon(0.0019) == math.inf  # no ε gives a δ below p


@pytest.mark.parametrize(("claimed", "alone"), [(0.1, 1.76), (1.0, 6.57), (10.0, 28.4)])
def test_gaussian_noise_alone_is_far_from_the_claim(claimed, alone):
    made = sf.TensorLDP(claimed, (0.0, 256.0), noise="gaussian")
    curve = made.guarantee(IMAGE).curve
    assert curve.epsilon(1e-5) == pytest.approx(alone, rel=2e-3)
    assert curve.epsilon(1e-5) == pytest.approx(gaussian_epsilon(math.sqrt(2 * claimed), 1e-5))


@pytest.mark.parametrize("unit", ["component", "tensor"])
def test_gaussian_guarantees_are_the_mixture(unit):
    """Component: p + (1 − p)·δ_G(ε; Δ/σ); tensor: r + (1 − r)·δ_G(ε; √I·Δ/σ) with r = 1 − (1 − p)^I."""
    size = 9
    made = sf.TensorLDP(1.0, (0.0, 4.0), noise="gaussian", unit=unit)
    p = made.keep_probability(size)
    shown, mu = (p, math.sqrt(2.0)) if unit == "component" else (1 - (1 - p) ** size, 3 * math.sqrt(2.0))
    for epsilon in (0.5, 2.0, 8.0):
        expected = shown + (1 - shown) * Guarantee.gaussian(1.0 / mu).delta(epsilon)
        assert made.guarantee(size).delta(epsilon) == pytest.approx(expected, rel=1e-9)


def test_public_weights_change_each_probability():
    """Weighted: the component that is kept most often counts, and 1 − Π(1 − pᵢ)."""
    weights = np.array([[0.0, 0.5], [1.0, 0.25]])
    made = sf.WeightedTensorLDP(1.0, (0.0, 1.0), weights=weights, shape=(2, 2, 3))
    p = made.keep_probability(12)
    kept = np.repeat(p * (1 - weights.reshape(-1)), 3)
    component, (tensor,) = made.statement(12).proven, made.statement(12).also_proven
    assert component.revealed == pytest.approx(p)
    assert tensor.revealed == pytest.approx(1 - np.prod(1 - kept), rel=1e-9)
    ones = sf.WeightedTensorLDP(1.0, (0.0, 1.0), weights=1.0)
    assert ones.guarantee(4).revealed == 0.0
    assert ones.guarantee(4).epsilon() == pytest.approx(1.0)


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_weights_that_look_at_the_data_are_paid_for(noise):
    """Each coin that looks is (log 1/(1 − p), p)-DP: one for grey values, all of them for a saliency map."""
    size = 16
    plain = sf.TensorLDP(1.0, (0.0, 1.0), noise=noise)
    p = plain.keep_probability(size)
    shown = 1 - (1 - p) ** size
    for weights, coins, slack in (("grey", 1, p), ("saliency", size, shown)):
        made = sf.WeightedTensorLDP(1.0, (0.0, 1.0), weights=weights, noise=noise).guarantee(size)
        delta = made.slack + 1e-6
        alone = min(plain.guarantee(size).curve.pure, plain.guarantee(size).curve.epsilon(1e-6) + 1e-5)
        assert made.slack == pytest.approx(slack, rel=1e-9)
        assert made.revealed == 0.0
        assert made.epsilon(delta) <= alone - coins * math.log1p(-p) + 1e-6
        assert made.epsilon(delta) > plain.guarantee(size).curve.epsilon(1e-6)


def test_a_release_keeps_the_shape_and_the_kept_values():
    X = np.random.default_rng(0).integers(0, 256, (40, 8, 9, 3)).astype(np.float64)
    release = sf.TensorLDP(50.0, (0.0, 256.0)).release(X)
    assert release.value.shape == X.shape
    same = release.value == X
    p = sf.TensorLDP(50.0, (0.0, 256.0)).keep_probability(216)
    assert same.mean() == pytest.approx(p, abs=6 * math.sqrt(p / X.size))  # false alarm 2e-9
    assert release.statement.parameters["shape"] == [8, 9, 3]


def test_float_values_are_kept_bit_for_bit():
    X = np.random.default_rng(0).random((2000, 5))
    released = sf.TensorLDP(8.0, (0.0, 1.0)).release(X).value
    p = sf.TensorLDP(8.0, (0.0, 1.0)).keep_probability(5)
    assert (released == X).mean() == pytest.approx(p, abs=0.04)


def test_weights_are_broadcast_over_the_remaining_modes():
    weights = np.zeros((4, 4))
    weights[:2] = 1.0  # never kept
    X = np.random.default_rng(0).random((300, 4, 4, 2))
    same = sf.WeightedTensorLDP(8.0, (0.0, 1.0), weights=weights).release(X).value == X
    assert not same[:, :2].any()
    assert same[:, 2:].mean() > 0.5


def test_grey_weights_keep_dark_values_more_often():
    X = np.tile([0.0, 1.0], (4000, 4))
    same = sf.WeightedTensorLDP(8.0, (0.0, 1.0), weights="grey").release(X).value == X
    assert same[:, ::2].mean() > 0.7
    assert same[:, 1::2].mean() < 0.01  # noise on a fine grid is rarely zero


def test_a_saliency_map_stands_out_where_the_picture_does():
    picture = np.zeros((1, 32, 32))
    picture[0, 10:14, 20:24] = 1.0
    weights = saliency_weights(picture.reshape(1, -1), (32, 32)).reshape(32, 32)
    assert weights.min() == 0.0
    assert weights.max() == 1.0
    row, column = np.unravel_index(weights.argmax(), weights.shape)
    assert 8 <= row <= 15
    assert 18 <= column <= 25


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"bounds": (1.0, 1.0)}, "bounds"),
        ({"bounds": (2.0, 1.0)}, "bounds"),
        ({"bounds": ([0, 0], [1, 1])}, "two numbers for all components"),
        ({"noise": "uniform"}, "`noise` must be one of laplace, gaussian"),
        ({"retain": "both"}, "`retain` must be one of algorithm, proof"),
        ({"unit": "pixel"}, "`unit` must be one of component, tensor"),
        ({"epsilon": 0.0}, "`epsilon` must be a positive number"),
        ({"weights": [0.5, 1.5]}, "numbers from 0 to 1"),
        ({"weights": "colour"}, "`weights` must be one of grey, saliency"),
        ({"weights": np.ones((3, 3))}, "do not broadcast over tensors of shape"),
        ({"weights": np.ones((2, 2, 2))}, "do not fit tensors of shape"),
        ({"shape": (2, 3)}, "have 6 components, but the data has 4"),
        ({"shape": "wide"}, "sides of one tensor"),
        ({"outside": "ignore"}, "`outside` must be one of refuse, clip"),
    ],
)
def test_refusals(change, sentence):
    given = {"epsilon": 1.0, "bounds": (0.0, 1.0), "shape": (2, 2)} | change
    kind = sf.WeightedTensorLDP if "weights" in change else sf.TensorLDP
    with pytest.raises(BadInput, match=sentence):
        kind(**given).release(np.full((3, 4), 0.5))


def test_values_outside_the_bounds_are_refused_by_place_or_clipped():
    X = np.full((3, 2, 2), 0.5)
    X[1, 1, 0] = 1.5
    with pytest.raises(BadInput, match=r"row 2, component 3 lies outside the bounds 0 to 1"):
        sf.TensorLDP(1.0, (0.0, 1.0)).release(X)
    released = sf.TensorLDP(1e4, (0.0, 1.0), noise="gaussian", outside="clip").release(X).value
    assert abs(released[1, 1, 0] - 1.0) < 0.1 or released[1, 1, 0] == 1.5


def test_a_guarantee_per_tensor_needs_its_size():
    with pytest.raises(BadInput, match="depends on its size"):
        sf.TensorLDP(1.0, (0.0, 1.0), unit="tensor").guarantee()
    assert sf.TensorLDP(1.0, (0.0, 1.0), unit="tensor", shape=(2, 2)).guarantee().epsilon() == 4.0
    assert sf.TensorLDP(1.0, (0.0, 1.0)).guarantee().epsilon() == 1.0
