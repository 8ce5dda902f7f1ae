"""What it costs that an audit may keep a release back, checked on laws that are small enough to count."""

import numpy as np
import pytest
from scipy import special

from sfumato.audits import Canaries, refutable
from sfumato.privacy import DELTA, Guarantee, Neighbours, gaussian_mu
from sfumato.release.audit_slack import own_chance, own_slack, set_aside, slack_of

EPSILONS = (-1.0, 0.0, 0.3, 1.0, 3.0)


def divergence(p, q, epsilon):
    return np.maximum(p - np.exp(epsilon) * q, 0.0).sum()


def laws(seed):
    rng = np.random.default_rng(seed)
    return rng, rng.dirichlet(np.ones(6)), rng.dirichlet(np.ones(6))


@pytest.mark.parametrize("seed", range(50))
def test_a_twin_that_decides_costs_its_chance_and_no_more(seed):
    rng, p, q = laws(seed)
    gone = rng.uniform(0.0, 0.3, 2)
    first, second = (np.append((1.0 - c) * law, c) for c, law in zip(gone, (p, q), strict=True))
    for epsilon in EPSILONS:
        assert divergence(first, second, epsilon) <= divergence(p, q, epsilon) + gone.max() + 1e-12


@pytest.mark.parametrize("seed", range(50))
def test_a_release_that_decides_about_itself_costs_what_is_said(seed):
    rng, p, q = laws(seed)
    kept, others = rng.integers(0, 2, (2, 6))
    first, second = (np.append(law * keep, law @ (1 - keep)) for law, keep in ((p, kept), (q, others)))
    slack = p @ (1 - kept) + p @ (1 - others)
    for epsilon in EPSILONS:
        assert divergence(first, second, epsilon) <= divergence(p, q, epsilon) + slack + 1e-12


@pytest.mark.parametrize("multiplier", [0.5, 2.0, 20.0])
def test_a_chance_is_paid_for_by_its_slack(multiplier):
    guarantee, slack = Guarantee.gaussian(multiplier, at_delta=1e-5), slack_of(1e-5)
    chance = own_chance(guarantee, slack)
    assert 0.0 < chance < slack
    assert slack / 10.0 < own_slack(guarantee, chance) < 10.0 * slack
    assert own_slack(guarantee.group(2), chance) > own_slack(guarantee, chance)


@pytest.mark.parametrize("count", [2, 5, 10])
@pytest.mark.parametrize("seed", range(20))
def test_a_group_pays_for_one_step_and_not_for_each_record(seed, count):
    """k records away the laws differ as much as they like; the slack is that of these two laws alone."""
    rng = np.random.default_rng(seed)
    p, q = (rng.dirichlet(np.full(6, 1.0 / count)) for _ in range(2))
    kept, others = rng.integers(0, 2, (2, 6))
    chance = max(p @ (1 - kept), q @ (1 - others))
    first, second = (np.append(law * keep, law @ (1 - keep)) for law, keep in ((p, kept), (q, others)))
    # By every x, of which own_slack takes the best.
    reached = min(np.exp(x) * chance + divergence(p, q, x) for x in np.linspace(0.0, 9.0, 50))
    for epsilon in EPSILONS:
        most = divergence(p, q, epsilon) + chance + reached
        assert divergence(first, second, epsilon) <= most + 1e-12


def test_a_group_that_the_best_test_does_not_tell_for_sure_is_told_its_epsilon():
    one = Guarantee.gaussian(0.5, neighbours="add/remove", at_delta=1e-5 - 1e-8)
    chance = own_chance(one, 1e-8)
    five, ten = (set_aside(one.group(k), own_slack(one.group(k), chance), 1e-5) for k in (5, 10))
    mu = 5 / 0.5
    exact = chance + special.ndtr(special.ndtri(chance) + mu)
    assert five.at_delta == pytest.approx(exact + 1e-5, abs=1e-7)
    assert five.at_delta < 1.0
    assert five.epsilon() == pytest.approx(one.group(5).epsilon(), rel=1e-9)
    assert ten.proves_nothing
    assert ten.theorem == "an audit may withhold it; ε is about 284 without an audit"


@pytest.mark.parametrize("multiplier", [0.5, 2.0, 20.0])
def test_the_slack_of_a_group_is_near_what_its_best_test_reaches(multiplier):
    guarantee = Guarantee.gaussian(multiplier, at_delta=1e-5)
    chance = own_chance(guarantee, slack_of(1e-5))
    for count in (1, 2, 5):
        mu = count / multiplier
        exact = chance + special.ndtr(special.ndtri(chance) + mu)
        assert exact <= own_slack(guarantee.group(count), chance) <= min(1.0, 8.0 * exact)


def test_a_group_is_stated_at_a_delta_that_holds_and_never_as_nothing_below_one():
    one = Guarantee.gaussian(0.5, at_delta=1e-5 - 1e-8)
    stated = set_aside(one.group(2), 1e-4, 1e-5)
    assert stated.at_delta == pytest.approx(1e-5 + 1e-4, rel=1e-2)
    assert stated.epsilon() == pytest.approx(one.group(2).epsilon(), rel=1e-9)
    assert set_aside(one.group(2), 4e-6, 1e-5).at_delta == 1e-5
    assert set_aside(one.group(10), 1.0, 1e-5).proves_nothing
    nothing = Guarantee.nothing("no proof")
    assert set_aside(nothing, 1e-8, 1e-5) is nothing


def test_what_no_audit_could_refute_is_never_kept_back():
    for epsilon, records, most in ((1.0, 12_000, 1000), (1.0, 300, 30), (10.0, 12_000, 1000)):
        proven = Guarantee.gaussian(1.0 / gaussian_mu(epsilon, 1e-5), at_delta=1e-5)
        chance = own_chance(proven, slack_of(1e-5))
        assert Canaries.most(records, Neighbours.REPLACE) == most
        assert refutable(proven, records, chance) == (epsilon == 1.0 and most == 1000)
        drawn = Canaries.drawn(records, Neighbours.REPLACE, np.random.default_rng(0))
        assert drawn.coins.size == most
    few = Guarantee.gaussian(1.0, neighbours="add/remove", at_delta=1e-5)
    assert refutable(few, 20, 1e-12)


def test_a_thousandth_of_delta_is_set_aside_and_a_millionth_at_most():
    assert (slack_of(1e-5), slack_of(DELTA), slack_of(0.1)) == (pytest.approx(1e-8), 1e-9, 1e-6)
    stated = set_aside(Guarantee.gaussian(2.0, at_delta=1e-5 - 1e-8), 1e-8, 1e-5)
    assert (stated.slack, stated.at_delta) == (1e-8, 1e-5)
    grown = set_aside(Guarantee.approximate(1.0, 1e-4), 1e-8, 1e-5)
    assert grown.epsilon() == pytest.approx(1.0)
