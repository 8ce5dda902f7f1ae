"""``Guarantee``: a proven upper bound on privacy loss, with its unit, neighbours and theorem.

A ``Guarantee`` says: for inputs that differ in one ``unit`` as ``neighbours`` describe, and for every real ε,
the hockey-stick divergence of the outputs is at most r + (1 − r)·H + ``slack``, where H is that of ``event``
and r is ``revealed``. ``event`` describes the worst pair of neighbours itself, so its noise multiplier is
noise scale / sensitivity under these neighbours (see ``events``); ``None`` means that nothing is proven.

``revealed`` is the chance of a coin, tossed without looking at the data, after which everything may be
shown: a mechanism that shows its input with probability r and otherwise does what ``event`` describes.
The coins of several releases are independent, so that of all together is 1 − Π(1 − rᵢ).

A δ of 1 allows everything. So a guarantee whose slack and ``revealed`` reach 1 together, which holds at no
smaller δ, *is* nothing: its event is dropped when it is made. And ε at δ = 1 is infinite, not 0.

Slacks add up under composition: writing H for the divergence, c for an output of the first mechanism
and C, D for its two laws, H_α(C×P ‖ D×Q) = ∫ H_{αD(c)/C(c)}(P ‖ Q) dC(c), so a slack δ₀ in the second
mechanism, being the same at every order, comes out of the integral as δ₀; adaptively chosen mechanisms too.

**Groups** of sampled Gaussians. A step draws each unit into its sample with probability q and releases
f(sample) + N(0, σ²), where one unit more or less (or zeroed out) in the sample moves f by at most σμ. Let two
data sets be k such changes apart, some of them additions and others removals as may be. Toss the same coins
for both. Then j ~ Bin(k, q) of the changes are in the sample of a step, and f moves by at most jσμ.

Theorem: with W = Σ μ²j² over all steps and parts of a composition, and any w, the divergence of the group is
at most P(W > w) + that of one Gaussian with mean √w, composed with the group's bound of all other parts.

Proof. The coins of the group do not depend on the data, so both laws are mixtures over them with the same
weights, and the hockey-stick divergence, being jointly convex, is at most the average of those given these
coins. Given them and all earlier releases, a step is a mixture, over the coins of everybody else, of pairs of
Gaussians at most jμ deviations apart: dominated by one such pair, again by joint convexity. Adaptive
composition of Gaussians adds up squares of means, to √W. Where W ≤ w that is at most the divergence at √w,
which grows with the mean; elsewhere it is at most 1. ∎

P(W > w) ≤ e^{−λw}·E e^{λW} for every λ > 0 (Chernoff), a product over the steps. W never exceeds what it is
where everybody is always drawn, so the bound is never above that of Gaussians without sampling.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self, TypedDict, Unpack

import numpy as np
from scipy import special

from sfumato.errors import BadInput
from sfumato.privacy.analytic_gaussian import check_alpha, check_epsilon
from sfumato.privacy.events import (
    ComposedEvent,
    Event,
    GaussianEvent,
    LaplaceEvent,
    SelfComposedEvent,
    as_dp_event,
    as_event,
    compose_events,
    curve_of,
    event_from_json,
    event_to_json,
    has_sampling,
    repeat_event,
    require_fields,
    response_event,
    scale_event,
)
from sfumato.privacy.formatting import combined_theorem, format_delta, format_upper
from sfumato.privacy.privacy_loss import Curve, GaussianLoss, LaplaceLoss, SampledLoss
from sfumato.privacy.unit import RECORD, Neighbours, Unit

if TYPE_CHECKING:
    from dp_accounting import DpEvent

__all__ = ["Guarantee"]

# An ε of one unit beyond which no smaller δ is looked for: e^ε must not overflow.
_LARGEST_STEP = 350.0
# A δ that underflows is not 0: what it grows to may be large.
_SMALLEST_DELTA = 1e-300
# Beyond it a group counts as drawn in every step, which bounds it too.
_LARGEST_GROUP = 10_000
# Chernoff's λ, times the largest square of a mean that one step can add.
_RATES = np.geomspace(1e-8, 1e3, 400)
_FIELDS = ("unit", "neighbours", "event", "theorem", "slack", "revealed", "at_delta")


class _DpEvent:
    """A field that takes an event of either form and is read as dp-accounting's, built when it is read."""

    def __get__(self, guarantee: Guarantee | None, owner: type | None = None) -> DpEvent | None:
        if guarantee is None:
            raise AttributeError("an event has no default")
        return guarantee._dp_event

    def __set__(self, guarantee: Guarantee, event: Event | DpEvent | None) -> None:
        if event is not None and not isinstance(event, Event):
            # Whoever has an event of dp-accounting has loaded it; another thread may be loading it otherwise.
            loaded = sys.modules.get("dp_accounting")
            event = as_event(event) if loaded is not None and isinstance(event, loaded.DpEvent) else event
        guarantee.__dict__["_described"] = event
        guarantee.__dict__.pop("_dp_event", None)


