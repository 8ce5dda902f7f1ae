"""Datasets of labelled pictures: two arrays of an ``.npz``, or a folder with a sub-folder for each class.

How many classes there are is public, and labels count them in sorted order. Their names are data, which
travel nowhere unless the owner declares them public: elsewhere the classes are called by their numbers.
"""

from __future__ import annotations

import io
import os
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
from numpy.lib import format as npy_format
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.io import array_files
from sfumato.io.array_files import ArraySource, array_names, choose_array, open_array
from sfumato.io.atomic import First, atomic_folder, write_whole
from sfumato.io.formats import file_to_read
from sfumato.io.image_files import encode_picture, picture_header, read_picture
from sfumato.io.image_header import PictureHeader
from sfumato.noise import each_block

__all__ = [
    "ArrayPair",
    "ClassFolders",
    "DatasetSource",
    "check_top",
    "is_archive",
    "open_dataset",
    "stored_values",
    "write_archive",
    "write_class_folders",
]

#: Called with the stage of the work and the share of it that is done.
Report = Callable[[str, float], None]


def _silent(stage: str, share: float) -> None:
    pass


# What a published folder holds beside its classes, so that it can be read again.
_BESIDE = ("manifest.json", "manifest.json.cert.json")


@dataclass(frozen=True)
class ClassFolders:
    """The pictures under ``path``, in the order of ``files``; all of one ``shape`` and ``dtype``.

    ``folders`` are the names of the sub-folders, for the owner alone unless they are ``public_names``.
    """

    path: Path
    folders: tuple[str, ...]
    files: tuple[Path, ...]
    labels: NDArray[np.int64]
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    public_names: bool = False

    @property
    def class_names(self) -> tuple[str, ...]:
        """What the classes are called wherever others read it: by their folders, or by numbers from 1."""
        if self.public_names:
            return self.folders
        width = len(str(len(self.folders)))
        return tuple(f"class-{number:0{width}d}" for number in range(1, len(self.folders) + 1))

    def read(self, report: Report = _silent) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """Return pictures (n, *shape) and labels (n,); every file is decoded, on all processors."""
        pictures = np.empty((len(self.files), *self.shape), self.dtype)
        lock, done = Lock(), 0

        def one(number: int) -> None:
            nonlocal done
            file = self.files[number]
            try:
                values = read_picture(self.path / file).values
            except BadInput as error:
                raise error.at(file.parent.name) from None
            if values.shape != self.shape or values.dtype != self.dtype:
                raise BadInput(f"{file.as_posix()} has changed since it was opened.")
            pictures[number] = values
            with lock:
                done += 1
                report("reading pictures", done / len(self.files))

        each_block(one, len(self.files))
        return pictures, self.labels.copy()


def open_class_folders(path: str | os.PathLike[str], *, public_names: bool = False) -> ClassFolders:
    """Return the class folders in ``path``: only names and the headers of the pictures are read.

    ``public_names`` declares that the names of the classes are public. Refuses, naming the first file that is
    at fault, what is no folder of class folders, a class without pictures or with a name that stands for
    something else, links, files that are no pictures, and pictures that differ in size, channels or bits.
    """
    folder = Path(path)
    shown = folder.name or str(folder)
    inside = _entries(folder)
    loose = [entry.name for entry in inside if not entry.is_dir() and entry.name not in _BESIDE]
    classes = [entry.name for entry in inside if entry.is_dir()]
    if not inside:
        raise BadInput(f"the folder {shown} is empty: one sub-folder of pictures for each class is needed.")
    if loose:
        raise BadInput(
            f"{shown} holds {loose[0]} beside its classes: a dataset has one sub-folder of pictures for each "
            "class, and nothing else."
        )
    if len(classes) < 2:
        raise BadInput(f"{shown} holds one class, {classes[0]}: two classes or more are needed.")
    for name in classes:
        if name.casefold() in _BESIDE or not name.isprintable():
            raise BadInput(
                f"{shown} holds a class called {name!r}: a name in printable characters is accepted, but not "
                f"{' or '.join(_BESIDE)}, which stand beside the classes of what is published."
            )
    files: list[Path] = []
    labels: list[int] = []
    first: PictureHeader | None = None
    for label, name in enumerate(classes):
        pictures = _entries(folder / name)
        if not pictures:
            raise BadInput(f"the class folder {name} holds no pictures.")
        for entry in pictures:
            header = _header(entry, f"{name}/{entry.name}")
            first = first or header
            if (header.shape, header.dtype) != (first.shape, first.dtype):
                raise BadInput(
                    f"{name}/{entry.name} is {_sized(header)}, and {files[0].as_posix()} is {_sized(first)}: "
                    "all pictures of a dataset must be alike in this."
                )
            files.append(Path(name, entry.name))
            labels.append(label)
    assert first is not None  # every class holds a picture
    return ClassFolders(
        folder, tuple(classes), tuple(files), np.array(labels), first.shape, first.dtype, public_names
    )


