"""The public data sets that papers report on, from a folder of files or from scikit-learn."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput

__all__ = ["NAMES", "Dataset", "available", "check_names", "load", "load_parts"]

#: The environment variable that names the folder of the files.
FOLDER = "SFUMATO_DATA"

_FILES = {"mnist": "mnist.npz", "fashion-mnist": "fashion_mnist.npz", "cifar-10": "cifar10_20k_5k.npz"}

#: What :func:`load` knows; ``digits`` ships with scikit-learn and needs no file.
NAMES = (*_FILES, "digits")

# Of the digits of scikit-learn, which come in one part, so many are set aside as tests by load_parts.
_DIGIT_TESTS = 597


@dataclass(frozen=True, eq=False)
class Dataset:
    """Records in [0, 1] as rows of a float32 array (n, d), one label each, the shape of one as a picture."""

    name: str
    records: NDArray[np.float32]
    labels: NDArray[np.int64]
    shape: tuple[int, ...]

    @property
    def pictures(self) -> NDArray[np.float32]:
        """The records as pictures, of shape (n, height, width) or (n, height, width, channels)."""
        return self.records.reshape(-1, *self.shape)

    def sample(self, rows: int, seed: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """``rows`` records drawn uniformly without replacement, or all of them where there are fewer."""
        chosen = np.random.default_rng(seed).permutation(len(self.records))[:rows]
        return self.records[chosen], self.labels[chosen]


def check_names(names: list[str] | tuple[str, ...]) -> None:
    """Refuse names that :func:`load` does not know or whose files are not there; reads no file."""
    for name in names:
        if name not in NAMES:
            raise BadInput(f"there is no data set {name!r} here; choose from {', '.join(NAMES)}.")
        if names.count(name) > 1:
            raise BadInput(f"the data set {name!r} was given twice; once is enough.")
        if name in _FILES:
            _file(name)


def available(names: Sequence[str]) -> tuple[str, ...]:
    """Those of ``names`` whose files are there."""
    found = []
    for name in names:
        try:
            check_names([name])
        except BadInput:
            continue
        found.append(name)
    return tuple(found)


def load(name: str) -> Dataset:
    """The training part of the data set ``name``; of the digits all of them, which have no parts."""
    check_names([name])
    if name == "digits":
        from sklearn.datasets import load_digits

        digits = load_digits()
        values = (digits.data / 16.0).astype(np.float32)
        return Dataset(name, values, digits.target.astype(np.int64), (8, 8))
    return _read(name, "train")


def load_parts(name: str) -> tuple[Dataset, Dataset]:
    """The training part of the data set ``name`` and its test part.

    The digits are parted here, always in the same way: 1,200 to learn from and 597 tests.
    """
    if name != "digits":
        check_names([name])
        return _read(name, "train"), _read(name, "test")
    whole = load(name)
    order = np.random.default_rng(0).permutation(len(whole.records))
    tests, learned = np.split(order, [_DIGIT_TESTS])
    return (
        Dataset(name, whole.records[learned], whole.labels[learned], whole.shape),
        Dataset(name, whole.records[tests], whole.labels[tests], whole.shape),
    )


def _read(name: str, part: str) -> Dataset:
    file, (x, y) = _file(name), (f"x_{part}", f"y_{part}")
    try:
        with np.load(file, allow_pickle=False) as archive:
            pictures, labels = archive[x], archive[y]
    except (KeyError, ValueError, OSError, zipfile.BadZipFile):
        raise BadInput(f"{file} is no NumPy archive with arrays {x} and {y}.") from None
    if pictures.dtype != np.uint8 or pictures.ndim < 2 or labels.shape != pictures.shape[:1]:
        raise BadInput(
            f"{file} holds {x} of shape {pictures.shape} and type {pictures.dtype} and {y} of shape "
            f"{labels.shape}; bytes are accepted, with one label a picture."
        )
    flat = pictures.reshape(len(pictures), -1).astype(np.float32)
    flat /= 255.0
    return Dataset(name, flat, labels.astype(np.int64), pictures.shape[1:])


def _file(name: str) -> Path:
    folder = os.environ.get(FOLDER)
    if not folder:
        raise BadInput(
            f"{name} is read from {_FILES[name]} in a folder that the environment variable {FOLDER} names, "
            "which is not set; --data digits needs no files."
        )
    file = Path(folder) / _FILES[name]
    if not file.is_file():
        raise BadInput(
            f"{name} is read from {_FILES[name]}, which is not in the folder that {FOLDER} names, {folder}; "
            "--data digits needs no files."
        )
    return file
