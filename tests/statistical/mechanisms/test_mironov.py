"""Mironov's attack on the least significant bits (CCS 2012): it breaks plain float noise, and not ours."""

import numpy as np
from games import laplace_score, laplace_thresholds, rows_of, upper_bound, violations

from sfumato.mechanisms import Laplace

SAMPLES = 200_000
EPSILON = 1.0
SCALE = 1.0  # clip = 1/2 under replace


def test_the_attack_breaks_plain_float_laplace_noise():
    """False-alarm rate 1e-6 for the bound; a miss has chance below 1e-12.

    Textbook noise b·log u reaches few of the doubles, and other ones from 0 than from 1. An output that 0
    cannot reach came from 1: the errors bound ε from below by far more than the ε = 1 of the real law.
    """
    generator = np.random.default_rng()
    outputs = [float(x) + float_laplace(generator) for x in (0, 1)]
    wrong, missed = reachable_from(0.0, outputs[0]), reachable_from(0.0, outputs[1])
    alpha = upper_bound(int(np.sum(~wrong)), SAMPLES, 5e-7)
    beta = upper_bound(int(np.sum(missed)), SAMPLES, 5e-7)
    assert np.log((1.0 - beta) / alpha) > 6.0 * EPSILON
    assert violations(Laplace(EPSILON, 0.5).guarantee(), ~wrong * 1.0, ~missed * 1.0, [0.5])


def test_the_attack_fails_against_ours():
    """False-alarm rate 1e-6 for each of two games: the same test of reachability, the likelihood ratio."""
    mechanism, outputs = ours()
    unreachable = [~reachable_from(0.0, values) * 1.0 for values in outputs]
    assert not violations(mechanism.guarantee(), *unreachable, [0.5])
    scores = [laplace_score(values[:, None], -0.5, 0.5, SCALE) for values in outputs]
    assert not violations(mechanism.guarantee(), *scores, laplace_thresholds(EPSILON))


def test_the_lowest_bits_of_ours_say_nothing():
    """False-alarm rate 1e-6; each of the 20 lowest bits of the grid index as the reader's whole score."""
    mechanism, outputs = ours()
    step = 2.0**-12
    bits = [np.rint(values / step).astype(np.int64) for values in outputs]
    for bit in range(20):
        scores = [((index >> bit) & 1).astype(float) for index in bits]
        assert not violations(mechanism.guarantee(), *scores, [0.5])
        assert not violations(mechanism.guarantee(), *(1.0 - score for score in scores), [0.5])


def test_both_records_reach_the_same_doubles():
    """False-alarm rate below 1e-20: every grid point within ±0.9 is expected a hundred times and more."""
    mechanism = Laplace(EPSILON, 0.5)
    step = 2.0**-12
    reached = []
    for record in (-0.5, 0.5):
        indices = mechanism.release(rows_of([record], 4_000_000)).value[:, 0] / step
        assert np.all(indices == np.rint(indices))  # no other double is ever released
        near = indices[np.abs(indices) <= 0.9 / step].astype(np.int64)
        reached.append(set(np.unique(near).tolist()))
    assert reached[0] == reached[1]
    assert len(reached[0]) == 2 * int(0.9 / step) + 1


def test_a_negative_zero_is_never_released():
    """No chance of a false alarm: the sign of a zero would show the sign of what was rounded to it."""
    for record in (-1e-12, 1e-12, 0.0):
        values = Laplace(2000.0, 0.5).release(rows_of([record], 10 * SAMPLES)).value
        zeros = values[values == 0.0]
        assert zeros.size > 50  # about one in eight thousand
        assert not np.signbit(zeros).any()


def float_laplace(generator):
    """Inverse transform in doubles: u a multiple of 2⁻⁵³, noise ±log u."""
    u = generator.integers(1, 2**53, SAMPLES) * 2.0**-53
    return np.where(generator.random(SAMPLES) < 0.5, np.log(u), -np.log(u))


def reachable_from(x, outputs):
    """Whether some u near exp(−|y − x|) gives y = fl(x ± log u) exactly."""
    outputs = outputs.ravel()
    sign = np.where(outputs >= x, -1.0, 1.0)
    guess = np.rint(np.exp(-np.abs(outputs - x)) * 2.0**53)
    found = np.zeros(outputs.size, dtype=bool)
    for offset in range(-4, 5):
        u = np.clip(guess + offset, 1, 2.0**53 - 1) * 2.0**-53
        found |= x + sign * np.log(u) == outputs
    return found


def ours():
    mechanism = Laplace(EPSILON, 0.5)
    return mechanism, [mechanism.release(rows_of([r], SAMPLES)).value[:, 0] for r in (-0.5, 0.5)]
