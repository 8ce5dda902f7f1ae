"""File formats by suffix, which of them are written, and checks that precede reading any file."""

from __future__ import annotations

import io
import os
import stat
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import IO, Any, Literal

from sfumato.errors import BadInput
from sfumato.loading import open_cv

__all__ = [
    "MEDIA",
    "Kind",
    "file_to_read",
    "kind_of",
    "known_kinds",
    "released_suffix",
    "same_kind",
    "suffix_of",
]

PictureFormat = Literal["JPEG", "PNG", "WebP", "TIFF", "BMP", "GIF", "HEIC", "AVIF"]
Kind = Literal["array", "table", "picture", "sound", "video"]

#: The kinds that go through a mechanism for media.
MEDIA: tuple[Kind, ...] = ("picture", "sound", "video")

#: Suffixes of pictures, and the formats as messages call them.
PICTURES: dict[str, PictureFormat] = {
    ".jpg": "JPEG",
    ".jpeg": "JPEG",
    ".png": "PNG",
    ".webp": "WebP",
    ".tif": "TIFF",
    ".tiff": "TIFF",
    ".bmp": "BMP",
    ".gif": "GIF",
    ".heic": "HEIC",
    ".heif": "HEIC",
    ".avif": "AVIF",
}
# Files that are read and not written, and what their releases are: PNG for GIF, since noise has more than 256
# colours; WebP for HEIC and AVIF, which are lossy too. Both have transparency.
_READ_ONLY = {".gif": ".png", **dict.fromkeys((".heic", ".heif", ".avif"), ".webp")}

# The longer suffix of two that fit comes first.
_KINDS: dict[str, Kind] = {
    ".npy": "array",
    ".npz": "array",
    ".csv.gz": "table",
    ".csv": "table",
    ".parquet": "table",
    **dict.fromkeys(PICTURES, "picture"),
    **dict.fromkeys((".wav", ".flac", ".ogg"), "sound"),
    **dict.fromkeys((".mp4", ".mov", ".mkv", ".webm", ".avi"), "video"),
}


def suffix_of(path: str | os.PathLike[str], kind: Kind | None = None) -> str:
    """Return the supported suffix, of files of ``kind`` if given, that ``path`` ends with, in lower case."""
    name = Path(path).name
    suffixes = [suffix for suffix, other in _KINDS.items() if kind in (None, other)]
    for suffix in suffixes:
        if name.lower().endswith(suffix):
            return suffix
    of_kind = "" if kind is None else f" of {kind}s"
    raise BadInput(f"{name!r} has none of the supported suffixes{of_kind} {', '.join(suffixes)}.")


def released_suffix(path: str | os.PathLike[str]) -> str:
    """Return the suffix of a release of ``path``: its own, unless files with that suffix are not written."""
    suffix = suffix_of(path)
    return _READ_ONLY.get(suffix, suffix)


def written_suffixes(kind: Kind) -> tuple[str, ...]:
    """Return the suffixes of files of ``kind`` that are written."""
    return tuple(suffix for suffix, other in _KINDS.items() if other == kind and suffix not in _READ_ONLY)


def kind_of(path: str | os.PathLike[str]) -> Kind:
    """Return the kind of file that ``path`` names; a suffix that is not known is refused."""
    return _KINDS[suffix_of(path)]


def known_kinds(names: Iterable[str]) -> set[Kind]:
    """Return the kinds of files with these ``names``; a suffix that is not known is skipped."""
    ends = tuple(_KINDS)
    return {kind_of(name) for name in names if name.lower().endswith(ends)}


def same_kind(source: str | os.PathLike[str], output: str | os.PathLike[str]) -> Kind:
    """Return the kind that ``source`` and ``output`` share; a table never becomes an array."""
    kind = kind_of(source)
    if kind_of(output) != kind or released_suffix(output) != suffix_of(output):
        raise BadInput(
            f"{Path(source).name} is read as {'an' if kind == 'array' else 'a'} {kind}, so the output "
            f"{Path(output).name} must end in one of {', '.join(written_suffixes(kind))}."
        )
    return kind


def exactly(file: IO[bytes] | io.BufferedIOBase, count: int, name: str) -> bytes:
    """Return the next ``count`` bytes of the header of ``name``; a file that ends before is refused."""
    data = file.read(count)
    if len(data) != count:
        raise BadInput(f"{name} is truncated: it ends inside its header.")
    return data


def file_to_read(path: str | os.PathLike[str]) -> Path:
    """Return ``path``; refuse one that does not name a readable, regular file that is not empty."""
    path = Path(path)
    name = path.name or str(path)
    try:
        # A pipe would block the open and could not be read a second time, so look before opening.
        status = path.stat()
        regular = stat.S_ISREG(status.st_mode)
        if regular:
            path.open("rb").close()
    except FileNotFoundError:
        raise BadInput(f"{name} does not exist.") from None
    except OSError as error:
        raise BadInput(f"{name} cannot be opened: {error.strerror}.") from None
    except ValueError:
        raise BadInput(f"{name!r} cannot be the name of a file.") from None
    if not regular:
        raise BadInput(f"{name} is not a regular file.")
    if status.st_size == 0:
        raise BadInput(f"{name} is empty.")
    return path


def library(module: str, what: str) -> Any:
    """Return ``module``, which ``what`` needs; if it is missing, refuse with the line that installs it."""
    try:
        return open_cv() if module == "cv2" else import_module(module)
    except ImportError:
        name = {"cv2": "OpenCV", "av": "PyAV", "pillow_heif": "pillow-heif"}.get(module, module)
        raise BadInput(f"{what} needs {name}: pip install 'sfumato[media]'.") from None
