"""Directional, matrix-variate, layered and symmetric noise: inside the curve, outside with 20% less noise."""

import math

import numpy as np
import pytest
from games import LESS, NORMAL_THRESHOLDS, WeakGaussian, normal_score, rows_of, violations

import sfumato as sf
from sfumato.mechanisms import (
    HessianClipped,
    IndependentDirectional,
    LayerAdaptive,
    MatrixVariateGaussian,
    SymmetricTensors,
)

SAMPLES = 400_000  # a side
BUDGET = {"epsilon": 2.0, "delta": 1e-5}


def basis(side, seed=0):
    return np.linalg.qr(np.random.default_rng(seed).normal(size=(side, side)))[0]


def weak(kind):
    """The same mechanism with a fifth of its noise missing."""
    return type(kind.__name__, (kind,), {"_scale": lambda self, columns: LESS * kind._scale(self, columns)})


BALL = {"clip": 1.0, "shape": (2, 3)}
TURNED = BALL | {"directions": [basis(2), basis(3, 1)], "deviations": [[1.0, 2.0, 3.0], [4.0, 1.5, 9.0]]}
ROWS = {"row_directions": basis(2), "row_precision": [0.9, 0.1]}
COLUMNS = {"column_directions": basis(3, 1), "column_precision": [0.2, 0.7, 0.1]}
CASES = {
    "IDN": (IndependentDirectional, TURNED),
    "IDN, zero-out": (IndependentDirectional, TURNED | {"neighbours": "zero-out"}),
    "IDN, paper": (IndependentDirectional, TURNED | {"calibration": "paper"}),
    "MVG": (MatrixVariateGaussian, BALL | ROWS | COLUMNS),
    "MVG, columns": (MatrixVariateGaussian, BALL | {"clip": 3.0, "column_precision": [0.2, 0.5, 0.3]}),
}
LAYERS = {"layers": (2, 1, 3)}
LAYERED = {
    "LayerAdaptive": (LayerAdaptive, LAYERS | {"clip": (1.0, 3.0, 0.2), "shares": (0.2, 0.5, 0.3)}),
    "LayerAdaptive, zero-out": (LayerAdaptive, LAYERS | {"clip": 1.0, "neighbours": "zero-out"}),
    "LayerAdaptive, late": (LayerAdaptive, LAYERS | {"clip": 1.0, "progress": 1.0}),
    "HessianClipped": (HessianClipped, LAYERS | {"clip": 1.0, "curvature": (9.0, 1.0, 0.1)}),
}


def neighbours_of(point, mechanism):
    return (-point, point) if mechanism.neighbours == "replace" else (0.0 * point, point)


@pytest.mark.parametrize("name", CASES)
def test_directional_noise_stays_inside_its_curve_and_leaves_it_with_less(name):
    """False-alarm rate 1e-6; ε = 2, 400 000 samples a side; miss rate below 1e-12.

    The worst pair lies along the direction with the least noise, at the edge of the ball.
    """
    kind, parameters = CASES[name]
    sound = kind(**BUDGET, **parameters)
    worst = np.zeros(6)
    worst[sound.deviations_along(6).argmin()] = 1.0
    point = parameters["clip"] * sound._frame(6).turned_back(worst[None, :])[0]
    pair = neighbours_of(point, sound)
    sigma, proven = sound.sigma(6), sound.guarantee(6)

    def game(mechanism):
        scores = [normal_score(mechanism.perturb(rows_of(p, SAMPLES)), *pair, sigma) for p in pair]
        return violations(proven, *scores, NORMAL_THRESHOLDS)

    assert not game(sound)
    assert game(weak(kind)(**BUDGET, **parameters))


@pytest.mark.parametrize("name", LAYERED)
def test_layers_together_stay_inside_the_curve_and_leave_it_with_less(name):
    """False-alarm rate 1e-6; ε = 2, 400 000 samples a side; miss rate below 1e-12.

    The worst client moves every layer across its ball; the score weighs layers by their noise.
    """
    kind, parameters = LAYERED[name]
    sound = kind(**BUDGET, **parameters)
    sizes = np.array(parameters["layers"])
    each = np.repeat(sound.sigmas(), sizes)
    point = np.repeat(sound.thresholds() / np.sqrt(sizes), sizes)
    pair = neighbours_of(point, sound)
    proven = sound.guarantee(6)

    def game(mechanism):
        white = [end / each for end in pair]
        scores = [normal_score(mechanism.perturb(rows_of(p, SAMPLES)) / each, *white, 1.0) for p in pair]
        return violations(proven, *scores, NORMAL_THRESHOLDS)

    assert not game(sound)
    assert game(weak(kind)(**BUDGET, **parameters))


def test_one_layer_alone_stays_inside_its_own_curve():
    """False-alarm rate 1e-6; 400 000 samples a side, all layers moving; miss rate below 1e-12."""
    kind, parameters = LAYERED["LayerAdaptive"]
    sound = kind(**BUDGET, **parameters)
    point = np.repeat(sound.thresholds() / np.sqrt((2.0, 1.0, 3.0)), (2, 1, 3))
    first, sigma = (-point[:2], point[:2]), sound.sigmas()[0]

    def game(mechanism):
        released = [mechanism.perturb(rows_of(p, SAMPLES))[:, :2] for p in (-point, point)]
        scores = [normal_score(r, *first, sigma) for r in released]
        return violations(sound.guarantee_of(0), *scores, NORMAL_THRESHOLDS)

    assert not game(sound)
    assert game(weak(kind)(**BUDGET, **parameters))


def test_thresholds_read_off_the_client_break_the_claim():
    """No false alarms: that nothing is proven is shown by an attack that the claimed curve excludes.

    A quiet client and a loud one are told apart by the size of the noise on the first layer alone.
    """
    mechanism = HessianClipped(**BUDGET, clip=1.0, layers=(2, 2), curvature="own")
    assert mechanism.guarantee(4).proves_nothing
    claimed = HessianClipped(**BUDGET, clip=1.0, layers=(2, 2)).guarantee(4)
    quiet, loud = np.array([1.0, 1.0, 1e-3, 1e-3]), np.array([1e-3, 1e-3, 1.0, 1.0])
    scores = [np.abs(mechanism.perturb(rows_of(end, 20_000))[:, 0]) for end in (quiet, loud)]
    assert violations(claimed, *scores, [0.1 * HessianClipped(**BUDGET, clip=1.0).sigmas()[0]])


@pytest.mark.parametrize(("side", "order"), [(2, 2), (2, 3)])
def test_symmetric_tensors_stay_inside_the_curve_and_leave_it_with_less(side, order):
    """False-alarm rate 1e-6; ε = 2, 400 000 samples a side; miss rate below 1e-12.

    Worst pairs: opposite symmetric tensors of the largest Frobenius norm, with most of it off the diagonal.
    """
    tensor = np.full((side,) * order, 1.0)
    tensor[(0,) * order] = 0.3
    point = (tensor / np.linalg.norm(tensor)).reshape(-1)
    components = math.comb(side + order - 1, order)
    sigma = sf.Gaussian(**BUDGET, clip=1.0).sigma(components)
    sound = SymmetricTensors(sf.Gaussian(**BUDGET, clip=1.0), order=order)
    proven = sound.guarantee(side**order)

    def game(mechanism):
        released = [mechanism.perturb(rows_of(end, SAMPLES)) for end in (-point, point)]
        scores = [normal_score(value, -point, point, sigma) for value in released]
        return violations(proven, *scores, NORMAL_THRESHOLDS)

    assert not game(sound)
    assert game(SymmetricTensors(WeakGaussian(**BUDGET, clip=1.0), order=order))
