"""``Learner``, the base of all classifiers of features; checks of their inputs; notes of their statements.

Features (n, d) and labels (n,) are checked before anything is paid or drawn. Statements of learners note that
everything used beside the records is public, or was fixed before.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import NotFittedError

import sfumato
from sfumato.errors import BadInput
from sfumato.learners.warnings_before_training import NoisyRelease, forewarn, forewarnings
from sfumato.mechanisms import check_visible, shown
from sfumato.noise import Keyed, Randomness, Secure
from sfumato.privacy import Claim, Guarantee, Statement

__all__ = ["Learner", "checked_examples", "checked_features"]

Report = Callable[[str, float], None]

Floats = NDArray[np.float64]
Labels = NDArray[np.int64]


def as_array(what: str, given: Any) -> NDArray[Any]:
    """Return ``given`` as an array; ``what`` names it in the error about rows of different lengths."""
    check_visible(given, what)
    try:
        return np.asarray(given)
    except ValueError:
        raise BadInput(f"{what} with rows of different lengths were given: an array is needed.") from None


def checked_features(X: Any, dimension: int | None = None) -> NDArray[np.floating]:
    """Return ``X`` as finite floats (n, d), float32 or float64; ``dimension`` is the d that is needed."""
    given = as_array("features", X)
    if given.dtype.kind not in "uif" or given.ndim != 2 or not given.size:
        raise BadInput(
            f"features of shape {given.shape} and type {given.dtype} were given: numbers (n, d) are needed."
        )
    if dimension is not None and given.shape[1] != dimension:
        raise BadInput(f"{given.shape[1]} features were given, and {dimension} were fitted.")
    finite = np.isfinite(given).all(axis=1)
    if not finite.all():
        raise BadInput(f"the features of record {int(np.flatnonzero(~finite)[0])} are not all finite.")
    return given if given.dtype in (np.float32, np.float64) else given.astype(np.float64)


def whole_number(name: str, value: Any, least: int = 1) -> int:
    """Return ``value`` if it is a whole number of ``least`` or more."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise BadInput(
            f"`{name}` was {shown(value)}: a whole number, {least} or more, is needed.", parameter=name
        )
    return int(value)


def checked_classes(classes: Any) -> int:
    """Return the number of classes, two or more."""
    return whole_number("classes", classes, 2)


def checked_examples(X: Any, y: Any, classes: int) -> tuple[NDArray[np.floating], Labels]:
    """Return features and their labels, whole numbers 0…``classes``−1."""
    features, labels = checked_features(X), as_array("labels", y)
    if labels.shape != (len(features),) or labels.dtype.kind not in "ui":
        raise BadInput(
            f"labels of shape {labels.shape} and type {labels.dtype} were given: one whole number for each "
            f"of {len(features)} records is needed."
        )
    wrong = np.flatnonzero((labels < 0) | (labels >= classes))
    if wrong.size:
        raise BadInput(f"the label of record {wrong[0]} is not one of 0 to {classes - 1}.")
    return features, labels.astype(np.int64)


def checked_number(records: int | None, given: int) -> int:
    """Return the public number of records, at least as many as were ``given``."""
    if records is None:
        return given
    if isinstance(records, bool) or not isinstance(records, int) or records < given:
        raise BadInput(
            f"`records` was {records!r}: a whole number, at least as many as are given, is needed.",
            parameter="records",
        )
    return records


def public_notes(prior: str = "all parameters") -> tuple[str, str]:
    """Return notes on the number of records, which is public, and on what is ``prior`` to them, in words."""
    return (
        "the number of records is public",
        f"{prior} must not have been learned from these records",
    )


class NotFitted(BadInput, NotFittedError):  # type: ignore[misc]
    """A learner was asked before it was fitted; scikit-learn knows it as its own error too."""


