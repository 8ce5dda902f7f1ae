"""Tensor mechanisms and reports: inside what is proven, and outside it with a fifth less protection.

Every game is played on the worst pair of its mechanism. TLDP as published is held against its own mixture in
both directions: what is proven of it is neither too little nor more than needed.
"""

import math
from dataclasses import replace

import numpy as np
import pytest
from games import LESS, rows_of, violations
from scipy.stats import binomtest

import sfumato as sf
from sfumato.mechanisms import box_reports, grid_tensor, privunit
from sfumato.privacy import Guarantee

SAMPLES = 200_000  # a side
# Bounds whose ends lie between points of the noise's grid: an exact value is never met by chance.
BOUNDS = (0.0, 0.7)
LOW, HIGH = BOUNDS


class WeakTensorLDP(sf.TensorLDP):
    def _scale(self, columns):
        return LESS * super()._scale(columns)


class KeenTensorLDP(sf.TensorLDP):
    def keep_probability(self, columns):
        return super().keep_probability(columns) / LESS


class WeakGridTensorLDP(sf.GridTensorLDP):
    def channel(self, columns):
        return grid_tensor.best_channel(self._share(columns) / LESS, self._levels())[2]


class WeakPrivUnit(sf.PrivUnit):
    def cap(self, columns):
        return privunit._best_cap(sf.PrivUnit, self.epsilon / LESS, columns)


class WeakPrivUnitG(sf.PrivUnitG):
    def cap(self, columns):
        return privunit._best_cap(sf.PrivUnitG, self.epsilon / LESS, columns)


def weakened(kind):
    """``kind`` with a fifth less protection for each coordinate than it states."""

    class Weak(kind):
        def _mixture(self, epsilon):
            return super()._mixture(epsilon / LESS)

    return Weak


def tensor_scores(released, mechanism):
    """Log-likelihood ratio of (high, …, high) over (low, …, low): ±inf where a kept value is seen."""
    scale = mechanism._scale(released.shape[1])
    if mechanism.noise == "laplace":
        each = (np.abs(released - LOW) - np.abs(released - HIGH)) / scale
    else:
        each = (released - (LOW + HIGH) / 2.0) * (HIGH - LOW) / scale**2
    scores = each.sum(axis=1)
    scores[(released == LOW).any(axis=1)] = -np.inf
    scores[(released == HIGH).any(axis=1)] = np.inf
    return scores


def play(mechanism, size, changed):
    """Scores of releases of low and of high in the first ``changed`` components, all others being low."""
    out = []
    for value in (LOW, HIGH):
        record = np.full(size, LOW)
        record[:changed] = value
        out.append(mechanism.release(rows_of(record, SAMPLES)).value[:, :changed])
    return out


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
@pytest.mark.parametrize("unit", ["component", "tensor"])
def test_tldp_keeps_what_is_proven_of_it_and_not_with_less_noise_or_a_keener_coin(unit, noise):
    """False-alarm rate 1e-6; ε = 1 claimed, three components; miss rate below 1e-6 for both weak ones."""
    parameters = {"epsilon": 1.0, "bounds": BOUNDS, "noise": noise, "unit": unit}
    sound, changed = sf.TensorLDP(**parameters), 1 if unit == "component" else 3
    thresholds = [*np.linspace(-1.8, 1.8, 9), 20.0]

    def game(mechanism):
        scores = [tensor_scores(released, sound) for released in play(mechanism, 3, changed)]
        return violations(sound.guarantee(3), *scores, thresholds)

    assert not game(sound)
    assert game(KeenTensorLDP(**parameters))
    # The L1 sensitivity of a tensor leaves three Laplace noises together a fifth of room, and more.
    if (unit, noise) != ("tensor", "laplace"):
        assert game(WeakTensorLDP(**parameters))


def measured_delta(record_scores, neighbour_scores, epsilon):
    """An interval that holds P(S | neighbour) − e^ε·P(S | record), S the releases that gain more than ε."""
    counts = [int((scores > epsilon).sum()) for scores in (neighbour_scores, record_scores)]
    more, less = (binomtest(count, SAMPLES).proportion_ci(1.0 - 4e-8, "exact") for count in counts)
    return more.low - math.exp(epsilon) * less.high, more.high - math.exp(epsilon) * less.low


