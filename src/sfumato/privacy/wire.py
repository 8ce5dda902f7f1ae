"""Events as JSON: the form in which ledgers and certificates keep what was run.

Each event is an object with one key, its kind. Kinds and fields are only ever added, never changed:

    {"gaussian": {"noise_multiplier": 1.5}}          {"repeated": {"times": 10, "event": …}}
    {"laplace": {"noise_multiplier": 0.5}}           {"composed": [ …, … ]}
    {"randomised_response": {"noise_parameter": 0.2, "buckets": 10}}
    {"pure": {"epsilon": 784.0}}                     {"poisson_sampled": {"rate": 0.01, "event": …}}
    {"no_operation": {}}
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sfumato.errors import BadInput
from sfumato.privacy.events import (
    ComposedEvent,
    Event,
    GaussianEvent,
    LaplaceEvent,
    NoOpEvent,
    PoissonSampledEvent,
    PureEvent,
    ResponseEvent,
    SelfComposedEvent,
)

__all__ = ["event_from_json", "event_to_json", "fields_of"]

_KINDS: dict[str, tuple[str, ...]] = {
    "gaussian": ("noise_multiplier",),
    "laplace": ("noise_multiplier",),
    "randomised_response": ("noise_parameter", "buckets"),
    "pure": ("epsilon",),
    "poisson_sampled": ("rate", "event"),
    "repeated": ("times", "event"),
    "no_operation": (),
}
_DEEPEST = 64  # a document from outside must not exhaust the stack


def event_to_json(event: Event) -> dict[str, Any]:
    """The JSON object of ``event``."""
    if isinstance(event, GaussianEvent):
        return {"gaussian": {"noise_multiplier": float(event.noise_multiplier)}}
    if isinstance(event, LaplaceEvent):
        return {"laplace": {"noise_multiplier": float(event.noise_multiplier)}}
    if isinstance(event, ResponseEvent):
        answer = {"noise_parameter": float(event.noise_parameter), "buckets": int(event.num_buckets)}
        return {"randomised_response": answer}
    if isinstance(event, PureEvent):
        return {"pure": {"epsilon": float(event.epsilon)}}
    if isinstance(event, PoissonSampledEvent):
        inner = event_to_json(event.event)
        return {"poisson_sampled": {"rate": float(event.sampling_probability), "event": inner}}
    if isinstance(event, SelfComposedEvent):
        return {"repeated": {"times": int(event.count), "event": event_to_json(event.event)}}
    if isinstance(event, ComposedEvent):
        return {"composed": [event_to_json(inner) for inner in event.events]}
    if isinstance(event, NoOpEvent):
        return {"no_operation": {}}
    raise BadInput(f"the event {event!r} has no JSON form: accepted are {', '.join(_KINDS)} and composed.")


def event_from_json(value: object, depth: int = 0) -> Event:
    """The event of a JSON object, or a refusal that names what is wrong with it."""
    if depth > _DEEPEST:
        raise BadInput(f"an event is nested more than {_DEEPEST} deep: flatten it.")
    if not isinstance(value, Mapping) or len(value) != 1:
        raise BadInput(f"an event was {_short(value)}: it must be an object with one key, its kind.")
    kind, body = next(iter(value.items()))
    if kind == "composed":
        if not isinstance(body, list):
            raise BadInput(f"a composed event holds {_short(body)}: it must hold a list of events.")
        return ComposedEvent(tuple(event_from_json(inner, depth + 1) for inner in body))
    if kind not in _KINDS:
        raise BadInput(
            f"the event kind {kind!r} is not known: accepted are {', '.join(_KINDS)} and composed."
        )
    got = fields_of(body, _KINDS[kind], f"a {kind} event")
    if kind == "gaussian":
        return GaussianEvent(got["noise_multiplier"])
    if kind == "laplace":
        return LaplaceEvent(got["noise_multiplier"])
    if kind == "randomised_response":
        return ResponseEvent(got["noise_parameter"], got["buckets"])
    if kind == "pure":
        return PureEvent(got["epsilon"])
    if kind == "poisson_sampled":
        return PoissonSampledEvent(got["rate"], event_from_json(got["event"], depth + 1))
    if kind == "repeated":
        return SelfComposedEvent(event_from_json(got["event"], depth + 1), got["times"])
    return NoOpEvent()


def fields_of(value: object, fields: tuple[str, ...], what: str) -> dict[str, Any]:
    """The members of a JSON object that must have exactly ``fields``."""
    if not isinstance(value, Mapping) or set(value) != set(fields):
        wanted = ", ".join(fields) or "no fields"
        raise BadInput(f"{what} was {_short(value)}: it must be an object with {wanted}.")
    return dict(value)


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
