import math

import pytest
from dp_accounting import GaussianDpEvent, LaplaceDpEvent, PoissonSampledDpEvent
from hypothesis import given
from hypothesis import strategies as st

from sfumato.errors import BadInput
from sfumato.privacy import Guarantee, poisson, shuffled_epsilon
from sfumato.privacy.composition import shuffle
from sfumato.privacy.privacy_loss import amplified


@given(epsilon=st.floats(0, 2000), rate=st.floats(1e-9, 1))
def test_pure_poisson_is_its_formula_without_overflow(epsilon, rate):
    value = amplified(epsilon, rate)
    assert 0.0 <= value <= epsilon * (1 + 1e-15)
    if epsilon < 500:
        assert value == pytest.approx(math.log1p(rate * math.expm1(epsilon)), rel=1e-9, abs=1e-12)


def test_pure_poisson_approaches_the_rate_for_small_epsilon():
    assert amplified(1e-6, 0.1) == pytest.approx(1e-7, rel=1e-5)


def test_poisson_is_an_event_with_its_slack_scaled():
    base = Guarantee.gaussian(1.0, neighbours="add/remove", at_delta=1e-6).with_slack(1e-8)
    sampled = poisson(base, 0.1)
    assert sampled.event == PoissonSampledDpEvent(0.1, GaussianDpEvent(1.0))
    assert sampled.slack == pytest.approx(1e-9)
    assert sampled.epsilon() < base.epsilon()
    assert poisson(base, 1.0) is base
    laplace = poisson(Guarantee.laplace(2.0, neighbours="add/remove"), 0.2)
    assert laplace.event == PoissonSampledDpEvent(0.2, LaplaceDpEvent(2.0))
    assert laplace.epsilon(0.0) == pytest.approx(amplified(0.5, 0.2), rel=1e-12)


def test_several_mechanisms_on_one_sample():
    """Two Gaussians on the same sample are one Gaussian sampled, not two sampled ones."""
    one = Guarantee.gaussian(2.0, neighbours="add/remove")
    together = poisson(one + one, 0.1)
    assert together.event == PoissonSampledDpEvent(0.1, GaussianDpEvent(pytest.approx(math.sqrt(2.0))))
    answers = Guarantee.pure(0.5, neighbours="add/remove") + Guarantee.laplace(2.0, neighbours="add/remove")
    assert poisson(answers, 0.1).epsilon(0.0) == pytest.approx(amplified(1.0, 0.1), rel=1e-12)
    with pytest.raises(BadInput, match="not for a mixture"):
        poisson(answers + one, 0.1)


def test_poisson_refuses_other_neighbours_and_rates():
    for neighbours in ("replace", "zero-out"):
        with pytest.raises(BadInput, match="add/remove neighbours only"):
            poisson(Guarantee.gaussian(1.0, neighbours=neighbours), 0.1)
    base = Guarantee.gaussian(1.0, neighbours="add/remove")
    for rate in (-0.1, 1.1, math.nan):
        with pytest.raises(BadInput, match="`rate` was"):
            poisson(base, rate)
    with pytest.raises(BadInput, match="`rate` was 0"):
        poisson(base, 0.0)
    assert poisson(Guarantee.nothing("x", neighbours="add/remove"), 0.5).proves_nothing


@given(epsilon0=st.floats(0.01, 12), log_n=st.integers(0, 9), log_delta=st.floats(-12, -2))
def test_shuffling_follows_the_theorem_only_where_it_is_proven(epsilon0, log_n, log_delta):
    n, delta = 10**log_n, 10.0**log_delta
    value = shuffled_epsilon(epsilon0, n, delta)
    assert 0.0 < value <= epsilon0
    e = math.exp(epsilon0)
    bound = math.log(1 + (e - 1) / (e + 1) * (8 * math.sqrt(e * math.log(4 / delta) / n) + 8 * e / n))
    if epsilon0 > math.log(n / (16 * math.log(2 / delta))) + 1e-9:
        assert value == epsilon0
    elif epsilon0 < math.log(n / (16 * math.log(2 / delta))) - 1e-9:
        assert value == pytest.approx(min(epsilon0, bound), rel=1e-9)


def test_shuffle_gives_an_approximate_guarantee():
    local = Guarantee.randomised_response(1.0, 10)
    shuffled_reports = shuffle(local, 10**4, 1e-6)
    assert shuffled_reports.epsilon() == pytest.approx(0.214, abs=5e-4)
    assert shuffled_reports.slack == 1e-6
    few = shuffle(local, 10, 1e-6)
    assert few.epsilon() == pytest.approx(1.0, abs=1e-4)
    assert few.slack == 0.0


def test_shuffle_refuses_what_its_theorem_does_not_cover():
    with pytest.raises(BadInput, match="not pure"):
        shuffle(Guarantee.gaussian(1.0), 1000, 1e-6)
    with pytest.raises(BadInput, match="not pure"):
        shuffle(Guarantee.approximate(1.0, 1e-9), 1000, 1e-6)
    with pytest.raises(BadInput, match="replaced values"):
        shuffle(Guarantee.pure(1.0, neighbours="add/remove"), 1000, 1e-6)
    with pytest.raises(BadInput, match="`n` was"):
        shuffled_epsilon(1.0, 0, 1e-6)
    assert shuffle(Guarantee.nothing("x"), 1000, 1e-6).proves_nothing