def write_class_folders(
    path: str | os.PathLike[str],
    pictures: NDArray[Any],
    labels: NDArray[np.int64],
    class_names: Sequence[str],
    *,
    finish: Callable[[Path, Sequence[Path]], None] | None = None,
    report: Report = _silent,
) -> None:
    """Let ``pictures`` (n, h, w[, c]), in bytes or 16 bits, appear as PNGs in folders under ``path``.

    A picture of class k stands in the folder ``class_names[k]``, numbered from 1. All of it appears at once,
    or nothing: it is written into a hidden folder beside ``path``, to which ``finish`` may add more, told the
    folder and the pictures in it. ``path`` must not exist, or be an empty folder.
    """
    numbers = dict.fromkeys(range(len(class_names)), 0)
    files: list[Path] = []
    with atomic_folder(path) as inside:
        for label in np.unique(labels):
            (inside / class_names[label]).mkdir()
        for count, (picture, label) in enumerate(zip(pictures, labels.tolist(), strict=True), start=1):
            numbers[label] += 1
            file = inside / class_names[label] / f"{numbers[label]:07d}.png"
            file.write_bytes(encode_picture(picture, ".png"))
            files.append(file)
            report("writing pictures", count / len(pictures))
        if finish is not None:
            finish(inside, files)


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    """Return what stands in ``folder``, in order, but for what is hidden."""
    try:
        with os.scandir(folder) as found:
            listed = sorted((entry for entry in found if entry.name[0] != "."), key=lambda entry: entry.name)
    except OSError as error:
        raise BadInput(f"the folder {folder.name or folder} cannot be read: {error.strerror}.") from None
    for entry in listed:
        if entry.is_symlink():
            raise BadInput(f"{entry.name} in {folder.name or folder} is a link, which is not followed.")
    return listed


def _header(entry: os.DirEntry[str], name: str) -> PictureHeader:
    if entry.is_dir():
        raise BadInput(f"{name} is a folder inside a class: classes hold pictures alone.")
    try:
        return picture_header(entry.path)
    except BadInput as error:
        raise error.at(str(Path(name).parent)) from None


def _sized(header: PictureHeader) -> str:
    height, width, channels = (*header.shape, 1)[:3]
    kind = {1: "grey", 2: "grey with alpha", 3: "colour", 4: "colour with alpha"}[channels]
    return f"{width} × {height} pixels in {8 * header.dtype.itemsize} bits, {kind}"


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

    def read(self, report: Report = _silent) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return both arrays, whole."""
        return self.pictures.read(lambda share: report(f"reading {self.what}", share)), self.labels.read()


#: A dataset whose shape and type are known, and whose pictures are not read yet.
DatasetSource = ArrayPair | ClassFolders


def is_archive(path: str | os.PathLike[str]) -> bool:
    """Return whether ``path`` names an ``.npz``; a name without a suffix is that of a folder."""
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
    """Return the dataset at ``path``, of which names and headers are read and checked.

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
    chosen = choose_array(source, names, pictures, "pictures", usual)
    second = choose_array(source, names, labels, "labels", _LABELS)
    if chosen == second:
        raise BadInput(f"array {chosen!r} of {source.name} cannot be both the pictures and the labels.")
    for name in (chosen, second):
        array_files.check_name(name, source.name)  # what is published keeps the names
        label = f"array {name!r} of {source.name}"
        array_files.check_packing(source, name, label, least=_BOMB_BYTES, ratio=_BOMB_RATIO)
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


def write_archive(
    path: str | os.PathLike[str], arrays: Mapping[str, NDArray[Any]], *, first: First | None = None
) -> None:
    """Let ``arrays`` appear as the ``.npz`` at ``path``, whole or not at all; equal arrays give equal bytes.

    ``first`` is a file and its content: it appears just before the archive does, or not at all.
    """
    for name in arrays:
        array_files.check_name(name, Path(path).name)
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_STORED) as archive:
        for name, values in arrays.items():
            with archive.open(array_files.zip_member(name), "w", force_zip64=True) as member:
                npy_format.write_array(member, np.ascontiguousarray(values), allow_pickle=False)
    write_whole(path, packed.getvalue(), first=first)


def stored_values(
    pictures: NDArray[np.float32], top: float, dtype: np.dtype[Any], *, as_files: bool
) -> NDArray[Any]:
    """Return ``pictures`` with values from 0 to ``top`` as they are stored.

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
