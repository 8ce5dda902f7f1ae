"""What every classifier of features has in common: it can be asked, stated, kept and read again."""

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
from sfumato.learners.examples import Floats, Labels
from sfumato.learners.warnings_before_training import NoisyRelease, forewarn, forewarnings
from sfumato.noise import Keyed, Randomness, Secure
from sfumato.privacy import Claim, Guarantee, Statement

__all__ = ["Learner", "NotFitted", "Report"]

Report = Callable[[str, float], None]


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
        """Class probabilities (n, classes); costs nothing more."""

    @abstractmethod
    def guarantee(self) -> Guarantee:
        """What is proven of one record for all that ``fit`` learns; a function of parameters alone."""

    @abstractmethod
    def tensors(self) -> dict[str, NDArray[Any]]:
        """What was learned, by name: enough for :meth:`restored`."""

    @abstractmethod
    def _take(self, tensors: Mapping[str, NDArray[Any]]) -> None:
        """Set what was learned from ``tensors``; raises KeyError where one is missing."""

    @classmethod
    def restored(cls, parameters: Mapping[str, Any], tensors: Mapping[str, NDArray[Any]]) -> Self:
        """The fitted learner of which :meth:`public` and :meth:`tensors` were kept."""
        made = cls(**parameters)
        try:
            made._take(tensors)
        except KeyError as missing:
            raise BadInput(f"the kept model has no {missing.args[0]}: it is of another kind.") from None
        return made

    def predict(self, X: Any) -> Labels:
        """The most probable class of each row."""
        return np.asarray(self.predict_proba(X).argmax(axis=1))

    def public(self) -> dict[str, Any]:
        """The parameters of the constructor, without the randomness; plain values."""
        return {name: value for name, value in self.get_params(deep=False).items() if name != "randomness"}

    def claim(self) -> Claim | None:
        """What the authors of the method say, where there are any."""
        return None

    def notes(self) -> tuple[str, ...]:
        """Sentences that belong into the statement."""
        return ()

    def resolved(self, records: int) -> dict[str, Any]:
        """What parameters that were left open, None, become with so many ``records``."""
        return {}

    def releases(self, records: int, dimension: int) -> tuple[NoisyRelease, ...]:
        """The noisy sums through which ``fit`` reads ``records`` records of ``dimension`` features."""
        return ()

    def forewarnings(self, records: int, dimension: int) -> tuple[str, ...]:
        """What should be known before ``fit``, which warns of it; a function of what is public."""
        epsilon, delta = getattr(self, "epsilon", None), getattr(self, "delta", None)
        if epsilon is None or delta is None:
            return ()
        return forewarnings(epsilon, delta, records, self.releases(records, dimension))

    def statement(self) -> Statement:
        """The three columns, not yet audited; after ``fit`` with what was warned of and resolved."""
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
        """The attribute ``name``, once something was fitted."""
        if not hasattr(self, name):
            raise NotFitted("nothing has been fitted: call fit(X, y) first.")
        return getattr(self, name)
