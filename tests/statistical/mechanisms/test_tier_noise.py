"""Tiers that are drawn one at a time: each has the noise of its own promise, all together that of the best.

Deviations are compared with bounds that are worked out here from the theorems alone, and every test that
passes on the mechanism fails on one whose noise is 20 % too small.
"""

import functools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import binom, chi2, fisher_exact

from sfumato.mechanisms import RandomisedResponse, ResponseTier, TierRows, TrustTier
from sfumato.media.images import PlaneTier
from sfumato.noise import Keyed
from sfumato.privacy import gaussian_mu

CHANCE = 1e-6
LEVELS = (0.0, 0.5, 1.0)
RANGE, DELTA = (1.0, 8.0), 1e-5
BUDGETS = {0.0: 8.0, 0.5: 4.5, 1.0: 1.0}
LESS = 0.8
ROWS, COLUMNS = 3000, 4
X = np.random.default_rng(7).uniform(-0.4, 0.4, size=(ROWS, COLUMNS))
# Grey pictures of 16 blocks of 8 × 8 pixels.
SIDE, PICTURES = 8, 500
GREY = np.random.default_rng(8).integers(0, 256, size=(PICTURES, 32, 32), dtype=np.uint8)


def keyed():
    return Keyed(b"tiers" * 8, dataset="ward", version="1", release="an object")


class WeakTrustTier(TrustTier):
    def _perturb_tiers(self, X, first, rungs):
        return super()._perturb_tiers(X, first, [LESS * rung for rung in rungs])


class WeakPlaneTier(PlaneTier):
    def design(self, shape):
        made = super().design(shape)

        class WeakDesign(type(made)):
            def rounded(self, white):
                strong = super().rounded(white)
                return type(strong)([LESS * scale for scale in strong.scales], self._tier)

        return WeakDesign(made._base, made._factors, made._tier)


@functools.cache
def of_records(kind=TrustTier):
    """The noise of each tier on records in a ball of radius 1, whose ends are 2 apart; and its least σ."""
    noise = {
        level: kind(
            distrust=level, levels=LEVELS, epsilon=RANGE, delta=DELTA, clip=1.0, randomness=keyed()
        ).perturb(X)
        - X
        for level in LEVELS
    }
    return noise, {level: 2.0 / gaussian_mu(budget, DELTA) for level, budget in BUDGETS.items()}


@functools.cache
def of_pictures(kind=PlaneTier):
    """The noise of each tier on block sums of pixels in [0, 1], any of which may change; and its least σ."""
    sums = GREY.reshape(PICTURES, 4, SIDE, 4, SIDE).sum(axis=(2, 4)) / 255.0
    noise = {}
    for level in LEVELS:
        budget = {"distrust": level, "levels": LEVELS, "epsilon": RANGE, "delta": DELTA}
        blocks = {"unit": "pixels(1)", "block": SIDE, "restore": "none", "shape": (32, 32)}
        tier = kind(**budget, **blocks, randomness=keyed())
        soft = tier.soften(GREY[..., None], 255.0, 0)[:, ::SIDE, ::SIDE, 0]
        noise[level] = soft * (SIDE**2 / 255.0) - sums
    return noise, {level: 1.0 / gaussian_mu(budget, DELTA) for level, budget in BUDGETS.items()}


def is_enough(noise, sigma):
    """Whether noise of deviation ``sigma`` could be as small as this but for one time in a million."""
    return float(np.square(noise / sigma).sum()) >= chi2.ppf(CHANCE, noise.size)


BOTH = pytest.mark.parametrize(
    ("drawn", "weak"),
    [(of_records, WeakTrustTier), (of_pictures, WeakPlaneTier)],
    ids=["records", "pictures"],
)


@BOTH
def test_each_tier_has_the_noise_of_its_own_promise_and_no_tier_has_less(drawn, weak):
    """False-alarm rate 1e-6 for each tier; noise that is 20 % too small is missed less than once in 10¹²."""
    noise, sigmas = drawn()
    assert all(is_enough(noise[level], sigmas[level]) for level in LEVELS)
    small, _ = drawn(weak)
    assert not any(is_enough(small[level], sigmas[level]) for level in LEVELS)


@BOTH
def test_a_tier_is_the_one_before_it_with_independent_noise_on_top(drawn, weak):
    """False-alarm rate 1e-6 for each pair: steps have their variance, and no correlation with what is below.

    Noise that was drawn anew for each tier would have σ²_i + σ²_j between two of them, and could be averaged.
    """
    noise, sigmas = drawn()
    for below, above in ((0.0, 0.5), (0.5, 1.0)):
        step = noise[above] - noise[below]
        scale = math.sqrt(sigmas[above] ** 2 - sigmas[below] ** 2)
        square = float(np.square(step / scale).sum())
        low, high = chi2.ppf([CHANCE / 4, 1.0 - CHANCE / 4], step.size)
        assert low <= square <= high * 1.001  # a hair of more noise than is needed
        shared = np.corrcoef(step.ravel(), noise[below].ravel())[0, 1]
        assert abs(shared) < 5.1 / math.sqrt(step.size)


