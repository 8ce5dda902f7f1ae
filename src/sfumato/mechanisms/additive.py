"""Mechanisms that clip each record into a declared domain and add noise on a public grid.

**Guarantee.** Records are clipped and put on the grid by a deterministic map into the domain, so two
neighbouring records are at most ``sensitivity`` apart there. The released integer is the rounding of
(grid value + real noise), because rounding commutes with adding an integer; it is post-processing of
the real mechanism, whose guarantee therefore holds for it exactly, with no slack. Unit: record. Neighbours:
replace or zero-out, at which a ball of radius ``clip`` has the sensitivity Δ = 2·clip or clip.

*Gaussian.* Analytic Gaussian (Balle & Wang 2018, theorem 8): noise of σ = Δ/μ on a value of L2 sensitivity Δ
is (ε, δ)-DP exactly when Φ(μ/2 − ε/μ) − e^ε Φ(−μ/2 − ε/μ) ≤ δ.

*Laplace.* Noise of scale b = Δ/ε on a value of L1 sensitivity Δ is ε-DP (Dwork, McSherry, Nissim & Smith
2006, proposition 1). The whole curve δ(ε) is that of one coordinate moved by Δ: any two records are joined by
a path that moves one coordinate at a time, and for a log-concave location family the trade-off curves along
such a path combine to that of one move of the same total length (Dong, Roth & Su 2022, group privacy).

*Personalised* (the baseline of TADP-RME after Jorgensen, Yu & Cormode 2015): the Gaussian mechanism with one
σ a record. Record i is protected with (εᵢ, δ), since no other row depends on it; ``guarantee()`` is that of
the largest εᵢ, which holds for every record. The εᵢ are public and must not be computed from the records.

*Additive noise* is a control: the same noise without clipping. It proves nothing, since without a declared
bound two records may be arbitrarily far apart.

**Edge cases.** A record of zeros stays zero; one outside the domain is scaled back (ball; to zero where its
norm is beyond double precision) or clipped (box). NaN and infinities are refused. Rows are independent: the
guarantee does not depend on n. What unclipped noise carries beyond the largest number of the type is that
number.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from numbers import Real
from typing import Annotated, Any, ClassVar, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.mechanisms.base import ExpectedError, Mechanism, finite, held
from sfumato.mechanisms.parameters import (
    LARGEST,
    OUTSIDE,
    SMALLEST,
    Bounds,
    Clip,
    Delta,
    Epsilon,
    NeighboursName,
    RandomSource,
    delta_between,
    known_neighbours,
    numeric,
    one_of,
    positive,
    positives,
)
from sfumato.mechanisms.registry import Parameter, shown
from sfumato.noise import LAPLACE, NORMAL, Law, Rounded, Stream, grid_step, onto_grid
from sfumato.privacy import DELTA, RECORD, RECORDS, REQUIRED, Claim, Guarantee, Neighbours, Unit, gaussian_mu

__all__ = [
    "AdditiveNoise",
    "Ball",
    "Box",
    "Gaussian",
    "Laplace",
    "Personalised",
    "declared_domain",
    "noise_multiplier",
    "two_bounds",
]

Array = NDArray[np.float64]
Norm = Literal["l1", "l2"]

# float64 holds integers exactly up to 2⁵³; half of that leaves room for the noise.
_MAX_CELLS = 2.0**52
# The sides of a wider box with one pair of bounds are multiplied, not summed: no array of them is made.
_SUMMED_COLUMNS = 1 << 16
# In noise scales: how far a draw may lie from zero; beyond it are fewer than one Laplace draw in 10⁵⁵.
_FARTHEST = 128.0


class Domain(Protocol):
    """The set that records are clipped into; ``centre`` is also the null value of zero-out neighbours."""

    @property
    def centre(self) -> Array | float:
        """The middle of the domain."""

    def sensitivity(self, norm: Norm, columns: int, neighbours: Neighbours) -> float:
        """Return the largest distance between neighbouring records of ``columns`` coordinates."""

    @property
    def reach(self) -> float:
        """The largest absolute value that a coordinate can have."""

    def typical(self, columns: int) -> float:
        """Return the size of a typical coordinate, measured from the centre."""

    def cells(self, values: Array, step: float) -> Array:
        """Return records clipped and rounded toward the centre, in grid steps from it."""


@dataclass(frozen=True)
class Ball:
    """All records of norm at most ``radius``; two of them are at most twice the radius apart."""

    norm: Norm
    radius: float
    centre: float = 0.0

    @property
    def reach(self) -> float:
        """The radius."""
        return self.radius

    def sensitivity(self, norm: Norm, columns: int, neighbours: Neighbours) -> float:
        """Return 2·radius under replace, radius under zero-out."""
        if norm != self.norm:
            raise BadInput(f"a ball in the {self.norm} norm says nothing about distances in the {norm} norm.")
        return 2.0 * self.radius if neighbours is Neighbours.REPLACE else self.radius

    def typical(self, columns: int) -> float:
        """Return radius/√d in the L2 norm, radius/d in the L1 norm."""
        return self.radius / (math.sqrt(columns) if self.norm == "l2" else columns)

    def cells(self, values: Array, step: float) -> Array:
        """Scale records outside the ball back onto it, and round toward zero."""
        return onto_grid(values, self.radius, self.norm, step)


class Box:
    """All records with low ≤ coordinate ≤ high, for one pair of bounds or one pair a column."""

    def __init__(self, low: Any, high: Any) -> None:
        lows, highs = numeric(low), numeric(high)
        if lows is None or highs is None:
            raise BadInput(f"`bounds` must be numbers, not {shown((low, high))}.", parameter="bounds")
        self.low, self.high = lows, highs
        if self.low.shape != self.high.shape or self.low.ndim > 1:
            raise BadInput(
                "`bounds` must be two numbers, or two lists with one number a column.", parameter="bounds"
            )
        if not (self.low < self.high).all() or not self.low.size:
            raise BadInput(
                "`bounds` must be numbers and each lower bound must lie below its upper bound.",
                parameter="bounds",
            )
        if not self.reach <= LARGEST or not (self.high - self.low).min() >= SMALLEST:
            raise BadInput(
                f"`bounds` must be within ±{LARGEST:g} and at least {SMALLEST:g} apart.", parameter="bounds"
            )
        self.half = (self.high - self.low) / 2.0
        self.centre: Array | float = self.low + self.half

    @property
    def reach(self) -> float:
        """The largest absolute bound."""
        return float(np.maximum(np.abs(self.low), np.abs(self.high)).max())

    def _halves(self, columns: int) -> Array:
        if self.half.ndim and self.half.size != columns:
            raise BadInput(
                f"`bounds` were declared for {self.half.size} columns, but the data has {columns}.",
                parameter="bounds",
            )
        return np.broadcast_to(self.half, columns)

    def sensitivity(self, norm: Norm, columns: int, neighbours: Neighbours) -> float:
        """Return the diagonal of the box (L2) or the sum of its sides (L1); half of it under zero-out."""
        half = self._halves(columns)
        if not self.half.ndim and columns > _SUMMED_COLUMNS:
            span = float(self.half) * (math.sqrt(columns) if norm == "l2" else columns)
        else:
            span = float(np.linalg.norm(half)) if norm == "l2" else float(half.sum())
        # A rounding of the sum must not make the sensitivity too small.
        span *= 1.0 + 2.0**-40
        return 2.0 * span if neighbours is Neighbours.REPLACE else span

    def typical(self, columns: int) -> float:
        """Return half the narrowest side."""
        return float(self._halves(columns).min())

    def cells(self, values: Array, step: float) -> Array:
        """Clip to the bounds, and round toward the centre."""
        self._halves(values.shape[1])  # refuses bounds declared for another number of columns
        limit = np.floor(self.half / step)
        if limit.max() > _MAX_CELLS:
            raise BadInput(
                f"`bounds` {2.0 * float(self.half.max()):g} apart are too wide for a grid of {step:g}; so "
                "little noise hides nothing: ask for a smaller ε, or declare bounds of similar width.",
                parameter="bounds",
            )
        with np.errstate(over="ignore"):  # what overflows is clipped
            steps = np.trunc((values - self.centre) / step)
        return np.clip(steps, -limit, limit)


def declared_domain(norm: Norm, clip: Any, bounds: Any) -> Domain:
    """Return the domain that exactly one of ``clip`` and ``bounds`` declares."""
    if (clip is None) == (bounds is None):
        raise BadInput(
            "declare exactly one bound on the records: a radius (`clip=1.0`) or the lowest and highest value "
            "(`bounds=(0, 255)`); a bound read off the data would leak it.",
            parameter="clip",
        )
    return declared_box(bounds) if clip is None else Ball(norm, positive("clip", clip))


def declared_box(bounds: Any) -> Box:
    """Return the box that ``bounds`` = (low, high) declare."""
    if isinstance(bounds, str) or not hasattr(bounds, "__len__") or len(bounds) != 2:
        raise BadInput(f"`bounds` must be a pair (low, high), not {shown(bounds)}.", parameter="bounds")
    return Box(*bounds)


def one_box(bounds: Any) -> Box:
    """Return the box that ``bounds`` = (low, high) declare for every component."""
    box = declared_box(bounds)
    if box.low.ndim:
        raise BadInput(
            f"`bounds` of tensors are two numbers for all components, not {shown(bounds)}.",
            parameter="bounds",
        )
    return box


def two_bounds(bounds: Any) -> tuple[float, float]:
    """Return (low, high) as floats, or refuse what are not one pair of bounds for all components."""
    box = one_box(bounds)
    return float(box.low), float(box.high)


class BoundedMechanism(Mechanism):
    """A mechanism for values within ``bounds``; ``outside`` says whether others are refused or clipped."""

    def check(self, X: NDArray[Any], first: int = 0) -> None:
        """Refuse what is not finite and, unless it is to be clipped, what lies outside the bounds."""
        super().check(X, first)
        low, high = two_bounds(self.bounds)
        if one_of("outside", self.outside, OUTSIDE) == "clip":
            return
        # Bounds are compared in the type of the values: 0.1 in single precision is not beyond a bound of 0.1.
        with np.errstate(over="ignore"):
            inside = (low <= X) & (high >= X)
        if not inside.all():
            row, column = np.argwhere(~inside)[0]
            raise BadInput(
                f"row {first + row + 1}, component {column + 1} lies outside the bounds {low:g} to {high:g}; "
                "declare wider bounds, or ask for clipping."
            )


def check_fits(largest: float, dtype: np.dtype[Any]) -> None:
    """Refuse to release values of up to ``largest`` in a type that cannot hold them."""
    if largest > float(np.finfo(dtype).max):
        raise BadInput(
            f"released values of up to {largest:g} do not fit in {dtype}; give the records as float64."
        )


def check_noise_fits(reach: float, scale: float, dtype: np.dtype[Any]) -> None:
    """Refuse noise of ``scale`` on values up to ``reach`` that ``dtype`` does not hold."""
    if reach + _FARTHEST * scale > float(np.finfo(dtype).max):
        raise BadInput(
            f"noise of scale {scale:g} on values up to {reach:g} does not fit in {dtype}; "
            "give the records as float64."
        )


class AdditiveMechanism(Mechanism):
    """A mechanism that is a domain, a law and a scale."""

    @abstractmethod
    def _domain(self) -> Domain:
        """Return the domain that records are clipped into."""

    @abstractmethod
    def _law(self) -> Law:
        """Return the law of the noise."""

    @abstractmethod
    def _scale(self, columns: int) -> float:
        """Return the scale of the noise, in the data's own unit, for records of ``columns`` columns."""

    def _domain_for(self, columns: int | None) -> Domain:
        """Return the domain, once known to fit records of ``columns`` columns, where that is known."""
        domain = self._domain()
        if columns is not None:
            domain.typical(columns)
        return domain

    def _relative(self, first: int, rows: int) -> Array | None:
        """Return factors in (0, 1] on the scale, one a row; None where all rows share the scale."""
        return None

    def _finish(self, stream: Stream, noised: Array, block: NDArray[Any]) -> Array:
        """Return what is released for the rows ``block`` once they are ``noised``; may draw further."""
        return noised

    def expected_error(self, columns: int) -> tuple[ExpectedError, ...]:
        """Return the deviation of the noise; that of the noisiest record where records differ."""
        return (ExpectedError.each_value(self._scale(columns) * self._law().deviation),)

    def perturb(self, X: NDArray[Any], first: int = 0) -> NDArray[Any]:
        """Return the released rows for ``X``; see :meth:`Mechanism.perturb`."""
        return self._perturb_tiers(X, first, [self._scale(X.shape[1])])[0]

    def _perturb_tiers(self, X: NDArray[Any], first: int, rungs: Sequence[float]) -> list[NDArray[Any]]:
        """Return one array of the shape of X a tier; tier i sums the noises of rungs 0…i, then rounds."""
        columns = X.shape[1]
        domain = self._domain()
        step = grid_step(rungs[0], domain.typical(columns))
        check_noise_fits(domain.reach, sum(rungs), X.dtype)
        rounded = Rounded(self._law(), [scale / step for scale in rungs])
        factors = self._relative(first, len(X))
        out = [np.empty(X.shape, dtype=X.dtype) for _ in rungs]
        is_final = type(self)._finish is AdditiveMechanism._finish and not np.any(domain.centre)

        def write(stream: Stream, rows: slice, cells: Array) -> None:
            each = None if factors is None else np.repeat(factors[rows], columns)
            if is_final:
                noised = [tier[rows].reshape(-1) for tier in out]
            else:
                noised = list(np.empty((len(out), cells.size)))
            rounded.add(stream, cells.reshape(-1), step, noised, relative=each)
            if not is_final:
                for tier, values in zip(out, noised, strict=True):
                    centred = values.reshape(cells.shape) + domain.centre
                    tier[rows] = self._finish(stream, centred, X[rows])

        self._each_stream(X, first, lambda block, at: domain.cells(finite(block, at), step), write)
        return out


