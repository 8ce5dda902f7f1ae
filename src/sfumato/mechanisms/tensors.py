"""Tensors as records: any order, flattened to rows for the noise and given back in their own shape.

A mechanism for tensors states two guarantees: for one component, all others being equal, and for the whole
tensor. Which of them is the headline is the caller's choice; the statement holds both.

Structure that survives the noise: symmetric tensors, and projections onto what a value must be.

**Guarantee.** ``SymmetricTensors`` shows its inner mechanism one number for each independent component: for a
tensor of order k and side d, one for each multiset of k indices, C(d+k−1, k) of them. What is proven is what
the inner mechanism proves of that shorter vector; mirroring it is post-processing. A tensor and its vector
determine each other, so the units are the same: neighbouring tensors are neighbouring vectors.

For mechanisms on an L2 ball a component that stands in m places is multiplied by √m (√2 off the diagonal of a
matrix), so that the vector's L2 norm is the tensor's Frobenius norm and ``clip`` means the same for both; on
an L1 ball by m. The noise in the tensor is the inner noise divided by that weight. With declared ``bounds``
values are left as they are, and a component, where that is the unit, is an independent component: all its
mirrored places at once.

A projection is post-processing of a release: the guarantee passes through unchanged. It moves a value to the
nearest one of a declared convex set, which brings it closer to the true value if that lies in the set.

**Edge cases.** Tensors that are not symmetric are refused (differences below 10⁻⁹ of the largest entry are
rounding; then the component with ordered indices counts). Released tensors are symmetric bit for bit.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import lru_cache
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.mechanisms.additive import Laplace
from sfumato.mechanisms.base import ExpectedError, Mechanism, Release, check_visible, finite, held
from sfumato.mechanisms.parameters import numeric, one_of, positive, whole
from sfumato.mechanisms.registry import Parameter, shown
from sfumato.privacy import Claim, Guarantee

__all__ = ["UNITS", "Projection", "SymmetricTensors", "TensorMechanism"]

#: What may change between two neighbouring tensors: one component, or all of them.
UNITS = ("component", "tensor")
TensorUnit = Annotated[str, Parameter("Part of a tensor that ε is for.", choices=UNITS)]
TensorShape = Annotated[
    Sequence[int] | None,
    Parameter("Shape of one tensor; that of a row unless given.", arity=None, doors=("python",)),
]


class TensorMechanism(Mechanism):
    """Base of mechanisms for tensors of any order.

    Subclasses hold ``unit`` (the headline), and ``shape``, the shape of one tensor, or None where tensors
    are rows. ``release`` accepts tensors of shape (n, …) of any order and gives them back in that shape.
    """

    unit: str
    shape: Sequence[int] | None

    @abstractmethod
    def _proven(self, unit: str, size: int) -> Guarantee:
        """What is proven of ``unit``, one of ``UNITS``, for tensors of ``size`` components."""

    def guarantee(self, columns: int | None = None) -> Guarantee:
        """What is proven of the unit that was asked for; that of a tensor depends on its size."""
        unit = one_of("unit", self.unit, UNITS)
        return self._proven(unit, self._size(columns, needed=unit == "tensor"))

    def release(self, X: Any) -> Release:
        """A release of the tensors X, of shape (n, …); each X[i] is one tensor."""
        rows, shape = flattened(X)
        shaped = self if self.shape is not None or len(shape) == 1 else self._with(shape=shape)
        made = super(TensorMechanism, shaped).release(rows)
        same = made.value.shape == rows.shape
        return replace(made, value=made.value.reshape(len(rows), *shape)) if same else made

    def _with(self, **parameters: Any) -> TensorMechanism:
        return type(self)(**(self.get_params(deep=False) | parameters))

    def _also(self, columns: int | None) -> tuple[Guarantee, ...]:
        size = tensor_size(self.shape) if columns is None else columns
        if size is None:
            return ()
        return tuple(self._proven(unit, size) for unit in UNITS if unit != self.unit)

    def _size(self, columns: int | None, *, needed: bool) -> int:
        """The number of components of one tensor; 1 where it is neither known nor needed."""
        declared = tensor_size(self.shape)
        if declared is not None and columns is not None and declared != columns:
            raise BadInput(
                f"tensors of shape {tuple(self.shape or ())} have {declared} components, but the data has "
                f"{columns}."
            )
        size = columns if declared is None else declared
        if size is None and needed:
            raise BadInput(
                "a guarantee per tensor depends on its size: give `columns` or `shape`.", parameter="shape"
            )
        return 1 if size is None else size


def tensor_size(shape: Any) -> int | None:
    """How many components a tensor of ``shape`` has; None where no shape is given."""
    if shape is None:
        return None
    sides = list(shape) if isinstance(shape, Sequence) and not isinstance(shape, str) else []
    if not sides or any(isinstance(s, bool) or not isinstance(s, int | np.integer) or s < 1 for s in sides):
        raise BadInput(
            f"`shape` must hold the sides of one tensor, as in (28, 28), not {shown(shape)}.",
            parameter="shape",
        )
    return math.prod(map(int, sides))


def flattened(X: Any) -> tuple[NDArray[Any], tuple[int, ...]]:
    """X of shape (n, …) as rows (n, d), and the shape of one tensor; X is not modified."""
    check_visible(X, "the tensors")
    try:
        array = np.asarray(X)
    except ValueError:
        raise BadInput("the tensors differ in shape; every tensor must have the same shape.") from None
    if array.ndim < 2 or not array.size:
        raise BadInput(f"expected tensors as an array (n, …) that is not empty, got shape {array.shape}.")
    return array.reshape(len(array), -1), array.shape[1:]


Array = NDArray[np.float64]
Places = NDArray[np.intp]

_ROUNDING = 1e-9
_WEIGHTS = ("auto", "l2", "l1", "none")
_MOST_COMPONENTS = 1 << 24


@dataclass(eq=False, repr=False)
class SymmetricTensors(Mechanism):
    """Releases symmetric tensors of ``order`` k, (n, d, …, d) or as rows (n, dᵏ), by ``mechanism``.

    ``weights`` is ``"l2"``, ``"l1"`` or ``"none"``: what an independent component is multiplied by (see
    above); ``"auto"`` takes what fits the mechanism.

    **Guarantee.** That of ``mechanism``, on the independent components; the rest is post-processing.
    """

    kinds = ()

    mechanism: Annotated[
        Mechanism | None, Parameter("Mechanism that releases the independent components.")
    ] = None
    _: KW_ONLY
    order: Annotated[int, Parameter("Order of the tensors.")] = 2
    weights: Annotated[
        str, Parameter("What an independent component is multiplied by.", choices=_WEIGHTS)
    ] = "auto"

    def guarantee(self, columns: int | None = None) -> Guarantee:
        """What the mechanism proves of the independent components."""
        return self._inner().guarantee(None if columns is None else len(self._components(columns)[0]))

    def claim(self) -> Claim | None:
        """What is claimed for the mechanism."""
        return self._inner().claim()

    def _nested(self) -> dict[str, Mechanism]:
        return {"mechanism": self._inner()}

    def expected_error(self, columns: int) -> tuple[ExpectedError, ...]:
        """The root mean square error over all places; of mechanisms with equal noise on all components."""
        first, _, times = self._components(columns)
        weight = self._weight(times)
        shrunk = math.sqrt(float((times / weight**2).sum()) / columns)
        errors = self._inner().expected_error(len(first))
        return tuple(replace(error, value=error.value * shrunk) for error in errors if "value" in error.of)

    def block_rows(self, columns: int) -> int:
        """That of the mechanism."""
        return self._inner().block_rows(len(self._components(columns)[0]))

    def check(self, X: NDArray[Any], first: int = 0) -> None:
        """Refuse what is not finite or not symmetric, and what the mechanism refuses."""
        super().check(X, first)
        self._inner().check(self._reduced(X, first), first)

    def prepare(self, columns: int, dtype: np.dtype[Any]) -> None:
        """Refuse what the mechanism could not draw; see :meth:`Mechanism.prepare`."""
        _, mirrored, times = self._components(columns)
        inner = self._inner()._on_trial()
        made = inner.perturb(np.zeros((1, len(times)), dtype=dtype))
        self._mirrored(made, mirrored, times)

    def release(self, X: Any) -> Release:
        """A release of the tensors X, of shape (n, d, …, d) or (n, dᵏ), in the shape they came in."""
        rows, shape = flattened(X)
        if len(shape) > 1 and (len(shape) != self._order() or len(set(shape)) > 1):
            raise BadInput(f"tensors of order {self.order} have as many equal sides, not the shape {shape}.")
        made = super().release(rows)
        return replace(made, value=made.value.reshape(len(rows), *shape))

    def perturb(self, X: NDArray[Any], first: int = 0) -> NDArray[Any]:
        """The released rows for ``X``; see :meth:`Mechanism.perturb`."""
        _, mirrored, times = self._components(X.shape[1])
        noised = self._inner().perturb(self._reduced(X, first), first)
        return np.asarray(self._mirrored(noised, mirrored, times), dtype=X.dtype)

    def _mirrored(self, noised: NDArray[Any], mirrored: Places, times: Array) -> Array:
        """Every component in each of its places, its weight undone."""
        if noised.shape[1] != len(times):
            raise BadInput("symmetric tensors need a mechanism that releases as many values as it was given.")
        return np.asarray((noised / self._weight(times))[:, mirrored])

    def _reduced(self, X: NDArray[Any], first: int) -> NDArray[Any]:
        """The independent components of each row, weighted, (n, components)."""
        places, mirrored, times = self._components(X.shape[1])
        values = finite(X, first)
        parts = values[:, places]
        with np.errstate(over="ignore"):  # of values that are far apart indeed
            apart = np.abs(values - parts[:, mirrored]).max(axis=1)
        crooked = np.flatnonzero(apart > _ROUNDING * np.abs(values).max(axis=1))
        if crooked.size:
            raise BadInput(
                f"the tensor in row {first + crooked[0] + 1} is not symmetric; make it symmetric first, or "
                "release it by the mechanism itself."
            )
        with np.errstate(over="ignore"):
            weighted = parts * self._weight(times)
        return held(weighted, X.dtype)

    def _also(self, columns: int | None) -> tuple[Guarantee, ...]:
        return self._inner()._also(None if columns is None else len(self._components(columns)[0]))

    def _notes(self) -> tuple[str, ...]:
        return self._inner()._notes()

    def _components(self, columns: int) -> tuple[Places, Places, Array]:
        order = self._order()
        side = round(columns ** (1.0 / order))
        if side**order != columns:
            raise BadInput(f"{columns} columns are no tensor of order {order} with equal sides.")
        return _components(side, order)

    def _weight(self, times: Array) -> Array:
        inner, asked = self._inner(), one_of("weights", self.weights, _WEIGHTS)
        bounded = getattr(inner, "bounds", None) is not None
        if bounded and asked in ("l1", "l2"):
            raise BadInput(
                "`weights` would move values out of the declared bounds; use 'auto' or 'none'.",
                parameter="weights",
            )
        if asked == "none" or bounded:
            return np.ones_like(times)
        return times if asked == "l1" or (asked == "auto" and isinstance(inner, Laplace)) else np.sqrt(times)

    def _order(self) -> int:
        return whole("order", self.order)

    def _inner(self) -> Mechanism:
        if not isinstance(self.mechanism, Mechanism):
            raise BadInput(
                f"`mechanism` must be a mechanism such as sf.Gaussian(…), not {shown(self.mechanism)}.",
                parameter="mechanism",
            )
        return self.mechanism

    def _randomness(self) -> Any:
        return self._inner()._randomness()


@lru_cache(maxsize=8)
def _components(side: int, order: int) -> tuple[Places, Places, Array]:
    """Where each independent component stands first, which one stands in each place, and how often each."""
    if side**order > _MOST_COMPONENTS:
        raise BadInput(f"tensors of {side**order:,} components are more than {_MOST_COMPONENTS:,}.")
    sorted_indices = np.sort(np.stack(np.unravel_index(np.arange(side**order), (side,) * order)), axis=0)
    home = np.ravel_multi_index(tuple(sorted_indices), (side,) * order)
    places, mirrored, times = np.unique(home, return_inverse=True, return_counts=True)
    return places, mirrored, times.astype(np.float64)


def onto_symmetric(X: Any) -> Array:
    """Tensors (n, d, …, d) with mirrored components replaced by their mean: the nearest symmetric ones."""
    rows, shape = _rows(X)
    if len(set(shape)) > 1:
        raise BadInput(f"only tensors with equal sides can be symmetric, not those of shape {shape}.")
    _, mirrored, times = _components(shape[0], len(shape))
    starts = np.cumsum(times).astype(np.intp) - times.astype(np.intp)
    sums = np.add.reduceat(rows[:, np.argsort(mirrored, kind="stable")], starts, axis=1)
    return np.asarray((sums / times)[:, mirrored].reshape(len(rows), *shape))


def onto_fixed_sum(X: Any, total: float) -> Array:
    """The nearest tensors whose components sum to ``total``, (n, …): every component moves equally."""
    rows, shape = _rows(X)
    moved = rows + (_total(total) - rows.sum(axis=1, keepdims=True)) / rows.shape[1]
    return np.asarray(moved.reshape(len(rows), *shape))


def onto_nonnegative(X: Any) -> Array:
    """The nearest tensors without negative components, (n, …)."""
    rows, shape = _rows(X)
    return np.asarray(np.maximum(rows, 0.0).reshape(len(rows), *shape))


def onto_simplex(X: Any, total: float = 1.0) -> Array:
    """The nearest tensors, (n, …), without negative components that sum to ``total`` > 0.

    With components sorted downwards, the nearest point is max(x − τ, 0), τ being the mean excess of the
    longest head whose last component stays positive (Held, Wolfe & Crowder 1974): O(d log d) a tensor.
    """
    rows, shape = _rows(X)
    wanted = positive("total", total)
    # A shift of all components changes nothing; with the largest at 0, what stays positive is small.
    moved = rows - rows.max(axis=1, keepdims=True)
    down = -np.sort(-moved, axis=1)
    excess = (np.cumsum(down, axis=1) - wanted) / np.arange(1.0, rows.shape[1] + 1.0)
    last = (down > excess).cumsum(axis=1).argmax(axis=1)
    kept = np.maximum(moved - np.take_along_axis(excess, last[:, None], axis=1), 0.0)
    return np.asarray(kept.reshape(len(rows), *shape))


def onto_positive_semidefinite(X: Any) -> Array:
    """The nearest symmetric matrices, (n, d, d), without negative eigenvalues."""
    rows, shape = _rows(X)
    if len(shape) != 2 or shape[0] != shape[1]:
        raise BadInput(f"only square matrices can be positive semidefinite, not those of shape {shape}.")
    values, vectors = np.linalg.eigh(onto_symmetric(rows.reshape(len(rows), *shape)))
    return onto_symmetric((vectors * np.maximum(values, 0.0)[:, None, :]) @ vectors.swapaxes(1, 2))


_PROJECTIONS: dict[str, Callable[..., Array]] = {
    "symmetric": onto_symmetric,
    "fixed-sum": onto_fixed_sum,
    "nonnegative": onto_nonnegative,
    "simplex": onto_simplex,
    "positive-semidefinite": onto_positive_semidefinite,
}


@dataclass(frozen=True)
class Projection:
    """A projection of releases; ``total`` is for ``"fixed-sum"`` and ``"simplex"`` alone.

    **Guarantee.** That of the release that is projected, by post-processing.
    """

    kinds = ()
    units = ()

    onto: str
    total: float | None = None

    def __post_init__(self) -> None:
        summed = one_of("onto", self.onto, tuple(_PROJECTIONS)) in ("fixed-sum", "simplex")
        if summed != (self.total is not None):
            raise BadInput(f"a projection onto {self.onto} takes {'a' if summed else 'no'} total.")

    def __call__(self, X: Any) -> Array:
        """The projected tensors of an array."""
        return _PROJECTIONS[self.onto](X, *(() if self.total is None else (self.total,)))

    def apply(self, release: Release) -> Release:
        """The projected release; what was proven of it before is proven of it now."""
        note = f"then projected onto {self.onto}" + ("" if self.total is None else f" {self.total:g}")
        note += ": post-processing, the guarantee passes through unchanged"
        statement = replace(release.statement, notes=(*release.statement.notes, note))
        return Release(self(release.value), statement, release.provenance)


def _rows(X: Any) -> tuple[Array, tuple[int, ...]]:
    """X of shape (n, …) as rows of finite float64, and the shape of one tensor."""
    rows, shape = flattened(X)
    values = numeric(rows)
    if values is None:
        raise BadInput(f"tensors must be numbers, not values of type {rows.dtype}.")
    return finite(values), shape


def _total(total: Any) -> float:
    value = numeric(total)
    if value is None or value.ndim or not np.isfinite(value):
        raise BadInput(f"`total` must be a finite number, not {shown(total)}.", parameter="total")
    return float(value)
