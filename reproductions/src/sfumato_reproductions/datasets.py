"""The public data sets that papers report on, from a folder of files or from scikit-learn."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput

__all__ = [
    "FOLDER",
    "MEDICAL",
    "NAMES",
    "Dataset",
    "available",
    "check_names",
    "data_file",
    "load",
    "load_parts",
]

#: The environment variable that names the folder of the files.
FOLDER = "SFUMATO_DATA"

_PICTURES = {"mnist": "mnist.npz", "fashion-mnist": "fashion_mnist.npz", "cifar-10": "cifar10_20k_5k.npz"}
_MEDICAL = {"pneumonia-mnist": "pneumoniamnist.npz", "ham10000": "ham10000_28.npz"}
_FILES = _PICTURES | _MEDICAL

#: What papers about pictures take; ``digits`` ships with scikit-learn and needs no file.
NAMES = (*_PICTURES, "digits")
#: Medical pictures, for papers that name them.
MEDICAL = tuple(_MEDICAL)

# Of the digits of scikit-learn, which come in one part, so many are set aside as tests by load_parts.
_DIGIT_TESTS = 597
# Of the skin lesions, which come in one part too, one in so many is a test, with all of its pictures.
_LESION_TESTS = 5


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


def check_names(names: list[str] | tuple[str, ...], among: Sequence[str] = NAMES) -> None:
    """Refuse names that are not ``among`` those accepted or whose files are not there; reads no file."""
    for name in names:
        if name not in among:
            raise BadInput(f"there is no data set {name!r} here; choose from {', '.join(among)}.")
        if names.count(name) > 1:
            raise BadInput(f"the data set {name!r} was given twice; once is enough.")
        if name in _FILES:
            _file(name)


def available(names: Sequence[str]) -> tuple[str, ...]:
    """Those of ``names`` whose files are there."""
    found = []
    for name in names:
        try:
            check_names([name], (*NAMES, *MEDICAL))
        except BadInput:
            continue
        found.append(name)
    return tuple(found)


def load(name: str) -> Dataset:
    """The training part of the data set ``name``; of the digits all of them, which have no parts."""
    check_names([name], (*NAMES, *MEDICAL))
    if name == "ham10000":
        return _lesions(name)[0]
    if name == "digits":
        from sklearn.datasets import load_digits

        digits = load_digits()
        values = (digits.data / 16.0).astype(np.float32)
        return Dataset(name, values, digits.target.astype(np.int64), (8, 8))
    return _read(name, "train")


def load_parts(name: str) -> tuple[Dataset, Dataset]:
    """The training part of the data set ``name`` and its test part.

    The digits are parted here, always in the same way: 1,200 to learn from and 597 tests. So are the skin
    lesions of ``ham10000``: the pictures of every fifth lesion are tests, so that no lesion is in both parts.
    """
    check_names([name], (*NAMES, *MEDICAL))
    if name == "ham10000":
        return _lesions(name)
    if name != "digits":
        return _read(name, "train"), _read(name, "test")
    whole = load(name)
    order = np.random.default_rng(0).permutation(len(whole.records))
    tests, learned = np.split(order, [_DIGIT_TESTS])
    return (
        Dataset(name, whole.records[learned], whole.labels[learned], whole.shape),
        Dataset(name, whole.records[tests], whole.labels[tests], whole.shape),
    )


def _read(name: str, part: str) -> Dataset:
    return _dataset(name, f"x_{part}", f"y_{part}")[0]


def _lesions(name: str) -> tuple[Dataset, Dataset]:
    whole, (lesions,) = _dataset(name, "x", "y", "lesion_id")
    if lesions.shape != whole.labels.shape:
        raise BadInput(f"{_file(name)} holds lesion_id of shape {lesions.shape}: one a picture is needed.")
    shown, which = np.unique(lesions, return_inverse=True)
    tests = (np.random.default_rng(0).permutation(len(shown)) % _LESION_TESTS == 0)[which]
    learned, tested = (
        Dataset(name, whole.records[rows], whole.labels[rows], whole.shape) for rows in (~tests, tests)
    )
    return learned, tested


def _dataset(name: str, x: str, y: str, *others: str) -> tuple[Dataset, tuple[NDArray[Any], ...]]:
    """Pictures and labels from the file of ``name``, and further arrays as they are."""
    file, wanted = _file(name), (x, y, *others)
    try:
        with np.load(file, allow_pickle=False) as archive:
            pictures, labels, *rest = (archive[key] for key in wanted)
    except (KeyError, ValueError, OSError, zipfile.BadZipFile):
        raise BadInput(f"{file} is no NumPy archive with arrays {_listed(wanted)}.") from None
    if pictures.dtype != np.uint8 or pictures.ndim < 2 or labels.shape != pictures.shape[:1]:
        raise BadInput(
            f"{file} holds {x} of shape {pictures.shape} and type {pictures.dtype} and {y} of shape "
            f"{labels.shape}; bytes are accepted, with one label a picture."
        )
    flat = pictures.reshape(len(pictures), -1).astype(np.float32)
    flat /= 255.0
    return Dataset(name, flat, labels.astype(np.int64), pictures.shape[1:]), tuple(rest)


def _listed(names: Sequence[str]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}"


def _file(name: str) -> Path:
    return data_file(name, _FILES[name])


def data_file(name: str, file: str) -> Path:
    """Where ``file`` of the data set ``name`` is; refused in a sentence where it is not."""
    folder = os.environ.get(FOLDER)
    if not folder:
        raise BadInput(
            f"{name} is read from {file} in a folder that the environment variable {FOLDER} names, "
            "which is not set; --data digits needs no files."
        )
    found = Path(folder) / file
    if not found.is_file():
        raise BadInput(
            f"{name} is read from {file}, which is not in the folder that {FOLDER} names, {folder}; "
            "--data digits needs no files."
        )
    return found
