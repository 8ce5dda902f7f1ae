"""Layers of model parameters: joint sensitivity, shares of the budget, the way there and back, refusals."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import chi2
from sklearn.utils.estimator_checks import check_estimator

import sfumato as sf
from sfumato.errors import BadInput
from sfumato.mechanisms.model_parameters import LayerAdaptive
from sfumato.privacy import gaussian_epsilon, gaussian_mu

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")

SIZES, CLIPS, SHARES = (6, 3, 1), (1.0, 0.5, 2.0), (0.5, 0.3, 0.2)
SHAPES = ((2, 3), (3,), (1,))


def layered(**parameters) -> LayerAdaptive:
    return LayerAdaptive(2.0, 1e-5, **({"clip": CLIPS, "layers": SIZES, "shares": SHARES} | parameters))


def test_the_proven_epsilon_is_the_one_asked_for_a_client():
    proven = layered().guarantee(10)
    assert proven.epsilon(1e-5) == pytest.approx(2.0, rel=1e-9)
    assert proven.epsilon(1e-5) <= 2.0
    assert str(proven.unit) == "client"
    assert str(proven.neighbours) == "replace"


@pytest.mark.parametrize(("neighbours", "factor"), [("replace", 2.0), ("zero-out", 1.0)])
def test_layers_compose_to_the_budget(neighbours, factor):
    """Σ(Δ_l/σ_l)² = μ², each layer with its own share of it."""
    mechanism = layered(neighbours=neighbours)
    parts = np.square(factor * np.array(CLIPS) / mechanism.sigmas())
    mu = gaussian_mu(2.0, 1e-5)
    assert parts.sum() == pytest.approx(mu**2, rel=1e-9)
    assert parts.sum() <= mu**2
    np.testing.assert_allclose(parts / parts.sum(), SHARES, rtol=1e-9)


@pytest.mark.parametrize("layer", [0, 1, 2])
def test_one_layer_alone_tells_less(layer):
    alone = layered().guarantee_of(layer)
    assert alone.epsilon(1e-5) == pytest.approx(
        gaussian_epsilon(gaussian_mu(2.0, 1e-5) * math.sqrt(SHARES[layer]), 1e-5), rel=1e-8
    )
    assert alone.epsilon(1e-5) < 2.0


def test_shares_begin_equal_and_move_toward_the_input():
    start, middle, end = (layered(shares=None, progress=p)._shares() for p in (0.0, 0.5, 1.0))
    np.testing.assert_allclose(start, 1.0 / 3.0)
    np.testing.assert_allclose(end, [5.0 / 9.0, 3.0 / 9.0, 1.0 / 9.0])
    assert end[0] > middle[0] > start[0]
    assert 0.0 < end[2] < middle[2] < start[2]
    for progress in (0.0, 0.5, 1.0):
        assert layered(shares=None, progress=progress).guarantee(10) == layered().guarantee(10)


def test_one_radius_for_all_layers_bounds_the_whole():
    thresholds = layered(clip=3.0).thresholds()
    np.testing.assert_allclose(thresholds, 3.0 / math.sqrt(3.0))
    assert np.linalg.norm(thresholds) == pytest.approx(3.0)


def test_one_layer_is_the_gaussian_mechanism_bit_for_bit():
    X = np.random.default_rng(0).normal(size=(300, 7))
    kind = type("Gaussian", (LayerAdaptive,), {})
    plain = sf.Gaussian(2.0, 1e-5, 1.0, randomness=sf.Seeded(5))
    for given in ({}, {"layers": (7,)}, {"layers": [(7, 1)], "clip": [1.0], "progress": 1.0}):
        made = kind(2.0, 1e-5, **({"clip": 1.0, "randomness": sf.Seeded(5)} | given))
        np.testing.assert_array_equal(made.release(X).value, plain.release(X).value)
        assert made.guarantee(7).event == plain.guarantee(7).event
        assert made.expected_error(7) == plain.expected_error(7)


def test_each_layer_is_clipped_to_its_own_radius():
    """With hardly any noise: a long layer is scaled back, a short one beside it is left alone."""
    X = np.concatenate([np.full((4, 6), 5.0), np.full((4, 3), 0.1), np.full((4, 1), -7.0)], axis=1)
    value = LayerAdaptive(1e7, 0.1, clip=CLIPS, layers=SIZES, shares=SHARES).release(X).value
    assert np.linalg.norm(value[:, :6], axis=1) == pytest.approx(np.ones(4), abs=0.02)
    np.testing.assert_allclose(value[:, 6:9], 0.1, atol=0.02)
    np.testing.assert_allclose(value[:, 9], -2.0, atol=0.02)


def test_the_noise_of_each_layer_is_as_declared():
    """False-alarm rate 1e-6 over the three layers, by χ²."""
    n, mechanism = 20_000, layered(randomness=sf.Seeded(6))
    noise = mechanism.release(np.zeros((n, 10))).value
    for part, sigma, size in zip(
        np.split(noise, np.cumsum(SIZES)[:-1], axis=1), mechanism.sigmas(), SIZES, strict=True
    ):
        length = np.square(part / sigma).sum()
        assert chi2.ppf(1.6e-7, n * size) < length < chi2.isf(1.6e-7, n * size)


def test_expected_error_is_given_for_all_and_for_each_layer():
    overall, *layers = layered().expected_error(10)
    sigmas = layered().sigmas()
    assert overall.value == pytest.approx(math.sqrt(np.dot(SIZES, sigmas**2) / 10))
    assert [error.of for error in layers] == ["layer 1", "layer 2", "layer 3"]
    np.testing.assert_allclose([error.value for error in layers], sigmas)


def test_layers_are_declared_by_their_shapes():
    released = layered(layers=SHAPES).release(np.random.default_rng(1).normal(size=(5, 10)))
    assert released.statement.parameters["layers"] == list(SIZES)


def test_blocks_and_keys_repeat_the_bytes():
    mechanism = layered(randomness=sf.Seeded(8))
    height = mechanism.block_rows(10)
    X = np.random.default_rng(0).normal(size=(height + 5, 10))
    parts = [mechanism.perturb(X[:height]), mechanism.perturb(X[height:], first=height)]
    np.testing.assert_array_equal(np.concatenate(parts), mechanism.perturb(X))
    source = sf.Keyed(bytes(range(32)), dataset="phones", version="1", release="a")
    first, again = (layered(randomness=source).release(X[:5]).value for _ in range(2))
    np.testing.assert_array_equal(first, again)


def test_scikit_learn_accepts_it():
    results = check_estimator(LayerAdaptive(clip=1.0, randomness=sf.Seeded(3), epsilon=1.0), on_fail=None)
    assert not [r["check_name"] for r in results if r["status"] == "failed"]


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"layers": (6, 3, 2)}, "11 parameters were declared, but the data has 10"),
        ({"layers": (6, 0, 4)}, "`shape` must hold"),
        ({"layers": ()}, "`layers` must hold"),
        ({"layers": "deep"}, "`layers` must hold|`shape` must hold"),
        ({"clip": None}, "declare `clip`"),
        ({"clip": (1.0, 1.0)}, "one for each of 3 layers"),
        ({"clip": (1.0, -1.0, 1.0)}, "one for each of 3 layers"),
        ({"clip": 0.0}, "`clip` must be a positive number"),
        ({"shares": (1.0, 1.0)}, "one number for each of 3 layers"),
        ({"shares": (1.0, 0.0, 1.0)}, "`shares` must be positive"),
        ({"shares": None, "progress": 1.5}, "`progress` must lie between 0 and 1"),
        ({"neighbours": "add/remove"}, "`neighbours` must be"),
    ],
)
def test_refusals_are_one_sentence(parameters, words):
    with pytest.raises(BadInput, match=words) as refusal:
        layered(**parameters).guarantee(10)
    assert str(refusal.value).count(". ") == 0
    with pytest.raises(BadInput):
        layered(**parameters).release(np.zeros((2, 10)))


def test_a_layer_that_was_not_declared_is_refused():
    with pytest.raises(BadInput, match="no layer 3"):
        layered().guarantee_of(3)


def test_noise_that_float32_does_not_hold_is_refused():
    with pytest.raises(BadInput, match="float32"):
        layered(clip=1e38).release(np.zeros((2, 10), dtype=np.float32))
