import math

import numpy as np
import pytest
from dp_accounting import GaussianDpEvent, LaplaceDpEvent, PoissonSampledDpEvent, SelfComposedDpEvent

from sfumato.errors import BadInput
from sfumato.privacy import Guarantee, gaussian_epsilon
from sfumato.privacy.composition import parallel
from sfumato.privacy.events import curve_of
from sfumato.privacy.privacy_loss import rdp_epsilon


def test_rdp_bounds_a_poisson_sampled_laplace_by_its_amplified_epsilon():
    curve = curve_of(SelfComposedDpEvent(PoissonSampledDpEvent(0.05, LaplaceDpEvent(1.0)), 100))
    assert curve.epsilon(1e-6) <= rdp_epsilon(curve.parts, 1e-6) < 100 * math.log1p(0.05 * math.e)


@pytest.mark.parametrize("k", [1, 10, 100, 1000])
@pytest.mark.parametrize("event", [GaussianDpEvent(20.0), LaplaceDpEvent(20.0)])
def test_the_curve_is_never_above_renyi_composition(event, k):
    curve = curve_of(SelfComposedDpEvent(event, k))
    assert curve.epsilon(1e-6) <= rdp_epsilon(curve.parts, 1e-6)
    if isinstance(event, GaussianDpEvent):
        assert curve.epsilon(1e-6) == pytest.approx(gaussian_epsilon(math.sqrt(k) / 20.0, 1e-6), rel=1e-12)


def test_rdp_of_a_sampled_gaussian_is_finite_and_sound_at_fractional_orders():
    """Chords between whole orders lie above the exact divergence, here by integration of the mixture."""
    rate, mu = 0.1, 1.0
    x = np.linspace(-40, 60, 400_001)
    log_ratio = np.logaddexp(math.log1p(-rate), math.log(rate) + mu * x - 0.5 * mu * mu)
    weight = np.exp(-0.5 * x**2) / math.sqrt(2 * math.pi)
    orders = (1.1, 1.5, 2.0, 2.5, 3.7, 8.0, 10.9)
    event = PoissonSampledDpEvent(rate, GaussianDpEvent(1 / mu))
    for order, value in zip(orders, curve_of(event).renyi(orders), strict=True):
        exact = math.log(np.trapezoid(weight * np.exp(order * log_ratio), x)) / (order - 1)
        assert exact * (1 - 1e-6) <= value < exact * 2.2  # near order 1 the chord is at its worst
        if order == int(order):
            assert value == pytest.approx(exact, rel=1e-6)


@pytest.mark.parametrize("partition", ["public", "data"])
def test_parallel_takes_the_larger_event_of_one_kind(partition):
    branches = [
        Guarantee.gaussian(s, neighbours="add/remove", at_delta=d).with_slack(e)
        for s, d, e in ((2.0, 1e-6, 0.0), (0.5, 1e-7, 1e-9), (1.0, 1e-6, 0.0))
    ]
    whole = parallel(branches, partition=partition)
    assert whole.event == GaussianDpEvent(0.5)
    assert whole.slack == 1e-9
    assert whole.at_delta == 1e-6
    assert whole.theorem == "analytic Gaussian, parallel"
    for delta in (1e-8, 1e-3):
        assert whole.epsilon(delta) == max(branch.epsilon(delta) for branch in branches)


def test_parallel_orders_laplace_response_and_equal_compositions():
    assert parallel([Guarantee.laplace(1.0), Guarantee.laplace(0.5)], partition="public").epsilon(0) == 2.0
    answers = [Guarantee.randomised_response(e, 5) for e in (1.0, 3.0)]
    assert parallel(answers, partition="public").epsilon(0) == 3.0
    mixed = Guarantee.laplace(1.0) + Guarantee.gaussian(1.0)
    assert parallel([mixed, mixed], partition="public").event == mixed.event
    sampled = [
        Guarantee(event=PoissonSampledDpEvent(0.1, GaussianDpEvent(s)), neighbours="add/remove", theorem="t")
        for s in (1.0, 2.0)
    ]
    assert parallel(sampled, partition="data").epsilon(1e-6) == sampled[0].epsilon(1e-6)


def test_parallel_of_mixed_kinds_needs_a_delta():
    branches = [Guarantee.laplace(1.0), Guarantee.gaussian(1.0)]
    with pytest.raises(BadInput, match="name the delta"):
        parallel(branches, partition="public")
    whole = parallel(branches, partition="public", delta=1e-5)
    assert whole.epsilon() == pytest.approx(gaussian_epsilon(1.0, 1e-5), rel=1e-9)
    assert whole.slack == whole.at_delta == 1e-5
    with pytest.raises(BadInput, match="no finite epsilon"):
        parallel(branches, partition="public", delta=0.0)


def test_a_replaced_unit_affects_two_branches_of_a_data_dependent_partition():
    """A class label decides the branch: replacing a record's label changes two branches, so costs add up."""
    branches = [Guarantee.laplace(1.0), Guarantee.laplace(1.0)]
    with pytest.raises(BadInput, match="record that changes its branch affects two"):
        parallel(branches, partition="data")
    counts = {"before": (5, 3), "after": (4, 4)}  # one record moved from the first class to the second
    moved = sum(abs(a - b) for a, b in zip(counts["before"], counts["after"], strict=True))
    assert moved == 2  # L1 distance of the released pair: twice that of one branch
    assert parallel(branches, partition="public").epsilon(0) == 1.0


def test_parallel_refuses_other_units_and_passes_nothing_on():
    with pytest.raises(BadInput, match=r"per record .* per channel"):
        parallel([Guarantee.pure(1.0), Guarantee.pure(1.0, unit="channel")], partition="public")
    nothing = Guarantee.nothing("exact values")
    assert parallel([Guarantee.pure(1.0), nothing], partition="public").proves_nothing
    with pytest.raises(BadInput, match="`partition` was"):
        parallel([Guarantee.pure(1.0)], partition="private")
    with pytest.raises(BadInput, match="at least one"):
        parallel([], partition="public")
