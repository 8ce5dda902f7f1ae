"""Events: records of what was run, in one convention, with their JSON form.

**An event describes the worst pair of neighbours itself.** The noise multiplier of a ``GaussianDpEvent`` or
``LaplaceDpEvent`` is noise scale / sensitivity *under the guarantee's own neighbours*: σ/(2C) for ``replace``
on an L2 ball of radius C, σ/C for ``zero-out``. dp-accounting's accountants instead take a relation and
disagree on what it does (under REPLACE_ONE, ``GaussianDpEvent(1)`` at δ = 1e-5 is ε = 9.997 to its PLD
accountant, which doubles the sensitivity, and 4.73 to its RDP accountant, which does not). So nothing here
is ever doubled: Gaussian and Laplace are read with unit sensitivity, randomised response as a replaced
answer, and Poisson sampling only under add/remove.

Events have the names and fields of dp-accounting's events, which are built on demand (``as_dp_event``):
loading dp-accounting takes longer than most releases.

**JSON.** Ledgers and certificates keep events as JSON. Each event is an object with one key, its kind. Kinds
and fields are only ever added, never changed:

    {"gaussian": {"noise_multiplier": 1.5}}          {"repeated": {"times": 10, "event": …}}
    {"laplace": {"noise_multiplier": 0.5}}           {"composed": [ …, … ]}
    {"randomised_response": {"noise_parameter": 0.2, "buckets": 10}}
    {"pure": {"epsilon": 784.0}}                     {"poisson_sampled": {"rate": 0.01, "event": …}}
    {"no_operation": {}}
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from sfumato.errors import BadInput
from sfumato.privacy.privacy_loss import (
    Curve,
    GaussianLoss,
    LaplaceLoss,
    Loss,
    ResponseLoss,
    SampledLoss,
    response_noise,
)

if TYPE_CHECKING:
    from dp_accounting import DpEvent

__all__ = ["GaussianEvent", "LaplaceEvent", "require_fields"]

# Above this the probability of a random answer, about 2e^−ε, is no longer a normal double.
_LARGEST_RESPONSE = 700.0
_DEEPEST = 64  # a document from outside must not exhaust the stack


class Event:
    """A record of what was run, as dp-accounting's event of the same name, without loading dp-accounting."""


@dataclass(frozen=True)
class GaussianEvent(Event):
    """Gaussian noise of deviation ``noise_multiplier`` × L2 sensitivity."""

    noise_multiplier: float


@dataclass(frozen=True)
class LaplaceEvent(Event):
    """Laplace noise of scale ``noise_multiplier`` × L1 sensitivity."""

    noise_multiplier: float


@dataclass(frozen=True)
class ResponseEvent(Event):
    """Randomised response that answers at random with probability ``noise_parameter``."""

    noise_parameter: float
    num_buckets: int


@dataclass(frozen=True)
class PureEvent(Event):
    """Any ``epsilon``-DP mechanism; zCDP with ρ = 0 and ξ = ε in dp-accounting."""

    epsilon: float


@dataclass(frozen=True)
class PoissonSampledEvent(Event):
    """``event`` on a Poisson sample."""

    sampling_probability: float
    event: Event


@dataclass(frozen=True)
class SelfComposedEvent(Event):
    """``event``, ``count`` times."""

    event: Event
    count: int


@dataclass(frozen=True)
class ComposedEvent(Event):
    """All ``events`` on the same data."""

    events: tuple[Event, ...]


@dataclass(frozen=True)
class NoOpEvent(Event):
    """Nothing was run."""


class _Form(NamedTuple):
    """The forms of one kind of event: ours, dp-accounting's, and our attribute of each field in JSON."""

    own: type[Event]
    theirs: str
    fields: Mapping[str, str]


_FORMS = {
    "gaussian": _Form(GaussianEvent, "GaussianDpEvent", {"noise_multiplier": "noise_multiplier"}),
    "laplace": _Form(LaplaceEvent, "LaplaceDpEvent", {"noise_multiplier": "noise_multiplier"}),
    "randomised_response": _Form(
        ResponseEvent,
        "RandomizedResponseDpEvent",
        {"noise_parameter": "noise_parameter", "buckets": "num_buckets"},
    ),
    "pure": _Form(PureEvent, "ZCDpEvent", {"epsilon": "epsilon"}),
    "poisson_sampled": _Form(
        PoissonSampledEvent, "PoissonSampledDpEvent", {"rate": "sampling_probability", "event": "event"}
    ),
    "repeated": _Form(SelfComposedEvent, "SelfComposedDpEvent", {"times": "count", "event": "event"}),
    "no_operation": _Form(NoOpEvent, "NoOpDpEvent", {}),
    "composed": _Form(ComposedEvent, "ComposedDpEvent", {"events": "events"}),
}