@pytest.mark.parametrize("retain", ["algorithm", "proof"])
@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
@pytest.mark.parametrize("unit", ["component", "tensor"])
def test_the_divergence_of_tldp_is_that_of_the_mixture_in_both_directions(unit, noise, retain):
    """δ at six ε inside exact intervals on both probabilities; false alarms below 1e-6 over all ε.

    r + (1 − r)H, where H is that of the noise: for a tensor that of its components together, which for
    Laplace noise is at most, and at ε = IΔ/b exactly, what is proven from the L1 sensitivity.
    """
    size = 3
    made = sf.TensorLDP(1.0, BOUNDS, noise=noise, unit=unit, retain=retain)
    changed = 1 if unit == "component" else size
    proven, kept = made.guarantee(size), made.keep_probability(size)
    shown = 1.0 - (1.0 - kept) ** changed
    assert proven.revealed == pytest.approx(shown, rel=1e-12)
    ratio = made._scale(size) / (HIGH - LOW)
    if noise == "laplace":
        exact = Guarantee.laplace(ratio).times(changed)
    else:
        exact = Guarantee.gaussian(ratio / math.sqrt(changed))
    scores = [tensor_scores(released, made) for released in play(made, size, changed)]
    for epsilon in (0.0, 0.3, 0.8, 1.5, float(changed), 5.0):
        mixture = shown + (1.0 - shown) * exact.delta(epsilon)
        assert mixture <= proven.delta(epsilon) + 1e-6
        if noise == "gaussian" or unit == "component" or epsilon >= changed:
            assert mixture == pytest.approx(proven.delta(epsilon), abs=1e-6)
        # By symmetry the pair the other way round has the same divergence.
        for one, other in (scores, [-scores[1], -scores[0]]):
            low, high = measured_delta(one, other, epsilon)
            assert low <= mixture + 1e-6
            assert mixture <= high + 1e-3  # values are moved by less than a thousandth to the noise's grid


@pytest.mark.parametrize("unit", ["component", "tensor"])
def test_public_weights_are_paid_by_the_component_that_is_kept_most(unit):
    """False-alarm rate 1e-6; weights 0, ½ and 1, on the component of weight 0 or on all three."""
    made = sf.WeightedTensorLDP(1.0, BOUNDS, weights=[0.0, 0.5, 1.0], unit=unit, shape=(3,))
    changed = 1 if unit == "component" else 3
    scores = [tensor_scores(released, made) for released in play(made, 3, changed)]
    proven = made.guarantee(3)
    assert not violations(proven, *scores, [*np.linspace(-1.8, 1.8, 9), 20.0])
    low, high = measured_delta(*scores, 3.5)  # beyond all noise: the coins alone
    assert low <= proven.revealed <= high


@pytest.mark.parametrize("unit", ["component", "tensor"])
@pytest.mark.parametrize("weights", ["grey", "saliency"])
def test_weights_that_look_at_the_data_stay_inside_what_is_proven(weights, unit):
    """False-alarm rate 1e-6; a dark tensor is kept, a bright one is not, so the coin itself tells them apart.

    Held also against r + (1 − r)H: a coin that never keeps with more than p is, in law, a public coin of p
    before anything that depends on the data.
    """
    made = sf.WeightedTensorLDP(1.0, BOUNDS, weights=weights, unit=unit, shape=(2, 2))
    plain = sf.TensorLDP(1.0, BOUNDS, unit=unit, shape=(2, 2))
    whole = sf.TensorLDP(1.0, BOUNDS, unit="tensor", shape=(2, 2)).guarantee().revealed
    shown = plain.guarantee().revealed if weights == "grey" else whole
    changed = 1 if unit == "component" else 4
    scores = [tensor_scores(released, made) for released in play(made, 4, changed)]
    for proven in (made.guarantee(4), replace(plain.guarantee(), revealed=shown)):
        assert not violations(proven, *scores, [-0.9, 0.0, 0.9, 20.0])


