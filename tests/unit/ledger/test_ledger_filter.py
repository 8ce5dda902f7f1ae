"""What the filter admits stays within the budget, and it admits nearly as much as it could."""

import math
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.errors import BadInput
from sfumato.ledger import Filter
from sfumato.ledger.accounts import Account
from sfumato.ledger.rdp_filter import add_prices
from sfumato.privacy import ORDERS, Guarantee, gaussian_mu, poisson

GAUSSIAN, LAPLACE = Guarantee.gaussian(25.0), Guarantee.laplace(25.0)
RESPONSE = Guarantee.randomised_response(0.05, 4)
BUDGETS = [(0.1, 1e-5), (0.5, 1e-9), (1.0, 1e-6), (3.0, 1e-3), (8.0, 1e-6), (40.0, 1e-12), (1e3, 0.5)]


def verdict(rule, spent, guarantee, *, first):
    """Whether ``guarantee`` may be added to ``spent``: by the accounts, as the one release, or not."""
    account, prices = Account(spent, spends=0 if first else 1), rule.price(guarantee)
    if account.admits(rule, prices, covered=False):
        return "accounts"
    return "alone" if account.admits(rule, prices, covered=rule.covers(guarantee)) else "refused"


def admitted(rule, sequence):
    """How often each guarantee of an endless sequence is admitted before the first refusal of all."""
    spent, counts, refused = rule.nothing(), dict.fromkeys(sequence, 0), 0
    while refused < len(sequence):
        refused = 0
        for one in sequence:
            if verdict(rule, spent, one, first=False) == "accounts":
                spent, counts[one] = add_prices(spent, rule.price(one)), counts[one] + 1
            else:
                refused += 1
    return counts


@pytest.mark.parametrize(
    ("sequence", "share"),
    [([GAUSSIAN], 0.75), ([LAPLACE], 0.75), ([GAUSSIAN, LAPLACE, RESPONSE], 0.75)],
    ids=["Gaussian", "Laplace", "mixed"],
)
@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-6), (4.0, 1e-5)])
def test_what_is_admitted_stays_within_the_budget_and_uses_most_of_it(sequence, share, epsilon, delta):
    counts = admitted(Filter.for_budget(epsilon, delta), sequence)
    total = Guarantee.compose([one.times(count) for one, count in counts.items() if count])
    assert share * epsilon <= total.epsilon(delta) <= epsilon


@settings(max_examples=15, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.floats(0.8, 60.0).map(Guarantee.gaussian),
            st.floats(0.8, 60.0).map(Guarantee.laplace),
            st.floats(0.01, 1.0).map(Guarantee.pure),
            st.floats(0.01, 1.0).map(lambda e: Guarantee.pure(e).with_slack(1e-8)),
        ),
        min_size=1,
        max_size=3,
    ),
    st.sampled_from([(1.0, 1e-6), (3.0, 1e-5)]),
)
def test_any_mixture_that_is_admitted_stays_within_the_budget(sequence, budget):
    counts = admitted(Filter.for_budget(*budget), sequence)
    parts = [one.times(count) for one, count in counts.items() if count]
    assert not parts or Guarantee.compose(parts).epsilon(budget[1]) <= budget[0] * (1 + 1e-9)