def as_event(event: Event | DpEvent) -> Event:
    """Return ``event`` in this module's form, or refuse what no guarantee can be computed from."""
    if isinstance(event, Event):
        return event
    import dp_accounting as dp

    if isinstance(event, dp.ZCDpEvent):
        if event.rho == 0.0:
            return PureEvent(event.xi)
        raise _unknown(event)
    for own, theirs, fields in _FORMS.values():
        if isinstance(event, getattr(dp, theirs)):
            return own(**{name: _each_inner(getattr(event, name), as_event) for name in fields.values()})
    raise _unknown(event)


def as_dp_event(event: Event) -> DpEvent:
    """Return ``event`` as dp-accounting has it."""
    import dp_accounting as dp

    if isinstance(event, PureEvent):
        return dp.ZCDpEvent(rho=0.0, xi=event.epsilon)
    if isinstance(event, ComposedEvent):
        return dp.ComposedDpEvent([as_dp_event(inner) for inner in event.events])
    _, (_, theirs, fields) = _form_of(event)
    values = {name: _each_inner(getattr(event, name), as_dp_event) for name in fields.values()}
    return getattr(dp, theirs)(**values)


def _form_of(event: Event) -> tuple[str, _Form]:
    """Return the kind of ``event`` in JSON, and its forms."""
    for kind, form in _FORMS.items():
        if type(event) is form.own:
            return kind, form
    raise _unknown(event)


def _each_inner(value: Any, turn: Callable[[Any], Any]) -> Any:
    """Return a field of an event with ``turn`` applied to the events in it; numbers stay."""
    if isinstance(value, list | tuple):
        return tuple(turn(inner) for inner in value)
    return value if isinstance(value, int | float) else turn(value)


def _unknown(event: object) -> BadInput:
    return BadInput(
        f"the event {event!r} is not one a guarantee can be computed from: accepted are Gaussian, Laplace, "
        "randomised response, pure (zCDP with rho=0), Poisson sampling of a Gaussian or Laplace, and "
        "compositions of these."
    )


def response_event(epsilon: float, buckets: int) -> Event:
    """Return randomised response over ``buckets`` values; two of them dominate every ε-DP mechanism.

    Where the event's one probability cannot hold ε (e^−ε underflows, or so many buckets that it rounds to 1)
    the event is ``PureEvent(ε)``: a Rényi divergence of at most ε at every order is pure ε-DP.
    """
    pure = PureEvent(epsilon)
    if epsilon > _LARGEST_RESPONSE:
        return pure
    noise = response_noise(epsilon, buckets)
    for _ in range(4):
        # Rounding may leave a hair too much noise, hence too small an ε; an ulp or two less gives it back.
        event = ResponseEvent(noise, buckets)
        if epsilon <= _single(event).pure <= epsilon * (1.0 + 1e-9):
            return event
        noise = math.nextafter(noise, 0.0)
    return pure


def compose_events(events: Iterable[Event]) -> Event:
    """Return the composition of ``events`` on the same data, nested compositions flattened."""
    flat: list[Event] = []
    for event in events:
        flat.extend(event.events if isinstance(event, ComposedEvent) else [event])
    return flat[0] if len(flat) == 1 else ComposedEvent(tuple(flat))


def repeat_event(event: Event, count: int) -> Event:
    """Return ``event`` run ``count`` times."""
    return event if count == 1 else SelfComposedEvent(event, count)


def scale_event(event: Event, fraction: float) -> Event:
    """Return the same noise where neighbours are this ``fraction`` of the sensitivity, or of ε, apart."""
    if isinstance(event, ComposedEvent):
        return compose_events(scale_event(inner, fraction) for inner in event.events)
    if isinstance(event, SelfComposedEvent):
        return repeat_event(scale_event(event.event, fraction), event.count)
    if isinstance(event, PoissonSampledEvent):
        return PoissonSampledEvent(event.sampling_probability, scale_event(event.event, fraction))
    if isinstance(event, GaussianEvent | LaplaceEvent):
        return type(event)(event.noise_multiplier / fraction)
    buckets = event.num_buckets if isinstance(event, ResponseEvent) else 2
    return response_event(fraction * curve_of(event).pure, buckets)


def has_sampling(event: Event) -> bool:
    """Return whether Poisson sampling occurs anywhere in ``event``."""
    if isinstance(event, ComposedEvent):
        return any(has_sampling(inner) for inner in event.events)
    if isinstance(event, SelfComposedEvent):
        return has_sampling(event.event)
    return isinstance(event, PoissonSampledEvent)


def curve_of(event: Event | DpEvent) -> Curve:
    """Return the curve of ``event``, read by the convention of this module; refuse an event that has none."""
    return Curve.of(_losses(as_event(event), 1))