def noise_multiplier(epsilon: float, delta: float) -> float:
    """Return σ over sensitivity for (ε, δ); a hair more, so that the ε read back is at most ``epsilon``."""
    return 1.0 / gaussian_mu(epsilon * (1.0 - 1e-12), delta)


class GaussianMechanism(AdditiveMechanism):
    """Base of mechanisms that add Gaussian noise."""

    delta: float
    clip: Any
    bounds: Any
    neighbours: str

    @abstractmethod
    def sigma(self, columns: int) -> float:
        """Return the least deviation of the noise on records of ``columns`` columns."""

    def _calibrated(self, domain: Domain, columns: int, multiplier: float) -> float:
        """Return ``multiplier`` times the sensitivity of ``domain``, rounded up."""
        sensitivity = domain.sensitivity("l2", columns, known_neighbours(self.neighbours))
        return math.nextafter(sensitivity * multiplier, math.inf)

    def _gaussian(
        self, multiplier: float, unit: Unit = RECORD, theorem: str = "analytic Gaussian"
    ) -> Guarantee:
        """Return what noise of ``multiplier`` times the sensitivity proves of ``unit``."""
        return Guarantee.gaussian(
            multiplier,
            unit=unit,
            neighbours=known_neighbours(self.neighbours),
            theorem=theorem,
            at_delta=delta_between(self.delta),
        )

    def _domain(self) -> Domain:
        return declared_domain("l2", self.clip, self.bounds)

    def _law(self) -> Law:
        return NORMAL

    def _scale(self, columns: int) -> float:
        return self.sigma(columns)


