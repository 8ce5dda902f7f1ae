"""What every publisher is: it reads a private dataset once and then hands over others in its place."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Self

from sfumato.mechanisms.release import Release
from sfumato.privacy import Guarantee

__all__ = ["Publisher"]


class Publisher(ABC):
    """Base of all publishers of labelled pictures.

    ``guarantee()`` is a pure function of parameters and can be read before any data is touched. ``fit`` reads
    the pictures and labels, never modifies them, and may spend the whole guarantee; ``publish`` adds nothing
    to it, however often it is called, unless the class says otherwise.
    """

    @abstractmethod
    def guarantee(self) -> Guarantee:
        """What is proven of everything that is published after one ``fit``."""

    @abstractmethod
    def fit(self, X: Any, y: Any) -> Self:
        """Read pictures ``X``, of shape (n, height, width) or (n, height, width, channels), and labels."""

    @abstractmethod
    def publish(self, n: int) -> Release:
        """A release of ``n`` pictures: its value is (pictures, labels), its statement the three columns."""
