"""Group privacy: what one unit's guarantee says about k units that change together."""

from __future__ import annotations

import math

from sfumato.privacy.events import (
    ComposedEvent,
    Event,
    GaussianEvent,
    LaplaceEvent,
    SelfComposedEvent,
    composed,
    curve_of,
    repeated,
    response_event,
)

__all__ = ["group_curve_event", "group_delta"]


def group_curve_event(event: Event, size: float) -> Event | None:
    """The event that bounds a group of ``size``, or None where a part has no such event.

    A ``size`` below 1 is no group: it gives a smaller event of the same kind, with that fraction of a
    Gaussian's or Laplace's sensitivity and of any other pure ε, and bounds nothing about ``event`` itself.

    Each part of a composition is bounded for the group by itself, and the composition theorem then holds
    for groups as neighbours. A location family's trade-off curve composed with itself k times is the same
    family shifted k times as far, hence Gaussian and Laplace noise multipliers divided by ``size``.
    """
    if isinstance(event, ComposedEvent):
        parts = [group_curve_event(inner, size) for inner in event.events]
        known = [part for part in parts if part is not None]
        return composed(known) if len(known) == len(parts) else None
    if isinstance(event, SelfComposedEvent):
        inner = group_curve_event(event.event, size)
        return None if inner is None else repeated(inner, event.count)
    if isinstance(event, GaussianEvent):
        return GaussianEvent(event.noise_multiplier / size)
    if isinstance(event, LaplaceEvent):
        return LaplaceEvent(event.noise_multiplier / size)
    pure = curve_of(event).pure
    return response_event(size * pure, 2) if math.isfinite(pure) else None


def group_delta(epsilon: float, delta: float, size: int) -> float:
    """δ·Σ_{i<k} e^{iε}, at most 1, computed without overflow."""
    if epsilon == 0.0 or delta == 0.0:
        return min(1.0, size * delta)
    log_sum = (size - 1) * epsilon + math.log(-math.expm1(-size * epsilon)) - math.log(-math.expm1(-epsilon))
    log_grown = math.log(delta) + log_sum
    return 1.0 if log_grown >= 0.0 else math.exp(log_grown)
