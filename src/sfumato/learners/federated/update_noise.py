"""Any sound mechanism for tensors on what a client learned in one round: its update, clipped.

**Guarantee.** Unit client; neighbours replace (another client's records in its place) or zero-out (a client
that learned nothing). The update, trained minus received parameters, is one vector. It is limited to
±``limit`` in every coordinate (L∞) where a limit is declared, and clipped to ``clip`` in the norm of the
mechanism (L2; L1 for Laplace noise), both by maps that look at nothing else, and becomes the one record of a
mechanism whose theorem stands with it. A mechanism for a box takes ±``limit`` as its bounds, after clipping
to ``clip`` in L2 where that is declared. What is sent, received plus released update in single precision, is
a function of the release and of what everybody knows. What a client received depends on earlier releases of
all clients: the rounds compose adaptively, with the same guarantee in each of them.

**Edge cases.** An update that is not finite counts as zero. ``limit`` and ``clip`` are declared and never
read off an update.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput, quoted
from sfumato.learners.federated.parameter_vectors import Arrays, Shapes, flat, shaped, shapes_of, size_of
from sfumato.learners.federated.protection_base import CLIENT, Protection, finite_or_zero, same_shapes
from sfumato.mechanisms import (
    Duchi,
    Gaussian,
    GridTensorLDP,
    HessianClipped,
    Hybrid,
    IndependentDirectional,
    Laplace,
    LayerAdaptive,
    MatrixVariateGaussian,
    Mechanism,
    Piecewise,
    PrivUnit,
    PrivUnitG,
)
from sfumato.mechanisms.parameters import positive
from sfumato.noise import Randomness
from sfumato.privacy import Claim, Guarantee
from sfumato.privacy.defaults import DELTA, FEDERATED, REQUIRED

__all__ = ["UPDATE_MECHANISMS", "UpdateNoise"]

#: Names on the command line, and the mechanisms behind them.
UPDATE_MECHANISMS: Mapping[str, type[Mechanism]] = {
    "gaussian": Gaussian,
    "laplace": Laplace,
    "grid-tensor-ldp": GridTensorLDP,
    "priv-unit": PrivUnit,
    "priv-unit-g": PrivUnitG,
    "duchi": Duchi,
    "piecewise": Piecewise,
    "hybrid": Hybrid,
    "layer-adaptive": LayerAdaptive,
    "hessian-clipped": HessianClipped,
    "matrix-variate-gaussian": MatrixVariateGaussian,
    "independent-directional": IndependentDirectional,
}
_BOXES = (GridTensorLDP, Duchi, Piecewise, Hybrid)


@dataclass(frozen=True, kw_only=True)
class UpdateNoise(Protection):
    """A mechanism of ``UPDATE_MECHANISMS`` on the clipped update; ``epsilon`` is that of one round.

    ``options`` are further parameters of the mechanism, such as ``levels`` or ``curvature``.
    """

    name: str
    epsilon: float = REQUIRED
    delta: float = DELTA
    clip: float | None = None
    limit: float | None = None
    neighbours: str = FEDERATED.neighbours
    options: Mapping[str, Any] = field(default_factory=dict)
    progress: float = 0.0

    def __post_init__(self) -> None:
        if self.name not in UPDATE_MECHANISMS:
            raise BadInput(f"there is no mechanism {self.name!r} for updates.")
        needed, what = ("limit", "L∞ bound") if self._box() else ("clip", "norm")
        if getattr(self, needed) is None:
            raise BadInput(
                f"{self.name} needs `{needed}`, the largest {what} of an update; read off data it leaks.",
                parameter=needed,
            )
        for bound in ("clip", "limit"):
            if getattr(self, bound) is not None:
                positive(bound, getattr(self, bound))
        if self.neighbours != "replace" and "neighbours" not in self._accepted():
            raise BadInput(f"{self.name} is proven for replace neighbours, not for {self.neighbours}.")
        foreign = sorted(set(self.options) - set(self._accepted()))
        if foreign:
            raise BadInput(f"{self.name} takes no {', '.join(map(quoted, foreign))}.", parameter=foreign[0])

    def mechanism(self, shapes: Shapes, randomness: Randomness | None = None) -> Mechanism:
        """The mechanism for updates of layers of ``shapes``, one row a client."""
        accepted = self._accepted()
        known: dict[str, Any] = {"epsilon": self.epsilon, "randomness": randomness}
        if self._box():
            known |= {"bounds": (-float(self.limit or 0.0), float(self.limit or 0.0)), "outside": "clip"}
        else:
            known |= {"clip": self.clip}
        layers = [shape or (1,) for shape in shapes]
        more = {
            "delta": self.delta,
            "neighbours": self.neighbours,
            "layers": layers,
            "progress": self.progress,
        }
        known |= {name: value for name, value in more.items() if name in accepted}
        return self._kind()(**(known | dict(self.options)))

    def guarantee(self, shapes: Shapes) -> Guarantee:
        """That of the mechanism, for the unit client."""
        return replace(self.mechanism(shapes).guarantee(size_of(shapes)), unit=CLIENT)

    def protect(self, arrays: Arrays, received: Arrays, randomness: Randomness | None = None) -> Arrays:
        """What was received plus the released update."""
        with np.errstate(invalid="ignore"):
            update = finite_or_zero(same_shapes(arrays, received) - flat(received))
        row = self._limited(update)[None, :]
        mechanism = self.mechanism(shapes_of(received), randomness)
        released = mechanism.perturb(row)
        if isinstance(mechanism, GridTensorLDP):
            released = mechanism.unbiased(released)
        return shaped(flat(received) + np.asarray(released[0], dtype=np.float64), received)

    def claim(self) -> Claim | None:
        """What the authors of the mechanism say of one round."""
        return self.mechanism([(1,)]).claim()

    def parameters(self) -> dict[str, Any]:
        """All but what is not given."""
        plain: dict[str, Any] = {"epsilon": self.epsilon, "clip": self.clip, "limit": self.limit}
        plain |= {"neighbours": self.neighbours}
        if "delta" in self._accepted():
            plain["delta"] = self.delta
        options = {
            name: value if isinstance(value, int | float | str) else "declared"
            for name, value in self.options.items()
        }
        return {name: value for name, value in plain.items() if value is not None} | options

    def at(self, progress: float) -> Protection:
        """Shares of the layers follow the progress where the mechanism has such; ε stays what it is."""
        return replace(self, progress=progress) if "progress" in self._accepted() else self

    def _limited(self, update: NDArray[np.float64]) -> NDArray[np.float64]:
        """Clipped by the bound that is not the mechanism's own, where it is declared."""
        if self._box():
            if self.clip is None:
                return update
            with np.errstate(over="ignore"):
                length = float(np.linalg.norm(update))
            return update * min(1.0, self.clip / length) if length > 0.0 else update
        return update if self.limit is None else np.clip(update, -self.limit, self.limit)

    def _kind(self) -> type[Mechanism]:
        return UPDATE_MECHANISMS[self.name]

    def _box(self) -> bool:
        return self._kind() in _BOXES

    def _accepted(self) -> tuple[str, ...]:
        return tuple(inspect.signature(self._kind()).parameters)
