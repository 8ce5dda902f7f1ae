"""Base classes of publishers, which read a private dataset once and publish others in its place.

``Labelled`` holds checked pictures in [0, 1] with whole-number labels; ``Publisher`` is the interface;
``ReplacingPublisher`` is the base of those that replace each private picture by another, once, when fitted.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

import sfumato
from sfumato.errors import BadInput
from sfumato.mechanisms import Release, as_array, positive, shown
from sfumato.noise import Keyed, NoisedSums, Randomness, Secure
from sfumato.privacy import Claim, Guarantee, Statement

__all__ = ["ALIKE", "Labelled", "Publisher"]

#: Called with the stage of the work, the share of it that is done, and facts such as losses.
Progress = Callable[[str, float, Mapping[str, float]], None]

#: What is published: pictures and their labels.
Pictures = tuple[NDArray[np.float32], NDArray[np.int64]]

_Made = TypeVar("_Made")

ALIKE = "all pictures are the same: there is nothing that could be learned from them"


def silent(stage: str, share: float, facts: Mapping[str, float]) -> None:
    """Ignore progress."""


@dataclass(frozen=True, eq=False)
class Labelled:
    """``pictures`` (n, h, w[, c]) as float32 in [0, 1], ``labels`` (n,) from 0 to ``classes`` − 1.

    ``top`` is the value that became 1.
    """

    pictures: NDArray[np.float32]
    labels: NDArray[np.int64]
    classes: int
    top: float

    @classmethod
    def checked(
        cls, X: Any, y: Any, *, top: float, shape: tuple[int, ...] | None = None, classes: int | None = None
    ) -> Labelled:
        """Return pictures ``X`` cut to values from 0 to ``top``, and labels ``y``.

        ``shape`` and ``classes``, where declared, are required; otherwise they are read off the data, and
        there must be two classes or more. Refuses, in a sentence without any value of the data, pictures that
        are no numbers, not finite or all the same, and labels that are missing or no whole numbers.
        """
        pictures, labels = as_array(X, "the pictures"), as_array(y, "the labels")
        needed = "(n, height, width[, channels])" if shape is None else f"(n, {', '.join(map(str, shape))})"
        right = pictures.ndim in (3, 4) if shape is None else pictures.shape[1:] == shape
        if pictures.dtype.kind not in "uif" or not right or not pictures.size:
            raise BadInput(
                f"pictures of shape {pictures.shape} and type {pictures.dtype} were given: numbers of shape "
                f"{needed} with n ≥ 1 are needed."
            )
        if labels.shape != (len(pictures),) or labels.dtype.kind not in "ui":
            raise BadInput(
                f"labels of shape {labels.shape} and type {labels.dtype} were given: one whole number for "
                f"each of {len(pictures)} pictures is needed."
            )
        if pictures.dtype.kind == "f" and not np.isfinite(pictures).all():
            bad = int(np.flatnonzero(~np.isfinite(pictures).reshape(len(pictures), -1).all(axis=1))[0])
            raise BadInput(f"picture {bad} holds a value that is not finite.")
        if classes is None:
            classes = int(labels.max()) + 1
            if np.unique(labels).size < 2:
                raise BadInput("all pictures have one label: a dataset with two classes or more is needed.")
            if labels.min() >= 0 and classes > len(pictures):
                raise BadInput(
                    f"the largest label is beyond the number of pictures, {len(pictures)}: number the "
                    "classes from 0."
                )
        wrong = np.flatnonzero((labels < 0) | (labels >= classes))
        if wrong.size:
            raise BadInput(f"the label of picture {wrong[0]} is not one of 0 to {classes - 1}.")
        values = np.clip(pictures.astype(np.float32) / np.float32(top), 0.0, 1.0)
        return cls(values, labels.astype(np.int64), classes, float(top))

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one picture."""
        return self.pictures.shape[1:]

    @property
    def alike(self) -> bool:
        """Whether all are one and the same picture."""
        return not (self.pictures != self.pictures[:1]).any()

    def varied(self) -> Labelled:
        """Return these pictures; refuse if all are one and the same."""
        if self.alike:
            raise BadInput(f"{ALIKE}.")
        return self


