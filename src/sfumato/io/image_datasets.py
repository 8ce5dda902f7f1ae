"""Datasets of labelled pictures: two arrays of an ``.npz``, or a folder with a sub-folder for each class."""

from __future__ import annotations

import io
import os
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.io import npz
from sfumato.io.array_files import ArraySource, array_names, open_array
from sfumato.io.atomic import First, write_whole
from sfumato.io.class_folders import ClassFolders, Report, open_class_folders
from sfumato.io.formats import file_to_read
from sfumato.io.npy import npy_header

__all__ = [
    "ArrayPair",
    "check_top",
    "is_archive",
    "open_dataset",
    "read_dataset",
    "stored_values",
    "write_archive",
]

_PICTURES = ("x", "X", "images", "pictures", "x_train", "X_train")
_FEATURES = ("features",)
_LABELS = ("y", "labels", "y_train")
# Datasets are held in memory whole, so a small file must not claim much of it. Photographs hardly shrink,
# drawings on an empty ground fiftyfold; deflate ends at 1,032, which only pictures of one colour come near.
_BOMB_BYTES = 64 << 20
_BOMB_RATIO = 200


@dataclass(frozen=True)
class ArrayPair:
    """The pictures and the labels in an archive; only their headers were read."""

    path: Path
    pictures: ArraySource
    labels: ArraySource

    @property
    def class_names(self) -> None:
        """None: an archive has numbers for its classes."""
        return None

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one picture, or (d,) of one record of features."""
        return self.pictures.shape[1:]

    @property
    def what(self) -> str:
        """What the records are, for people."""
        return "records" if len(self.shape) == 1 else "pictures"

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the values of a picture."""
        return self.pictures.dtype

    def read(self, report: Report | None = None) -> tuple[NDArray[Any], NDArray[Any]]:
        """Both arrays, whole."""
        return _whole(self.pictures, report, self.what), _whole(self.labels, None, "labels")


#: A dataset whose shape and type are known, and whose pictures are not read yet.
DatasetSource = ArrayPair | ClassFolders


def is_archive(path: str | os.PathLike[str]) -> bool:
    """Whether ``path`` names an ``.npz``; a name without a suffix is that of a folder."""
    suffix = Path(path).suffix.lower()
    if suffix == ".npz":
        return True
    if suffix and not Path(path).is_dir():
        raise BadInput(
            f"{Path(path).name} ends in {suffix}: a dataset is an .npz file, or a folder with a sub-folder "
            "for each class."
        )
    return False


def open_dataset(
    path: str | os.PathLike[str],
    *,
    pictures: str | None = None,
    labels: str | None = None,
    or_features: bool = False,
    public_names: bool = False,
) -> DatasetSource:
    """The dataset at ``path``, of which names and headers are read and checked.

    ``pictures`` and ``labels`` name the arrays of an archive; unless given they are those called x, X,
    images, pictures, x_train or X_train, and y, labels or y_train, if there is one of each. With
    ``or_features`` the array may also hold features (n, d) in the place of pictures, and be called features.
    ``public_names`` declares that the names of class folders are public.
    """
    source = Path(path)
    if not source.exists():
        raise BadInput(f"{source.name or source} does not exist.")
    if not is_archive(source):
        for name, given in (("pictures", pictures), ("labels", labels)):
            if given is not None:
                raise BadInput(
                    f"`{name}` names an array of an .npz, and {source.name or source} is a folder.",
                    parameter=name,
                )
        return open_class_folders(source, public_names=public_names)
    if public_names:
        raise BadInput(
            f"`public_names` declares names of class folders public, and {source.name} is an archive, whose "
            "classes are numbers.",
            parameter="public_names",
        )
    names = array_names(file_to_read(source))
    usual = (*_PICTURES, *_FEATURES) if or_features else _PICTURES
    chosen = _chosen(source, names, pictures, usual, "pictures")
    second = _chosen(source, names, labels, _LABELS, "labels")
    if chosen == second:
        raise BadInput(f"array {chosen!r} of {source.name} cannot be both the pictures and the labels.")
    for name in (chosen, second):
        npz.check_name(name, source.name)  # what is published keeps the names
        label = f"array {name!r} of {source.name}"
        npz.check_packing(source, name, label, least=_BOMB_BYTES, ratio=_BOMB_RATIO)
    pair = ArrayPair(source, open_array(source, chosen), open_array(source, second))
    if len(pair.pictures.shape) not in ((2, 3, 4) if or_features else (3, 4)):
        also = ", or features of shape (n, d)," if or_features else ""
        raise BadInput(
            f"array {chosen!r} of {source.name} has the shape {pair.pictures.shape}; pictures of shape "
            f"(n, height, width) or (n, height, width, channels){also} are accepted."
        )
    if pair.labels.shape != pair.pictures.shape[:1]:
        raise BadInput(
            f"array {second!r} of {source.name} has the shape {pair.labels.shape}, and there are "
            f"{pair.pictures.rows} {pair.what}; one label for each is needed."
        )
    return pair


