"""TLDP as published: each component of a tensor is kept as it is with probability p, or noised.

*TLDP*, algorithms 1 and 2. The paper calls this ε-LDP. It is not: a component that is kept is shown.

**Guarantee.** Let Δ be the width of the bounds and I the number of components; neighbours: replace.
Before anything else a coin that does not look at the data decides for each component whether it is kept
(probability pᵢ). If none that differs between the neighbours is kept, what is released is the additive
mechanism on them; otherwise count everything as shown. So the divergence is at most r + (1 − r)·H, with

- unit component: r = max pᵢ, and H that of noise on one value of sensitivity Δ,
- unit tensor: r = 1 − Π(1 − pᵢ), and H that of noise on all components: L1 sensitivity IΔ for Laplace noise,
  L2 sensitivity √I·Δ for Gaussian noise.

No ε gives a δ below r. The noise alone is (Δ/b, 0) and (IΔ/b, 0) for Laplace noise of scale b.

Where the weights are read off the tensor itself, the coins look at the data: a component is noised with
probability between 1 − p and 1. Its coin is then (log 1/(1 − p), p)-DP, and composes with the noise. For
weights that depend on each value alone this holds with the r above; for a saliency map, which depends on
all values, every coin of the tensor is paid for, also where one component is the unit.

**Edge cases.** A kept value is released exactly as it was given, or clipped where clipping was asked for.
Noise is drawn on a grid far finer than the levels of any image, as the paper's real-valued noise is; on the
data's own levels the leak would drown.

Weights read off a tensor itself: its grey values, and where a picture stands out from its own spectrum.

Such weights depend on private data. A mechanism that uses them has to pay for it, or prove nothing.
"""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass, replace
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.mechanisms.additive import AdditiveMechanism, BoundedMechanism, Domain, one_box, two_bounds
from sfumato.mechanisms.base import ExpectedError
from sfumato.mechanisms.parameters import (
    Delta,
    Epsilon,
    Outside,
    RandomSource,
    StrictBounds,
    delta_between,
    numeric,
    one_of,
    positive,
)
from sfumato.mechanisms.registry import Parameter, shown
from sfumato.mechanisms.tensors import TensorMechanism, TensorShape, TensorUnit, tensor_size
from sfumato.noise import LAPLACE, NORMAL, Law, Stream
from sfumato.privacy import DELTA, REQUIRED, Claim, Guarantee, Neighbours, Unit

__all__ = ["TensorLDP", "WeightedTensorLDP", "saliency_weights"]

Array = NDArray[np.float64]

# Spectral residual: width of the average of the log spectrum, and of the smoothing of the map, in pixels.
_AVERAGE, _SMOOTH = 3, 2.5
# What counts as no amplitude at all, as a share of the mean one.
_FLOOR = 0.01
NOISES, RETAINS = ("laplace", "gaussian"), ("algorithm", "proof")
RetainName = Annotated[
    str,
    Parameter(
        "Which of the paper's two formulas gives the probability of keeping a component.", choices=RETAINS
    ),
]
NoiseName = Annotated[str, Parameter("Law of the noise.", choices=NOISES)]


def grey_weights(rows: Array, shape: tuple[int, ...]) -> Array:
    """The values themselves, which lie in [0, 1], as weights; ``rows`` is (n, d)."""
    return rows


