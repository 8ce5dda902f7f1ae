"""Composition theorems as plain numbers, and parallel composition of guarantees.

``basic``, ``advanced``, ``rdp``, ``zcdp`` and ``pld`` answer "what do k of these cost" by five methods, for
figures and for people. What a release really promises is ``Guarantee.compose``. Events are read as in
``events``: they describe the worst pair of neighbours itself. The figure of ``pld`` holds for a plan fixed
in advance; under adaptive choice of parameters it is not a bound.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Literal

from sfumato.errors import BadInput
from sfumato.privacy.analytic_gaussian import check_delta, check_epsilon
from sfumato.privacy.curves import Curve
from sfumato.privacy.events import as_event, curve_of, repeated
from sfumato.privacy.guarantee import Guarantee
from sfumato.privacy.losses import GaussianLoss, LaplaceLoss, Loss, ResponseLoss
from sfumato.privacy.renyi import rdp_epsilon
from sfumato.privacy.unit import Neighbours

if TYPE_CHECKING:
    from dp_accounting import DpEvent

__all__ = ["advanced", "basic", "parallel", "pld", "rdp", "zcdp"]


def basic(epsilon: float, delta: float, k: int) -> tuple[float, float]:
    """(kε, kδ), the δ at most 1 (Dwork & Roth 2014, Theorem 3.16); pure DP has ``delta`` = 0."""
    epsilon, delta, k = check_epsilon(epsilon), _check_approximation(delta), _check_times(k)
    return k * epsilon, min(1.0, k * delta)


def advanced(epsilon: float, delta: float, k: int, delta_prime: float) -> tuple[float, float]:
    """(ε√(2k ln(1/δ′)) + kε(e^ε − 1), kδ + δ′) (Dwork, Rothblum & Vadhan 2010).

    It may exceed ``basic``; the caller compares. Infinite where e^ε overflows.
    """
    epsilon, delta, k = check_epsilon(epsilon), _check_approximation(delta), _check_times(k)
    delta_prime = check_delta(delta_prime)
    drift = k * epsilon * math.expm1(epsilon) if epsilon < 700.0 else math.inf
    return epsilon * math.sqrt(2.0 * k * math.log(1.0 / delta_prime)) + drift, min(
        1.0, k * delta + delta_prime
    )


def rdp(event: DpEvent, k: int, delta: float) -> float:
    """ε at ``delta`` of ``k`` runs of ``event``, by Rényi DP."""
    return rdp_epsilon(curve_of(repeated(as_event(event), _check_times(k))).parts, check_delta(delta))


def zcdp(rho: float, k: int, delta: float) -> float:
    """ε = kρ + 2√(kρ ln(1/δ)) of ``k`` ρ-zCDP mechanisms (Bun & Steinke 2016, Proposition 1.3)."""
    if not (math.isfinite(rho) and rho >= 0.0):
        raise BadInput(f"`rho` was {rho!r}: it must be a finite number, 0 or more.", parameter="rho")
    total = _check_times(k) * rho
    return total + 2.0 * math.sqrt(total * math.log(1.0 / check_delta(delta)))


def pld(event: DpEvent, k: int, delta: float) -> float:
    """ε at ``delta`` of ``k`` runs of ``event``, by its privacy loss distribution (closed form if any)."""
    return curve_of(repeated(as_event(event), _check_times(k))).epsilon(check_delta(delta))


def parallel(
    guarantees: Iterable[Guarantee], *, partition: Literal["public", "data"], delta: float | None = None
) -> Guarantee:
    """The guarantee of releases each of which sees its own part of the units: the largest of them.

    It needs each unit to affect one branch only. ``partition="public"``: which unit goes to which branch is
    fixed and known. ``partition="data"``: a unit's own value decides; fine where a unit is there or is not
    (add/remove, zero-out), but under ``replace`` a changed value leaves one branch and enters another, and
    the call is refused. Branches of one kind of event give the larger event exactly; mixed kinds need a
    ``delta`` and give (max ε(δ), δ).
    """
    parts = list(guarantees)
    if not parts:
        raise BadInput("no guarantees were given: parallel composition needs at least one branch.")
    if partition not in ("public", "data"):
        raise BadInput(
            f"`partition` was {partition!r}: accepted are 'public' or 'data'.", parameter="partition"
        )
    first = parts[0]
    for part in parts[1:]:
        first.require_same_unit(part)
    if partition == "data" and first.neighbours is Neighbours.REPLACE and len(parts) > 1:
        raise BadInput(
            f"a partition read off the data was given under replace neighbours: a {first.unit} that changes "
            "its branch affects two of them, so their costs add up; use compose, or a public partition."
        )
    for part in parts:
        if part.proves_nothing:
            return part
    slack, at_delta = max(part.slack for part in parts), max(part.at_delta for part in parts)
    revealed = max(part.revealed for part in parts)
    largest = _largest(parts)
    if largest is not None:
        theorem = largest.theorem if len(parts) == 1 else f"{largest.theorem}, parallel"
        return largest.changed(slack=slack, revealed=revealed, at_delta=at_delta, theorem=theorem)
    if delta is None:
        raise BadInput(
            "branches of different kinds were given without a delta: name the delta to compare them at."
        )
    worst = max(part.epsilon(delta) for part in parts)
    if not math.isfinite(worst):
        raise BadInput(f"a branch has no finite epsilon at delta {delta!r}: give a larger delta.")
    return Guarantee.approximate(
        worst, delta, unit=first.unit, neighbours=first.neighbours, theorem="parallel composition"
    )


def _largest(parts: list[Guarantee]) -> Guarantee | None:
    """The branch whose event dominates all others, where kinds can be ordered."""
    sizes = [_size(part.curve) for part in parts]
    if len({kind for kind, _ in sizes}) > 1:
        return None
    return max(zip(sizes, parts, strict=True), key=lambda pair: pair[0][1])[1]


def _size(curve: Curve) -> tuple[object, float]:
    """A kind within which a larger number means a curve that is nowhere below."""
    return (curve, 0.0) if curve.alone is None else _single_size(curve.alone)


def _single_size(loss: Loss) -> tuple[object, float]:
    if isinstance(loss, GaussianLoss):
        return "gaussian", loss.mu
    if isinstance(loss, LaplaceLoss):
        return "laplace", loss.pure
    if isinstance(loss, ResponseLoss):
        return ("response", loss.buckets), loss.pure
    kind, size = _single_size(loss.base)
    return ("sampled", kind, loss.rate), size


def _check_times(k: int) -> int:
    if isinstance(k, bool) or not isinstance(k, int) or k < 1:
        raise BadInput(f"`k` was {k!r}: it must be a whole number, 1 or more.", parameter="k")
    return k


def _check_approximation(delta: float) -> float:
    if not 0.0 <= delta < 1.0:
        raise BadInput(f"`delta` was {delta!r}: it must be at least 0 and below 1.", parameter="delta")
    return float(delta)