def test_choosing_the_order_afterwards_would_overspend_and_is_refused():
    """An adversary who answers a rare first outcome in one way and a common one in another.

    At the full δ, order 3.5 admits the common branch and order 8 the rare one; together they reach 1.7 δ.
    """
    epsilon, delta, orders = 3.0, 1e-3, (3.5, 8.0)
    rare, common = Fraction(82, 10_000), Fraction(9_918, 10_000)
    first = ((rare, Fraction(26, 10_000)), (common, Fraction(9_974, 10_000)))
    after_rare = ((Fraction(880, 1000), Fraction(120, 1000)), (Fraction(120, 1000), Fraction(880, 1000)))
    after_common = (
        (Fraction(28, 10_000), Fraction(1, 10_000)),
        (Fraction(9_972, 10_000), Fraction(9_999, 10_000)),
    )

    (p_rare, q_rare), (p_common, q_common) = first
    outcomes = [(p_rare * p, q_rare * q) for p, q in after_rare]
    outcomes += [(p_common * p, q_common * q) for p, q in after_common]
    assert sum(max(0.0, p - math.exp(epsilon) * q) for p, q in outcomes) > 1.7 * delta

    def both_branches_fit(rule):
        return all(
            rule.fits(add_prices(prices_of_law(rule, first), prices_of_law(rule, branch)))
            for branch in (after_rare, after_common)
        )

    assert both_branches_fit(Filter(epsilon, delta, orders, shares=(1.0, 1.0), slack_share=0.0))
    assert not both_branches_fit(Filter(epsilon, delta, orders, shares=(0.5, 0.5), slack_share=0.0))
    assert not both_branches_fit(Filter.for_budget(epsilon, delta))


@pytest.mark.parametrize(("epsilon", "delta"), BUDGETS)
def test_shares_of_delta_add_up_to_no_more_than_delta(epsilon, delta):
    rule = Filter.for_budget(epsilon, delta)
    assert set(rule.orders) <= set(ORDERS)
    assert sum(map(Fraction, rule.shares)) == 1
    assert 0 < rule.slack_share < 1


@pytest.mark.parametrize("delta", [1e-6, 1e-5])
def test_slack_is_summed_apart_and_has_its_own_limit(delta):
    rule = Filter.for_budget(1.0, delta)
    one = Guarantee.pure(0.001).with_slack(rule.slack_share * delta / 4)
    assert admitted(rule, [one]) == {one: 4}
    assert verdict(rule, rule.nothing(), Guarantee.approximate(1.0, delta), first=True) == "alone"
    assert verdict(rule, rule.nothing(), Guarantee.approximate(1.0, delta), first=False) == "refused"
    assert verdict(rule, rule.nothing(), Guarantee.approximate(1.0, 1.01 * delta), first=True) == "refused"


def test_a_budget_without_delta_adds_pure_epsilons_and_admits_nothing_else():
    rule = Filter.for_budget(1.0, 0.0)
    tenth = Guarantee.laplace(10.0)
    assert admitted(rule, [tenth]) == {tenth: 10}
    for other in (Guarantee.gaussian(1e6), Guarantee.approximate(0.1, 1e-12)):
        assert verdict(rule, rule.nothing(), other, first=True) == "refused"


def test_decimal_parts_fill_a_budget_exactly():
    rule = Filter.for_budget(1.0, 0.0)
    spent = rule.nothing()
    for epsilon in (0.4, 0.4, 0.2):
        assert verdict(rule, spent, Guarantee.pure(epsilon), first=False) == "accounts"
        spent = add_prices(spent, rule.price(Guarantee.pure(epsilon)))
    assert verdict(rule, spent, Guarantee.pure(1e-9), first=False) == "refused"
    assert rule.used(spent) == pytest.approx(1.0, abs=1e-11)


@pytest.mark.parametrize(("epsilon", "delta"), BUDGETS)
def test_a_release_calibrated_to_the_whole_budget_fits_alone_and_a_larger_one_does_not(epsilon, delta):
    rule = Filter.for_budget(epsilon, delta)
    mu = gaussian_mu(epsilon, delta)
    whole, more = Guarantee.gaussian(1.0 / mu), Guarantee.gaussian(1.0 / (1.000001 * mu))
    assert verdict(rule, rule.nothing(), whole, first=True) == "alone"
    assert verdict(rule, rule.nothing(), whole, first=False) == "refused"
    assert verdict(rule, rule.nothing(), more, first=True) == "refused"