@dataclass(eq=False, repr=False)
class Gaussian(GaussianMechanism):
    """Adds Gaussian noise to each record, clipped to an L2 ball (``clip``) or a box (``bounds``).

    ``epsilon`` > 0 and 0 < ``delta`` < 1 are the promise for one record; ``neighbours`` is ``"replace"``
    or ``"zero-out"``. ``guarantee().epsilon(delta)`` is at most ``epsilon``, and less by 1e-12 of it.

    **Guarantee.** (ε, δ) under replace or zero-out: analytic Gaussian, Balle & Wang 2018.
    """

    kinds: ClassVar[tuple[str, ...]] = ("array", "table")
    default_for: ClassVar[tuple[str, ...]] = ("array", "table")
    units = ("record",)

    epsilon: Epsilon = REQUIRED
    delta: Delta = DELTA
    clip: Clip = None
    _: KW_ONLY
    bounds: Bounds = None
    neighbours: NeighboursName = RECORDS.neighbours
    randomness: RandomSource = None

    def guarantee(self, columns: int | None = None) -> Guarantee:
        """Return ε at δ for one record."""
        self._domain_for(columns)
        return self._gaussian(self._multiplier())

    def claim(self) -> Claim | None:
        """Return the mechanism's own theorem: here claim and proof agree."""
        return self._claimed(
            "(ε, δ)-DP for noise calibrated to the L2 sensitivity", "Balle & Wang 2018, theorem 8"
        )

    def sigma(self, columns: int) -> float:
        """Return the deviation of the noise on each coordinate of records with ``columns`` columns."""
        return self._calibrated(self._domain(), columns, self._multiplier())

    def _multiplier(self) -> float:
        return noise_multiplier(positive("epsilon", self.epsilon), delta_between(self.delta))


