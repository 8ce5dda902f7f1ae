"""Model parameters clipped by curvature: flat layers may move far, sharp ones little.

After the baseline *DPHSGD* of TLDP (Tan et al. 2025), which takes clipping thresholds from a diagonal
Hessian. The authors' formula is not reproduced here. Ours: with the mean curvature κ_l of layer l, its
threshold is C_l = clip·κ_l^{−1/2}/√Σκ^{−1}. All layers together then stay within ``clip``, and a step to the
edge of a layer's ball changes the loss ½Σκ_l‖x_l‖² by the same amount in every layer. Noise of deviation σ_l
raises that loss by ½Σκ_l·d_l·σ_l² on average, which is least, at a given ε, for shares of the budget
proportional to √d_l: the default.

**Guarantee.** Unit: client. That of ``layer_adaptive``, provided that the curvature is public (declared, or
computed from public data) or was itself released privately, by :func:`private_curvature` for example: then
its cost is added, by adaptive composition. Thresholds that each client takes from its own parameters
(``curvature="own"``, the paper's mode) prove nothing: the scale of the noise tells what it should hide.

**Edge cases.** Without a curvature all layers have the same threshold. In the paper's mode the diagonal
Hessian is estimated by squared values (Gauss–Newton, for gradients); a layer of zeros counts as 10⁻¹² of the
sharpest.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.mechanisms.expected_error import ExpectedError
from sfumato.mechanisms.gaussian import noise_multiplier
from sfumato.mechanisms.layer_adaptive import LayerAdaptive
from sfumato.mechanisms.parameters import delta_between, known_neighbours, positive, shown
from sfumato.mechanisms.public_frames import stretches
from sfumato.mechanisms.records import held, numbers
from sfumato.mechanisms.release_value import Release
from sfumato.noise import Randomness, Secure, gaussian_noise, grid_step, onto_grid
from sfumato.privacy import Claim, Guarantee, Neighbours, Statement, Unit
from sfumato.privacy.defaults import DELTA, RECORDS, REQUIRED

__all__ = ["HessianClipped", "private_curvature"]

Array = NDArray[np.float64]

_FLATTEST = 1e-12


class HessianClipped(LayerAdaptive):
    """Gaussian noise on the parameters of a model, (n, d) for n clients, with thresholds from curvature.

    ``layers`` is as for :class:`LayerAdaptive`; ``clip`` is one number for all layers together. ``curvature``
    holds the diagonal of a public Hessian, one positive number a parameter or a layer; or it is a release of
    such numbers, whose cost is then part of the guarantee; or it is ``"own"``, the paper's mode, where each
    client's parameters set its thresholds and nothing is proven. ``epsilon`` and ``delta`` are the promise of
    the noise for one client, all layers together.
    """

    progress = 0.0

    def __init__(
        self,
        epsilon: float = REQUIRED,
        delta: float = DELTA,
        clip: float | None = None,
        *,
        layers: Sequence[Any] | None = None,
        curvature: Any = None,
        shares: Any = None,
        neighbours: str = RECORDS.neighbours,
        randomness: Randomness | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.clip = clip
        self.layers = layers
        self.curvature = curvature
        self.shares = shares
        self.neighbours = neighbours
        self.randomness = randomness

    def claim(self) -> Claim | None:
        """What the method's authors claim, as TLDP describes it."""
        return Claim(
            text="(ε, δ)-DP with a clipping threshold from a diagonal Hessian",
            source="Tan et al. 2025 (DPHSGD), as TLDP describes it",
            epsilon=positive("epsilon", self.epsilon),
            delta=delta_between(self.delta),
            unit=Unit("client"),
            neighbours=known_neighbours(self.neighbours),
        )

    def thresholds(self) -> Array:
        """C_l, the radius that layer l is clipped to; in the paper's mode that of equal curvatures."""
        count = len(self._sizes() or (0,))
        radius = positive("clip", self.clip)
        if self.curvature is None or self._own():
            return np.full(count, radius / math.sqrt(count))
        return np.asarray(radius * _flatness(self._curvature(count)))

    def expected_error(self, columns: int) -> tuple[ExpectedError, ...]:
        """The root mean square of the noise; in the paper's mode the largest that any client can have."""
        if not self._own():
            return super().expected_error(columns)
        self._domain_for(columns)
        replaced = known_neighbours(self.neighbours) is Neighbours.REPLACE
        reach = positive("clip", self.clip) * (2.0 if replaced else 1.0)
        worst = math.sqrt(float((np.array(self._sizes() or (columns,)) / self._shares()).max()) / columns)
        error = reach * self._multiplier() * worst
        return (ExpectedError("each value, at most", "root mean square error", error),)

    def perturb(self, X: NDArray[Any], first: int = 0) -> NDArray[Any]:
        """The released rows for ``X``; see :meth:`Mechanism.perturb`."""
        if not self._own():
            return super().perturb(X, first)
        self.check(X, first)
        self._domain_for(X.shape[1])
        sizes = np.array(self._sizes() or X.shape[1:])
        largest = np.abs(X).max(axis=1, keepdims=True).astype(np.float64)
        squares = np.square(X / np.where(largest > 0.0, largest, 1.0))
        curvature = np.add.reduceat(squares, np.cumsum(sizes) - sizes, axis=1) / sizes
        floor = np.maximum(_FLATTEST * curvature.max(axis=1, keepdims=True), np.finfo(np.float64).tiny)
        own = _flatness(np.maximum(curvature, floor)) * math.sqrt(len(sizes))
        # Clipping to own thresholds with noise to match is clipping to equal ones what was divided by them.
        each = np.repeat(own, sizes, axis=1)
        with np.errstate(over="ignore"):  # what overflows is far outside every threshold
            divided = held(X / each, np.dtype(np.float64))
        return held(super().perturb(divided, first) * each, X.dtype)

    def parameters(self) -> dict[str, Any]:
        """As for every mechanism; a curvature that was released stands with what it cost."""
        if not isinstance(self.curvature, Release):
            return super().parameters()
        bare = type(self)(**(self.get_params(deep=False) | {"curvature": self.curvature.value}))
        return bare.parameters() | {"curvature_cost": str(self.curvature.statement.proven)}

    def _gaussian(self, multiplier: float) -> Guarantee:
        noise = super()._gaussian(multiplier)
        if self._own():
            return Guarantee.nothing(
                "each client's thresholds are read off its own parameters", noise.unit, noise.neighbours
            )
        return noise + self.curvature.statement.proven if isinstance(self.curvature, Release) else noise

    def _notes(self) -> tuple[str, ...]:
        earlier = self.curvature.statement.notes if isinstance(self.curvature, Release) else ()
        return tuple(dict.fromkeys((*super()._notes(), *earlier)))

    def _own(self) -> bool:
        if isinstance(self.curvature, str) and self.curvature != "own":
            found = shown(self.curvature)
            raise BadInput(
                f"`curvature` must be positive numbers, a release of them, or 'own', not {found}.",
                parameter="curvature",
            )
        return isinstance(self.curvature, str)

    def _curvature(self, count: int) -> Array:
        """The mean curvature of each of ``count`` layers."""
        given = self.curvature.value if isinstance(self.curvature, Release) else self.curvature
        values, sizes = stretches("curvature", given), np.array(self._sizes() or np.shape(given))
        if values.shape == (count,):
            return values
        if values.shape != (int(sizes.sum()),):
            raise BadInput(
                f"`curvature` must hold one number for each of {count} layers or {sizes.sum()} parameters, "
                "not "
                f"an array of shape {values.shape}.",
                parameter="curvature",
            )
        return np.asarray(np.add.reduceat(values, np.cumsum(sizes) - sizes) / sizes)

    def _shares(self) -> Array:
        if self.shares is not None:
            return super()._shares()
        roots = np.sqrt(np.array(self._sizes() or (1,), dtype=np.float64))
        return np.asarray(roots / roots.sum())