@pytest.mark.parametrize("unit", ["component", "tensor"])
@pytest.mark.parametrize("epsilon", [1.0, 3.0])
def test_the_repaired_grid_stays_inside_its_curve_and_leaves_it_when_weakened(epsilon, unit):
    """False-alarm rate 1e-6; five levels, two components, the log ratios of the matrix as score.

    Both ends of the range are the worst pair; miss rate below 1e-6 for a channel of ε/0.8.
    """
    parameters = {"epsilon": epsilon, "bounds": (0.0, 1.0), "levels": 5, "unit": unit}
    sound, changed = sf.GridTensorLDP(**parameters), 1 if unit == "component" else 2
    logs = np.log(sound.channel(2).matrix)
    gain = logs[-1] - logs[0]
    assert gain.max() == pytest.approx(sound.channel(2).epsilon, rel=1e-6)

    def game(mechanism):
        scores = []
        for value in (0.0, 1.0):
            record = np.zeros(2)
            record[:changed] = value
            released = mechanism.release(rows_of(record, SAMPLES)).value[:, :changed]
            scores.append(gain[np.rint(released * 4).astype(int)].sum(axis=1))
        return violations(sound.guarantee(2), *scores, np.linspace(-0.99, 0.99, 7) * changed * gain.max())

    assert not game(sound)
    assert game(WeakGridTensorLDP(**parameters))


@pytest.mark.parametrize("columns", [2, 6])
@pytest.mark.parametrize("epsilon", [0.5, 3.0])
@pytest.mark.parametrize(
    ("kind", "weak"), [(sf.PrivUnit, WeakPrivUnit), (sf.PrivUnitG, WeakPrivUnitG)], ids=["sphere", "gaussian"]
)
def test_priv_unit_stays_inside_its_curve_and_leaves_it_with_a_larger_coin(kind, weak, epsilon, columns):
    """False-alarm rate 1e-6; opposite vectors, whether a report lies in the cap; miss rate below 1e-6."""
    u = np.random.default_rng(columns).standard_normal(columns)
    u /= np.linalg.norm(u)
    sound = kind(epsilon)

    def game(mechanism):
        cap = mechanism.cap(columns)
        thresholds = [0.0, 0.5 * cap.threshold, cap.threshold * (1.0 - 1e-3), cap.threshold * 1.2]
        scores = [
            mechanism.release(rows_of(record, SAMPLES)).value @ u * cap.mean for record in (-u, u)
        ]  # of unit vectors or of Gaussian ones: what was divided by the mean is multiplied again
        return violations(sound.guarantee(columns), *scores, thresholds)

    assert not game(sound)
    assert game(weak(epsilon))


@pytest.mark.parametrize("kind", [sf.PrivUnit, sf.PrivUnitG])
def test_no_length_inside_the_ball_is_told_from_another(kind):
    """False-alarm rate 1e-6; zero against a unit vector, and a short one against its opposite."""
    sound = kind(2.0)
    u = np.array([0.8, -0.6, 0.0])
    cap = sound.cap(3)
    thresholds = [-cap.threshold, 0.0, cap.threshold * (1.0 - 1e-3)]
    for pair in ((0.0 * u, u), (-0.3 * u, 0.9 * u)):
        scores = [sound.release(rows_of(record, SAMPLES)).value @ u * cap.mean for record in pair]
        assert not violations(sound.guarantee(3), *scores, thresholds)


@pytest.mark.parametrize("coordinates", [1, 2])
@pytest.mark.parametrize("kind", [sf.Duchi, sf.Piecewise, sf.Hybrid])
def test_reports_of_a_box_stay_inside_their_curve_and_leave_it_when_weakened(kind, coordinates):
    """False-alarm rate 1e-6; ε = 2, opposite corners of three columns; miss rate below 1e-6.

    The score of a chosen coordinate is ±ε′ where it falls outside the other corner's window, or says so.
    """
    sound = kind(2.0, (0.0, 1.0), coordinates=coordinates)
    each = 2.0 / coordinates

    def game(mechanism):
        _, window, two = mechanism._mixture(each)
        scores = []
        for value in (0.0, 1.0):
            t = (mechanism.release(rows_of(np.full(3, value), SAMPLES)).value * 2.0 - 1.0) * coordinates / 3.0
            score = np.zeros_like(t)
            if two is not None:
                score = np.where(np.abs(np.abs(t) - two.size) < 1e-9 * two.size, np.sign(t), score)
            if window is not None:
                # The window of an end of the range holds ``width`` of the cells, next to that end.
                edge = (1.0 - 2.0 * window.width / box_reports._CELLS) / window._slope
                score = np.where((score == 0.0) & (np.abs(t) > edge), np.sign(t), score)
            scores.append(score.sum(axis=1))
        return violations(sound.guarantee(3), *scores, np.arange(-coordinates, coordinates) + 0.5)

    assert not game(sound)
    assert game(weakened(kind)(2.0, (0.0, 1.0), coordinates=coordinates))
