"""Schedules of noise: composed as dp-accounting composes them, calibrated, and drawn as they say."""

import math

import numpy as np
import pytest
import torch
from dp_accounting import GaussianDpEvent, PoissonSampledDpEvent
from dp_accounting.pld import PLDAccountant
from scipy.stats import chi2

from sfumato.errors import BadInput
from sfumato.learners import DPSGD
from sfumato.learners.dp_sgd import NoiseSchedule, factors_of
from sfumato.learners.gradient_clipping import RADIUS
from sfumato.noise import Seeded
from sfumato.privacy import Guarantee, Neighbours


def test_different_multipliers_compose_as_dp_accounting_composes_them():
    accountant = PLDAccountant()
    for multiplier, count in ((1.5, 20), (0.9, 10)):
        accountant.compose(PoissonSampledDpEvent(0.1, GaussianDpEvent(multiplier)), count)
    guarantee = NoiseSchedule((1.5,) * 20 + (0.9,) * 10, 0.1).guarantee(1e-5)
    assert guarantee.epsilon() == pytest.approx(accountant.get_epsilon(1e-5), rel=0.01)
    assert (str(guarantee.unit), guarantee.neighbours) == ("record", Neighbours.ZERO_OUT)


def test_a_constant_schedule_is_dp_sgd():
    assert NoiseSchedule((1.1,) * 30, 0.05).guarantee(1e-6) == DPSGD(1.1, 0.05, 30).guarantee(1e-6)


def test_with_all_records_in_each_step_it_is_one_gaussian():
    multipliers = (3.0, 2.0, 5.0, 2.0)
    once = Guarantee.gaussian(1.0 / math.sqrt(sum(z**-2 for z in multipliers)), at_delta=1e-6)
    assert NoiseSchedule(multipliers, 1.0).guarantee(1e-6).epsilon() == pytest.approx(
        once.epsilon(), rel=1e-9
    )


@pytest.mark.parametrize(("rate", "factors"), [(1.0, [1.0, 2.0, 3.0]), (0.2, [2.0] * 10 + [1.0] * 10)])
def test_calibrated_noise_proves_what_was_asked_and_hardly_more(rate, factors):
    plan = NoiseSchedule.calibrated(2.0, 1e-5, rate=rate, factors=factors)
    assert 1.98 <= plan.guarantee(1e-5).epsilon() <= 2.0
    assert np.allclose(np.array(plan.multipliers) / plan.multipliers[0], np.array(factors) / factors[0])


@pytest.mark.parametrize(("schedule", "ratio"), [("constant", 1.0), ("decreasing", 0.5), ("increasing", 2.0)])
def test_named_schedules(schedule, ratio):
    factors = factors_of(schedule, 40)
    assert len(factors) == 40
    assert factors[-1] / factors[0] == pytest.approx(ratio)
    assert len(set(factors)) == (1 if schedule == "constant" else 4)
    assert np.all(np.diff(factors) * (ratio - 1.0) >= 0.0)
    assert factors_of(schedule, 1) == [1.0]


def test_each_step_has_the_noise_of_its_multiplier():
    """Sums of squares are χ²; false-alarm rate 1e-6 over the steps."""
    plan = NoiseSchedule((2.0, 0.5, 7.0), 1.0)
    noise = plan.noise(Seeded(3).stream(b"noise"), 1.5)
    for multiplier in plan.multipliers:
        (first, second), variance = noise([torch.zeros(30, 100), torch.full((1000,), 5.0)])
        assert variance == pytest.approx((1.5 * multiplier * RADIUS) ** 2)
        drawn = torch.cat([first.reshape(-1), second - 5.0])
        assert torch.equal(drawn, drawn.round())
        squares = float(drawn.square().sum()) / (1.5 * multiplier * RADIUS) ** 2
        assert chi2.ppf(1e-6 / 6, 4000) < squares < chi2.isf(1e-6 / 6, 4000)
    with pytest.raises(BadInput, match="more steps"):
        noise([torch.zeros(1)])


def test_batches_are_those_of_dp_sgd():
    plan = NoiseSchedule((1.0, 2.0), 0.3)
    ours = list(plan.batches(100, Seeded(1).stream(b"s")))
    theirs = list(DPSGD(1.0, 0.3, 2).samples(100, Seeded(1).stream(b"s")))
    assert all(np.array_equal(a, b) for a, b in zip(ours, theirs, strict=True))
    assert plan.expected(100) == pytest.approx(30.0)
    assert plan.total_deviation() == pytest.approx(math.sqrt(5.0))


def test_what_is_stated_gives_the_schedule_back():
    plan = NoiseSchedule((2.0, 2.0, 1.0, 2.0), 0.3)
    stated = plan.parameters()["multipliers"]
    assert stated == [[2.0, 2], [1.0, 1], [2.0, 1]]
    assert NoiseSchedule(tuple(z for z, count in stated for _ in range(count)), 0.3) == plan


@pytest.mark.parametrize("schedule", ["falling", [1.0, 2.0], [1.0, 0.0, 1.0], [1.0, math.nan, 1.0], "abc"])
def test_schedules_that_cannot_be_used_are_refused(schedule):
    with pytest.raises(BadInput, match="schedule"):
        factors_of(schedule, 3)


def test_too_many_different_multipliers_on_samples_are_refused():
    with pytest.raises(BadInput, match="at most 32"):
        NoiseSchedule.calibrated(1.0, 1e-5, rate=0.1, factors=list(range(1, 50)))
