"""What the first bytes of a video file say: which container it is, and how long the file has to be.

The demuxer is chosen from these bytes and never guessed from the content, because some of what a guess may
find (playlists) opens other files. A file shorter than its container announces was cut off.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import IO

from sfumato.errors import BadInput

__all__ = ["container_of"]

_EBML, _SEGMENT = b"\x1a\x45\xdf\xa3", b"\x18\x53\x80\x67"
_BOXES = (b"ftyp", b"moov", b"mdat", b"free", b"skip", b"wide", b"pnot")


def container_of(path: Path) -> str:
    """What ``path`` holds: ``"mov"``, ``"matroska"`` or ``"avi"``; refuses all else, and a cut-off file."""
    size = path.stat().st_size
    with path.open("rb") as file:
        start = file.read(12)
        reaches: Callable[[IO[bytes], int], bool]
        if start[4:8] in _BOXES:
            kind, reaches = "mov", _boxes_fit
        elif start.startswith(_EBML):
            kind, reaches = "matroska", _segment_fits
        elif start[:4] == b"RIFF" and start[8:12] == b"AVI ":
            kind, reaches = "avi", _riff_fits
        else:
            raise BadInput(f"{path.name} is not a video: MP4, MOV, Matroska, WebM and AVI are accepted.")
        file.seek(0)
        if not reaches(file, size):
            raise BadInput(f"{path.name} is truncated: the file ends before what its container announces.")
    return kind


def _boxes_fit(file: IO[bytes], size: int) -> bool:
    """Whether every outermost box of an ISO base media file ends within ``size`` bytes."""
    position = 0
    while position + 8 <= size:
        file.seek(position)
        head = file.read(16)
        length, name = int.from_bytes(head[:4], "big"), head[4:8]
        if not all(32 <= byte < 127 or byte == 0xA9 for byte in name):
            return True  # other bytes after the last box
        if length == 1:
            length = int.from_bytes(head[8:16], "big")
        if length < 8:
            return True  # 0: the box runs to the end of the file
        position += length
    return position <= size


def _segment_fits(file: IO[bytes], size: int) -> bool:
    """Whether the segment of a Matroska file ends within ``size`` bytes; a live one does not say."""
    position = 0
    while position + 12 <= size:
        file.seek(position)
        head = file.read(12)
        name, length, used = head[:4], *_vint(head[4:12])
        if length is None:
            return True
        position += 4 + used + length
        if name != _EBML:
            return name != _SEGMENT or position <= size
    return False


def _vint(raw: bytes) -> tuple[int | None, int]:
    """A number of variable length, None where it is marked unknown, and how many bytes it took."""
    used = 9 - raw[0].bit_length() if raw[0] else 8
    value = int.from_bytes(raw[:used], "big") & ((1 << 7 * used) - 1)
    return (None if value == (1 << 7 * used) - 1 else value), used


def _riff_fits(file: IO[bytes], size: int) -> bool:
    """Whether every RIFF list of an AVI file ends within ``size`` bytes."""
    position = 0
    while position + 12 <= size:
        file.seek(position)
        head = file.read(8)
        if head[:4] != b"RIFF":
            break
        position += 8 + int.from_bytes(head[4:], "little")
        position += position % 2
    return position <= size + 1  # the last padding byte may be missing
