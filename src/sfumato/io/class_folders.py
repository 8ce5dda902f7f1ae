"""Datasets of pictures as folders: one sub-folder for each class, its name the name of the class.

How many classes there are is public, and labels count them in sorted order. Their names are data, which
travel nowhere unless the owner declares them public: elsewhere the classes are called by their numbers.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.io.atomic_folder import atomic_folder
from sfumato.io.image_files import encode_picture, picture_header, read_picture
from sfumato.io.image_header import PictureHeader
from sfumato.noise import each_block

__all__ = ["ClassFolders", "open_class_folders", "write_class_folders"]

#: Called with the stage of the work and the share of it that is done.
Report = Callable[[str, float], None]

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

    def read(self, report: Report | None = None) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """Pictures (n, *shape) and labels (n,); every file is decoded, on all processors."""
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
                if report is not None:
                    report("reading pictures", done / len(self.files))

        each_block(one, len(self.files))
        return pictures, self.labels.copy()


def open_class_folders(path: str | os.PathLike[str], *, public_names: bool = False) -> ClassFolders:
    """The class folders in ``path``: only names and the headers of the pictures are read.

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
    report: Report | None = None,
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
            if report is not None:
                report("writing pictures", count / len(pictures))
        if finish is not None:
            finish(inside, files)


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    """What stands in ``folder``, in order, but for what is hidden."""
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