def read_dataset(
    path: str | os.PathLike[str],
    *,
    pictures: str | None = None,
    labels: str | None = None,
    report: Report | None = None,
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Pictures (n, h, w[, c]) and labels (n,) of the dataset at ``path``; see :func:`open_dataset`."""
    return open_dataset(path, pictures=pictures, labels=labels).read(report)


def write_archive(
    path: str | os.PathLike[str], arrays: Mapping[str, NDArray[Any]], *, first: First | None = None
) -> None:
    """Let ``arrays`` appear as the ``.npz`` at ``path``, whole or not at all; equal arrays give equal bytes.

    ``first`` is a file and its content: it appears just before the archive does, or not at all.
    """
    for name in arrays:
        npz.check_name(name, Path(path).name)
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_STORED) as archive:
        for name, values in arrays.items():
            with archive.open(npz.zip_member(name), "w", force_zip64=True) as member:
                member.write(npy_header(values.shape, values.dtype))
                member.write(np.ascontiguousarray(values).reshape(-1).view(np.uint8).data)
    write_whole(path, packed.getvalue(), first=first)


def stored_values(
    pictures: NDArray[np.float32], top: float, dtype: np.dtype[Any], *, as_files: bool
) -> NDArray[Any]:
    """``pictures`` with values from 0 to ``top`` as they are stored.

    In an archive they have the type ``dtype`` of what they stand for, whole numbers where that holds whole
    numbers; a ``top`` that such a type cannot hold is refused. In files white is 255, or 65,535 where
    ``dtype`` has 16 bits.
    """
    if not as_files:
        check_top(top, dtype)
    cut = np.clip(pictures, 0.0, top)
    kind: np.dtype[Any] = np.dtype(np.float32)
    if as_files:
        white, kind = (65535.0, np.dtype(np.uint16)) if dtype == np.uint16 else (255.0, np.dtype(np.uint8))
        cut = np.rint(cut * (white / top))
    elif dtype.kind in "ui":
        # A float32 cannot hold the largest number of 32 bits or more, and the next one above it would wrap.
        most = np.float32(np.iinfo(dtype).max)
        if int(most) > np.iinfo(dtype).max:
            most = np.nextafter(most, np.float32(0.0))
        cut, kind = np.minimum(np.rint(cut), most), dtype
    return cut.astype(kind)


def check_top(top: float, dtype: np.dtype[Any]) -> None:
    """Refuse a ``top``, the value of white, that whole numbers of type ``dtype`` cannot hold."""
    if dtype.kind in "ui" and top > np.iinfo(dtype).max:
        raise BadInput(
            f"`top` was {top:g}, and pictures of type {dtype} hold numbers up to {np.iinfo(dtype).max}.",
            parameter="top",
        )


def _whole(source: ArraySource, report: Report | None, what: str) -> NDArray[Any]:
    values = np.empty(source.shape, source.dtype)
    first = 0
    for block in source.blocks():
        values[first : first + len(block)] = block
        first += len(block)
        if report is not None:
            report(f"reading {what}", first / source.rows)
    return values


def _chosen(path: Path, names: Sequence[str], wanted: str | None, usual: Sequence[str], what: str) -> str:
    shown = ", ".join(repr(name) for name in names[:20]) + (", …" if len(names) > 20 else "")
    if wanted is not None:
        if wanted not in names:
            raise BadInput(
                f"`{what}` was {wanted!r}, which is no array of {path.name}",
                parameter=what,
                accepted=shown or "none",
            )
        return wanted
    found = [name for name in names if name in usual]
    if len(found) == 1:
        return found[0]
    if found:
        several = " and ".join(repr(name) for name in found)
        raise BadInput(
            f"{several} of {path.name} could each be the {what}; choose one by `{what}`.", parameter=what
        )
    raise BadInput(
        f"{path.name} holds no array called {', '.join(usual[:-1])} or {usual[-1]}; name one of its arrays "
        "by "
        f"`{what}`",
        parameter=what,
        accepted=shown or "none",
    )