def _flatness(curvature: Array) -> Array:
    """κ^{−1/2} over the last axis, scaled to length one."""
    flat = 1.0 / np.sqrt(curvature)
    return np.asarray(flat / np.linalg.norm(flat, axis=-1, keepdims=True))


def private_curvature(
    X: Any,
    *,
    layers: Sequence[Any],
    clip: float,
    epsilon: float = REQUIRED,
    delta: float = DELTA,
    neighbours: str = RECORDS.neighbours,
    randomness: Randomness | None = None,
) -> Release:
    """The mean square of each layer's parameters over all clients X (n, d), released privately: (layers,).

    **Guarantee.** Unit: client. The squared norms of a client's layers, after clipping all of them together
    to ``clip``, are non-negative and sum to at most clip², checked in integers on the grid; so a client moves
    their sum over clients by at most √2·clip² (replace) or clip² (zero-out) in L2, and Gaussian noise on the
    sum is calibrated to that. Dividing by the public number of clients is post-processing, and so is raising
    what lies below one deviation of the noise to it.
    """
    rows, sizes = numbers(X).astype(np.float64), np.array(LayerAdaptive(layers=layers)._sizes())
    if rows.shape[1] != sizes.sum():
        raise BadInput(
            f"`layers` of {sizes.sum()} parameters do not fit {rows.shape[1]} columns.", parameter="layers"
        )
    relation, square = known_neighbours(neighbours), positive("clip", clip) ** 2
    multiplier = noise_multiplier(positive("epsilon", epsilon), delta_between(delta))
    apart = square * (math.sqrt(2.0) * (1.0 + 2.0**-50) if relation is Neighbours.REPLACE else 1.0)
    sigma = math.nextafter(apart * multiplier, math.inf)
    step = grid_step(sigma, square / len(sizes))
    with np.errstate(over="ignore"):
        norms = np.add.reduceat(np.square(np.clip(rows, -1e150, 1e150)), np.cumsum(sizes) - sizes, axis=1)
    total = onto_grid(norms, square, "l1", step).sum(axis=0)
    noise = gaussian_noise(sigma, len(sizes), grid=step, randomness=randomness)
    mean = np.maximum(total * step + noise, sigma) / (len(rows) * sizes)
    proven = Guarantee.gaussian(
        multiplier, unit=Unit("client"), neighbours=relation, at_delta=delta_between(delta)
    )
    parameters = {"layers": sizes.tolist(), "clip": clip, "epsilon": epsilon, "delta": delta}
    seeded = (Secure() if randomness is None else randomness).reproducible
    notes = ("reproducible run: not for release",) if seeded else ()
    statement = Statement("private_curvature", parameters, None, proven, notes=notes)
    return Release(mean, statement, {"rows": len(rows), "columns": rows.shape[1]})