class Publisher(ABC):
    """Base of all publishers of labelled pictures.

    ``guarantee()`` is a pure function of parameters and can be read before any data is touched. ``fit`` reads
    the pictures and labels, never modifies them, and may spend the whole guarantee; ``publish`` adds nothing
    to it, however often it is called, unless the class says otherwise. Pictures are published as float32 in
    the data's range. ``one_to_one`` says that each published picture was made from one private picture.
    """

    one_to_one: bool = False
    randomness: Randomness
    # The number of pictures read, as far as it is public, and how often pictures were published since.
    _records = _published = 0
    # The noised sums of the last fit, whose streams also draw what is published.
    _sums: NoisedSums

    @abstractmethod
    def guarantee(self) -> Guarantee:
        """Return the guarantee of everything that is published after one ``fit``."""

    @abstractmethod
    def fit(self, X: Any, y: Any, *, report: Progress | None = None) -> Self:
        """Read pictures ``X``, of shape (n, height, width) or (n, height, width, channels), and labels."""

    @abstractmethod
    def publish(self, n: int | None = None) -> Release[Pictures]:
        """Return a release of ``n`` pictures: its value is (pictures, labels), with a statement.

        Without ``n``, as many as the publisher may say there were.
        """

    def parameters(self) -> Mapping[str, Any]:
        """Return the parameters of the constructor, which are public, as JSON values, for the statement."""
        given = {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}
        del given["randomness"]
        return {name: list(value) if isinstance(value, tuple) else value for name, value in given.items()}

    def claim(self) -> Claim | None:
        """Return what the authors of the method claim, if anything."""
        return None

    def statement(self) -> Statement:
        """Return the statement that every release of this publisher carries, not yet audited."""
        notes = ("reproducible run: not for release",) if self.randomness.reproducible else ()
        parameters = {**self.parameters(), "sfumato": sfumato.__version__}
        return Statement(type(self).__name__, parameters, self.claim(), self.guarantee(), notes=notes)

    def _number(self, n: int | None, *, most: int | None = None) -> int:
        """Return how many pictures to publish: ``n``, or as many as were read; ``most`` is what there is."""
        n = self._records if n is None else whole_number("n", n, 1)
        if most is not None and n > most:
            raise BadInput(
                f"`n` was {n}: there are {most} pictures to publish, one for a record at most.", parameter="n"
            )
        return n

    def _release(self, pictures: NDArray[np.float32], labels: NDArray[np.int64]) -> Release[Pictures]:
        return Release((pictures, labels), self.statement(), {"pictures": len(pictures)})


def checked_randomness(randomness: Any) -> Randomness:
    """Return ``randomness`` if a publisher can use it, the operating system's for None."""
    if isinstance(randomness, Keyed) or not isinstance(randomness, Randomness | None):
        raise BadInput(
            "`randomness` of a publisher must be None or Seeded(…): keyed noise belongs to records.",
            parameter="randomness",
        )
    return Secure() if randomness is None else randomness


def fitted(made: _Made | None) -> _Made:
    """Return what ``fit`` made; refuse where nothing was fitted."""
    if made is None:
        raise BadInput("nothing has been fitted: call fit(X, y) before publish(n).")
    return made


def picture_shape(shape: Any, least: int = 1) -> tuple[int, ...]:
    """Return ``shape`` if it is that of a picture of ``least`` pixels or more each way."""
    sides = tuple(shape) if isinstance(shape, tuple | list) else ()
    if len(sides) not in (2, 3) or min(whole_number("shape", side, 1) for side in sides[:2]) < least:
        raise BadInput(
            f"`shape` was {shown(shape)}: a picture is (height, width) or (height, width, channels), of "
            f"{least} × {least} pixels or more.",
            parameter="shape",
        )
    return tuple(whole_number("shape", side, 1) for side in sides)


def whole_number(name: str, value: Any, least: int) -> int:
    """Return ``value`` if it is a whole number, ``least`` or more."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise BadInput(f"`{name}` was {value!r}: a whole number, {least} or more, is needed.", parameter=name)
    return int(value)


@dataclass(eq=False)
class ReplacingPublisher(Publisher):
    """Base of publishers of which nothing is proven, and the reason is ``unproven``.

    ``top`` is the largest value of a picture. What stands in the place of the records is published in their
    order, the same at each call.
    """

    _: KW_ONLY
    top: float = 255.0
    randomness: Randomness = None  # type: ignore[assignment]  # the operating system's unless given

    unproven: ClassVar[str]

    def __post_init__(self) -> None:
        self.top = positive("top", self.top)
        self.randomness = checked_randomness(self.randomness)
        self._made: Pictures | None = None

    @abstractmethod
    def _replaced(self, data: Labelled, report: Progress) -> Pictures:
        """Return pictures with values in [0, 1] and their labels, in the order of the records."""

    def guarantee(self) -> Guarantee:
        """Return a guarantee of nothing, with the reason."""
        return Guarantee.nothing(self.unproven)

    def fit(self, X: Any, y: Any, *, report: Progress | None = None) -> Self:
        """Make the pictures that are published in place of ``X`` (n, h, w[, c]) with labels ``y``."""
        data = Labelled.checked(X, y, top=self.top)
        self._keep(*self._replaced(data, report or silent))
        return self

    def _keep(self, pictures: NDArray[np.float32], labels: NDArray[np.int64]) -> None:
        """Publish ``pictures``, with values in [0, 1], and their ``labels`` from now on."""
        self._made, self._records = (np.clip(pictures, 0.0, 1.0) * np.float32(self.top), labels), len(labels)

    def publish(self, n: int | None = None) -> Release[Pictures]:
        """Return the first ``n`` pictures, all without ``n``; at most as many as there are."""
        pictures, labels = fitted(self._made)
        n = self._number(n, most=len(labels))
        return self._release(pictures[:n].copy(), labels[:n].copy())
