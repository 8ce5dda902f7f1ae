"""What CompactDP may be given: two or more records of every class, whole counts, a bandwidth."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.learners.examples import Labels, as_array, checked_examples
from sfumato.mechanisms.parameters import positive, shown

__all__ = ["checked_bandwidth", "each_class_has", "examples_of_all_classes", "whole"]


def examples_of_all_classes(X: Any, y: Any, classes: int | None) -> tuple[NDArray[np.floating], Labels]:
    """Checked features and labels with two or more records of every class, of which there are two or more.

    ``classes`` None stands for those from 0 to the largest label.
    """
    labels = as_array("labels", y)
    if classes is None:
        found = int(labels.max()) if labels.dtype.kind in "ui" and labels.size else 0
        # A label for which no record could be among so many is left to be refused as one outside.
        classes = min(max(found, 0), labels.size) + 1
    features, checked = checked_examples(X, y, whole("classes", classes))
    if classes < 2:
        raise BadInput("one class was given: a classifier needs two or more.")
    each_class_has(2, checked, classes, "a class density")
    return features, checked


def each_class_has(least: int, labels: Labels, classes: int, what: str) -> None:
    """Refuse a class with fewer than ``least`` records, which ``what`` needs."""
    counts = np.bincount(labels, minlength=classes)
    short = np.flatnonzero(counts < least)
    if short.size:
        has = "no record" if not counts[short[0]] else "one record"
        raise BadInput(f"class {short[0]} has {has}: {what} needs {least} or more of every class.")


def checked_bandwidth(bandwidth: str | float) -> float | None:
    """A fixed bandwidth as a float, or None where it is ``"adaptive"``."""
    if isinstance(bandwidth, str):
        if bandwidth != "adaptive":
            raise BadInput(
                f"`bandwidth` was {shown(bandwidth)}: it is 'adaptive' or a positive number.",
                parameter="bandwidth",
            )
        return None
    return positive("bandwidth", bandwidth)


def whole(name: str, value: Any, least: int = 1) -> int:
    """``value``, if it is a whole number of ``least`` or more."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise BadInput(
            f"`{name}` was {shown(value)}: a whole number, {least} or more, is needed.", parameter=name
        )
    return int(value)
