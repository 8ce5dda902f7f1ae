"""A coin that lets everything through: δ(ε) = r + (1 − r)·H(ε) + slack, wherever a guarantee is read."""

from dataclasses import replace

import numpy as np
import pytest

from sfumato.errors import BadInput
from sfumato.ledger import Filter
from sfumato.privacy import Evidence, Guarantee, Neighbours, Statement, Unit, poisson
from sfumato.privacy.analytic_gaussian import gaussian_delta, gaussian_tradeoff
from sfumato.privacy.composition import parallel, shuffle


def shown(revealed, mu=1.0, slack=0.0, **named):
    return replace(Guarantee.gaussian(1.0 / mu, **named), revealed=revealed, slack=slack)


@pytest.mark.parametrize("epsilon", [0.0, 0.5, 3.0])
def test_delta_is_that_of_the_mixture(epsilon):
    expected = 0.25 + 0.75 * gaussian_delta(epsilon, 1.0) + 0.01
    assert shown(0.25, slack=0.01).delta(epsilon) == pytest.approx(expected, rel=1e-12)


def test_epsilon_undoes_delta_and_is_infinite_below_the_coin():
    made = shown(0.25, slack=0.01)
    assert made.epsilon(made.delta(2.0)) == pytest.approx(2.0, rel=1e-6)
    assert made.epsilon(0.2599) == np.inf


def test_a_delta_of_one_is_nothing_wherever_it_comes_from():
    """A coin, a slack, both, a composition, a group: at δ = 1 everything is allowed, so nothing is proven."""
    for made in (
        shown(1.0),
        shown(0.0, slack=1.0),
        shown(0.5, slack=0.5),
        Guarantee.approximate(1.0, 1.0),
        shown(0.6, slack=0.1) + shown(0.5, slack=0.2),
        shown(0.0, slack=0.1).times(10),
        shown(0.01, at_delta=0.02).group(60),
        shown(0.0, slack=0.5).with_slack(0.5),
    ):
        assert made.proves_nothing
        assert "delta reaches 1" in made.theorem
        assert (made.slack, made.revealed, made.at_delta) == (0.0, 0.0, 0.0)
        assert made.epsilon() == made.epsilon(1.0) == np.inf
        assert made.delta(50.0) == 1.0
        document = made.to_dict()
        assert document["event"] is None
        assert Guarantee.from_dict(document) == made
        with pytest.raises(BadInput, match="proves nothing"):
            Filter(8.0, 1e-3, (2.0, 8.0), shares=(0.5, 0.5)).price(made)
        for text in (str(made), repr(made), str(Statement("Some", {}, None, made))):
            assert "nothing" in text
            assert "ε=0" not in text
            assert "ε = 0" not in text
    # So is what an earlier version wrote of such a coin.
    old = shown(0.5).to_dict() | {"revealed": 1.0, "at_delta": 1.0}
    assert Guarantee.from_dict(old).proves_nothing


def test_epsilon_at_a_delta_of_one_is_infinite():
    assert shown(0.25, slack=0.01).epsilon(1.0) == np.inf
    assert "no finite ε" in str(shown(0.25, at_delta=1.0))


def test_headline_deltas_that_sum_to_one_leave_what_is_proven_at_smaller_ones():
    one = Guarantee.gaussian(8.0, at_delta=0.3)
    for made in (one.times(4), Guarantee.compose([one] * 4)):
        assert made.at_delta == 0.3
        assert made.epsilon() == pytest.approx(Guarantee.gaussian(4.0).epsilon(0.3), rel=1e-9)
    assert shown(0.5, slack=0.1, at_delta=0.7).times(2).at_delta == pytest.approx(0.95 + 0.05 * 0.7)


def test_a_delta_below_one_is_never_printed_as_one():
    made = shown(1.0 - 3e-8, at_delta=1.0 - 2e-8)
    for text in (str(made), repr(made), str(Statement("Some", {}, None, made))):
        assert "1 − 1e-08" in text or "1 − 2e-08" in text


def test_the_tradeoff_is_the_scaled_one():
    made = shown(0.25)
    for alpha in (0.0, 0.1, 0.5):
        expected = 0.75 * gaussian_tradeoff(alpha / 0.75, 1.0)
        assert made.tradeoff(alpha) == pytest.approx(expected, rel=1e-9)
    assert made.tradeoff(0.8) == 0.0


