"""What every classifier of features has in common: it can be asked, stated, kept and read again."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin

import sfumato
from sfumato.errors import BadInput
from sfumato.learn.examples import Floats, Labels
from sfumato.noise import Keyed, Randomness, Secure
from sfumato.privacy import Claim, Guarantee, Statement

__all__ = ["Learner", "Report"]

Report = Callable[[str, float], None]


class Learner(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier of features (n, d) with labels 0…``classes``−1, in scikit-learn's manner.

    All parameters of the constructor are public and are attributes; what ``fit`` learns has names that end
    in an underscore. ``randomness`` is the operating system's unless ``Seeded(…)``.
    """

    classes: int
    randomness: Randomness | None

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

    def statement(self) -> Statement:
        """The three columns, not yet audited."""
        notes = (*self.notes(), *(("reproducible run: not for release",) if self._reproducible() else ()))
        parameters = {**self.public(), "sfumato": sfumato.__version__}
        return Statement(type(self).__name__, parameters, self.claim(), self.guarantee(), notes=notes)

    def _reproducible(self) -> bool:
        return self._randomness().reproducible

    def _randomness(self) -> Randomness:
        if isinstance(self.randomness, Keyed) or not isinstance(self.randomness, Randomness | None):
            raise BadInput("randomness of a model must be None or Seeded(…): keyed noise belongs to records.")
        return Secure() if self.randomness is None else self.randomness

    def _fitted(self, name: str) -> Any:
        """The attribute ``name``, once something was fitted."""
        if not hasattr(self, name):
            raise BadInput("nothing has been fitted: call fit(X, y) first.")
        return getattr(self, name)