@dataclass(eq=False, repr=False)
class Laplace(AdditiveMechanism):
    """Adds Laplace noise to each record, clipped to an L1 ball (``clip``) or a box (``bounds``).

    ``epsilon`` > 0 is the promise for one record, with δ = 0.

    **Guarantee.** ε under replace or zero-out: Dwork, McSherry, Nissim & Smith 2006.
    """

    kinds = ("array", "table")
    units = ("record",)

    epsilon: Epsilon = REQUIRED
    clip: Clip = None
    _: KW_ONLY
    bounds: Bounds = None
    neighbours: NeighboursName = RECORDS.neighbours
    randomness: RandomSource = None

    def guarantee(self, columns: int | None = None) -> Guarantee:
        """Return the pure ε of one record."""
        self._domain_for(columns)
        return Guarantee.laplace(self._multiplier(), neighbours=known_neighbours(self.neighbours))

    def claim(self) -> Claim | None:
        """Return the mechanism's own theorem: here claim and proof agree."""
        return self._claimed(
            "ε-DP for noise calibrated to the L1 sensitivity",
            "Dwork, McSherry, Nissim & Smith 2006, proposition 1",
        )

    def scale(self, columns: int) -> float:
        """Return the scale of the noise on each coordinate of records with ``columns`` columns."""
        sensitivity = self._domain().sensitivity("l1", columns, known_neighbours(self.neighbours))
        return math.nextafter(sensitivity * self._multiplier(), math.inf)

    def _multiplier(self) -> float:
        """Return 1/ε, or the next number where the ε read back from it would exceed ``epsilon``."""
        epsilon = positive("epsilon", self.epsilon)
        multiplier = 1.0 / epsilon
        return multiplier if 1.0 / multiplier <= epsilon else math.nextafter(multiplier, math.inf)

    def _domain(self) -> Domain:
        return declared_domain("l1", self.clip, self.bounds)

    def _law(self) -> Law:
        return LAPLACE

    def _scale(self, columns: int) -> float:
        return self.scale(columns)


