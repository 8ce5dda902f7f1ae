"""What every transform is: deterministic, with public parameters, and free when applied to a release."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sfumato.mechanisms import Release
from sfumato.mechanisms.base import Estimator, check_finite, records
from sfumato.privacy import RECORD, Claim, Guarantee, Neighbours, Statement

__all__ = ["Transform"]


class Transform(Estimator, ABC):
    """Base of all transforms: a deterministic map of rows.

    **Guarantee.** ``apply(release)`` is post-processing: the guarantee of the release passes through
    unchanged. ``release(X)`` of raw data proves nothing, and says so.
    """

    @abstractmethod
    def _map(self, X: NDArray[Any]) -> NDArray[Any]:
        """The transformed rows of a checked array."""

    def claim(self) -> Claim | None:
        """What the method's authors say, or None."""
        return None

    def caution(self) -> str | None:
        """What the transform does not do, in a sentence for the statement; None where there is no doubt."""
        return None

    def apply(self, release: Release) -> Release:
        """The transformed release; what was proven of it before is proven of it now."""
        value = self.fit(release.value).transform(release.value)
        return Release(value, self.state(release.statement), release.provenance)

    def state(self, statement: Statement) -> Statement:
        """``statement`` of a release as it reads after this transform: the same, with a note."""
        name = f"then {self!r}: post-processing, the guarantee passes through unchanged"
        return replace(statement, notes=(*statement.notes, name, *filter(None, [self.caution()])))

    def release(self, X: Any) -> Release:
        """The transformed raw data as a release that proves nothing."""
        statement = Statement(
            mechanism=type(self).__name__,
            parameters=self._public(),
            claimed=self.claim(),
            proven=Guarantee.nothing(
                "a deterministic function of each record", unit=RECORD, neighbours=Neighbours.REPLACE
            ),
            notes=tuple(filter(None, [self.caution()])),
        )
        value = self.fit(X).transform(X)
        return Release(value, statement, {"rows": value.shape[0], "columns": value.shape[1]})

    def fit(self, X: Any, y: Any = None) -> Self:
        """Remember the number of columns; nothing else is taken from X."""
        check_finite(records(self, X, reset=True))
        return self

    def transform(self, X: Any) -> NDArray[Any]:
        """The transformed rows, as a new array."""
        from sklearn.utils.validation import check_is_fitted

        check_is_fitted(self, "n_features_in_")
        data = records(self, X, reset=False)
        check_finite(data)
        return self._map(data)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    def _public(self) -> dict[str, Any]:
        """The parameters that may be printed, as JSON values."""
        given = self.get_params(deep=False)
        return {name: v.item() if isinstance(v, np.generic) else v for name, v in given.items()}
