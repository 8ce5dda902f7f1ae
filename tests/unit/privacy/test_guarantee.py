import math
import sys
from itertools import pairwise
from types import ModuleType

import numpy as np
import pytest
from dp_accounting import (
    ComposedDpEvent,
    GaussianDpEvent,
    LaplaceDpEvent,
    NonPrivateDpEvent,
    NoOpDpEvent,
    PoissonSampledDpEvent,
    RandomizedResponseDpEvent,
    SelfComposedDpEvent,
    ZCDpEvent,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.errors import BadInput
from sfumato.privacy import Guarantee, Neighbours, Unit, gaussian_epsilon, gaussian_mu
from sfumato.privacy.analytic_gaussian import gaussian_tradeoff


def test_defaults_are_one_record_under_replace():
    guarantee = Guarantee.gaussian(1.0)
    assert (guarantee.unit, guarantee.neighbours) == (Unit("record"), Neighbours.REPLACE)
    assert guarantee.event == GaussianDpEvent(1.0)
    assert not guarantee.proves_nothing
    same = Guarantee(
        unit="record", neighbours="replace", event=GaussianDpEvent(1.0), theorem="analytic Gaussian"
    )
    assert same == guarantee
    assert hash(same) == hash(guarantee)


@given(epsilon=st.floats(1e-3, 1e5))
def test_pure_epsilon_survives_its_event(epsilon):
    """ε → randomised response → ε loses no more than its last digits, and nothing if ε has twelve."""
    assert Guarantee.pure(epsilon).epsilon(0.0) == pytest.approx(epsilon, rel=1e-12)
    tidy = float(f"{epsilon:.6g}")
    assert Guarantee.pure(tidy).epsilon(0.0) == tidy
    assert Guarantee.laplace(1.0 / tidy).epsilon(0.0) == tidy


def test_pure_events_are_binary_randomised_response_while_a_double_can_hold_it():
    assert isinstance(Guarantee.pure(700.0).event, RandomizedResponseDpEvent)
    assert Guarantee.pure(7840.0).event == ZCDpEvent(rho=0.0, xi=7840.0)
    assert Guarantee.pure(7840.0).epsilon(0.0) == 7840.0
    assert Guarantee.pure(7840.0).delta(7839.0) == pytest.approx(1 - math.exp(-1), rel=1e-12)
    assert Guarantee.pure(0.0).epsilon(0.0) == 0.0
    assert Guarantee.pure(0.0).delta(0.0) == 0.0


@settings(max_examples=60)
@given(data=st.data())
def test_binary_randomised_response_dominates_every_pure_mechanism(data):
    """Random pairs of laws whose likelihood ratios stay within e^ε never exceed the curve of pure(ε)."""
    weights = st.lists(st.floats(0.01, 1.0), min_size=4, max_size=4)
    p, q = (np.array(data.draw(weights)) for _ in range(2))
    p, q = p / p.sum(), q / q.sum()
    worst = float(np.max(np.abs(np.log(p / q))))
    guarantee = Guarantee.pure(worst)
    for fraction in (0.0, 0.25, 0.5, 0.9):
        divergence = float(np.sum(np.maximum(0.0, p - math.exp(fraction * worst) * q)))
        assert divergence <= guarantee.delta(fraction * worst) + 1e-12


def test_nothing_proves_nothing():
    nothing = Guarantee.nothing("trained on the data without noise", "clip", "zero-out")
    assert nothing.proves_nothing
    assert nothing.epsilon(0.5) == math.inf
    assert nothing.epsilon() == math.inf
    assert nothing.delta(100.0) == 1.0
    assert nothing.tradeoff(0.3) == 0.0
    assert nothing.group(5) is nothing
    assert nothing.times(5) is nothing
    with pytest.raises(BadInput, match="nothing is proven"):
        _ = nothing.curve


def test_composition_with_nothing_is_nothing_and_keeps_the_reason():
    whole = Guarantee.pure(1.0) + Guarantee.nothing("keeps values exactly")
    assert whole.proves_nothing
    assert whole.theorem == "keeps values exactly"


def test_different_units_or_neighbours_are_never_added():
    with pytest.raises(BadInput, match=r"per record under replace .* per clip under replace"):
        Guarantee.pure(1.0) + Guarantee.pure(1.0, unit="clip")
    with pytest.raises(BadInput, match=r"per record under replace .* per record under zero-out"):
        Guarantee.compose([Guarantee.pure(1.0), Guarantee.pure(1.0, neighbours="zero-out")])
    with pytest.raises(BadInput, match=r"region\(8\).*region\(16\)"):
        Guarantee.pure(1.0, unit="region(8)") + Guarantee.pure(1.0, unit="region(16)")
    with pytest.raises(BadInput, match="at least one"):
        Guarantee.compose([])
    with pytest.raises(TypeError):
        Guarantee.pure(1.0) + 1


def test_composition_adds_slack_delta_and_names_each_theorem_once():
    a = Guarantee.gaussian(2.0, at_delta=1e-6).with_slack(1e-9)
    b = Guarantee.laplace(3.0, at_delta=2e-6)
    whole = a + b + a
    assert whole.slack == pytest.approx(2e-9)
    assert whole.at_delta == pytest.approx(4e-6)
    assert whole.theorem == "composition of analytic Gaussian + Laplace mechanism"
    assert whole.event == ComposedDpEvent([a.event, b.event, a.event])
    assert Guarantee.compose([a]) is a
    thrice = a.times(3)
    assert thrice.event == SelfComposedDpEvent(a.event, 3)
    assert thrice.epsilon(1e-5) == pytest.approx(Guarantee.compose([a, a, a]).epsilon(1e-5), rel=1e-12)
    assert a.times(1) is a


@settings(deadline=None, max_examples=8)
@given(st.lists(st.floats(0.1, 5.0), min_size=2, max_size=4))
def test_composition_is_commutative_and_associative(epsilons):
    parts = [Guarantee.pure(e) for e in epsilons] + [Guarantee.gaussian(1.0)]
    left = parts[0]
    for part in parts[1:]:
        left = left + part
    right = parts[-1]
    for part in reversed(parts[:-1]):
        right = part + right
    assert left.curve == right.curve == Guarantee.compose(parts[::-1]).curve
    assert left.epsilon(1e-6) == right.epsilon(1e-6)


def test_slack_shifts_delta_and_bars_what_lies_below_it():
    pure = Guarantee.pure(1.0)
    slacked = pure.with_slack(1e-4)
    assert slacked.delta(0.5) == pytest.approx(pure.delta(0.5) + 1e-4, rel=1e-12)
    assert slacked.epsilon(1e-4) == 1.0
    assert slacked.epsilon(0.9e-4) == math.inf
    assert slacked.epsilon(0.0) == math.inf
    assert slacked.epsilon(0.1) == pytest.approx(pure.epsilon(0.1 - 1e-4), rel=1e-12)
    noisy = Guarantee.gaussian(1.0).with_slack(1e-6)
    assert noisy.epsilon(1e-6) == math.inf
    assert noisy.epsilon(2e-6) == pytest.approx(gaussian_epsilon(1.0, 1e-6), rel=1e-12)
    assert slacked.with_slack(1.0).delta(3.0) == 1.0


def test_approximate_is_pure_with_slack():
    guarantee = Guarantee.approximate(2.0, 1e-6, unit="client")
    assert guarantee.epsilon() == 2.0
    assert guarantee.delta(2.0) == 1e-6
    assert guarantee.at_delta == guarantee.slack == 1e-6
    assert guarantee.times(3).epsilon() == pytest.approx(6.0)
    assert (guarantee + guarantee + guarantee).epsilon(3e-6) == pytest.approx(6.0)


def test_slack_adds_up_for_a_mechanism_that_sometimes_leaks():
    """Leak with probability p, else Gaussian noise: two leak with 1−(1−p)², within the summed slack."""
    p, mu = 0.01, 1.5
    one = Guarantee.gaussian(1 / mu).with_slack(p)
    two = one + one
    for epsilon in (0.0, 0.5, 2.0, 6.0):
        stay = (1 - p) ** 2
        exact = 1 - stay + stay * Guarantee.gaussian(1 / (mu * math.sqrt(2))).delta(epsilon)
        assert exact <= two.delta(epsilon)


def test_event_trees_are_checked_when_the_guarantee_is_made():
    for event in (
        GaussianDpEvent(0.0),
        LaplaceDpEvent(-1.0),
        GaussianDpEvent(math.nan),
        LaplaceDpEvent(math.inf),
    ):
        with pytest.raises(BadInput, match="noise multiplier"):
            Guarantee(event=event, theorem="test")
    for event in (RandomizedResponseDpEvent(0.0, 2), RandomizedResponseDpEvent(0.5, 1)):
        with pytest.raises(BadInput, match="randomised response was given"):
            Guarantee(event=event, theorem="test")
    for event in (NonPrivateDpEvent(), ZCDpEvent(0.5)):
        with pytest.raises(BadInput, match="not one a guarantee can be computed from"):
            Guarantee(event=event, theorem="test")
    with pytest.raises(BadInput, match="repeated 0 times"):
        Guarantee(event=SelfComposedDpEvent(GaussianDpEvent(1.0), 0), theorem="test")
    with pytest.raises(BadInput, match="must be a dp_accounting DpEvent"):
        Guarantee(event="gaussian", theorem="test")
    assert Guarantee(event=NoOpDpEvent(), theorem="reads nothing").epsilon(0.0) == 0.0


@pytest.mark.parametrize("neighbours", ["add/remove", "zero-out"])
def test_poisson_sampling_never_switches_neighbours_silently(neighbours):
    event = SelfComposedDpEvent(PoissonSampledDpEvent(0.1, GaussianDpEvent(1.0)), 3)
    with pytest.raises(BadInput, match="add/remove and zero-out neighbours only"):
        Guarantee(event=event, neighbours="replace", theorem="test")
    assert Guarantee(event=event, neighbours=neighbours, theorem="test").epsilon(1e-6) > 0


@pytest.mark.parametrize("bad", [-0.1, 1.1, math.nan, "0.1", True])
def test_bad_slack_and_delta_are_refused(bad):
    with pytest.raises(BadInput, match="`slack` was"):
        Guarantee(event=GaussianDpEvent(1.0), theorem="test", slack=bad)
    with pytest.raises(BadInput, match="`at_delta` was"):
        Guarantee.pure(1.0, at_delta=bad)


def test_bad_questions_are_refused():
    guarantee = Guarantee.pure(1.0)
    with pytest.raises(BadInput, match="`delta` was"):
        guarantee.epsilon(-1e-9)
    with pytest.raises(BadInput, match="`epsilon` was"):
        guarantee.delta(-1.0)
    with pytest.raises(BadInput, match="`alpha` was"):
        guarantee.tradeoff(2.0)
    for count in (0, -1, 1.5, True):
        with pytest.raises(BadInput, match="`count` was"):
            guarantee.times(count)
        with pytest.raises(BadInput, match="`count` was"):
            guarantee.group(count)
    with pytest.raises(BadInput, match="`buckets` was"):
        Guarantee.randomised_response(1.0, 1)
    with pytest.raises(BadInput, match="`epsilon` was"):
        Guarantee.pure(math.inf)


@given(k=st.integers(2, 20), noise=st.floats(0.5, 50))
def test_groups_of_gaussian_and_laplace_are_exact(k, noise):
    assert Guarantee.gaussian(noise).group(k).epsilon(1e-6) == pytest.approx(
        gaussian_epsilon(k / noise, 1e-6), rel=1e-12
    )
    assert Guarantee.laplace(noise).group(k).epsilon(0.0) == pytest.approx(k / noise, rel=1e-12)
    assert Guarantee.randomised_response(noise / 10, 7).group(k).epsilon(0.0) == pytest.approx(k * noise / 10)
    mixed = Guarantee.laplace(noise).times(2) + Guarantee.pure(0.5)
    assert mixed.group(k).epsilon(0.0) == pytest.approx(k * (2 / noise + 0.5), rel=1e-12)


def test_group_of_one_is_the_same_guarantee():
    for guarantee in (
        Guarantee.gaussian(1.0),
        Guarantee.approximate(1.0, 1e-6),
        Guarantee.pure(3.0).with_slack(0.1),
    ):
        assert guarantee.group(1) is guarantee


def test_group_with_slack_at_a_delta():
    guarantee = Guarantee.approximate(1.0, 1e-6)
    grown = guarantee.group(3)
    assert grown.epsilon() == pytest.approx(3.0)
    assert grown.at_delta == pytest.approx(1e-6 * (1 + math.e + math.e**2), rel=1e-12)
    assert "group of 3" in grown.theorem
    assert guarantee.group(60).proves_nothing
    with pytest.raises(BadInput, match="finite epsilon"):
        Guarantee.gaussian(1.0).with_slack(1e-6).group(2)
    assert Guarantee.gaussian(1.0).with_slack(1e-9).group(2, delta=1e-6).epsilon() == pytest.approx(
        2 * gaussian_epsilon(1.0, 1e-6 - 1e-9), rel=1e-9
    )


@settings(max_examples=100)
@given(data=st.data(), epsilon=st.floats(0.0, 2.0))
def test_group_delta_bounds_random_chains(data, epsilon):
    """Laws P₀…P₃ whose neighbours are (ε, δ)-close: P₀ and P₃ are within the group of three."""
    weights = st.lists(st.floats(0.001, 1.0), min_size=5, max_size=5)
    laws = [np.array(data.draw(weights)) for _ in range(4)]
    laws = [law / law.sum() for law in laws]

    def distance(p, q, e):
        return float(np.sum(np.maximum(0.0, p - math.exp(e) * q)))

    delta = max(max(distance(p, q, epsilon), distance(q, p, epsilon)) for p, q in pairwise(laws))
    bound = Guarantee.approximate(epsilon, delta).group(3)
    assert distance(laws[0], laws[3], 3 * epsilon) <= bound.delta(3 * epsilon) + 1e-12


def test_group_of_a_poisson_sampled_gaussian_is_stated_at_the_same_delta():
    event = PoissonSampledDpEvent(0.1, GaussianDpEvent(2.0))
    guarantee = Guarantee(event=event, neighbours="add/remove", theorem="test", at_delta=1e-8)
    grown = guarantee.group(2)
    assert grown.at_delta == 1e-8
    one = 0.5 * grown.epsilon()
    assert guarantee.delta(one) * (1 + math.exp(one)) == pytest.approx(1e-8, rel=1e-3)
    assert grown.epsilon() < Guarantee.gaussian(2.0).group(2).epsilon(1e-8)


def test_exact_tradeoff_curves():
    for alpha in (0.0, 1e-6, 0.1, 0.5, 0.9, 1.0):
        assert Guarantee.gaussian(0.5).tradeoff(alpha) == gaussian_tradeoff(alpha, 2.0)
    # Laplace: F(F⁻¹(1−α) − ε), in its three stretches.
    laplace = Guarantee.laplace(0.5)
    for alpha in (0.0, 0.01, 0.05, 0.2, 0.5, 0.8, 1.0):
        x = (
            -math.log(2 * alpha)
            if 0 < alpha < 0.5
            else math.log(2 * (1 - alpha))
            if 0.5 <= alpha < 1
            else 0.0
        )
        shifted = x - 2.0
        expected = 0.5 * math.exp(shifted) if shifted < 0 else 1 - 0.5 * math.exp(-shifted)
        expected = {0.0: 1.0, 1.0: 0.0}.get(alpha, expected)
        assert laplace.tradeoff(alpha) == pytest.approx(expected, rel=1e-12)
    answers = Guarantee.pure(1.0)
    for alpha in (0.0, 0.1, 1 / (1 + math.e), 0.6):
        assert answers.tradeoff(alpha) == pytest.approx(
            max(0.0, 1 - math.e * alpha, (1 - alpha) / math.e), rel=1e-12
        )


@pytest.mark.parametrize("slack", [0.0, 0.01])
def test_generic_tradeoff_approaches_the_exact_one_from_below(slack):
    """A Laplace mechanism of ε = 1e-4 beside it sends a Gaussian down the generic road and changes little."""
    almost = (Guarantee.gaussian(1.0) + Guarantee.laplace(1e4)).with_slack(slack)
    exact = Guarantee.gaussian(1.0).with_slack(slack)
    for alpha in (0.001, 0.05, 0.3, 0.7, 0.98):
        assert exact.tradeoff(alpha) - 5e-4 <= almost.tradeoff(alpha) <= exact.tradeoff(alpha) + 1e-9


@settings(deadline=None, max_examples=100)
@given(alpha=st.floats(0, 1), noise=st.floats(0.2, 10), slack=st.floats(0, 0.2), epsilon=st.floats(0, 20))
def test_tradeoff_lies_above_every_line_of_the_delta_curve(alpha, noise, slack, epsilon):
    for guarantee in (
        Guarantee.gaussian(noise).with_slack(slack),
        Guarantee.laplace(noise).with_slack(slack),
    ):
        delta = guarantee.delta(epsilon)
        line = max(0.0, 1 - delta - math.exp(epsilon) * alpha, math.exp(-epsilon) * (1 - delta - alpha))
        assert guarantee.tradeoff(alpha) >= line - 1e-9


def test_a_guarantee_reads_like_a_sentence():
    noise = 1.0 / gaussian_mu(5.2, 1e-6)
    guarantee = Guarantee.gaussian(noise, at_delta=1e-6)
    assert str(guarantee) == "ε=5.2 at δ=1e-06 per record under replace (analytic Gaussian)"
    assert repr(guarantee) == "Guarantee: unit=record, neighbours=replace, ε=5.2, δ=1e-06, analytic Gaussian"
    nothing = Guarantee.nothing("no noise was added", "region(8)")
    assert str(nothing) == "proves nothing per region(8) under replace (no noise was added)"
    assert (
        repr(nothing) == "Guarantee: unit=region(8), neighbours=replace, proves nothing, no noise was added"
    )
    assert str(Guarantee.gaussian(1.0)) == "no finite ε at δ=0 per record under replace (analytic Gaussian)"
    assert str(Guarantee.laplace(0.5)) == "ε=2 at δ=0 per record under replace (Laplace mechanism)"


@given(st.floats(1e-6, 1e6))
def test_a_printed_bound_is_never_below_the_true_one(epsilon):
    printed = float(str(Guarantee.pure(epsilon)).split()[0].removeprefix("ε="))
    assert epsilon * (1 - 1e-8) <= printed <= epsilon * 1.0011


@pytest.mark.parametrize(
    ("epsilon", "buckets"),
    [(0.328, 10**15), (0.33, 2**53), (1e-3, 500), (1e-6, 10), (0.7, 1000), (5.0, 26), (690.0, 3), (800.0, 2)],
)
def test_no_number_of_buckets_makes_randomised_response_promise_more_than_it_keeps(epsilon, buckets):
    """One double holds the event's noise; where that is too coarse, ε is kept and the curve given up."""
    held = Guarantee.randomised_response(epsilon, buckets).epsilon(0.0)
    assert epsilon <= held <= epsilon * (1 + 1e-9)


def test_a_guarantee_is_made_while_another_thread_loads_dp_accounting(monkeypatch):
    """Its module is then half loaded."""
    monkeypatch.setitem(sys.modules, "dp_accounting", ModuleType("dp_accounting"))
    assert Guarantee.laplace(2.0).epsilon() == 0.5