def test_a_trade_off_never_beats_the_best_test_of_the_mixture():
    """Show x with probability r, else noise it: the likelihood-ratio test errs as the curve says."""
    made, threshold = shown(0.25), 0.3
    type_one = 0.75 * (1.0 - float(_normal(threshold)))  # says "neighbour" above the threshold, if not shown
    type_two = 0.75 * float(_normal(threshold - 1.0))
    assert made.tradeoff(type_one) == pytest.approx(type_two, rel=1e-9)


def test_coins_of_several_releases_are_independent():
    both = shown(0.25) + shown(0.5)
    assert both.revealed == pytest.approx(1 - 0.75 * 0.5, rel=1e-11)
    assert both.revealed >= 1 - 0.75 * 0.5
    assert shown(0.25).times(3).revealed == pytest.approx(1 - 0.75**3, rel=1e-11)


def test_parallel_branches_show_as_much_as_the_worst():
    assert parallel([shown(0.25), shown(0.5)], partition="public").revealed == 0.5


def test_a_group_pays_for_the_coin_of_each():
    made = shown(0.01, at_delta=0.02)
    epsilon = made.epsilon(0.02)
    assert made.group(2).epsilon() == pytest.approx(2 * epsilon)
    assert made.group(2).at_delta == pytest.approx(0.02 * (1 + np.exp(epsilon)), rel=1e-9)


def test_sampling_takes_the_coin_as_slack_and_shuffling_refuses_it():
    sampled = poisson(shown(0.2, neighbours=Neighbours.ADD_REMOVE), 0.5)
    assert (sampled.slack, sampled.revealed) == (0.1, 0.0)
    with pytest.raises(BadInput, match="not pure"):
        shuffle(replace(Guarantee.pure(1.0), revealed=0.1), 1000, 1e-6)


def test_a_ledger_charges_the_coin_as_slack():
    book = Filter(8.0, 1e-3, (2.0, 8.0), shares=(0.5, 0.5))
    plain, coin = book.price(shown(0.0)), book.price(shown(1e-5))
    assert coin[1] - plain[1] == pytest.approx(1e-5 * 2.0**80, rel=1e-9)


def test_documents_keep_their_bytes_unless_a_coin_is_tossed():
    assert "revealed" not in shown(0.0).to_dict()
    assert Guarantee.from_dict(shown(0.25).to_dict()) == shown(0.25)
    assert "probability 0.25" in str(Statement("Some", {}, None, shown(0.25)))


def test_evidence_is_held_against_the_guarantee_of_its_unit():
    whole = Guarantee.pure(8.0, unit=Unit("tensor"))
    part = Guarantee.pure(1.0, unit=Unit("component"))
    made = Statement("Some", {}, None, part, also_proven=(whole,))
    attack = Evidence("pairs", 4.0, 0.0, 0.99, unit=Unit("tensor"), neighbours=Neighbours.REPLACE)
    assert not made.contradicts(attack)
    assert made.contradicts(replace(attack, unit=Unit("component")))
    assert not made.contradicts(replace(attack, unit=Unit("frame")))
    assert made.proven_of(Unit("frame"), Neighbours.REPLACE) is None


def test_a_statement_with_several_units_travels_as_json():
    made = Statement(
        "Some",
        {},
        None,
        Guarantee.pure(1.0, unit=Unit("component")),
        (Evidence("pairs", 4.0, 0.0, 0.99, unit=Unit("tensor"), neighbours=Neighbours.REPLACE),),
        also_proven=(Guarantee.pure(8.0, unit=Unit("tensor")),),
    )
    assert Statement.from_json(made.to_json()) == made
    assert "per component" in str(made)
    assert "per tensor" in str(made)


def test_two_guarantees_of_one_unit_are_refused():
    with pytest.raises(BadInput, match="two things of one unit"):
        Statement("Some", {}, None, Guarantee.pure(1.0), also_proven=(Guarantee.pure(2.0),))


def _normal(x):
    from scipy.special import ndtr

    return ndtr(x)
