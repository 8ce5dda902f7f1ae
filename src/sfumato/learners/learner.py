"""``Learner``, the base of all classifiers of features; checks of their inputs; warnings before training.

Features (n, d) and labels (n,) are checked before anything is paid or drawn. Statements of learners note that
everything used beside the records is public, or was fixed before.

**Warnings before training** are functions of what is public: the number of records and features, the classes
and the parameters.

*δ.* A method that publishes one record whole, chosen at random, is (0, 1/n) differentially private under
zero-out neighbours: a δ of 1/n or more allows it.

*Noise.* A learner reads its n records through noisy sums Σᵢ vᵢ + Z alone, with ‖vᵢ‖ ≤ c and Z of w
independent entries of deviation s. By the triangle inequality the sum is at most nc long, which it is where
all records say the same. The noise has √E‖Z‖² = s√w, and its length leaves that by about a part in √(2w).
For T sums that are added up, as weights add up gradients, these are Tqnc and s√(Tw), where a step takes a
record with chance q. Where s√w ≥ nc what is released is longer by its noise than by anything that records
can say. This is no proof that nothing is learned: in a direction that is known before, noise is √w times
shorter. So it is a warning; ``fit_private`` refuses where it holds for a torch module, of which all
directions must be learned.
"""

from __future__ import annotations

import math
import warnings
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import NotFittedError

import sfumato
from sfumato.errors import BadInput, Forewarning
from sfumato.mechanisms import check_visible, shown
from sfumato.noise import Keyed, Randomness, Secure
from sfumato.privacy import Claim, Guarantee, Statement

__all__ = ["Learner", "checked_examples", "checked_features"]

#: Called with the stage of the work and the share of it that is done.
Report = Callable[[str, float], None]
#: The note of statements about a run with a seed.
REPRODUCIBLE = "reproducible run: not for release"

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


def checked_randomness(randomness: Any) -> Randomness:
    """Return ``randomness`` if a model can be fitted with it, the operating system's for None."""
    if isinstance(randomness, Keyed) or not isinstance(randomness, Randomness | None):
        raise BadInput(
            "`randomness` of a model must be None or Seeded(…): keyed noise belongs to records.",
            parameter="randomness",
        )
    return Secure() if randomness is None else randomness


def public_notes(prior: str = "all parameters") -> tuple[str, str]:
    """Return notes on the number of records, which is public, and on what is ``prior`` to them, in words."""
    return (
        "the number of records is public",
        f"{prior} must not have been learned from these records",
    )


class NotFitted(BadInput, NotFittedError):  # type: ignore[misc]
    """A learner was asked before it was fitted; scikit-learn knows it as its own error too."""

    def __init__(self) -> None:
        super().__init__("nothing has been fitted: call fit(X, y) first.")


@dataclass(frozen=True)
class NoisyRelease:
    """A noisy sum ``what`` from which a ``learned`` comes, both in words, in any unit of length.

    ``signal`` is the longest that the sum could be, whatever the records are, ``noise`` the root of the mean
    square length of the noise in it.
    """

    what: str
    learned: str
    signal: float
    noise: float

    @property
    def is_drowned(self) -> bool:
        """Whether the noise is as long as any signal could be, or longer."""
        return self.noise >= self.signal


def forewarnings(
    epsilon: float, delta: float, records: int, releases: Iterable[NoisyRelease]
) -> tuple[str, ...]:
    """Return sentences, without full stop, on a δ of 1/n or more and on ``releases`` that are noise."""
    sentences = []
    if delta >= 1.0 / records:
        # A tenth of 1/n, rounded down to one digit.
        scale = 10.0 ** math.floor(math.log10(0.1 / records))
        below = math.floor(0.1 / records / scale * (1.0 + 1e-12)) * scale
        sentences.append(
            f"δ = {delta:g} is not below 1/n for n = {records} records: so large a δ would allow to publish "
            f"one of them whole, chosen at random; take a δ of {below:g} or less"
        )
    for release in releases:
        if release.is_drowned:
            sentences.append(
                f"at ε = {epsilon:.3g} the noise in {release.what} is {release.noise / release.signal:.2g} "
                f"times as long as what {records} records can say there, whatever they are: expect a "
                f"{release.learned} that knows next to nothing; take a larger ε, more records or fewer "
                "features"
            )
    return tuple(sentences)


def forewarn(sentences: Iterable[str], *, above: int = 0) -> None:
    """Warn by each of ``sentences`` at the line that called the caller, or ``above`` calls further up."""
    for sentence in sentences:
        warnings.warn(sentence + ".", Forewarning, stacklevel=3 + above)


class Learner(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier of features (n, d) with labels 0…``classes``−1, in scikit-learn's manner.

    All parameters of the constructor are public and are attributes; what ``fit`` learns has names that end
    in an underscore. Subclasses declare their parameters as the fields of a dataclass. ``randomness`` is the
    operating system's unless ``Seeded(…)``.
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
            *((REPRODUCIBLE,) if self._randomness().reproducible else ()),
        )
        known = self.resolved(self._records) if hasattr(self, "_records") else {}
        parameters = {**self.public(), **known, "sfumato": sfumato.__version__}
        return Statement(type(self).__name__, parameters, self.claim(), self.guarantee(), notes=notes)

    def _forewarn(self, records: int, dimension: int) -> None:
        """Warn of what should be known at the line that calls ``fit``, and keep it for the statement."""
        self._records = records
        self._forewarned = self.forewarnings(records, dimension)
        forewarn(self._forewarned, above=1)

    def _randomness(self) -> Randomness:
        return checked_randomness(self.randomness)

    def _fitted(self, name: str) -> Any:
        """Return the attribute ``name``, once something was fitted."""
        if not hasattr(self, name):
            raise NotFitted
        return getattr(self, name)
