"""What every protection of a client's parameters is: public parameters, a guarantee, and what leaves."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.learners.federated.parameter_vectors import Arrays, Shapes, flat, shapes_of, size_of
from sfumato.noise import Randomness
from sfumato.privacy import Claim, Guarantee, Unit
from sfumato.privacy.defaults import FEDERATED

__all__ = ["CLIENT", "NoProtection", "Protection", "finite_or_zero", "same_shapes"]

CLIENT = Unit(FEDERATED.unit)


class Protection(ABC):
    """What a client does to its parameters before they leave it; every parameter of it is public.

    The unit is the client: all records that it holds. What it received is known to everybody, so it may be
    used freely; parameters that are not finite count as if nothing had been learned, which is a function of
    the client's own records, so that the guarantee covers a training that diverged too.
    """

    name: str

    @abstractmethod
    def guarantee(self, shapes: Shapes) -> Guarantee:
        """What is proven of one client in one round, for layers of ``shapes``; no data is needed."""

    @abstractmethod
    def protect(self, arrays: Arrays, received: Arrays, randomness: Randomness | None = None) -> Arrays:
        """What leaves a client that made ``arrays`` of what it ``received``; draws the guarantee's noise.

        ``randomness`` is the client's own in this round (see ``client_randomness``); the operating system's
        unless given.
        """

    @abstractmethod
    def claim(self) -> Claim | None:
        """What the authors of the method say of one round, or None."""

    @abstractmethod
    def parameters(self) -> dict[str, Any]:
        """Every parameter as a JSON value."""

    def at(self, progress: float) -> Protection:
        """The protection when a share ``progress`` of all rounds is done; its guarantee never changes."""
        return self


@dataclass(frozen=True)
class NoProtection(Protection):
    """Parameters leave as they are: nothing is proven."""

    name: str = "none"

    def guarantee(self, shapes: Shapes) -> Guarantee:
        """Nothing."""
        return Guarantee.nothing("parameters leave the client as they are", CLIENT)

    def protect(self, arrays: Arrays, received: Arrays, randomness: Randomness | None = None) -> Arrays:
        """The parameters themselves."""
        same_shapes(arrays, received)
        return [np.asarray(array, dtype=np.float32).copy() for array in arrays]

    def claim(self) -> Claim | None:
        """None."""
        return None

    def parameters(self) -> dict[str, Any]:
        """None."""
        return {}


def finite_or_zero(vector: NDArray[np.float64]) -> NDArray[np.float64]:
    """``vector``, or zeros where any of it is not finite."""
    return vector if np.isfinite(vector).all() else np.zeros_like(vector)


def same_shapes(arrays: Arrays, received: Arrays) -> NDArray[np.float64]:
    """All of ``arrays`` as one vector, if their shapes are those that were received."""
    if shapes_of(arrays) != shapes_of(received):
        raise BadInput(
            f"layers of the shapes {shapes_of(arrays)} were trained from layers of {shapes_of(received)}: "
            "every client must train the model that it received."
        )
    vector = flat(arrays)
    assert vector.size == size_of(shapes_of(received))
    return vector
