"""Model parameters of clients: each layer clipped to its own threshold, noised by its share of the budget.

*LayerAdaptive* is after the baseline LLAGP of TLDP (Zhang, Zhang & Jiang 2025, layer-level adaptive gradient
perturbation): all layers begin with equal shares; as training advances, layers near the input get more of the
budget and layers near the output less, by the iteration alone. The authors' formula for the shares is not
reproduced here, only that rule. Their shares look at no data, and neither do ours.

*HessianClipped* is after the baseline DPHSGD of TLDP (Tan et al. 2025), which takes clipping thresholds from
a diagonal Hessian: flat layers may move far, sharp ones little. The authors' formula is not reproduced here.
Ours: with the mean curvature κ_l of layer l, its threshold is C_l = clip·κ_l^{−1/2}/√Σκ^{−1}. All layers
together then stay within ``clip``, and a step to the edge of a layer's ball changes the loss ½Σκ_l‖x_l‖² by
the same amount in every layer. Noise of deviation σ_l raises that loss by ½Σκ_l·d_l·σ_l² on average, which is
least, at a given ε, for shares of the budget proportional to √d_l: the default.

**Guarantee.** Unit: client, whose parameters are one row. Layer l is clipped to the L2 ball of radius C_l and
gets Gaussian noise of deviation σ_l = Δ_l/(μ√w_l), with Δ_l = 2C_l (replace) or C_l (zero-out) and public
shares w_l that sum to 1. A client moves all layers at once, so the layers compose: divided by σ_l, neighbours
are at most √Σ(Δ_l/σ_l)² = μ√Σw_l = μ apart, and the analytic Gaussian (Balle & Wang 2018, theorem 8) at μ is
exact for the client who moves every layer across its ball. Shares are of μ², which is what adds up.

The noise is drawn as in ``directional``: every layer is divided by its public stretch, put on one grid toward
zero with its norm checked in integers, noised by independent exactly rounded noise, and multiplied back,
which is post-processing. No slack.

Thresholds and shares are declared: read off the clients they would have to be paid for. A curvature is public
(declared, or computed from public data) or was itself released privately: then its cost is added, by adaptive
composition. Thresholds that each client takes from its own parameters (``curvature="own"``, the paper's mode)
prove nothing: the scale of the noise tells what it should hide.

**Edge cases.** A layer of zeros stays zero before the noise. One layer is the Gaussian mechanism, bit for
bit. Without a curvature all layers have the same threshold. In the paper's mode the diagonal Hessian is
estimated by squared values (Gauss–Newton, for gradients); a layer of zeros counts as 10⁻¹² of the sharpest.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property
from numbers import Real
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.mechanisms.additive import (
    Ball,
    Domain,
    GaussianMechanism,
    Norm,
    check_noise_fits,
    noise_multiplier,
)
from sfumato.mechanisms.base import ExpectedError, Release, held
from sfumato.mechanisms.directional import stretches
from sfumato.mechanisms.parameters import (
    Clip,
    Delta,
    Epsilon,
    NeighboursName,
    RandomSource,
    delta_between,
    known_neighbours,
    positive,
    positives,
    share,
)
from sfumato.mechanisms.registry import Parameter, shown
from sfumato.mechanisms.tensors import tensor_size
from sfumato.noise import Stream, onto_grid
from sfumato.privacy import DELTA, RECORDS, REQUIRED, Claim, Guarantee, Neighbours, Unit

__all__ = ["HessianClipped", "LayerAdaptive"]

Array = NDArray[np.float64]

# Of the sharpest curvature: that of a layer of zeros.
_FLATTEST = 1e-12


@dataclass(frozen=True)
class _Layers:
    """A product of balls, each divided by its stretch: layer l has ``sizes[l]`` columns and ``radii[l]``."""

    sizes: tuple[int, ...]
    radii: tuple[float, ...]
    stretch: tuple[float, ...]
    centre: float = 0.0

    @property
    def reach(self) -> float:
        """The largest radius."""
        return max(self.radii)

    def sensitivity(self, norm: Norm, columns: int, neighbours: Neighbours) -> float:
        """The joint distance over all layers; a hair more, for the rounding of its sum."""
        across = math.hypot(*self.radii) * (1.0 + 2.0**-40)
        return 2.0 * across if neighbours is Neighbours.REPLACE else across

    def typical(self, columns: int) -> float:
        """That of a ball with the same joint radius."""
        if columns != sum(self.sizes):
            raise BadInput(
                f"`layers` of {sum(self.sizes)} parameters were declared, but the data has {columns} "
                "columns.",
                parameter="layers",
            )
        return math.hypot(*self.radii) / math.sqrt(columns)

    def cells(self, values: Array, step: float) -> Array:
        """Every layer divided by its stretch, scaled back onto its ball and rounded toward zero."""
        parts = np.split(values / self.columns, np.cumsum(self.sizes)[:-1], axis=1)
        clipped = [
            onto_grid(part, radius, "l2", step) for part, radius in zip(parts, self.radii, strict=True)
        ]
        return np.concatenate(clipped, axis=1)

    @cached_property
    def columns(self) -> Array:
        """The stretch of each column."""
        return np.repeat(np.array(self.stretch), self.sizes)


@dataclass(eq=False, repr=False)
class LayerAdaptive(GaussianMechanism):
    """Gaussian noise on the parameters of a model, (n, d) for n clients, layer by layer.

    ``layers`` holds the size or the shape of each layer, from the input to the output; None means one layer.
    ``clip`` holds the threshold of each layer, or one number C for all, which gives each of L layers C/√L.
    ``shares`` are the layers' shares of the budget (of μ², positive, only ratios matter); by default they
    follow ``progress``, the share of training that is done: 1 + progress·(L − 1 − 2l)/L for layer l from 0.
    ``epsilon`` and ``delta`` are the promise for one client, all layers together.

    **Guarantee.** (ε, δ) for a client under replace or zero-out: analytic Gaussian, layers together.
    """

    kinds = ()
    units = ("client",)

    epsilon: Epsilon = REQUIRED
    delta: Delta = DELTA
    clip: Annotated[Any, Parameter("Threshold of each layer, or one number for all layers together.")] = None
    _: KW_ONLY
    layers: Annotated[
        Sequence[Any] | None, Parameter("Size or shape of each layer; one layer unless given.")
    ] = None
    shares: Annotated[Any, Parameter("Shares of the budget, one for each layer.")] = None
    progress: Annotated[float, Parameter("Share of the training that is done, from 0 to 1.")] = 0.0
    neighbours: NeighboursName = RECORDS.neighbours
    randomness: RandomSource = None

    def guarantee(self, columns: int | None = None) -> Guarantee:
        """What is proven for one client, all layers together."""
        self._domain_for(columns)
        return self._proven(self._multiplier())

    def guarantee_of(self, layer: int) -> Guarantee:
        """What a reader of one layer alone, counted from 0, can learn about a client."""
        part = self._shares()
        if isinstance(layer, bool) or not isinstance(layer, int) or not 0 <= layer < len(part):
            raise BadInput(f"there is no layer {shown(layer)}; {len(part)} layers were declared.")
        return self._proven(math.nextafter(self._multiplier() / math.sqrt(part[layer]), 0.0))

    def claim(self) -> Claim | None:
        """Return what the method's authors claim, as TLDP describes it."""
        return self._claimed(
            "(ε, δ)-DP with a privacy budget for each layer, adjusted as training advances",
            "Zhang, Zhang & Jiang 2025 (LLAGP), as TLDP describes it",
        )

    def thresholds(self) -> Array:
        """C_l, the radius that layer l is clipped to."""
        count = len(self._sizes() or (0,))
        if self.clip is None:
            raise BadInput(
                "declare `clip`, one radius for all layers or one for each; read off data it leaks.",
                parameter="clip",
            )
        if isinstance(self.clip, Real):
            return np.full(count, positive("clip", self.clip) / math.sqrt(count))
        radii = positives(self.clip)
        if radii is None or len(radii) != count:
            raise BadInput(
                f"`clip` must be a positive number, or one for each of {count} layers, not "
                f"{shown(self.clip)}.",
                parameter="clip",
            )
        return radii

    def sigmas(self) -> Array:
        """The deviation of the noise on each layer."""
        domain = self._domain()
        stretch = np.array(domain.stretch) if isinstance(domain, _Layers) else np.ones(1)
        return stretch * self._calibrated(domain, 1, self._multiplier())

    def expected_error(self, columns: int) -> tuple[ExpectedError, ...]:
        """The root mean square of the noise, over all parameters and layer by layer."""
        sizes, sigmas = np.array(self._sizes() or (columns,)), self.sigmas()
        self._domain_for(columns)
        overall = math.sqrt(float(sizes @ np.square(sigmas)) / columns)
        named = [("each value", overall)]
        if len(sizes) > 1:
            named += [(f"layer {place}", float(sigma)) for place, sigma in enumerate(sigmas, start=1)]
        return tuple(ExpectedError(of, "root mean square error", value) for of, value in named)

    def perturb(self, X: NDArray[Any], first: int = 0) -> NDArray[Any]:
        """The released rows for ``X``; see :meth:`Mechanism.perturb`."""
        check_noise_fits(float(self.thresholds().max()), float(self.sigmas().max()), X.dtype)
        return super().perturb(X, first)

    def parameters(self) -> dict[str, Any]:
        """As for every mechanism, with layers by their sizes."""
        sized = type(self)(**(self.get_params(deep=False) | {"layers": self._sizes()}))
        return dict(super(LayerAdaptive, sized).parameters())

    def _finish(self, stream: Stream, noised: Array, block: NDArray[Any]) -> Array:
        domain = self._domain()
        return noised * domain.columns if isinstance(domain, _Layers) else noised

    def _sizes(self) -> tuple[int, ...] | None:
        """How many parameters each layer has; None for one layer of all of them."""
        if self.layers is None:
            return None
        given = list(self.layers) if isinstance(self.layers, Sequence | np.ndarray) else []
        sizes = [tensor_size((layer,) if isinstance(layer, int | np.integer) else layer) for layer in given]
        if not sizes or isinstance(self.layers, str):
            raise BadInput(
                f"`layers` must hold the size or shape of each layer, not {shown(self.layers)}.",
                parameter="layers",
            )
        return tuple(size for size in sizes if size is not None)

    def _shares(self) -> Array:
        """The share of each layer in μ²; they sum to 1."""
        count, progress = len(self._sizes() or (0,)), share("progress", self.progress)
        if self.shares is None:
            weights = 1.0 + progress * (count - 1.0 - 2.0 * np.arange(count)) / count
        else:
            weights = stretches("shares", self.shares)
            if weights.shape != (count,):
                raise BadInput(
                    f"`shares` must hold one number for each of {count} layers.", parameter="shares"
                )
        return np.asarray(weights / weights.sum())

    def _domain(self) -> Domain:
        radii, part = self.thresholds(), self._shares()
        if len(radii) == 1:
            return Ball("l2", float(radii[0]))
        spread = radii / np.sqrt(part)
        stretch = spread / spread.min()
        sizes = self._sizes()
        assert sizes is not None  # several layers were declared
        return _Layers(sizes, tuple((radii / stretch).tolist()), tuple(stretch.tolist()))

    def sigma(self, columns: int) -> float:
        """Return the deviation of the noise on the layer that has the least of it."""
        return self._calibrated(self._domain(), 1, self._multiplier())

    def _proven(self, multiplier: float) -> Guarantee:
        return self._gaussian(multiplier, Unit("client"), "analytic Gaussian over all layers")

    def _multiplier(self) -> float:
        return noise_multiplier(positive("epsilon", self.epsilon), delta_between(self.delta))