class Learner(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier of features (n, d) with labels 0…``classes``−1, in scikit-learn's manner.

    All parameters of the constructor are public and are attributes; what ``fit`` learns has names that end
    in an underscore. ``randomness`` is the operating system's unless ``Seeded(…)``.
    """

    classes: int
    randomness: Randomness | None
    #: How many features a record may have; None where there is no limit.
    most_features: ClassVar[int | None] = None

    @abstractmethod
    def fit(self, X: Any, y: Any, *, report: Report | None = None) -> Self:
        """Learn from features ``X`` (n, d) and labels ``y`` (n,); spends the guarantee."""

    @abstractmethod
    def predict_proba(self, X: Any) -> Floats:
        """Return class probabilities (n, classes); costs nothing more."""

    @abstractmethod
    def guarantee(self) -> Guarantee:
        """Return that of one record for all that ``fit`` learns; a function of parameters alone."""

    @abstractmethod
    def tensors(self) -> dict[str, NDArray[Any]]:
        """Return what was learned, by name: enough for :meth:`restored`."""

    @abstractmethod
    def _take(self, tensors: Mapping[str, NDArray[Any]]) -> None:
        """Set what was learned from ``tensors``; raises KeyError where one is missing."""

    @classmethod
    def restored(cls, parameters: Mapping[str, Any], tensors: Mapping[str, NDArray[Any]]) -> Self:
        """Return the fitted learner of which :meth:`public` and :meth:`tensors` were kept."""
        made = cls(**parameters)
        try:
            made._take(tensors)
        except KeyError as missing:
            raise BadInput(f"the kept model has no {missing.args[0]}: it is of another kind.") from None
        return made

    def predict(self, X: Any) -> Labels:
        """Return the most probable class of each row."""
        return np.asarray(self.predict_proba(X).argmax(axis=1))

    def public(self) -> dict[str, Any]:
        """Return the parameters of the constructor, without the randomness; plain values."""
        return {name: value for name, value in self.get_params(deep=False).items() if name != "randomness"}

    def claim(self) -> Claim | None:
        """Return the authors' claim, where there is one."""
        return None

    def notes(self) -> tuple[str, ...]:
        """Return sentences that belong into the statement."""
        return ()

    def resolved(self, records: int) -> dict[str, Any]:
        """Return what parameters that were left open, None, become with so many ``records``."""
        return {}

    def releases(self, records: int, dimension: int) -> tuple[NoisyRelease, ...]:
        """Return the noisy sums through which ``fit`` reads ``records`` records of ``dimension`` features."""
        return ()

    def forewarnings(self, records: int, dimension: int) -> tuple[str, ...]:
        """Return the warnings of ``fit`` before it runs; a function of what is public."""
        epsilon, delta = getattr(self, "epsilon", None), getattr(self, "delta", None)
        if epsilon is None or delta is None:
            return ()
        return forewarnings(epsilon, delta, records, self.releases(records, dimension))

    def statement(self) -> Statement:
        """Return the three columns, not yet audited; after ``fit`` with what was warned of and resolved."""
        notes = (
            *self.notes(),
            *getattr(self, "_forewarned", ()),
            *(("reproducible run: not for release",) if self._reproducible() else ()),
        )
        known = self.resolved(self._records) if hasattr(self, "_records") else {}
        parameters = {**self.public(), **known, "sfumato": sfumato.__version__}
        return Statement(type(self).__name__, parameters, self.claim(), self.guarantee(), notes=notes)

    def _forewarn(self, records: int, dimension: int) -> None:
        """Warn of what should be known at the line that calls ``fit``, and keep it for the statement."""
        self._records = records
        self._forewarned = self.forewarnings(records, dimension)
        forewarn(self._forewarned, above=1)

    def _reproducible(self) -> bool:
        return self._randomness().reproducible

    def _randomness(self) -> Randomness:
        if isinstance(self.randomness, Keyed) or not isinstance(self.randomness, Randomness | None):
            raise BadInput(
                "`randomness` of a model must be None or Seeded(…): keyed noise belongs to records.",
                parameter="randomness",
            )
        return Secure() if self.randomness is None else self.randomness

    def _fitted(self, name: str) -> Any:
        """Return the attribute ``name``, once something was fitted."""
        if not hasattr(self, name):
            raise NotFitted("nothing has been fitted: call fit(X, y) first.")
        return getattr(self, name)