@BOTH
def test_readers_of_all_tiers_cannot_average_the_noise_away(drawn, weak):
    """False-alarm rate 1e-6 for each weighting: no mean of tiers has less than the best one's noise."""
    noise, sigmas = drawn()
    for weights in ((0.8, 0.1, 0.1), (0.5, 0.3, 0.2), (1.1, -0.1, 0.0), (0.98, 0.015, 0.005)):
        mean = sum(weight * noise[level] for weight, level in zip(weights, LEVELS, strict=True))
        assert is_enough(mean, sigmas[0.0])


def test_a_tier_is_the_same_whichever_others_were_drawn_before():
    """No chance involved."""
    once = TrustTier(RANGE, DELTA, 1.0, distrust=0.5, levels=LEVELS, randomness=keyed())
    shared = keyed()
    for level in (1.0, 0.0):
        TrustTier(RANGE, DELTA, 1.0, distrust=level, levels=LEVELS, randomness=shared).perturb(X)
    again = TrustTier(RANGE, DELTA, 1.0, distrust=0.5, levels=LEVELS, randomness=shared)
    assert once.perturb(X).tobytes() == again.perturb(X).tobytes()


def test_another_ladder_shares_no_noise():
    """False-alarm rate 1e-6: one draw at two scales would give the record away."""
    first = TrustTier(RANGE, DELTA, 1.0, distrust=0.0, levels=LEVELS, randomness=keyed()).perturb(X) - X
    for levels in ((0.0,), (0.0, 0.6, 1.0), (0.0, 0.5)):
        other = TrustTier(RANGE, DELTA, 1.0, distrust=0.0, levels=levels, randomness=keyed()).perturb(X) - X
        assert abs(np.corrcoef(first.ravel(), other.ravel())[0, 1]) < 5.1 / math.sqrt(first.size)


K, ANSWERS = 4, 20_000
CODES = np.random.default_rng(9).integers(0, K, size=(ANSWERS, 1)).astype(np.float64)


def answers(epsilon=RANGE):
    """The answers of each tier about categories."""
    return {
        level: ResponseTier(epsilon, [K], distrust=level, levels=LEVELS, randomness=keyed()).perturb(CODES)
        for level in LEVELS
    }


def test_no_tier_of_answers_keeps_more_values_than_it_may_nor_far_fewer():
    """False-alarm rate 1e-6 each; answers of a quarter more ε are missed less than once in 10⁹."""
    told, more = answers(), answers((1.25, 10.0))
    for level, epsilon in BUDGETS.items():
        keep = math.exp(epsilon) / (math.exp(epsilon) + K - 1)
        low, high = binom.ppf([CHANCE / 2, 1.0 - CHANCE / 2], ANSWERS, keep)
        assert low <= (told[level] == CODES).sum() <= high
        assert level == 0.0 or (more[level] == CODES).sum() > high


def test_a_tier_of_answers_tells_nothing_that_the_one_before_it_does_not():
    """False-alarm rate 1e-6 for each answer: given what a tier says, the truth does not change the next."""
    told = answers((1.0, 4.0))
    for below, above in ((0.0, 0.5), (0.5, 1.0)):
        changed = told[above] != told[below]
        for said in range(K):
            where = told[below] == said
            right, wrong = changed[where & (said == CODES)], changed[where & (said != CODES)]
            counts = [[part.sum(), part.size - part.sum()] for part in (right, wrong)]
            assert fisher_exact(counts).pvalue > CHANCE


def test_the_coins_of_tiers_keep_exactly_what_is_allowed():
    """No chance involved: fractions, not floating point."""
    for k in (2, 3, 10, 1000):
        tier = ResponseTier((0.5, 6.0), [k], distrust=0.5, levels=(0.0, 0.3, 0.5, 1.0))
        ((_, kept),) = tier.steps(1)
        for level, share in zip(tier.levels, kept, strict=True):
            (most,) = RandomisedResponse(6.0 - level * 5.5, [k])._keep(1)
            assert 0 <= Fraction(most, 2**64) - share < Fraction(1, 2**60)
            assert share * k >= 1


def test_rows_of_a_tier_are_those_of_its_parts_and_all_tiers_cost_the_best():
    """No chance involved."""
    given = ([(0.0, 1.0), (0.0, 120.0)], [2, 5], [1.0, 1.0, 1.0, 1.0])
    made = [
        TierRows(TrustTier(RANGE, DELTA, distrust=level, levels=LEVELS, randomness=keyed()), *given)
        for level in LEVELS
    ]
    assert len({str(rows.together()) for rows in made}) == 1
    assert made[0].guarantee() == made[0].together()
    numeric, codes = np.full((50, 2), 0.5), np.ones((50, 2), dtype=np.int64)
    drawn = [rows.perturb(numeric, codes) for rows in made]
    again = [rows.perturb(numeric, codes) for rows in reversed(made)]
    for (values, told), (same, alike) in zip(drawn, reversed(again), strict=True):
        assert values.tobytes() == same.tobytes()
        assert told.tobytes() == alike.tobytes()
        assert set(np.unique(told[:, 0])) <= {0, 1}