@dataclass(eq=False, repr=False)
class HessianClipped(LayerAdaptive):
    """Gaussian noise on the parameters of a model, (n, d) for n clients, with thresholds from curvature.

    ``layers`` is as for :class:`LayerAdaptive`; ``clip`` is one number for all layers together. ``curvature``
    holds the diagonal of a public Hessian, one positive number a parameter or a layer; or it is a release of
    such numbers, whose cost is then part of the guarantee; or it is ``"own"``, the paper's mode, where each
    client's parameters set its thresholds and nothing is proven. ``epsilon`` and ``delta`` are the promise of
    the noise for one client, all layers together.

    **Guarantee.** (ε, δ) for a client under replace or zero-out: analytic Gaussian, layers together; nothing
    where the curvature is the client's own.
    """

    kinds = ()

    clip: Clip = None
    _: KW_ONLY
    curvature: Annotated[
        Any, Parameter("Diagonal of a public Hessian, a release of one, or own, which proves nothing.")
    ] = None
    progress: float = field(default=0.0, init=False)

    def claim(self) -> Claim | None:
        """Return what the method's authors claim, as TLDP describes it."""
        return self._claimed(
            "(ε, δ)-DP with a clipping threshold from a diagonal Hessian",
            "Tan et al. 2025 (DPHSGD), as TLDP describes it",
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

    def _proven(self, multiplier: float) -> Guarantee:
        noise = super()._proven(multiplier)
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
