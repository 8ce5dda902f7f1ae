"""What a file is, told from its name: an array, a table, a picture, a sound or a video."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

from sfumato.errors import BadInput

__all__ = ["MEDIA", "Kind", "file_to_read", "kind_of", "known_kinds", "same_kind", "suffix_of", "suffixes_of"]

Kind = Literal["array", "table", "picture", "sound", "video"]

#: The kinds that go through a mechanism for media.
MEDIA: tuple[Kind, ...] = ("picture", "sound", "video")

# The longer suffix of two that fit comes first.
_KINDS: dict[str, Kind] = {
    ".npy": "array",
    ".npz": "array",
    ".csv.gz": "table",
    ".csv": "table",
    ".parquet": "table",
    **dict.fromkeys((".jpg", ".jpeg", ".png", ".webp", ".tif", ".tiff", ".bmp"), "picture"),
    **dict.fromkeys((".wav", ".flac", ".ogg"), "sound"),
    **dict.fromkeys((".mp4", ".mov", ".mkv", ".webm", ".avi"), "video"),
}


def suffix_of(path: str | os.PathLike[str]) -> str:
    """The supported suffix that ``path`` ends with, in lower case."""
    name = Path(path).name
    for suffix in _KINDS:
        if name.lower().endswith(suffix):
            return suffix
    raise BadInput(f"{name!r} has none of the supported suffixes {', '.join(_KINDS)}.")


def suffixes_of(kind: Kind) -> tuple[str, ...]:
    """The suffixes of files of ``kind``."""
    return tuple(suffix for suffix, other in _KINDS.items() if other == kind)


def kind_of(path: str | os.PathLike[str]) -> Kind:
    """What ``path`` names; a suffix that is not known is refused."""
    return _KINDS[suffix_of(path)]


def known_kinds(names: Iterable[str]) -> set[Kind]:
    """What files with these ``names`` are, those aside whose suffix is not known."""
    ends = tuple(_KINDS)
    return {kind_of(name) for name in names if name.lower().endswith(ends)}


def same_kind(source: str | os.PathLike[str], output: str | os.PathLike[str]) -> Kind:
    """The kind that ``source`` and ``output`` share; a table never becomes an array, nor a sound a video."""
    kind = kind_of(source)
    if kind_of(output) != kind:
        raise BadInput(
            f"{Path(source).name} is read as {'an' if kind == 'array' else 'a'} {kind}, so the output "
            f"{Path(output).name} must end in one of {', '.join(suffixes_of(kind))}."
        )
    return kind


def file_to_read(path: str | os.PathLike[str]) -> Path:
    """``path``, once it is known to name a readable, regular file that is not empty."""
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
