"""RDP filter that admits or refuses a release; its orders are fixed when the dataset is opened.

A budget is asked adaptively: what is released next may depend on what was released before. Composition
theorems for fixed plans do not cover that; a *filter* does (Feldman & Zrnic 2021; Lécuyer 2021).

**Theorem.** Fix orders α with shares δ_α, and a share δ_s for slack, that sum to at most δ, before anything
is released. Admit a release while the slacks of all releases sum to at most δ_s and either (a) their pure ε
sum to at most ε, or (b) for some order α their Rényi divergences sum to at most ε − c(α, δ_α), where c is
the conversion from order α to (ε, δ_α). Then everything admitted, together, is (ε, δ)-DP.

*Proof.* Let P and Q be the laws of all that is released on two neighbours. (1) Slack is a rare event: a
release with laws p and q whose hockey-stick divergence is at most h(β) + s at every order β splits into a
part of mass at most s and the part min(p, bq), where b has divergence s; by the definition of the divergence
that part's is max(0, H_β(p‖q) − s) ≤ h(β). Leaving the first parts out of every step takes at most δ_s off
P, on all transcripts together, and leaves steps bounded by their events alone. (2) For one account, stop the
process before the account's bound is passed. Since x^α is a mixture of max(0, x − β), what remains of P then
has E_Q[(P/Q)^α] ≤ exp((α − 1)·bound) by induction over the steps, however they were chosen, hence
P(S) ≤ e^ε Q(S) + δ_α for every S; for the pure account P ≤ e^ε Q. (3) Sums only grow, so an account whose
bound holds at the end of a transcript held all along, and the stopped process is the real one there. Every
transcript has such an account. Split S by the first one: P(S) ≤ e^ε Q(S) + Σ δ_α + δ_s. ∎

Shares are what step 3 pays for the choice among accounts: "some order still fits" at the full δ each is
false. A hold that is given back was never drawn, so it belongs to no transcript; while it lasts it counts.

The very first release may also use the whole budget by its own curve. Its parameters were chosen before
anything was released; if they fit no account, nothing further is ever admitted, and the one release
has its own (ε, δ) proof.

Numbers. Budgets are kept to twelve digits: ε and δ may be passed by one part in 10¹². Orders are those of
``privacy.ORDERS``, at most 1024, so that a budget of ε below about log(1/δ)/1000 admits Gaussian noise only
as its first release.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache

from sfumato.errors import BadInput
from sfumato.privacy import ORDERS, Curve, Guarantee

__all__ = ["Filter"]

#: One number an account: pure ε, slack, then each order. Whole multiples of 2⁻⁸⁰, rounded up, so that sums
#: are exact in any order and a hold that is given back leaves no trace.
Prices = tuple[int, ...]

_SCALE = 2**80
_LARGEST_EPSILON = 1e9
_SMALLEST_DELTA = 1e-100
# More than any budget: what an infinite divergence costs.
_INFINITE = _SCALE * 10**12
# 0.4 + 0.4 + 0.2 fills a budget of 1, though not in binary.
_TWELVE_DIGITS = 1 + Fraction(1, 10**12)
# Orders around the best one for a Gaussian budget, as multiples, with the 64ths of δ that each one gets.
_AROUND = ((0.25, 1), (0.5, 1), (1.0, 59), (2.0, 1), (4.0, 1), (16.0, 1))
# What is set aside of δ, when a dataset is opened, for guarantees that carry slack.
_SLACK_SHARE = 0.125


@dataclass(frozen=True)
class Filter:
    """The admission rule of one dataset; all of it is fixed when the dataset is opened.

    ``slack_share`` of δ is for slack; each order gets its share of the rest.
    """

    epsilon: float
    delta: float
    orders: tuple[float, ...]
    shares: tuple[float, ...]
    slack_share: float = _SLACK_SHARE

    @classmethod
    def for_budget(cls, epsilon: float, delta: float) -> Filter:
        """Choose orders and shares from the budget alone."""
        if not 0.0 < epsilon <= _LARGEST_EPSILON:
            raise BadInput(
                f"a budget needs an `epsilon` above 0 and of at most {_LARGEST_EPSILON:g}, not {epsilon!r}.",
                parameter="epsilon",
            )
        if not (delta == 0.0 or _SMALLEST_DELTA <= delta < 1.0):
            raise BadInput(
                f"a budget needs a `delta` of 0, or of at least {_SMALLEST_DELTA:g} and below 1, not "
                f"{delta!r}.",
                parameter="delta",
            )
        if delta == 0.0:
            return cls(epsilon, delta, (), (), 0.0)
        best = _best_order(epsilon, delta)
        orders: dict[float, float] = {}
        for factor, share in _AROUND:
            order = min(ORDERS, key=lambda known: abs(math.log((known - 1.0) / (factor * (best - 1.0)))))
            orders[order] = orders.get(order, 0.0) + share / 64
        return cls(epsilon, delta, tuple(orders), tuple(orders.values()))

    @cached_property
    def limits(self) -> Prices:
        """The limit of each account; below zero where an order cannot serve this budget."""
        free = self.delta * (1.0 - self.slack_share)
        renyi = [
            self.epsilon - _conversion(order, free * share)
            for order, share in zip(self.orders, self.shares, strict=True)
        ]
        limits = (self.epsilon, self.delta * self.slack_share, *renyi)
        return tuple(math.floor(Fraction(limit) * _SCALE * _TWELVE_DIGITS) for limit in limits)

    def price(self, guarantee: Guarantee) -> Prices:
        """Return what a release under ``guarantee`` adds to every account; never below 0."""
        if guarantee.proves_nothing:
            raise BadInput(
                f"a release that proves nothing ({guarantee.theorem}) cannot be charged: no finite budget "
                "covers it."
            )
        return _prices(guarantee.curve, guarantee.slack + guarantee.revealed, self.orders)

    def nothing(self) -> Prices:
        """Return the totals of a new dataset: zero in every account."""
        return (0,) * (2 + len(self.orders))

    def fits(self, total: Prices) -> bool:
        """Return whether the filter admits a sequence that adds up to ``total``."""
        pure, slack, *renyi = (amount <= limit for amount, limit in zip(total, self.limits, strict=True))
        return slack and (pure or any(renyi))

    def covers(self, guarantee: Guarantee) -> bool:
        """Return whether the budget is enough for this one release and nothing else, by its own curve."""
        if self.delta == 0.0:
            return False  # a pure ε has its account; a δ that is merely too small for a double is not 0
        digits = float(_TWELVE_DIGITS)
        return guarantee.delta(self.epsilon * digits) <= self.delta * digits

    def left_pure(self, spent: Prices) -> float:
        """Return an ε that one more release without δ may have: what the best account is sure to admit.

        At order α a pure ε costs at most min(ε, αε²/2) (Bun & Steinke 2016, proposition 3.3).
        """
        by_order = (
            max(room, math.sqrt(2.0 * room / order))
            for room, order in zip(self._room(spent), self.orders, strict=True)
        )
        return max([self.epsilon - spent[0] / _SCALE, 0.0, *by_order])

    def left_mu(self, spent: Prices) -> float:
        """Return the largest μ of one more Gaussian release: its divergence at order α is αμ²/2."""
        pairs = zip(self._room(spent), self.orders, strict=True)
        return math.sqrt(max([0.0, *(2.0 * room / order for room, order in pairs)]))

    def _room(self, spent: Prices) -> list[float]:
        """Return what each order may still take, 0 where it may take nothing."""
        pairs = zip(self.limits[2:], spent[2:], strict=True)
        return [max(0.0, (limit - gone) / _SCALE) for limit, gone in pairs]

    def used(self, spent: Prices) -> float:
        """Return the share of the budget that is used: that of the account with the most room left."""
        pure, slack, *renyi = (
            gone / limit if limit > 0 else math.inf if gone else 0.0
            for gone, limit in zip(spent, self.limits, strict=True)
        )
        return min(1.0, max(slack, min([pure, *renyi])) * float(_TWELVE_DIGITS))


def add_prices(a: Prices, b: Prices, sign: int = 1) -> Prices:
    """Return ``a`` plus (or, with ``sign`` −1, minus) ``b``, account by account."""
    return tuple(x + sign * y for x, y in zip(a, b, strict=True))


@lru_cache(maxsize=256)
def _prices(curve: Curve, slack: float, orders: tuple[float, ...]) -> Prices:
    return tuple(_whole(amount) for amount in (curve.pure, slack, *curve.renyi(orders)))


def _whole(amount: float) -> int:
    if not math.isfinite(amount):
        return _INFINITE
    numerator, denominator = amount.as_integer_ratio()
    return max(0, -(-numerator * _SCALE // denominator))


def _conversion(order: float, delta: float) -> float:
    """Return c(α, δ) of order α: log(1 − 1/α) − log(αδ)/(α − 1) (Canonne et al. 2020)."""
    return math.log1p(-1.0 / order) - math.log(order * delta) / (order - 1.0)


def _best_order(epsilon: float, delta: float) -> float:
    """Return the order at which most Gaussian noise fits: the largest (ε − c(α, δ))/α."""
    return max(ORDERS, key=lambda order: (epsilon - _conversion(order, delta)) / order)
