"""Groups of a Poisson-sampled Gaussian: bounded, never by nothing, and no tighter than the truth."""

import math
from itertools import pairwise

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution
from scipy.stats import binom, norm

from sfumato.learners import DPSGD
from sfumato.privacy import Guarantee
from sfumato.privacy.analytic_gaussian import gaussian_epsilon
from sfumato.privacy.events import GaussianEvent, PoissonSampledEvent, compose_events, repeat_event

SIZES = (1, 2, 3, 5, 10, 30, 300, 10_000, 10_001, 10**6)


def sampled(noise, rate, steps, at_delta=1e-5):
    event = repeat_event(PoissonSampledEvent(rate, GaussianEvent(noise)), steps)
    return Guarantee(event=event, neighbours="add/remove", theorem="test", at_delta=at_delta)


def least_delta(noise, rate, steps, size, epsilon):
    """At most the δ of the group all of whose records push one way, by an optimistic grid of its losses."""
    loss = privacy_loss_distribution.from_mixture_gaussian_mechanism(
        noise,
        [float(drawn) for drawn in range(size + 1)],
        list(binom.pmf(range(size + 1), size, rate)),
        pessimistic_estimate=False,
        value_discretization_interval=1e-2,
        use_connect_dots=False,
    )
    return float(loss.self_compose(steps).get_delta_for_epsilon(epsilon))


@pytest.mark.parametrize("given", [(1.0, 0.02, 500), (4.0, 0.01, 3000), (0.7, 0.05, 100), (0.5, 0.9, 10)])
def test_a_group_is_never_told_nothing_and_a_larger_one_never_less(given):
    noise, _, steps = given
    one = DPSGD(*given).guarantee(1e-5)
    told = [one.group(size) for size in SIZES]
    assert told[0] is one
    for size, made in zip(SIZES, told, strict=True):
        assert (made.at_delta, made.unit, made.neighbours) == (1e-5, one.unit, one.neighbours)
        unsampled = gaussian_epsilon(size * math.sqrt(steps) / noise, 0.5e-5)
        assert made.epsilon() <= unsampled * (1 + 1e-6)
        assert Guarantee.from_dict(made.to_dict()) == made
    assert all(small.epsilon() < large.epsilon() for small, large in pairwise(told))


def test_what_sampling_hides_of_a_group_is_counted():
    """Ten records are drawn 100 times in 500 steps, and not 5,000 times."""
    assert DPSGD(1.0, 0.02, 500).guarantee(1e-5).group(10).epsilon() < 170.0


@pytest.mark.parametrize(("noise", "rate", "steps", "size"), [(6.0, 0.5, 100, 10), (3.0, 0.8, 1, 3)])
def test_the_bound_of_a_group_holds_and_would_not_with_a_fifth_less_noise(noise, rate, steps, size):
    made = sampled(noise, rate, steps).group(size)
    assert least_delta(noise, rate, steps, size, made.epsilon()) <= made.at_delta
    assert least_delta(0.8 * noise, rate, steps, size, made.epsilon()) > made.at_delta


@pytest.mark.parametrize("rate", [0.05, 0.5, 0.99])
@pytest.mark.parametrize("added", range(5))
def test_a_group_of_which_some_come_and_others_go_is_bounded(rate, added):
    """One step on a line: those who go push up, those who come push down."""
    noise, size, grid = 0.5, 4, np.linspace(-20.0, 20.0, 400_001)

    def density(count, way):
        drawn = np.arange(count + 1)
        return sum(
            weight * norm.pdf(grid, way * mean, noise)
            for mean, weight in zip(drawn, binom.pmf(drawn, count, rate), strict=True)
        )

    before, after = density(size - added, 1.0), density(added, -1.0)
    made = sampled(noise, rate, 1, at_delta=1e-3).group(size)
    for epsilon in (0.5 * made.epsilon(), made.epsilon(), 1.2 * made.epsilon()):
        beyond = np.trapezoid(np.maximum(before - math.exp(epsilon) * after, 0.0), grid)
        assert beyond <= made.delta(epsilon) + 1e-9


def test_other_parts_of_a_composition_are_grouped_beside_it():
    both = Guarantee(
        event=compose_events([sampled(0.7, 0.2, 50).described, GaussianEvent(2.0)]),
        neighbours="add/remove",
        theorem="test",
        at_delta=1e-5,
    )
    pure = Guarantee.laplace(2.0, neighbours="add/remove") + Guarantee.pure(0.25, neighbours="add/remove")
    alone = sampled(0.7, 0.2, 50).group(10).epsilon()
    assert alone < both.group(10).epsilon()
    more = (both + pure).group(10)
    assert both.group(10).epsilon() < more.epsilon() <= both.group(10).epsilon() + 10 * 0.75 + 1e-6
    assert more.at_delta == 1e-5


def test_a_delta_that_underflows_is_not_zero():
    """One record's δ at ε = 300 is below every float; that of a million records is not."""
    made = sampled(1.0, 0.02, 500).group(10**6)
    assert made.epsilon() > 1e12


def test_without_a_delta_the_curve_of_a_group_is_kept():
    made = sampled(1.0, 0.1, 4, at_delta=0.0).group(3)
    assert made.epsilon(1e-6) == pytest.approx(gaussian_epsilon(6.0, 1e-6), rel=1e-9)


def test_a_group_is_stated_at_the_delta_that_was_asked_for():
    """Where no step of a chain of neighbours fits it, the other bound is stated and not a larger δ."""
    event = repeat_event(PoissonSampledEvent(0.001, GaussianEvent(1.0)), 100)
    one = Guarantee(neighbours="add/remove", event=event, theorem="sampled", at_delta=1e-6)
    groups = [one.group(count) for count in (1, 2, 20, 30, 50, 130, 200)]
    assert [each.at_delta for each in groups] == [1e-6] * 7
    assert all(less.epsilon() < more.epsilon() for less, more in pairwise(groups))
    assert math.isfinite(groups[-1].epsilon(1e-6))
