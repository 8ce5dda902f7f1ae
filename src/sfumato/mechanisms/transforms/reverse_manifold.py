"""Reverse manifold embedding, and the inverse that shows how little it hides.

*TADP-RME*, equation 3: each value x becomes the pair (x cos αx, x sin αx). The paper calls the map
non-injective; it is not: r = √(a² + b²) is |x|, and the sign of x is that of a·cos(αr), wherever
cos(αr) ≠ 0. A secret column order does not help either, since a true pair satisfies b = r sin(αr) in
every record. So the embedding is post-processing and adds nothing to the proven column.
"""

from __future__ import annotations

import hashlib
from numbers import Real
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.mechanisms.base import held, numbers
from sfumato.mechanisms.parameters import LARGEST, SMALLEST
from sfumato.mechanisms.registry import Parameter, shown
from sfumato.mechanisms.transforms.transform import Transform
from sfumato.noise import Stream, random_permutation, secret_to_send
from sfumato.privacy import Claim

__all__ = ["ReverseManifold"]


class _Unprinted(bytes):
    """Bytes that neither their repr nor a pickle shows."""

    def __repr__(self) -> str:
        return "<secret>"

    __str__ = __repr__

    def __reduce__(self) -> tuple[Any, ...]:
        return _Unprinted, (secret_to_send(bytes(self), "the key of a column order"),)

    def __copy__(self) -> _Unprinted:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> _Unprinted:
        return self


class ReverseManifold(Transform):
    """x ↦ (x cos αx, x sin αx), (n, d) to (n, 2d); with a secret ``key`` the columns are shuffled.

    Columns 0…d−1 hold the cosines and d…2d−1 the sines, before shuffling. ``inverse`` undoes it.

    **Guarantee.** On raw data nothing; on a release that of the release, by post-processing.
    """

    kinds = ()
    units = ()

    def __init__(
        self,
        alpha: Annotated[float, Parameter("Angle for each unit of a value.", symbol="α")] = 1.0,
        key: Annotated[bytes | None, Parameter("Secret by which columns are shuffled.")] = None,
    ) -> None:
        self.alpha = alpha
        self.key = key

    @property
    def key(self) -> bytes | None:
        """The secret of the column order; equal to the bytes that were given, and never printed."""
        key: bytes | None = self.__dict__["key"]
        return key

    @key.setter
    def key(self, value: bytes | None) -> None:
        # scikit-learn prints parameters by their repr, in pipelines and in notebooks.
        self.__dict__["key"] = _Unprinted(value) if type(value) is bytes else value

    def claim(self) -> Claim | None:
        """The paper's proposition 6 and theorem 3, neither of which holds."""
        return Claim(
            text="non-injective, with a search space of (2d)!/(2^d d!) for a reader without the column order",
            source="TADP-RME, proposition 6 and theorem 3",
            epsilon=None,
            delta=None,
        )

    def caution(self) -> str | None:
        """That the embedding can be inverted."""
        return "reverse manifold embedding can be inverted exactly and hides nothing from an informed reader"

    def inverse(self, Z: Any) -> NDArray[Any]:
        """The rows that were embedded, from rows of 2d columns; exact up to rounding.

        Where cos(αx) = 0 both signs of x have the same image and the positive one is returned. Nearer to
        such a point than the rounding of αx the sign is uncertain.
        """
        from sklearn.utils.validation import check_is_fitted

        check_is_fitted(self, "n_features_in_")
        Z = numbers(Z)
        columns = self.n_features_in_
        if Z.shape[1] != 2 * columns:
            raise BadInput(f"expected {2 * columns} columns to invert, got {Z.shape[1]}.")
        restored = np.empty_like(Z)
        restored[:, self._order(columns)] = Z
        a, b = (part.astype(np.float64) for part in (restored[:, :columns], restored[:, columns:]))
        with np.errstate(over="ignore"):
            size = held(np.hypot(a, b), np.dtype(np.float64))
        negative = a * np.cos(self._angle(size)) < 0
        return held(np.where(negative, -size, size), Z.dtype)

    inverse_transform = inverse

    def _map(self, X: NDArray[Any]) -> NDArray[Any]:
        angle = self._angle(X.astype(np.float64))
        embedded = np.concatenate([X * np.cos(angle), X * np.sin(angle)], axis=1)
        return embedded[:, self._order(X.shape[1])].astype(X.dtype)

    def _angle(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """αx; what is larger than any number is the largest, whose cosine is as good as any."""
        with np.errstate(over="ignore"):
            return held(self._alpha() * values, np.dtype(np.float64))

    def _alpha(self) -> float:
        number = isinstance(self.alpha, Real) and not isinstance(self.alpha, bool)
        if not number or not SMALLEST <= abs(self.alpha) <= LARGEST:
            raise BadInput(
                f"`alpha` must be a number and not zero, not {shown(self.alpha)}.", parameter="alpha"
            )
        return float(self.alpha)

    def _order(self, columns: int) -> NDArray[np.intp]:
        """Which column stands where: the identity, or a permutation known to holders of the key."""
        if self.key is None:
            return np.arange(2 * columns)
        if not isinstance(self.key, bytes) or len(self.key) < 16:
            raise BadInput("the key of a secret column order must be at least 16 random bytes.")
        secret = hashlib.sha256(b"sfumato column order\0" + self.key).digest()
        return random_permutation(Stream(secret), 2 * columns)

    def _public(self) -> dict[str, Any]:
        return {"alpha": self._alpha(), "key": None if self.key is None else "secret"}

    def __repr__(self) -> str:
        order = "" if self.key is None else ", secret column order"
        return f"ReverseManifold(alpha={self.alpha}{order})"