@dataclass(eq=False, repr=False)
class Personalised(Gaussian):
    """Gaussian noise with a public ``epsilon`` for each record: one number for all, or one a row.

    **Guarantee.** ``guarantee_of(i)`` for record i, and the largest ε for all, under replace or zero-out:
    analytic Gaussian.
    """

    kinds = ("array",)

    epsilon: Annotated[
        Any,
        Parameter(
            "One public privacy budget for all records, or one for each.", symbol="ε", file="epsilon_file"
        ),
    ] = REQUIRED

    def guarantee(self, columns: int | None = None) -> Guarantee:
        """Return that of the record with the largest ε, which holds for every record."""
        self._domain_for(columns)
        return self._guarantee_at(float(self._budgets().max()))

    def guarantee_of(self, record: int) -> Guarantee:
        """Return the guarantee of one record, counted from 0."""
        budgets = self._budgets()
        if not 0 <= record < budgets.size and budgets.size > 1:
            raise BadInput(f"there is no record {record}; epsilon was declared for {budgets.size} records.")
        self._domain()
        return self._guarantee_at(float(budgets[record if budgets.size > 1 else 0]))

    def claim(self) -> Claim | None:
        """Return personalised DP as its authors define it."""
        return self._claimed(
            "(εᵢ, δ)-DP for record i; the largest εᵢ is shown",
            "Jorgensen, Yu & Cormode 2015, definition 4",
            epsilon=float(self._budgets().max()),
        )

    def check(self, X: NDArray[Any], first: int = 0) -> None:
        """Refuse also rows without an ε; see :meth:`Mechanism.check`."""
        super().check(X, first)
        self._require_budgets(first + X.shape[0])

    def _records(self, X: Any, *, reset: bool) -> NDArray[Any]:
        data = super()._records(X, reset=reset)
        declared = self._budgets().size
        if declared not in (1, data.shape[0]):
            raise BadInput(
                f"`epsilon` was declared for {declared} records, but the data has {data.shape[0]}.",
                parameter="epsilon",
            )
        return data

    def _require_budgets(self, rows: int) -> None:
        declared = self._budgets().size
        if 1 < declared < rows:
            raise BadInput(
                f"`epsilon` was declared for {declared} records, but the data has more.", parameter="epsilon"
            )

    def _budgets(self) -> Array:
        if isinstance(self.epsilon, Real):
            return np.array([positive("epsilon", self.epsilon)])
        budgets = positives(self.epsilon)
        if budgets is None:
            raise BadInput(
                f"`epsilon` must be one positive number, or one for each record, not {shown(self.epsilon)}.",
                parameter="epsilon",
            )
        return budgets

    def _guarantee_at(self, epsilon: float) -> Guarantee:
        return self._gaussian(noise_multiplier(epsilon, delta_between(self.delta)))

    def _multiplier(self) -> float:
        """Return that of the most private record, whose σ is the largest: others are fractions of it."""
        return noise_multiplier(float(self._budgets().min()), delta_between(self.delta))

    def _relative(self, first: int, rows: int) -> Array | None:
        budgets = self._budgets()
        if budgets.size == 1:
            return None
        self._require_budgets(first + rows)
        levels, own = np.unique(budgets[first : first + rows], return_inverse=True)
        largest = self._multiplier()
        factors = np.array([noise_multiplier(float(level), self.delta) / largest for level in levels])
        # A hair up, so that rounding never leaves a record with less noise than its ε asks for.
        return np.asarray(np.minimum(factors * (1.0 + 2.0**-50), 1.0)[own])


