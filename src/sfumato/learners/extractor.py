"""``Extractor``: public maps from pictures to features, computed row by row.

**Guarantee passes through.** An extractor is fixed before it meets private records and answers for each
picture from that picture alone, so features of neighbouring datasets are neighbouring datasets, and whatever
is proven of what is learned from features holds for the pictures.

Libraries of linear algebra add up in an order that may depend on how many rows a product has, so the last
bits of a row could tell how many others there are. Here every block has the same number of rows, the last one
is filled up with zero pictures that are thrown away, and no step looks across rows: a row depends on its own
picture and on nothing in the values of others. Rows are no longer than 1; the bound is enforced in double
precision after everything else.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.learners.learner import Report
from sfumato.mechanisms import as_array

__all__ = ["Extractor", "checked_pictures"]

# Rounding to single precision lengthens a row by less than this share.
_SPARE = 2.0**-20


class Extractor(ABC):
    """Features of pictures of ``shape``, (height, width) or (height, width, channels), of length at most 1.

    ``name`` is what statements call it, ``origin`` says in one sentence where its numbers come from, and
    ``dimension`` is how many features one picture has. ``block`` pictures are computed at a time.
    """

    name: str
    origin: str
    shape: tuple[int, ...]
    dimension: int
    block: int

    @abstractmethod
    def _rows(self, block: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return features (``block``, ``dimension``) of so many pictures, row by row."""

    def transform(self, pictures: Any, *, report: Report | None = None) -> NDArray[np.float32]:
        """Return features (n, ``dimension``) of ``pictures`` (n, *``shape``), values from 0 to 255.

        Each row depends on its own picture alone and is no longer than 1. Values below 0 or above 255 are
        taken as 0 and 255, so that none is too large to compute with.
        """
        given = checked_pictures(pictures, self.shape)
        found = np.empty((len(given), self.dimension), dtype=np.float32)
        for start in range(0, len(given), self.block):
            part = given[start : start + self.block]
            block = np.zeros((self.block, *self.shape), dtype=np.float32)
            block[: len(part)] = np.clip(part.astype(np.float64), 0.0, 255.0)
            found[start : start + len(part)] = within_length_one(self._rows(block))[: len(part)]
            if report is not None:
                report(self.name, (start + len(part)) / len(given))
        return found

    def tensors(self) -> dict[str, NDArray[Any]]:
        """Return what must be kept beside name and shape for the same features elsewhere; mostly nothing."""
        return {}

    def take(self, tensors: Mapping[str, NDArray[Any]]) -> None:
        """Use what :meth:`tensors` gave elsewhere; raises KeyError where something is missing."""
        if tensors:
            raise BadInput(
                f"extractor {self.name} takes no tensors, and {', '.join(sorted(tensors))} was given."
            )


def within_length_one(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return ``rows`` (n, d); those longer than 1 − 2⁻²⁰ are shortened to it, the others unchanged."""
    lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows, dtype=np.float64))
    shares = np.minimum(1.0, (1.0 - _SPARE) / np.maximum(lengths, _SPARE))
    return np.asarray(rows * shares.astype(np.float32)[:, None])


def checked_shape(shape: Any, *, least: int = 1, channels: str = "channels") -> tuple[int, ...]:
    """Return ``shape`` if it is that of a picture with sides of ``least`` pixels or more."""
    sides = tuple(shape)
    if (
        len(sides) not in (2, 3)
        or not all(isinstance(side, int) and side > 0 for side in sides)
        or min(sides[:2]) < least
        or (channels == "1 or 3" and (*sides, 1)[2] not in (1, 3))
    ):
        raise BadInput(
            f"`shape` was {shape!r}: a picture is (height, width) or (height, width, {channels}), with sides "
            f"of {least} pixels or more.",
            parameter="shape",
        )
    return sides


def checked_pictures(pictures: Any, shape: tuple[int, ...]) -> NDArray[Any]:
    """Return ``pictures`` as an array, if they are finite numbers of shape (n, *``shape``)."""
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
