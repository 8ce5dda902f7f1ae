"""What is declared about a dataset, and whether its records are what was declared."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.io import ArrayPair, DatasetSource, check_top
from sfumato.publishers import Labelled
from sfumato.release.path import Report

_WHITE = {np.dtype(np.uint8): 255.0, np.dtype(np.uint16): 65535.0}


@dataclass(frozen=True)
class PublicFacts:
    """What is declared about a dataset, and may stand in a statement.

    ``shape`` is that of a picture, ``top`` its largest value. ``classes`` is None where nobody declared how
    many there are, ``records`` the number of pictures, public under ``replace`` and ``zero-out`` neighbours.
    """

    shape: tuple[int, ...]
    top: float
    classes: int | None
    records: int


def facts_of(source: DatasetSource, *, classes: int | None, top: float | None) -> PublicFacts:
    """The facts of pictures: ``classes`` and ``top``, the value of white, are declared.

    A folder declares its classes, and bytes and 16 bits have a white of their own.
    """
    classes = declared_classes(source, classes)
    top = _WHITE.get(source.dtype) if top is None else top
    if top is None:
        raise BadInput(
            f"pictures of type {source.dtype} need the value of white, as in `top=1`; it must not be read "
            "off "
            "the data.",
            parameter="top",
        )
    check_top(top, source.dtype)
    return PublicFacts(source.shape, float(top), classes, records_of(source))


def declared_classes(source: DatasetSource, classes: int | None) -> int | None:
    """The number of classes: that of the class folders, or what is declared of an archive."""
    if source.class_names is None:
        return classes
    if classes is not None:
        raise BadInput(
            "`classes` is for an .npz: the classes of a folder are its sub-folders.", parameter="classes"
        )
    return len(source.class_names)


def records_of(source: DatasetSource) -> int:
    """How many records there are, by headers and names."""
    return source.pictures.rows if isinstance(source, ArrayPair) else len(source.files)


def read_pictures(source: DatasetSource, facts: PublicFacts, report: Report) -> Labelled:
    """The pictures and labels of ``source``, once they are known to be what the facts say."""
    pictures, labels = source.read(report)
    data = Labelled.checked(pictures, labels, top=facts.top, shape=facts.shape, classes=facts.classes)
    check_range(pictures, facts.top)
    return data


def check_range(pictures: NDArray[Any], top: float) -> None:
    """Refuse pictures with values that are not between 0 and ``top``."""
    flat = pictures.reshape(len(pictures), -1)
    wrong = np.flatnonzero((flat < 0).any(axis=1) | (flat > top).any(axis=1))
    if wrong.size:
        raise BadInput(
            f"picture {wrong[0]} holds a value outside 0 (black) to {top:g} (white); declare the value of "
            "white by `top`."
        )
