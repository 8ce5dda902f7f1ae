"""What every publisher is: it reads a private dataset once and then hands over others in its place."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

import sfumato
from sfumato.errors import BadInput
from sfumato.mechanisms.release_value import Release
from sfumato.noise import Keyed, Randomness, Secure
from sfumato.privacy import Claim, Guarantee, Statement

__all__ = ["Progress", "Publisher", "published_randomness", "whole"]

#: Called with the stage of the work, the share of it that is done, and what is worth knowing (losses).
Progress = Callable[[str, float, Mapping[str, float]], None]


class Publisher(ABC):
    """Base of all publishers of labelled pictures.

    ``guarantee()`` is a pure function of parameters and can be read before any data is touched. ``fit`` reads
    the pictures and labels, never modifies them, and may spend the whole guarantee; ``publish`` adds nothing
    to it, however often it is called, unless the class says otherwise. Pictures are published as float32 in
    the data's range. ``one_to_one`` says that each published picture was made from one private picture.
    """

    one_to_one: bool = False
    randomness: Randomness

    @abstractmethod
    def guarantee(self) -> Guarantee:
        """What is proven of everything that is published after one ``fit``."""

    @abstractmethod
    def fit(self, X: Any, y: Any, *, report: Progress | None = None) -> Self:
        """Read pictures ``X``, of shape (n, height, width) or (n, height, width, channels), and labels."""

    @abstractmethod
    def publish(self, n: int | None = None) -> Release:
        """A release of ``n`` pictures: its value is (pictures, labels), its statement the three columns.

        Without ``n``, as many as the publisher may say there were.
        """

    @abstractmethod
    def parameters(self) -> Mapping[str, Any]:
        """The public parameters as JSON values, for the statement."""

    def claim(self) -> Claim | None:
        """What the authors of the method say of it, if they promise anything."""
        return None

    def statement(self) -> Statement:
        """The statement that every release of this publisher carries, not yet audited."""
        notes = ("reproducible run: not for release",) if self.randomness.reproducible else ()
        parameters = {**self.parameters(), "sfumato": sfumato.__version__}
        return Statement(type(self).__name__, parameters, self.claim(), self.guarantee(), notes=notes)

    def _release(self, pictures: NDArray[np.float32], labels: NDArray[np.int64]) -> Release:
        return Release((pictures, labels), self.statement(), {"pictures": len(pictures)})


def published_randomness(randomness: Any) -> Randomness:
    """``randomness`` if a publisher can use it, the operating system's for None."""
    if isinstance(randomness, Keyed) or not isinstance(randomness, Randomness | None):
        raise BadInput(
            "`randomness` of a publisher must be None or Seeded(…): keyed noise belongs to records.",
            parameter="randomness",
        )
    return Secure() if randomness is None else randomness


def whole(name: str, value: Any, least: int) -> int:
    """``value`` if it is a whole number, ``least`` or more."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise BadInput(f"`{name}` was {value!r}: a whole number, {least} or more, is needed.", parameter=name)
    return int(value)
