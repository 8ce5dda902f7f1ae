"""Trust-adaptive releases and nested tiers: one tier, all tiers pooled, and pooling without nesting."""

import math

import pytest
from games import LESS, NORMAL_THRESHOLDS, normal_score, rows_of, violations

from sfumato.mechanisms import TrustAdaptive
from sfumato.mechanisms.trust_adaptive import Tiers

SAMPLES = 400_000  # a side
PAIR = ((-1.0, 0.0), (1.0, 0.0))
RANGE = {"epsilon": (1.0, 4.0), "delta": 1e-5, "clip": 1.0}
LADDER = [0.0, 0.5, 1.0]


class WeakTrustAdaptive(TrustAdaptive):
    def _scale(self, columns):
        return LESS * super()._scale(columns)


class WeakTiers(Tiers):
    def rungs(self, columns):
        return [LESS * rung for rung in super().rungs(columns)]


@pytest.mark.parametrize("neighbours", ["replace", "zero-out"])
@pytest.mark.parametrize("calibration", ["analytic", "paper"])
def test_one_reader_stays_inside_the_curve_and_leaves_it_with_less_noise(calibration, neighbours):
    """False-alarm rate 1e-6; τ = 0.4, 400 000 samples a side; miss rate below 1e-12."""
    parameters = RANGE | {"distrust": 0.4, "calibration": calibration, "neighbours": neighbours}
    sound = TrustAdaptive(**parameters)
    pair = PAIR if neighbours == "replace" else ((0.0, 0.0), (1.0, 0.0))

    def game(mechanism):
        releases = [mechanism.release(rows_of(record, SAMPLES)).value for record in pair]
        scores = [normal_score(value, *pair, sound.sigma(2)) for value in releases]
        return violations(sound.guarantee(), *scores, NORMAL_THRESHOLDS)

    assert not game(sound)
    assert game(WeakTrustAdaptive(**parameters))


def test_the_papers_noise_breaks_the_papers_claim():
    """Miss rate below 1e-12: at ε = 4 and replace, the classical σ is outside the claimed curve."""
    paper = TrustAdaptive(0.0, **RANGE, calibration="paper")
    claimed = TrustAdaptive(0.0, **RANGE, calibration="analytic").guarantee()
    releases = [paper.release(rows_of(record, SAMPLES)).value for record in PAIR]
    scores = [normal_score(value, *PAIR, paper.sigma(2)) for value in releases]
    assert violations(claimed, *scores, NORMAL_THRESHOLDS)
    assert not violations(paper.guarantee(), *scores, NORMAL_THRESHOLDS)


@pytest.mark.parametrize("weights", [(1, 0, 0), (0.7, 0.2, 0.1), (2, -1, 0), (1, 1, -1)])
def test_a_reader_of_all_tiers_learns_no_more_than_the_most_trusted_tier_shows(weights):
    """False-alarm rate 1e-6; tiers at τ = 0, 0.5, 1 pooled with several weights, 400 000 samples a side."""
    tiers = TrustAdaptive(**RANGE).tiers(LADDER)
    assert not pooled_game(tiers, tiers.guarantee(), weights)


def test_all_tiers_with_less_noise_leave_the_curve():
    """Miss rate below 1e-12; the best pooling of nested tiers is the most trusted one alone."""
    mechanism = TrustAdaptive(**RANGE)
    assert pooled_game(WeakTiers(mechanism, LADDER), mechanism.tiers(LADDER).guarantee(), (1, 0, 0))


def test_the_least_trusted_tier_alone_keeps_its_own_smaller_epsilon():
    """False-alarm rate 1e-6; miss rate below 1e-12; 400 000 samples a side."""
    mechanism = TrustAdaptive(**RANGE)
    proven = TrustAdaptive(1.0, **RANGE).guarantee()
    assert proven.epsilon(1e-5) == pytest.approx(1.0)
    assert mechanism.tiers(LADDER).release([[0.0, 0.0]])[1.0].statement.proven == proven
    assert not pooled_game(mechanism.tiers(LADDER), proven, (0, 0, 1))
    assert pooled_game(WeakTiers(mechanism, LADDER), proven, (0, 0, 1))


def test_independent_noise_for_each_tier_would_cost_more():
    """Miss rate below 1e-12: two independent releases, averaged, leave the curve of the better one."""
    close = {"epsilon": (3.9, 4.0), "delta": 1e-5, "clip": 1.0}
    readers = [TrustAdaptive(distrust, **close) for distrust in (0.0, 1.0)]
    means = [
        sum(reader.release(rows_of(record, SAMPLES)).value for reader in readers) / 2.0 for record in PAIR
    ]
    scores = [normal_score(mean, *PAIR, readers[0].sigma(2) / 2**0.5) for mean in means]
    assert violations(readers[0].guarantee(), *scores, NORMAL_THRESHOLDS)
    tiers = TrustAdaptive(**close).tiers([0.0, 1.0])
    assert not pooled_game(tiers, tiers.guarantee(), (0.5, 0.5))


def pooled_game(tiers, guarantee, weights):
    """The game of a reader who adds up the tiers with these weights."""
    # A rung's noise is part of its own tier and of all after it.
    shares = [sum(weights[rung:]) for rung in range(len(weights))]
    deviation = math.hypot(*(share * scale for share, scale in zip(shares, tiers.rungs(2), strict=True)))
    scores = []
    for record in PAIR:
        releases = tiers.release(rows_of(record, SAMPLES)).values()
        pooled = sum(weight * release.value for weight, release in zip(weights, releases, strict=True))
        scores.append(normal_score(pooled, *PAIR, deviation))
    return violations(guarantee, *scores, NORMAL_THRESHOLDS)
