"""What turns pictures into features before anything is learned: one interface, public maps alone.

**Guarantee passes through.** An extractor is fixed before it meets private records and answers for each
picture from that picture alone, so features of neighbouring datasets are neighbouring datasets, and whatever
is proven of what is learned from features holds for the pictures.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.mechanisms.records import as_array

__all__ = ["Extractor", "checked_pictures"]

Report = Callable[[str, float], None]


class Extractor(ABC):
    """Features of pictures of ``shape``, (height, width) or (height, width, channels), of length at most 1.

    ``name`` is what statements call it, ``origin`` says in one sentence where its numbers come from, and
    ``dimension`` is how many features one picture has.
    """

    name: str
    origin: str
    shape: tuple[int, ...]
    dimension: int

    @abstractmethod
    def transform(self, pictures: Any, *, report: Report | None = None) -> NDArray[np.float32]:
        """Features (n, ``dimension``) of ``pictures`` (n, *``shape``), values from 0 to 255.

        Each row depends on its own picture alone and is no longer than 1.
        """

    def tensors(self) -> dict[str, NDArray[Any]]:
        """What must be kept beside name and shape for the same features elsewhere; mostly nothing."""
        return {}

    def take(self, tensors: Mapping[str, NDArray[Any]]) -> None:
        """Use what :meth:`tensors` gave elsewhere; raises KeyError where something is missing."""
        if tensors:
            raise BadInput(
                f"extractor {self.name} keeps nothing, and {', '.join(sorted(tensors))} was given."
            )


def checked_pictures(pictures: Any, shape: tuple[int, ...]) -> NDArray[Any]:
    """``pictures`` as an array, if they are finite numbers of shape (n, *``shape``)."""
    given = as_array(pictures, "the pictures")
    if given.dtype.kind not in "uif" or given.shape[1:] != shape:
        raise BadInput(
            f"pictures of shape {given.shape} and type {given.dtype} were given: numbers of shape "
            f"(n, {', '.join(map(str, shape))}) are needed."
        )
    if given.dtype.kind == "f":
        finite = np.isfinite(given).all(axis=tuple(range(1, given.ndim)))
        if not finite.all():
            raise BadInput(f"picture {int(np.flatnonzero(~finite)[0])} holds a value that is not finite.")
    return given
