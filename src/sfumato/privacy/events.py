"""dp-accounting events, built and read in one convention.

**An event describes the worst pair of neighbours itself.** The noise multiplier of a ``GaussianDpEvent`` or
``LaplaceDpEvent`` is noise scale / sensitivity *under the guarantee's own neighbours*: σ/(2C) for ``replace``
on an L2 ball of radius C, σ/C for ``zero-out``. dp-accounting's accountants instead take a relation and
disagree on what it does (under REPLACE_ONE, ``GaussianDpEvent(1)`` at δ = 1e-5 is ε = 9.997 to its PLD
accountant, which doubles the sensitivity, and 4.73 to its RDP accountant, which does not). So nothing here
is ever doubled: Gaussian and Laplace are read with unit sensitivity, randomised response as a replaced
answer, and Poisson sampling only under add/remove.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator

from dp_accounting import (
    ComposedDpEvent,
    DpEvent,
    GaussianDpEvent,
    LaplaceDpEvent,
    NoOpDpEvent,
    PoissonSampledDpEvent,
    RandomizedResponseDpEvent,
    SelfComposedDpEvent,
    ZCDpEvent,
)

from sfumato.errors import BadInput
from sfumato.privacy.curves import Curve
from sfumato.privacy.losses import GaussianLoss, LaplaceLoss, Loss, ResponseLoss, SampledLoss
from sfumato.privacy.renyi import response_noise

__all__ = ["composed", "curve_of", "repeated", "response_event", "samples"]

# Above this the probability of a random answer, about 2e^−ε, is no longer a normal double.
_LARGEST_RESPONSE = 700.0


def response_event(epsilon: float, buckets: int) -> DpEvent:
    """Randomised response over ``buckets`` values; two of them dominate every ε-DP mechanism.

    Where the event's one probability cannot hold ε (e^−ε underflows, or so many buckets that it rounds to 1)
    the event is ``ZCDpEvent(rho=0, xi=ε)``: a Rényi divergence of at most ε at every order is pure ε-DP.
    """
    pure = ZCDpEvent(rho=0.0, xi=epsilon)
    if epsilon > _LARGEST_RESPONSE:
        return pure
    noise = response_noise(epsilon, buckets)
    for _ in range(4):
        # Rounding may leave a hair too much noise, hence too small an ε; an ulp or two less gives it back.
        event = RandomizedResponseDpEvent(noise, buckets)
        if epsilon <= _single(event).pure <= epsilon * (1.0 + 1e-9):
            return event
        noise = math.nextafter(noise, 0.0)
    return pure


def composed(events: Iterable[DpEvent]) -> DpEvent:
    """All of ``events`` on the same data, nested compositions flattened."""
    flat: list[DpEvent] = []
    for event in events:
        flat.extend(event.events if isinstance(event, ComposedDpEvent) else [event])
    return flat[0] if len(flat) == 1 else ComposedDpEvent(flat)


def repeated(event: DpEvent, count: int) -> DpEvent:
    """``event`` run ``count`` times."""
    return event if count == 1 else SelfComposedDpEvent(event, count)


def samples(event: DpEvent) -> bool:
    """Whether Poisson sampling occurs anywhere in ``event``."""
    if isinstance(event, ComposedDpEvent):
        return any(samples(inner) for inner in event.events)
    if isinstance(event, SelfComposedDpEvent):
        return samples(event.event)
    return isinstance(event, PoissonSampledDpEvent)


def curve_of(event: DpEvent) -> Curve:
    """Read ``event`` by the convention of this module, or refuse it in a sentence."""
    return Curve.of(_losses(event, 1))


def _losses(event: DpEvent, count: int) -> Iterator[tuple[Loss, int]]:
    if isinstance(event, NoOpDpEvent):
        return
    if isinstance(event, ComposedDpEvent):
        for inner in event.events:
            yield from _losses(inner, count)
    elif isinstance(event, SelfComposedDpEvent):
        if isinstance(event.count, bool) or not isinstance(event.count, int) or event.count < 1:
            raise BadInput(
                f"an event is repeated {event.count!r} times: the count must be a whole number ≥ 1."
            )
        yield from _losses(event.event, count * event.count)
    elif isinstance(event, PoissonSampledDpEvent):
        rate = event.sampling_probability
        if not _is_number(rate) or not 0.0 < rate <= 1.0:
            raise BadInput(f"a sampling rate was {rate!r}: it must lie above 0 and be at most 1.")
        inner = Curve.of(_losses(event.event, 1)).alone
        if not isinstance(inner, GaussianLoss | LaplaceLoss):
            raise BadInput(
                f"Poisson sampling was given the event {event.event!r}: only one Gaussian or Laplace "
                "mechanism can be run on a Poisson sample."
            )
        yield (inner if rate == 1.0 else SampledLoss(inner, float(rate))), count
    else:
        yield _single(event), count


def _single(event: DpEvent) -> Loss:
    if isinstance(event, GaussianDpEvent):
        return GaussianLoss(1.0 / _multiplier(event.noise_multiplier))
    if isinstance(event, LaplaceDpEvent):
        noise = _multiplier(event.noise_multiplier)
        return LaplaceLoss(_tidy(1.0 / noise, lambda epsilon: 1.0 / epsilon == noise))
    if isinstance(event, RandomizedResponseDpEvent):
        p, buckets = event.noise_parameter, event.num_buckets
        if not _is_number(p) or not 0.0 < p <= 1.0:
            raise BadInput(
                f"randomised response was given the noise {p!r}: it must lie above 0 and be at most 1."
            )
        if isinstance(buckets, bool) or not isinstance(buckets, int) or buckets < 2:
            raise BadInput(f"randomised response was given {buckets!r} buckets: it needs a whole number ≥ 2.")
        epsilon = math.log1p(buckets * ((1.0 - p) / p)) if p > 1e-290 else math.log(buckets) - math.log(p)
        return ResponseLoss(_tidy(epsilon, lambda e: response_noise(e, buckets) == p), buckets)
    if isinstance(event, ZCDpEvent) and event.rho == 0.0:
        if not _is_number(event.xi) or not 0.0 <= event.xi < math.inf:
            raise BadInput(f"a pure epsilon was {event.xi!r}: it must be a finite number, 0 or more.")
        return ResponseLoss(float(event.xi), 2)
    raise BadInput(
        f"the event {event!r} is not one a guarantee can be computed from: accepted are Gaussian, Laplace, "
        "randomised response, pure (zCDP with rho=0), Poisson sampling of a Gaussian or Laplace, and "
        "compositions of these."
    )


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
    """Undo the last-digit error of ε → event → ε where the rounder ε gives the very same event."""
    round_value = float(f"{value:.12g}")
    return round_value if round_value > 0.0 and encodes(round_value) else value
