"""What the noise behind the paper's column of table 5 proves, for a component and for a tensor.

The column gives the baselines the noise of a whole tensor and TLDP that of one component. Read at one δ for
one unit, the same ε of the paper stands for very different promises.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sfumato.mechanisms import TensorLDP
from sfumato.privacy import Guarantee
from sfumato_reproductions.tldp.candidate import TLDP
from sfumato_reproductions.tldp.promise import DELTA, Promise, own_promise, unit_guarantee
from sfumato_reproductions.tldp.published import PRINTED, Sizes

__all__ = ["CLAIMED", "Reading", "claimed_point", "readings"]

#: The ε that the paper's column is read at, and for which TLDP's own (ε, δ) is taken.
CLAIMED = 1.0


@dataclass(frozen=True)
class Reading:
    """One method of the column: its value, and what noise of that size proves of both units.

    ``deviation`` is that of the noise on one component. ``proven`` is ε at ``DELTA`` of a component and of a
    tensor, infinite where nothing is proven; ``own`` is TLDP's (ε, δ) at its own δ, of either unit.
    """

    name: str
    formula: str
    value: float
    deviation: float
    proven: tuple[float, float]
    own: tuple[Promise, Promise] | None
    note: str = ""

    def to_dict(self) -> dict[str, Any]:
        """As JSON values; where nothing is proven, ε is null."""
        at_delta = [epsilon if math.isfinite(epsilon) else None for epsilon in self.proven]
        return {
            "mechanism": self.name,
            "formula": self.formula,
            "value": self.value,
            "deviation": self.deviation,
            "proven_at_1e-5": dict(zip(("component", "tensor"), at_delta, strict=True)),
            "proven_at_own_delta": {p.unit: [p.epsilon, p.delta] for p in self.own or ()},
            "note": self.note,
        }


def claimed_point(name: str, sizes: Sizes, unit: str) -> Promise:
    """What is proven of a TLDP variant at the claimed ε of the paper's column, at its own δ."""
    return own_promise(_tldp(name, sizes), unit, sizes.count)


def readings(sizes: Sizes) -> Iterator[Reading]:
    """The paper's column for tensors of ``sizes``, in its order."""
    for name, printed in PRINTED.items():
        if name in TLDP:
            yield _tldp_reading(name, sizes)
            continue
        value = printed.value(CLAIMED, sizes, 0.0)
        deviation = value / math.sqrt(sizes.count)
        note = {
            "Gaussian": "theorem 2 itself has σ² = IΔ²/2ε, which proves ε = "
            f"{_gaussian(sizes.span * math.sqrt(sizes.count / 2.0), sizes, sizes.count):.3g} for a tensor",
            "MVG": "as if its noise were independent, which it is without directions",
            "DPHSGD": "C = 1, the paper's clip value",
        }.get(name, "")
        proven = (
            (sizes.span / (deviation / math.sqrt(2.0)), sizes.count * sizes.span / (deviation / math.sqrt(2)))
            if name == "Laplace"
            else (_gaussian(deviation, sizes, 1), _gaussian(deviation, sizes, sizes.count))
        )
        yield Reading(name, printed.formula, value, deviation, proven, None, note)


def _tldp_reading(name: str, sizes: Sizes) -> Reading:
    mechanism = _tldp(name, sizes)
    printed, kept = PRINTED[name], mechanism.keep_probability(sizes.count)
    error = mechanism.expected_error(sizes.count)[0].value
    component, tensor = (unit_guarantee(mechanism, unit, sizes.count) for unit in ("component", "tensor"))
    own = tuple(own_promise(mechanism, unit, sizes.count) for unit in ("component", "tensor"))
    value = printed.value(CLAIMED, sizes, kept)
    true = error * math.sqrt(sizes.count)
    note = "" if math.isclose(value, true, rel_tol=1e-9) else f"the noise of algorithm 1 gives {true:.4g}"
    return Reading(
        name,
        printed.formula,
        value,
        error / math.sqrt(1.0 - kept),
        (component.epsilon(DELTA), tensor.epsilon(DELTA)),
        (own[0], own[1]),
        note,
    )


def _tldp(name: str, sizes: Sizes) -> TensorLDP:
    noise, _ = TLDP[name]
    return TensorLDP(CLAIMED, (0.0, sizes.span), noise=noise, delta=DELTA)


def _gaussian(deviation: float, sizes: Sizes, count: int) -> float:
    """ε at ``DELTA`` of Gaussian noise when ``count`` components change."""
    return Guarantee.gaussian(deviation / (sizes.span * math.sqrt(count))).epsilon(DELTA)
