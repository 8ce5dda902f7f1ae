"""Labelled pictures as publishers take them: checked once, in [0, 1], with whole-number labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.mechanisms.records import as_array

__all__ = ["ALIKE", "Labelled"]

ALIKE = "all pictures are the same: there is nothing that could be learned from them"


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
        """Pictures ``X`` cut to values from 0 to ``top``, and labels ``y``.

        ``shape`` and ``classes``, where declared, are asked for; otherwise they are read off the data, and
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
        """These, if they are not all of one and the same picture."""
        if self.alike:
            raise BadInput(f"{ALIKE}.")
        return self
