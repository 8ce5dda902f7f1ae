"""Privacy amplification: by Poisson sampling and by shuffling."""

from __future__ import annotations

import math

from sfumato.errors import BadInput
from sfumato.privacy.analytic_gaussian import check_delta, check_epsilon
from sfumato.privacy.events import (
    Event,
    GaussianEvent,
    LaplaceEvent,
    PoissonSampledEvent,
    response_event,
)
from sfumato.privacy.guarantee import Guarantee
from sfumato.privacy.privacy_loss import GaussianLoss, LaplaceLoss, amplified
from sfumato.privacy.unit import Neighbours

__all__ = ["poisson", "shuffled_epsilon"]


def poisson(guarantee: Guarantee, rate: float) -> Guarantee:
    """Return the guarantee of the mechanism on a sample that takes each unit with probability ``rate``.

    Gaussians (also several on one sample) and a single Laplace keep their whole curve; other pure events
    are amplified as their ε. Slack shrinks to rate × slack (Balle, Barthe & Gaboardi 2018, Theorem 8), and
    the chance of being revealed to rate × that chance, as slack. Under neighbours
    other than add/remove, or for a mixture of Gaussian and pure events, it refuses.
    """
    rate = _check_rate(rate)
    if guarantee.neighbours is not Neighbours.ADD_REMOVE:
        raise BadInput(
            f"Poisson sampling was asked for under {guarantee.neighbours} neighbours: it amplifies under "
            "add/remove neighbours only, so state the guarantee for those."
        )
    if guarantee.proves_nothing or rate == 1.0:
        return guarantee
    if rate == 0.0:
        raise BadInput(
            "`rate` was 0: a release that reads nobody needs no guarantee; give a rate above 0.",
            parameter="rate",
        )
    curve = guarantee.curve
    alone = curve.alone
    if isinstance(alone, GaussianLoss):
        event: Event = PoissonSampledEvent(rate, GaussianEvent(1.0 / alone.mu))
    elif isinstance(alone, LaplaceLoss):
        event = PoissonSampledEvent(rate, LaplaceEvent(1.0 / alone.pure))
    elif math.isfinite(curve.pure):
        event = response_event(amplified(curve.pure, rate), 2)
    else:
        raise BadInput(
            f"Poisson sampling of '{guarantee.theorem}' was asked for: it is computed for Gaussian noise, "
            "one Laplace mechanism, or pure events, not for a mixture."
        )
    theorem = f"{guarantee.theorem}, Poisson sample of rate {rate:g}"
    slack = rate * min(1.0, guarantee.slack + guarantee.revealed)
    return guarantee.changed(event=event, slack=slack, revealed=0.0, theorem=theorem)


def shuffled_epsilon(epsilon0: float, n: int, delta: float) -> float:
    """Return ε at ``delta`` of ``n`` shuffled ε₀-LDP reports (Feldman, McMillan & Talwar 2021, Theorem 3.1).

    log(1 + (e^ε₀ − 1)/(e^ε₀ + 1)·(8√(e^ε₀ log(4/δ)/n) + 8e^ε₀/n)), proven for ε₀ ≤ log(n/(16 log(2/δ))).
    Outside that range, or where the bound is larger, shuffling is taken to do nothing: the result is ε₀.
    """
    epsilon0, delta = check_epsilon(epsilon0), check_delta(delta)
    if isinstance(n, bool) or not isinstance(n, int) or n < 1:
        raise BadInput(
            f"`n` was {n!r}: the number of reports must be a whole number, 1 or more.", parameter="n"
        )
    if epsilon0 > math.log(n) - math.log(16.0 * math.log(2.0 / delta)):
        return epsilon0
    grown = math.exp(epsilon0)
    crowd = 8.0 * math.sqrt(grown * math.log(4.0 / delta) / n) + 8.0 * grown / n
    return min(epsilon0, math.log1p(math.tanh(0.5 * epsilon0) * crowd))


def shuffle(guarantee: Guarantee, n: int, delta: float) -> Guarantee:
    """Return the guarantee of ``n`` shuffled reports, each of which alone has ``guarantee``.

    The theorem needs pure reports and replaced values; anything else is refused.
    """
    if guarantee.proves_nothing:
        return guarantee
    if guarantee.neighbours is not Neighbours.REPLACE:
        raise BadInput(
            f"shuffling was asked for under {guarantee.neighbours} neighbours: "
            "its theorem is about replaced values."
        )
    slack = guarantee.slack + guarantee.revealed
    if slack > 0.0 or not math.isfinite(guarantee.curve.pure):
        raise BadInput(
            f"shuffling was asked for reports that are not pure ('{guarantee.theorem}', slack "
            f"{slack:g}): its theorem needs pure ε-LDP reports, "
            "such as Laplace or randomised response."
        )
    local = guarantee.curve.pure
    epsilon = shuffled_epsilon(local, n, delta)
    if epsilon >= local:
        return guarantee.changed(at_delta=delta)
    theorem = f"{guarantee.theorem}, shuffled among {n} (Feldman, McMillan & Talwar)"
    return Guarantee.approximate(
        epsilon, delta, unit=guarantee.unit, neighbours=guarantee.neighbours, theorem=theorem
    )


def _check_rate(rate: float) -> float:
    if isinstance(rate, bool) or not 0.0 <= rate <= 1.0:
        raise BadInput(f"`rate` was {rate!r}: a sampling rate lies between 0 and 1.", parameter="rate")
    return float(rate)
