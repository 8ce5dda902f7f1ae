"""What the classes of data sets are called."""

from __future__ import annotations

__all__ = ["class_names"]

_NAMES = {
    "cifar-10": (
        *("airplane", "automobile", "bird", "cat", "deer"),
        *("dog", "frog", "horse", "ship", "truck"),
    ),
    "fashion-mnist": (
        *("T-shirt", "trouser", "pullover", "dress", "coat"),
        *("sandal", "shirt", "sneaker", "bag", "ankle boot"),
    ),
}


def class_names(data: str, classes: int) -> tuple[str, ...]:
    """Of the data set ``data``, in the order of labels; numbers where classes are digits or have no names."""
    return _NAMES.get(data, tuple(map(str, range(classes))))