def saliency_weights(rows: Array, shape: tuple[int, ...]) -> Array:
    """The spectral residual of each picture (Hou & Zhang 2007), scaled to [0, 1]; (n, d) like ``rows``.

    ``shape`` is that of one picture: the first two modes are its sides, further modes share the map of
    their mean. A tensor of order one has no neighbours on a plane and is taken as a picture of one row. In a
    picture of one colour nothing stands out.
    """
    from scipy.ndimage import gaussian_filter, uniform_filter

    sides = shape[:2] if len(shape) > 1 else (1, shape[0])
    pictures = rows.reshape(len(rows), *sides, -1).mean(axis=-1)
    spectrum = np.fft.fft2(pictures)
    size = np.abs(spectrum)
    # Frequencies that a picture does not have at all would drown those it has.
    log = np.log(size + _FLOOR * size.mean(axis=(1, 2), keepdims=True) + 1e-300)
    residual = log - uniform_filter(log, size=(1, _AVERAGE, _AVERAGE), mode="wrap")
    energy = np.abs(np.fft.ifft2(np.exp(residual + 1j * np.angle(spectrum)))) ** 2
    smooth = gaussian_filter(energy, sigma=(0.0, _SMOOTH, _SMOOTH), mode="nearest")
    low, high = smooth.min(axis=(1, 2), keepdims=True), smooth.max(axis=(1, 2), keepdims=True)
    maps = (smooth - low) / np.where(high > low, high - low, 1.0)
    maps[pictures.max(axis=(1, 2)) == pictures.min(axis=(1, 2))] = 0.0
    whole = np.broadcast_to(maps[..., None], (*maps.shape, rows[0].size // (sides[0] * sides[1])))
    return np.ascontiguousarray(whole).reshape(len(rows), -1)


_COIN = 2.0**64


@dataclass(frozen=True)
class _Coins:
    """``most`` is the largest probability with which a component is kept, ``any`` that one of all is.

    ``look`` is the pure ε that each coin costs where it looks at the data.
    """

    most: float
    any: float
    look: float = 0.0


@dataclass(eq=False, repr=False)
class TensorLDP(TensorMechanism, BoundedMechanism, AdditiveMechanism):
    """Algorithm 1: keeps each component with probability p, adds Laplace or Gaussian noise otherwise.

    ``bounds`` is (low, high), Δ = high − low. ``noise`` is ``"laplace"`` (b = Δ/ε) or ``"gaussian"``
    (σ² = Δ²/2ε). ``retain`` names the formula of p: ``"algorithm"``, as algorithm 1 has it, or ``"proof"``,
    as the proof of theorem 1 has it, where p falls exponentially with the size of the tensor. ``delta`` is
    that of the Gaussian noise alone, at which the headline is read. Values outside the bounds are refused,
    or with ``outside="clip"`` moved to the nearer bound first.

    **Guarantee.** Under replace, for a component (Δ/b, p); for a tensor (IΔ/b, 1−(1−p)^I); with Gaussian
    noise the δ is p + (1−p)·δ_G. Kept components are shown, the others noised.
    """

    kinds = ("array",)
    units = ("component", "tensor")

    epsilon: Epsilon = REQUIRED
    bounds: StrictBounds = (0.0, 256.0)
    _: KW_ONLY
    noise: NoiseName = "laplace"
    retain: RetainName = "algorithm"
    delta: Delta = DELTA
    unit: TensorUnit = "component"
    outside: Outside = "refuse"
    shape: TensorShape = None
    randomness: RandomSource = None

    def claim(self) -> Claim | None:
        """Return what the paper says."""
        return self._claimed(
            "ε-LDP for tensors", "TLDP, definition 2 and theorem 1", delta=0.0, unit=Unit("tensor")
        )

    def keep_probability(self, columns: int) -> float:
        """The p of tensors of ``columns`` components, before any weight."""
        epsilon, span = positive("epsilon", self.epsilon), self._span()
        laplace = self._law() is LAPLACE
        # Both formulas of the paper read p = g/(c + g) with Δ/b = ε, or Δ²/2σ² = ε for Gaussian noise.
        spread = 2.0 * span / epsilon if laplace else span * math.sqrt(math.pi / epsilon)
        if one_of("retain", self.retain, RETAINS) == "proof":
            gain = math.exp(-(columns - 1) * epsilon)
        else:
            gain = 1.0 if laplace else math.exp(-epsilon)  # algorithm 1 drops the ε of its Gaussian line
        return gain / (spread + gain)

    def expected_error(self, columns: int) -> tuple[ExpectedError, ...]:
        """The root mean square of what is added, kept components included."""
        deviation = self._scale(columns) * self._law().deviation
        noised = 1.0 - self._average_kept(columns)
        return (ExpectedError.each_value(deviation * math.sqrt(noised)),)

    def perturb(self, X: NDArray[Any], first: int = 0) -> NDArray[Any]:
        """The released rows for ``X``; see :meth:`Mechanism.perturb`."""
        self.check(X, first)
        self._size(X.shape[1], needed=True)
        return super().perturb(X, first)

    def _proven(self, unit: str, size: int) -> Guarantee:
        coins, whole = self._coins(size), unit == "tensor"
        noise = self.noise_alone(unit, size)
        beside = 0.0 if self._law() is LAPLACE else delta_between(self.delta)
        looking = self._looked_at(unit, size)
        shown_chance = coins.any if whole or looking > 1 else coins.most
        if looking:
            noise = noise + Guarantee.pure(looking * coins.look, unit=Unit(unit))
        made = replace(
            noise,
            neighbours=Neighbours.REPLACE,
            theorem="kept components are shown, the others noised" + (", by coins that look" * bool(looking)),
            at_delta=min(1.0, shown_chance + (1.0 - shown_chance) * beside),
        )
        # A coin that looks at the data is no mixture: what it may show is slack.
        return replace(made, slack=shown_chance) if looking else replace(made, revealed=shown_chance)

    def noise_alone(self, unit: str, size: int) -> Guarantee:
        """What the noise would prove of ``unit``, were none of ``size`` components ever kept."""
        changed = size if unit == "tensor" else 1
        span, scale = self._span(), self._scale(size)
        if self._law() is LAPLACE:
            return Guarantee.laplace(scale / (span * changed), unit=Unit(unit))
        return Guarantee.gaussian(scale / (span * math.sqrt(changed)), unit=Unit(unit))

    def _coins(self, size: int) -> _Coins:
        """The coins of a tensor of ``size`` components, as they are tossed: in multiples of 2⁻⁶⁴."""
        kept = self._threshold(self.keep_probability(size)) / _COIN
        return _Coins(kept, -math.expm1(size * math.log1p(-kept)) if kept < 1.0 else 1.0)

    def _looked_at(self, unit: str, size: int) -> int:
        """How many coins depend on the data when ``unit`` changes."""
        return 0

    def _average_kept(self, columns: int) -> float:
        """The share of components that are kept, on average over all of them."""
        return self._coins(columns).most

    def _finish(self, stream: Stream, noised: Array, block: NDArray[Any]) -> Array:
        """Kept components as they came, the others noised."""
        words = stream.words(noised.size).reshape(noised.shape)
        kept = words < self._thresholds(block)
        if self.outside == "clip":
            block = np.clip(block, *two_bounds(self.bounds))
        return np.where(kept, block, noised)

    def _thresholds(self, block: NDArray[Any]) -> NDArray[np.uint64] | np.uint64:
        return np.uint64(self._threshold(self.keep_probability(block.shape[1])))

    @staticmethod
    def _threshold(probability: float) -> int:
        """The coin of ``probability``, rounded down to a multiple of 2⁻⁶⁴ below 1."""
        return min(int(probability * _COIN), (1 << 64) - 1)

    def _span(self) -> float:
        low, high = two_bounds(self.bounds)
        return high - low

    def _domain(self) -> Domain:
        return one_box(self.bounds)

    def _law(self) -> Law:
        return LAPLACE if one_of("noise", self.noise, NOISES) == "laplace" else NORMAL

    def _scale(self, columns: int) -> float:
        epsilon, span = positive("epsilon", self.epsilon), self._span()
        return span / epsilon if self._law() is LAPLACE else span / math.sqrt(2.0 * epsilon)


@dataclass(eq=False, repr=False)
class WeightedTensorLDP(TensorLDP):
    """Algorithm 2: as :class:`TensorLDP`, with the probability of keeping component i times 1 − wᵢ.

    ``weights`` lie in [0, 1], large where the tensor is sensitive. A matrix is broadcast over the remaining
    modes of the tensor, from the first mode on; so is an array of the tensor's whole shape. ``"grey"`` takes
    the tensor's own values, from 0 at the lower to 1 at the upper bound, and ``"saliency"`` a saliency map of
    each tensor; such weights look at the data, and the guarantee pays for it. ``retain="proof"`` is the
    formula that algorithm 2 prints; ``"algorithm"`` is that of algorithm 1.

    **Guarantee.** That of :class:`TensorLDP` with each pᵢ; weights that look at the data are paid for, by
    composition with the coins.
    """

    kinds = ("array",)

    _: KW_ONLY
    weights: Annotated[
        Any,
        Parameter(
            "Sensitivity of each component, from 0 to 1; grey or saliency are read off data and paid.",
            symbol="W",
            arity=None,
            array=True,
        ),
    ] = 0.0

    def claim(self) -> Claim | None:
        """Return what the paper says."""
        return self._claimed(
            "ε-LDP for tensors, with stronger protection where weights are large",
            "TLDP, theorem 3",
            delta=0.0,
            unit=Unit("tensor"),
        )

    def _coins(self, size: int) -> _Coins:
        plain = super()._coins(size)
        if isinstance(self.weights, str):
            self._map()
            look = math.inf if plain.most >= 1.0 else -math.log1p(-plain.most)
            return _Coins(plain.most, plain.any, look)
        kept = self._declared_thresholds(size)[0].astype(np.float64) / _COIN
        with np.errstate(divide="ignore"):
            hidden = float(np.log1p(-kept).sum()) * (size // kept.size)
        return _Coins(float(kept.max()), min(1.0, -math.expm1(hidden) * (1.0 + 2.0**-40)))

    def _looked_at(self, unit: str, size: int) -> int:
        if not isinstance(self.weights, str):
            return 0
        return size if unit == "tensor" or self._map() is saliency_weights else 1

    def _average_kept(self, columns: int) -> float:
        if isinstance(self.weights, str):
            return 0.0  # the largest error that any tensor can have
        return float(self._declared_thresholds(columns)[0].astype(np.float64).mean()) / _COIN

    def _thresholds(self, block: NDArray[Any]) -> NDArray[np.uint64] | np.uint64:
        if not isinstance(self.weights, str):
            return self._public_thresholds(block.shape[1])
        # In double precision, whatever was given: a map of a black picture divides by almost nothing.
        low, high = two_bounds(self.bounds)
        scaled = np.clip((np.clip(block.astype(np.float64), low, high) - low) / (high - low), 0.0, 1.0)
        weights = self._map()(scaled, tuple(self.shape or scaled.shape[1:]))
        plain = self.keep_probability(block.shape[1])
        most = min(self._threshold(plain) / _COIN, 1.0 - 2.0**-53)
        # No map, not even one with NaN in it, may raise a coin above what is proven.
        return np.asarray(np.fmin(plain * (1.0 - weights), most) * _COIN, dtype=np.uint64)

    def _map(self) -> Any:
        maps = {"grey": grey_weights, "saliency": saliency_weights}
        return maps[one_of("weights", self.weights, tuple(maps))]

    def _public_thresholds(self, size: int) -> NDArray[np.uint64]:
        """The coin of each of ``size`` components; of one weight for all, a view of one number."""
        declared, shape = self._declared_thresholds(size)
        return np.broadcast_to(declared, shape).reshape(-1)

    def _declared_thresholds(self, size: int) -> tuple[NDArray[np.uint64], tuple[int, ...]]:
        """The coin of each declared weight, and the shape over which they are broadcast, each as often."""
        plain = self.keep_probability(size)
        weights, shape = self._weights(size)
        kept = [self._threshold(plain * (1.0 - weight)) for weight in weights.ravel().tolist()]
        return np.array(kept, dtype=np.uint64).reshape(weights.shape), shape

    def _weights(self, size: int) -> tuple[Array, tuple[int, ...]]:
        """The declared weights, and the shape of tensors of ``size`` components that they broadcast to."""
        weights = numeric(self.weights)
        if weights is None or not weights.size or not ((weights >= 0.0) & (weights <= 1.0)).all():
            # An array may be the data itself, taken for weights by mistake: its values are not shown.
            given = f"an array of shape {weights.shape}" if weights is not None else shown(self.weights)
            raise BadInput(
                f"`weights` must be numbers from 0 to 1, 'grey' or 'saliency', not {given}.",
                parameter="weights",
            )
        tensor_size(self.shape)
        shape = (size,) if self.shape is None else tuple(self.shape)
        if weights.ndim > len(shape):
            raise BadInput(
                f"`weights` of shape {weights.shape} do not fit tensors of shape {shape}.",
                parameter="weights",
            )
        modes = weights.shape + (1,) * (len(shape) - weights.ndim)
        try:
            np.broadcast_to(weights.reshape(modes), shape)
        except ValueError:
            raise BadInput(
                f"`weights` of shape {weights.shape} do not broadcast over tensors of shape {shape}.",
                parameter="weights",
            ) from None
        return weights.reshape(modes), shape
