"""Schedules of noise: composed as dp-accounting composes them, calibrated, and drawn as they say."""

import math

import numpy as np
import pytest
from dp_accounting import GaussianDpEvent, PoissonSampledDpEvent
from dp_accounting.pld import PLDAccountant
from scipy.stats import chi2

from sfumato.errors import BadInput
from sfumato.learners import DPSGD
from sfumato.learners.dp_sgd import parse_schedule
from sfumato.learners.gradient_clipping import RADIUS, ClippedSum, Quantiles
from sfumato.noise import Seeded
from sfumato.privacy import Guarantee, Neighbours


def scheduled(multipliers, rate):
    return DPSGD(1.0, rate, len(multipliers), factors=tuple(multipliers))


def test_different_multipliers_compose_as_dp_accounting_composes_them():
    accountant = PLDAccountant()
    for multiplier, count in ((1.5, 20), (0.9, 10)):
        accountant.compose(PoissonSampledDpEvent(0.1, GaussianDpEvent(multiplier)), count)
    guarantee = scheduled((1.5,) * 20 + (0.9,) * 10, 0.1).guarantee(1e-5)
    assert guarantee.epsilon() == pytest.approx(accountant.get_epsilon(1e-5), rel=0.01)
    assert (str(guarantee.unit), guarantee.neighbours) == ("record", Neighbours.ZERO_OUT)


def test_a_constant_schedule_is_dp_sgd():
    assert scheduled((1.1,) * 30, 0.05).guarantee(1e-6) == DPSGD(1.1, 0.05, 30).guarantee(1e-6)


def test_with_all_records_in_each_step_it_is_one_gaussian():
    multipliers = (3.0, 2.0, 5.0, 2.0)
    once = Guarantee.gaussian(1.0 / math.sqrt(sum(z**-2 for z in multipliers)), at_delta=1e-6)
    assert scheduled(multipliers, 1.0).guarantee(1e-6).epsilon() == pytest.approx(once.epsilon(), rel=1e-9)


@pytest.mark.parametrize(("rate", "factors"), [(1.0, [1.0, 2.0, 3.0]), (0.2, [2.0] * 10 + [1.0] * 10)])
def test_calibrated_noise_proves_what_was_asked_and_hardly_more(rate, factors):
    plan = DPSGD.calibrated(2.0, 1e-5, rate=rate, steps=len(factors), factors=factors)
    assert 1.98 <= plan.guarantee(1e-5).epsilon() <= 2.0
    assert np.allclose(np.array(plan.multipliers) / plan.multipliers[0], np.array(factors) / factors[0])


@pytest.mark.parametrize(("schedule", "ratio"), [("decreasing", 0.5), ("increasing", 2.0)])
def test_named_schedules(schedule, ratio):
    factors = parse_schedule(schedule, 40)
    assert len(factors) == 40
    assert factors[-1] / factors[0] == pytest.approx(ratio)
    assert len(set(factors)) == 4
    assert np.all(np.diff(factors) * (ratio - 1.0) >= 0.0)
    assert parse_schedule(schedule, 1) == (1.0,)
    assert parse_schedule("constant", 40) == ()


def test_each_step_has_the_noise_of_its_multiplier():
    """Sums of squares are χ²; false-alarm rate 1e-6 over the steps. Counts of quantiles stretch it."""
    plan = scheduled((2.0, 0.5, 7.0), 1.0)
    clipped = ClippedSum(quantiles=Quantiles(1.0, share=5.0 / 9.0))
    noise = plan.noise(clipped)
    for step, multiplier in enumerate(plan.multipliers):
        drawn = noise(step, np.full(4000, 5.0), Seeded(3 + step)) - 5.0
        assert np.array_equal(drawn, np.rint(drawn))
        squares = float(np.square(drawn).sum()) / (1.5 * multiplier * RADIUS) ** 2
        assert chi2.ppf(1e-6 / 6, 4000) < squares < chi2.isf(1e-6 / 6, 4000)
    assert plan.variances().tolist() == [4.0, 0.25, 49.0]
    assert plan.total_deviation() == pytest.approx(math.sqrt(53.25))


def test_what_is_stated_gives_the_schedule_back():
    plan = scheduled((2.0, 2.0, 1.0, 2.0), 0.3)
    stated = plan.parameters()["multipliers"]
    assert stated == [[2.0, 2], [1.0, 1], [2.0, 1]]
    assert scheduled([z for z, count in stated for _ in range(count)], 0.3) == plan


@pytest.mark.parametrize("schedule", ["falling", [1.0, 2.0], [1.0, 0.0, 1.0], [1.0, math.nan, 1.0], "abc"])
def test_schedules_that_cannot_be_used_are_refused(schedule):
    with pytest.raises(BadInput, match="schedule"):
        parse_schedule(schedule, 3)


def test_too_many_different_multipliers_on_samples_are_refused():
    with pytest.raises(BadInput, match="at most 32"):
        DPSGD.calibrated(1.0, 1e-5, rate=0.1, steps=49, factors=list(range(1, 50)))


def test_one_factor_a_step_is_needed():
    with pytest.raises(BadInput, match="2 factors: 3, one a step"):
        DPSGD(1.0, 0.1, 3, factors=(1.0, 2.0))
