"""Gaussian, Laplace and personalised noise: inside the proven curve, and outside it with 20% less noise."""

import numpy as np
import pytest
from games import (
    LESS,
    NORMAL_THRESHOLDS,
    WeakGaussian,
    WeakLaplace,
    laplace_score,
    laplace_thresholds,
    normal_score,
    rows_of,
    violations,
)

import sfumato as sf
from sfumato.mechanisms import AdditiveNoise, Gaussian, Laplace, Personalised

SAMPLES = 400_000  # a side

BALL = {"clip": 1.0}
BOX = {"bounds": ((-1.0, 0.0, 10.0), (1.0, 0.5, 10.25))}
# Worst-case pairs: opposite points of the ball, opposite corners of the box, or one and the null value.
PAIRS = {
    ("ball", "replace"): ((0.0, -1.0, 0.0), (0.0, 1.0, 0.0)),
    ("ball", "zero-out"): ((0.0, 0.0, 0.0), (0.0, 0.0, 1.0)),
    ("box", "replace"): ((-1.0, 0.0, 10.0), (1.0, 0.5, 10.25)),
    ("box", "zero-out"): ((0.0, 0.25, 10.125), (1.0, 0.5, 10.25)),
}
CASES = [(domain, neighbours) for domain, neighbours in PAIRS]


class WeakPersonalised(Personalised):
    def _scale(self, columns):
        return LESS * super()._scale(columns)


@pytest.mark.parametrize(("domain", "neighbours"), CASES)
def test_gaussian_stays_inside_its_curve_and_leaves_it_with_less_noise(domain, neighbours):
    """False-alarm rate 1e-6; ε = 2, 400 000 samples a side; miss rate below 1e-12."""
    parameters = {"epsilon": 2.0, "delta": 1e-5, "neighbours": neighbours} | declared(domain)
    sound = Gaussian(**parameters)
    assert not gaussian_game(sound, sound, PAIRS[domain, neighbours])
    assert gaussian_game(WeakGaussian(**parameters), sound, PAIRS[domain, neighbours])


@pytest.mark.parametrize(("domain", "neighbours"), CASES)
def test_laplace_stays_inside_its_curve_and_leaves_it_with_less_noise(domain, neighbours):
    """False-alarm rate 1e-6; ε = 2, 400 000 samples a side; miss rate below 1e-12."""
    parameters = {"epsilon": 2.0, "neighbours": neighbours} | declared(domain)
    sound = Laplace(**parameters)
    assert not laplace_game(sound, sound, PAIRS[domain, neighbours])
    assert laplace_game(WeakLaplace(**parameters), sound, PAIRS[domain, neighbours])


def test_records_outside_the_ball_are_no_easier_to_tell_apart():
    """False-alarm rate 1e-6; records a thousand times too long, in a direction that no grid point lies on."""
    sound = Gaussian(2.0, 1e-5, 1.0)
    way = np.array([1.0, -2.0, np.pi])
    pair = (-1000.0 * way, 1000.0 * way)
    unit = way / np.linalg.norm(way)
    scores = [
        normal_score(sound.release(rows_of(record, SAMPLES)).value, -unit, unit, sound.sigma(3))
        for record in pair
    ]
    assert not violations(sound.guarantee(), *scores, NORMAL_THRESHOLDS)


def test_float32_records_stay_inside_the_curve():
    """False-alarm rate 1e-6; the released float32 is a rounding of the float64 release."""
    sound = Gaussian(2.0, 1e-5, 1.0)
    pair = PAIRS["ball", "replace"]
    releases = [sound.release(rows_of(record, SAMPLES).astype(np.float32)).value for record in pair]
    assert all(value.dtype == np.float32 for value in releases)
    scores = [normal_score(value, *pair, sound.sigma(3)) for value in releases]
    assert not violations(sound.guarantee(), *scores, NORMAL_THRESHOLDS)


@pytest.mark.parametrize("epsilon", [1.0, 4.0])
def test_personalised_protects_each_record_by_its_own_epsilon(epsilon):
    """False-alarm rate 1e-6; records of ε = 1 and ε = 4 take turns, 400 000 samples a side and a kind."""
    budgets = np.tile([1.0, 4.0], SAMPLES)
    own = budgets == epsilon
    sound, weak = Personalised(budgets, 1e-5, 1.0), WeakPersonalised(budgets, 1e-5, 1.0)
    proven = sound.guarantee_of(int(np.flatnonzero(own)[0]))
    assert proven.epsilon(1e-5) == pytest.approx(epsilon)
    pair, sigma = PAIRS["ball", "replace"], Gaussian(epsilon, 1e-5, 1.0).sigma(3)

    def game(mechanism):
        releases = [mechanism.release(rows_of(record, 2 * SAMPLES)).value[own] for record in pair]
        return violations(proven, *(normal_score(r, *pair, sigma) for r in releases), NORMAL_THRESHOLDS)

    assert not game(sound)
    assert game(weak)


def test_personalised_headline_is_broken_by_no_record():
    """False-alarm rate 1e-6; the guarantee of the whole release against the rows of every ε together."""
    sound = Personalised(np.tile([1.0, 4.0], SAMPLES // 2), 1e-5, 1.0)
    pair, sigma = PAIRS["ball", "replace"], Gaussian(4.0, 1e-5, 1.0).sigma(3)
    scores = [normal_score(sound.release(rows_of(r, SAMPLES)).value, *pair, sigma) for r in pair]
    assert not violations(sound.guarantee(), *scores, NORMAL_THRESHOLDS)


def test_additive_noise_proves_nothing_and_its_records_are_told_apart():
    """No false alarms: the errors are compared with a curve that is zero everywhere."""
    mechanism = AdditiveNoise(1.0)
    assert mechanism.guarantee().proves_nothing
    assert mechanism.guarantee().tradeoff(0.0) == 0.0
    near, far = (mechanism.release(rows_of([value], 100_000)).value[:, 0] for value in (0.0, 1000.0))
    assert near.max() < 500.0 < far.min()
    assert not violations(mechanism.guarantee(), near, far, [500.0])
    assert violations(sf.Gaussian(8.0, 1e-5, 1.0).guarantee(), near, far, [500.0])


def declared(domain):
    return BALL if domain == "ball" else BOX


def gaussian_game(mechanism, sound, pair):
    sigma = sound.sigma(3)
    scores = [normal_score(mechanism.release(rows_of(r, SAMPLES)).value, *pair, sigma) for r in pair]
    return violations(sound.guarantee(), *scores, NORMAL_THRESHOLDS)


def laplace_game(mechanism, sound, pair):
    record, neighbour = (np.asarray(point) for point in pair)
    scores = [
        laplace_score(mechanism.release(rows_of(r, SAMPLES)).value, record, neighbour, sound.scale(3))
        for r in pair
    ]
    return violations(sound.guarantee(), *scores, laplace_thresholds(sound.epsilon))