def _losses(event: Event, count: int) -> Iterator[tuple[Loss, int]]:
    if isinstance(event, NoOpEvent):
        return
    if isinstance(event, ComposedEvent):
        for inner in event.events:
            yield from _losses(inner, count)
    elif isinstance(event, SelfComposedEvent):
        if isinstance(event.count, bool) or not isinstance(event.count, int) or event.count < 1:
            raise BadInput(
                f"an event is repeated {event.count!r} times: the count must be a whole number ≥ 1."
            )
        yield from _losses(event.event, count * event.count)
    elif isinstance(event, PoissonSampledEvent):
        rate = event.sampling_probability
        if not _is_number(rate) or not 0.0 < rate <= 1.0:
            raise BadInput(f"a sampling rate was {rate!r}: it must lie above 0 and be at most 1.")
        alone = Curve.of(_losses(event.event, 1)).alone
        if not isinstance(alone, GaussianLoss | LaplaceLoss):
            raise BadInput(
                f"Poisson sampling was given the event {event.event!r}: only one Gaussian or Laplace "
                "mechanism can be run on a Poisson sample."
            )
        yield (alone if rate == 1.0 else SampledLoss(alone, float(rate))), count
    else:
        yield _single(event), count


def _single(event: Event) -> Loss:
    if isinstance(event, GaussianEvent):
        return GaussianLoss(1.0 / _multiplier(event.noise_multiplier))
    if isinstance(event, LaplaceEvent):
        noise = _multiplier(event.noise_multiplier)
        return LaplaceLoss(_tidy(1.0 / noise, lambda epsilon: 1.0 / epsilon == noise))
    if isinstance(event, ResponseEvent):
        p, buckets = event.noise_parameter, event.num_buckets
        if not _is_number(p) or not 0.0 < p <= 1.0:
            raise BadInput(
                f"randomised response was given the noise {p!r}: it must lie above 0 and be at most 1."
            )
        if isinstance(buckets, bool) or not isinstance(buckets, int) or buckets < 2:
            raise BadInput(f"randomised response was given {buckets!r} buckets: it needs a whole number ≥ 2.")
        epsilon = math.log1p(buckets * ((1.0 - p) / p)) if p > 1e-290 else math.log(buckets) - math.log(p)
        return ResponseLoss(_tidy(epsilon, lambda e: response_noise(e, buckets) == p), buckets)
    if isinstance(event, PureEvent):
        if not _is_number(event.epsilon) or not 0.0 <= event.epsilon < math.inf:
            raise BadInput(f"a pure epsilon was {event.epsilon!r}: it must be a finite number, 0 or more.")
        return ResponseLoss(float(event.epsilon), 2)
    raise _unknown(event)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _multiplier(value: float) -> float:
    if not _is_number(value) or not 1e-100 <= value <= 1e100:
        raise BadInput(
            f"a noise multiplier (noise scale / sensitivity) was {value!r}: it must lie between 1e-100 and "
            "1e100; a release without noise is Guarantee.nothing."
        )
    return float(value)


def _tidy(value: float, encodes: Callable[[float], bool]) -> float:
    """Undo the last-digit error of ε → event → ε where the rounder ε gives the same event."""
    round_value = float(f"{value:.12g}")
    return round_value if round_value > 0.0 and encodes(round_value) else value


def event_to_json(event: Event) -> dict[str, Any]:
    """Return the JSON object of ``event``."""
    kind, (_, _, fields) = _form_of(event)
    if isinstance(event, ComposedEvent):
        return {kind: [event_to_json(inner) for inner in event.events]}
    return {kind: {field: _plain(name, getattr(event, name)) for field, name in fields.items()}}


def _plain(name: str, value: Any) -> Any:
    if isinstance(value, Event):
        return event_to_json(value)
    return int(value) if name in ("num_buckets", "count") else float(value)


def event_from_json(value: object, depth: int = 0) -> Event:
    """Return the event of a JSON object; refuse with what is wrong with it."""
    if depth > _DEEPEST:
        raise BadInput(f"an event is nested more than {_DEEPEST} deep: flatten it.")
    if not isinstance(value, Mapping) or len(value) != 1:
        raise BadInput(f"an event was {_short(value)}: it must be an object with one key, its kind.")
    kind, body = next(iter(value.items()))
    if kind == "composed":
        if not isinstance(body, list):
            raise BadInput(f"a composed event holds {_short(body)}: it must hold a list of events.")
        return ComposedEvent(tuple(event_from_json(inner, depth + 1) for inner in body))
    if kind not in _FORMS:
        *others, last = _FORMS
        raise BadInput(f"the event kind {kind!r} is not known: accepted are {', '.join(others)} and {last}.")
    own, _, fields = _FORMS[kind]
    got = require_fields(body, tuple(fields), f"a {kind} event")
    if "event" in got:
        got["event"] = event_from_json(got["event"], depth + 1)
    return own(**{name: got[field] for field, name in fields.items()})


def require_fields(value: object, fields: tuple[str, ...], what: str) -> dict[str, Any]:
    """Return the members of a JSON object that must have exactly ``fields``."""
    if not isinstance(value, Mapping) or set(value) != set(fields):
        wanted = ", ".join(fields) or "no fields"
        raise BadInput(f"{what} was {_short(value)}: it must be an object with {wanted}.")
    return dict(value)


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