class About(TypedDict, total=False):
    """What a guarantee is about, where that is not replaced records; its theorem, and its headline's δ."""

    unit: Unit | str
    neighbours: Neighbours | str
    theorem: str
    at_delta: float


@dataclass(frozen=True, kw_only=True, eq=False)
class Guarantee:
    """An upper bound on privacy loss: what may change, how, and the theorem that bounds it.

    ``slack`` is δ₀, added to every δ; ``revealed`` is the chance that a coin, independent of the data, lets
    everything through; ``at_delta`` is the δ at which the headline ε is printed. ``described`` is ``event``
    without dp-accounting.
    """

    unit: Unit = RECORD
    neighbours: Neighbours = Neighbours.REPLACE
    event: _DpEvent = _DpEvent()
    theorem: str
    slack: float = 0.0
    revealed: float = 0.0
    at_delta: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "unit", Unit.parse(self.unit))
        object.__setattr__(self, "neighbours", Neighbours(self.neighbours))
        for name in ("slack", "revealed", "at_delta"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0.0 <= value <= 1.0:
                raise BadInput(f"`{name}` was {value!r}: it must lie between 0 and 1.", parameter=name)
            object.__setattr__(self, name, float(value))
        if not isinstance(self.theorem, str):
            raise BadInput(f"`theorem` was {self.theorem!r}: it must be text.", parameter="theorem")
        given: Any = self.described
        if given is None:
            return
        if not isinstance(given, Event):
            raise BadInput(
                f"`event` was {given!r}: it must be a dp_accounting DpEvent, or None for nothing.",
                parameter="event",
            )
        if self.slack + self.revealed >= 1.0:
            for name, value in (("event", None), ("slack", 0.0), ("revealed", 0.0), ("at_delta", 0.0)):
                object.__setattr__(self, name, value)
            object.__setattr__(self, "theorem", f"{self.theorem}: its delta reaches 1")
            return
        self._curve  # noqa: B018 (reading it refuses an event that nothing can be computed from)
        if has_sampling(given) and self.neighbours is Neighbours.REPLACE:
            raise BadInput(
                "the event samples by Poisson under replace neighbours: its amplification is proven for "
                "add/remove and zero-out neighbours only."
            )

    @classmethod
    def gaussian(cls, noise_multiplier: float, **about: Unpack[About]) -> Self:
        """Return the guarantee of Gaussian noise of deviation ``noise_multiplier`` × L2 sensitivity.

        The accounting is exact (Balle & Wang 2018).
        """
        return cls._of(GaussianEvent(noise_multiplier), "analytic Gaussian", about)

    @classmethod
    def laplace(cls, noise_multiplier: float, **about: Unpack[About]) -> Self:
        """Return the guarantee of Laplace noise of scale ``noise_multiplier`` × L1 sensitivity.

        It is pure, with ε = 1/``noise_multiplier``.
        """
        return cls._of(LaplaceEvent(noise_multiplier), "Laplace mechanism", about)

    @classmethod
    def randomised_response(cls, epsilon: float, buckets: int, **about: Unpack[About]) -> Self:
        """Return that of one of ``buckets`` answers, the true one e^ε times as likely as each other one."""
        if isinstance(buckets, bool) or not isinstance(buckets, int) or buckets < 2:
            raise BadInput(
                f"`buckets` was {buckets!r}: randomised response needs a whole number ≥ 2.",
                parameter="buckets",
            )
        event = response_event(check_epsilon(epsilon), buckets)
        return cls._of(event, "k-ary randomised response", about)

    @classmethod
    def pure(cls, epsilon: float, **about: Unpack[About]) -> Self:
        """Return the guarantee of any ε-DP mechanism.

        Binary randomised response dominates it (Kairouz, Oh & Viswanath 2015).
        """
        return cls._of(response_event(check_epsilon(epsilon), 2), "pure ε-DP", about)

    @classmethod
    def approximate(cls, epsilon: float, delta: float, **about: Unpack[About]) -> Self:
        """Return that of any (ε, δ)-DP mechanism: ``pure(epsilon)`` with slack and ``at_delta`` ``delta``."""
        event = response_event(check_epsilon(epsilon), 2)
        return cls._of(event, "(ε, δ)-DP", {"at_delta": delta, **about}).changed(slack=delta)

    @classmethod
    def nothing(
        cls, reason: str, unit: Unit | str = RECORD, neighbours: Neighbours | str = Neighbours.REPLACE
    ) -> Self:
        """Return a guarantee that proves nothing, with the reason."""
        return cls._of(None, reason, {"unit": unit, "neighbours": neighbours})

    @classmethod
    def _of(cls, event: Event | None, theorem: str, about: About) -> Self:
        fields: Any = {"theorem": theorem, **about}
        return cls(event=event, **fields)

    @property
    def proves_nothing(self) -> bool:
        """Whether there is no theorem behind the release."""
        return self.described is None

    def changed(self, **fields: Any) -> Self:
        """Return this guarantee with other ``fields``, as ``dataclasses.replace``; loads no dp-accounting."""
        kept = {name: getattr(self, "described" if name == "event" else name) for name in _FIELDS}
        return type(self)(**(kept | fields))

    @property
    def described(self) -> Event | None:
        """The event in this package's form, read without dp-accounting."""
        described: Event | None = self.__dict__["_described"]
        return described

    @cached_property
    def _dp_event(self) -> DpEvent | None:
        return None if self.described is None else as_dp_event(self.described)

    @cached_property
    def _curve(self) -> Curve | None:
        return None if self.described is None else curve_of(self.described)

    @property
    def curve(self) -> Curve:
        """δ(ε) of the event alone, without slack; refuses where nothing is proven."""
        if self._curve is None:
            raise BadInput(f"nothing is proven ({self.theorem}), so there is no curve to read.")
        return self._curve

    def epsilon(self, delta: float | None = None) -> float:
        """Return ε at ``delta`` (default ``at_delta``); infinite where nothing finite is proven, as at δ = 1.

        The event is asked at (δ − slack − revealed) / (1 − revealed). A δ equal to the slack and the chance
        of being revealed (to twelve digits, since they are sums) leaves 0 for the event, which is finite for
        pure events only.
        """
        delta = self.at_delta if delta is None else float(delta)
        if not 0.0 <= delta <= 1.0:
            raise BadInput(f"`delta` was {delta!r}: it must lie between 0 and 1.", parameter="delta")
        if self._curve is None or delta >= 1.0:
            return math.inf
        taken = self.slack + self.revealed
        left = delta - taken
        if abs(left) <= 1e-12 * taken:
            left = 0.0
        if left < 0.0:
            return math.inf
        return self._curve.epsilon(min(1.0, left / (1.0 - self.revealed)))

    def delta(self, epsilon: float) -> float:
        """Return δ at ``epsilon``, slack included; 1 where nothing is proven."""
        epsilon = check_epsilon(epsilon)
        if self._curve is None:
            return 1.0
        hidden = (1.0 - self.revealed) * self._curve.delta(epsilon)
        return min(1.0, self.revealed + hidden + self.slack)

    def tradeoff(self, alpha: float) -> float:
        """Return a lower bound on the type II error of any test of neighbours at type I error ``alpha``."""
        alpha = check_alpha(alpha)
        hidden = 1.0 - self.revealed
        if self._curve is None or alpha >= hidden:
            return 0.0
        # δ(ε) = r + (1 − r)H(ε) + s for every ε is (1 − r) times a curve with slack s/(1 − r) at α/(1 − r).
        return hidden * self._curve.tradeoff(alpha / hidden, min(1.0, self.slack / hidden))

    def __add__(self, other: Guarantee) -> Guarantee:
        if not isinstance(other, Guarantee):
            return NotImplemented
        return Guarantee.compose([self, other])

    @classmethod
    def compose(cls, guarantees: Iterable[Guarantee]) -> Guarantee:
        """Return the guarantee of all these releases together; slacks and at_deltas add up.

        It holds whether the releases are chosen in advance or adaptively.
        """
        parts = list(guarantees)
        if not parts:
            raise BadInput("no guarantees were given: composition needs at least one.")
        first = parts[0]
        for part in parts[1:]:
            first.require_same_unit(part)
        if len(parts) == 1:
            return first
        without = [part for part in parts if part.described is None]
        if without:
            reasons = "; ".join(dict.fromkeys(part.theorem for part in without))
            return cls.nothing(reasons, first.unit, first.neighbours)
        slack, revealed = math.fsum(part.slack for part in parts), _any(part.revealed for part in parts)
        return first.changed(
            event=compose_events(part.described for part in parts if part.described is not None),
            theorem=combined_theorem(part.theorem for part in parts),
            slack=min(1.0, slack),
            revealed=revealed,
            at_delta=_headline([part.at_delta for part in parts], slack + revealed),
        )

    def times(self, count: int) -> Guarantee:
        """Return the guarantee of ``count`` releases of this kind together."""
        _check_count(count)
        if count == 1 or self.described is None:
            return self
        slack, revealed = count * self.slack, _any([self.revealed], count)
        return self.changed(
            event=repeat_event(self.described, count),
            theorem=combined_theorem([self.theorem]),
            slack=min(1.0, slack),
            revealed=revealed,
            at_delta=_headline([self.at_delta], slack + revealed, count),
        )

    def group(self, count: int, delta: float | None = None) -> Guarantee:
        """Return the guarantee for ``count`` units changing together.

        Without slack and where nothing is revealed: a Gaussian's μ and a Laplace's ε are multiplied by
        ``count``, exactly (Dong, Roth & Su 2022, Theorem 2.14), as is any pure ε; a Poisson-sampled Gaussian
        becomes one Gaussian and a slack of half of ``at_delta`` (the theorem above).

        Always: an (ε, δ) guarantee becomes (kε, δ·(e^{kε} − 1)/(e^ε − 1)) (Dwork & Roth 2014, Theorem 2.2
        with its δ summed exactly: Σ_{i<k} e^{iε}). One unit is asked at ``delta``; if none is given, at the
        smallest ε whose δ grows to no more than ``at_delta``, or at ``at_delta`` itself where there is none.
        Of two bounds at ``at_delta`` the one with the smaller ε is returned, and where only one is, that one.
        """
        _check_count(count)
        if count == 1 or self.described is None:
            return self
        theorem, own = f"{self.theorem}, group of {count}", None
        if self.slack == self.revealed == 0.0:
            event = group_curve_event(self.described, count)
            if event is not None:
                return self.changed(event=event, theorem=theorem)
            slack = 0.5 * self.at_delta
            event = sampled_group_event(self.described, count, slack)
            own = self.changed(event=event, theorem=theorem, slack=slack)
        step = self._step_of(count) if delta is None else (self.epsilon(delta), delta)
        grown = group_delta(*step, count) if math.isfinite(step[0]) else 1.0
        if delta is None and grown < self.at_delta:
            grown = self.at_delta
        if grown < 1.0:
            made = Guarantee.approximate(
                count * step[0], grown, unit=self.unit, neighbours=self.neighbours, theorem=theorem
            )
            fits = grown <= self.at_delta
            if own is None or (not fits and delta is not None) or (fits and made.epsilon() <= own.epsilon()):
                return made
        if own is not None:
            return own
        if not math.isfinite(step[0]):
            raise BadInput(
                f"a group of {count} needs a delta at which one unit has a finite epsilon: "
                f"delta was {step[1]!r}, the slack is {self.slack!r}."
            )
        return Guarantee.nothing(f"{theorem}: its delta reaches 1", self.unit, self.neighbours)

    def _step_of(self, count: int) -> tuple[float, float]:
        """Return (ε, δ) of one unit that grows to at most ``at_delta``, or else that at ``at_delta``."""
        start = self.epsilon(self.at_delta)

        def delta(epsilon: float) -> float:
            return max(self.delta(epsilon), _SMALLEST_DELTA)

        def fits(epsilon: float) -> bool:
            return group_delta(epsilon, delta(epsilon), count) <= self.at_delta

        low, high = start, max(start, 1e-6)
        while high <= _LARGEST_STEP and not fits(high):
            low, high = high, 2.0 * high
        if not high <= _LARGEST_STEP:
            return start, self.at_delta
        while high - low > 1e-12 * high:
            middle = 0.5 * (low + high)
            low, high = (low, middle) if fits(middle) else (middle, high)
        return high, delta(high)

    def scaled(self, fraction: float) -> Guarantee:
        """Return the guarantee of the same noise for neighbours at this ``fraction`` of the distance."""
        return self if self.described is None else self.changed(event=scale_event(self.described, fraction))

    def with_slack(self, delta: float) -> Guarantee:
        """Return the same guarantee with ``delta`` more slack."""
        if not 0.0 <= delta <= 1.0:
            raise BadInput(f"a slack of {delta!r} was added: it must lie between 0 and 1.")
        return self.changed(slack=min(1.0, self.slack + delta))

    def require_same_unit(self, other: Guarantee) -> None:
        """Refuse, naming both, if ``other`` bounds changes of another unit or under other neighbours."""
        if (self.unit, self.neighbours) != (other.unit, other.neighbours):
            raise BadInput(
                f"a guarantee per {self.unit} under {self.neighbours} cannot be added to one per "
                f"{other.unit} under {other.neighbours}: they bound changes of different things."
            )

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON object that ``from_dict`` reads back to an equal guarantee.

        ``revealed`` is written where it is not 0, so that documents without it keep their bytes.
        """
        document = {
            "unit": str(self.unit),
            "neighbours": str(self.neighbours),
            "event": None if self.described is None else event_to_json(self.described),
            "theorem": self.theorem,
            "slack": self.slack,
            "at_delta": self.at_delta,
        }
        return document | ({"revealed": self.revealed} if self.revealed > 0.0 else {})

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> Guarantee:
        """Return the guarantee that ``to_dict`` wrote; refuse anything else."""
        if isinstance(value, Mapping):
            value = {"revealed": 0.0, **value}
        got = require_fields(value, _FIELDS, "a guarantee")
        event = None if got["event"] is None else event_from_json(got["event"])
        return cls(
            unit=Unit.parse(got["unit"]),
            neighbours=Neighbours(got["neighbours"]),
            event=event,
            theorem=got["theorem"],
            slack=got["slack"],
            revealed=got["revealed"],
            at_delta=got["at_delta"],
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Guarantee):
            return NotImplemented
        return self._compared() == other._compared()

    def _compared(self) -> tuple[Any, ...]:
        return (self.described, *(getattr(self, name) for name in _FIELDS if name != "event"))

    def __hash__(self) -> int:
        numbers = (self.slack, self.revealed, self.at_delta)
        return hash((self.unit, self.neighbours, self._curve, self.theorem, numbers))

    def __str__(self) -> str:
        where = f"per {self.unit} under {self.neighbours}"
        if self.described is None:
            return f"proves nothing {where} ({self.theorem})"
        epsilon = self.epsilon()
        headline = f"ε={format_upper(epsilon)}" if math.isfinite(epsilon) else "no finite ε"
        return f"{headline} at δ={format_delta(self.at_delta)} {where} ({self.theorem})"

    def __repr__(self) -> str:
        start = f"Guarantee: unit={self.unit}, neighbours={self.neighbours}"
        if self.described is None:
            return f"{start}, proves nothing, {self.theorem}"
        epsilon = self.epsilon()
        return f"{start}, ε={format_upper(epsilon)}, δ={format_delta(self.at_delta)}, {self.theorem}"


def _any(chances: Iterable[float], count: int = 1) -> float:
    """Return the chance that one of independent coins falls, each tossed ``count`` times; rounded up."""
    logs = [math.log1p(-chance) if chance < 1.0 else -math.inf for chance in chances]
    chance = -math.expm1(count * math.fsum(logs)) if any(logs) else 0.0
    return min(1.0, chance * (1.0 + 2.0**-40))


def _headline(deltas: list[float], taken: float, count: int = 1) -> float:
    """Return the δ at which releases printed at ``deltas``, each ``count`` times, are printed together.

    Where the sum reaches 1, at which every ε holds, it is what slack and coins take, and of the rest the
    largest share that one of them had; the curve holds at every δ, so the choice is free.
    """
    total = count * math.fsum(deltas)
    return total if total < 1.0 else min(1.0, taken + max(0.0, 1.0 - taken) * max(deltas))


def _check_count(count: int) -> None:
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise BadInput(f"`count` was {count!r}: it must be a whole number, 1 or more.", parameter="count")


def group_curve_event(event: Event, size: float) -> Event | None:
    """Return the event that bounds a group of ``size``, or None where a part has no such event.

    A ``size`` below 1 is no group: it gives a smaller event of the same kind, with that fraction of a
    Gaussian's or Laplace's sensitivity and of any other pure ε, and bounds nothing about ``event`` itself.

    Each part of a composition is bounded for the group by itself, and the composition theorem then holds
    for groups as neighbours. A location family's trade-off curve composed with itself k times is the same
    family shifted k times as far, hence Gaussian and Laplace noise multipliers divided by ``size``.
    """
    if isinstance(event, ComposedEvent):
        parts = [group_curve_event(inner, size) for inner in event.events]
        known = [part for part in parts if part is not None]
        return compose_events(known) if len(known) == len(parts) else None
    if isinstance(event, SelfComposedEvent):
        inner = group_curve_event(event.event, size)
        return None if inner is None else repeat_event(inner, event.count)
    if isinstance(event, GaussianEvent):
        return GaussianEvent(event.noise_multiplier / size)
    if isinstance(event, LaplaceEvent):
        return LaplaceEvent(event.noise_multiplier / size)
    pure = curve_of(event).pure
    return response_event(size * pure, 2) if math.isfinite(pure) else None


def group_delta(epsilon: float, delta: float, size: int) -> float:
    """Return δ·Σ_{i<k} e^{iε}, at most 1, computed without overflow."""
    if epsilon == 0.0 or delta == 0.0:
        return min(1.0, size * delta)
    log_sum = (size - 1) * epsilon + math.log(-math.expm1(-size * epsilon)) - math.log(-math.expm1(-epsilon))
    log_grown = math.log(delta) + log_sum
    return 1.0 if log_grown >= 0.0 else math.exp(log_grown)


def sampled_group_event(event: Event, size: int, slack: float) -> Event:
    """Return the event that bounds a group of ``size`` together with ``slack``; any event has one."""
    fixed, sampled, pure = 0.0, [], []
    for loss, count in curve_of(event).parts:
        if isinstance(loss, GaussianLoss):
            fixed += count * (size * loss.mu) ** 2
        elif isinstance(loss, SampledLoss) and isinstance(loss.base, GaussianLoss):
            sampled.append((loss.base.mu, loss.rate, count))
        elif isinstance(loss, LaplaceLoss):
            pure.append(repeat_event(LaplaceEvent(1.0 / (size * loss.pure)), count))
        else:
            pure.append(repeat_event(response_event(size * loss.pure, 2), count))
    squares = fixed + _largest_sum(sampled, size, slack)
    return compose_events([*pure, GaussianEvent(1.0 / math.sqrt(squares))] if squares > 0.0 else pure)


def _largest_sum(sampled: list[tuple[float, float, int]], size: int, chance: float) -> float:
    """Return the w that Σ (μj)² exceeds with at most ``chance``, for (μ, q, steps) and j ~ Bin(size, q)."""
    most = math.fsum(count * (mu * size) ** 2 for mu, _, count in sampled)
    if not sampled or size > _LARGEST_GROUP or chance <= 0.0:
        return most
    drawn = np.arange(size + 1.0)
    ways = special.gammaln(size + 1.0) - special.gammaln(drawn + 1.0) - special.gammaln(size - drawn + 1.0)
    rates = _RATES / max((mu * size) ** 2 for mu, _, _ in sampled)
    grown = np.full(rates.size, -math.log(chance))
    for mu, rate, count in sampled:
        law = ways + special.xlogy(drawn, rate) + special.xlog1py(size - drawn, -rate)
        grown += count * special.logsumexp(law + np.outer(rates, (mu * drawn) ** 2), axis=1)
    return min(most, float((grown / rates).min()) * (1.0 + 1e-9))