@pytest.mark.parametrize("tiny", [1e-10, 1e-8, 1e-6, 1e-4])
@pytest.mark.parametrize("kind", [Guarantee.pure, lambda epsilon: Guarantee.laplace(1.0 / epsilon)])
def test_many_tiny_releases_are_not_free(kind, tiny):
    """αε²/2 is the divergence of a small pure ε; rounding must not lose it, nor turn it negative."""
    rule = Filter.for_budget(1.0, 1e-6)
    times = round(1.0 / tiny**2)
    expected = [0.5 * order * tiny**2 * times * 2**80 for order in rule.orders]
    got = rule.price(kind(tiny).times(times))[2:]
    assert all(0.98 * e <= g <= 1.02 * e for e, g in zip(expected, got, strict=True) if e < 2**80 / tiny)
    assert verdict(rule, rule.nothing(), kind(tiny).times(times), first=False) == "refused"


def test_prices_are_exact_so_that_giving_back_leaves_no_trace():
    rule = Filter.for_budget(8.0, 1e-6)
    spent = rule.price(Guarantee.gaussian(3.0))
    for one in (GAUSSIAN, LAPLACE, RESPONSE, Guarantee.approximate(0.3, 1e-9)):
        price = rule.price(one)
        assert all(isinstance(amount, int) and amount >= 0 for amount in price)
        assert add_prices(add_prices(spent, price), price, -1) == spent
    assert (
        rule.price(GAUSSIAN)[0] > Filter.for_budget(1e9, 0.0).limits[0]
    )  # no pure ε: dearer than any budget


def test_sampled_training_is_priced_like_its_composition():
    rule = Filter.for_budget(3.0, 1e-5)
    step = poisson(Guarantee.gaussian(1.0, neighbours="add/remove"), 0.01)
    hundred = rule.price(step.times(100))
    assert hundred[2:] == pytest.approx([100 * amount for amount in rule.price(step)[2:]], rel=1e-9)
    assert verdict(rule, rule.nothing(), step.times(100), first=False) == "accounts"


def test_what_is_left_fits_and_a_little_more_does_not():
    rule = Filter.for_budget(2.0, 1e-6)
    spent = rule.price(Guarantee.gaussian(5.0))
    mu, pure = rule.left_mu(spent), rule.left_pure(rule.price(LAPLACE))
    assert verdict(rule, spent, Guarantee.gaussian(1.000001 / mu), first=False) == "accounts"
    assert verdict(rule, spent, Guarantee.gaussian(0.999 / mu), first=False) == "refused"
    assert pure == pytest.approx(1.96)


@pytest.mark.parametrize(
    ("epsilon", "delta"),
    [
        (0.0, 0.0),
        (-1.0, 0.0),
        (math.inf, 0.0),
        (math.nan, 0.0),
        (2e9, 0.0),
        (1.0, -0.1),
        (1.0, 1.0),
        (1.0, 1e-101),
    ],
)
def test_impossible_budgets_are_refused(epsilon, delta):
    with pytest.raises(BadInput, match="a budget needs"):
        Filter.for_budget(epsilon, delta)


def test_a_release_that_proves_nothing_has_no_price():
    with pytest.raises(BadInput, match=r"proves nothing \(paper mode\) cannot be charged"):
        Filter.for_budget(1.0, 0.0).price(Guarantee.nothing("paper mode"))


def prices_of_law(rule, law):
    """What a mechanism with outcome probabilities ``law`` on two neighbours costs, by the definitions."""
    pure = max(abs(math.log(p / q)) for p, q in law)
    renyi = [
        max(
            math.log(sum(float(p) ** order * float(q) ** (1 - order) for p, q in pairs)) / (order - 1)
            for pairs in (law, [(q, p) for p, q in law])
        )
        for order in rule.orders
    ]
    return tuple(math.ceil(Fraction(amount) * 2**80) for amount in (pure, 0.0, *renyi))


@pytest.mark.parametrize("spends", [1, 5, 20])
def test_what_is_shown_as_left_without_delta_still_fits_after_gaussian_releases(spends):
    rule = Filter.for_budget(3.0, 1e-6)
    spent = rule.nothing()
    for _ in range(spends):
        spent = add_prices(spent, rule.price(Guarantee.gaussian(10.0, at_delta=1e-6)))
    left = rule.left_pure(spent) * (1 - 1e-9)
    assert left > 0
    assert rule.fits(add_prices(spent, rule.price(Guarantee.pure(left))))