@dataclass(eq=False, repr=False)
class AdditiveNoise(Mechanism):
    """Adds Gaussian noise of standard deviation ``scale`` to every value; proves nothing.

    **Guarantee.** Nothing: records are not clipped.
    """

    kinds = ("array",)

    scale: Annotated[float, Parameter("Standard deviation of the noise.", symbol="σ")] = 0.1
    _: KW_ONLY
    randomness: RandomSource = None

    def guarantee(self, columns: int | None = None) -> Guarantee:
        """Return that nothing is proven."""
        positive("scale", self.scale)
        return Guarantee.nothing("records are not clipped, so their distance has no bound")

    def expected_error(self, columns: int) -> tuple[ExpectedError, ...]:
        """Return the deviation of the noise."""
        return (ExpectedError.each_value(positive("scale", self.scale)),)

    def perturb(self, X: NDArray[Any], first: int = 0) -> NDArray[Any]:
        """Return the released rows for ``X``; see :meth:`Mechanism.perturb`."""
        scale = positive("scale", self.scale)
        step = grid_step(scale, scale)
        rounded = Rounded(NORMAL, [scale / step])
        out = np.empty(X.shape, dtype=X.dtype)

        def write(stream: Stream, rows: slice, values: NDArray[np.float64]) -> None:
            noise = rounded.draw(stream, values.size)[0].reshape(values.shape)
            with np.errstate(over="ignore"):
                noised = values + noise * step
            out[rows] = held(noised, X.dtype)

        self._each_stream(X, first, finite, write, every_bit=True)
        return out
