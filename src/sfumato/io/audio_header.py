"""Whether a sound file is what its suffix says, and whole by its own lengths; told before it is decoded.

A decoder would play a cut file to its new end, and tries what it does not know as MPEG, complaining aloud.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import IO

from sfumato.errors import BadInput

__all__ = ["check_start", "check_whole"]

_STARTS = {".wav": (b"RIFF", b"RF64"), ".flac": (b"fLaC",), ".ogg": (b"OggS",)}

# A WAV written to a pipe cannot know its length and says one of these.
_UNKNOWN = (0, 0xFFFFFFFF)
# A page of an Ogg stream is at most 27 + 255 + 255·255 bytes.
_OGG_PAGE = 27 + 255 + 255 * 255


def check_start(path: Path, name: str, suffix: str) -> None:
    """Refuse a file that does not start as those called ``suffix`` do."""
    with path.open("rb") as file:
        start = file.read(4)
    if start not in _STARTS[suffix]:
        kind = suffix[1:].upper()
        raise BadInput(f"{name} cannot be read as a sound: it does not start like a {kind} file.")


def check_whole(path: Path, name: str) -> None:
    """Refuse a WAV or Ogg file that ends before it should; FLAC says so itself when it is decoded."""
    with path.open("rb") as file:
        start = file.read(12)
        size = os.fstat(file.fileno()).st_size
        if start[:4] in (b"RIFF", b"RF64") and start[8:12] == b"WAVE":
            _check_wave(file, size, name)
        elif start[:4] == b"OggS":
            _check_ogg(file, size, name)


def _check_wave(file: IO[bytes], size: int, name: str) -> None:
    """Walk the chunks up to ``data``: what it announces must be there."""
    long_size: int | None = None
    while len(head := file.read(8)) == 8:
        length = int.from_bytes(head[4:], "little")
        if head[:4] == b"ds64":
            body = file.read(24)
            long_size = int.from_bytes(body[8:16], "little")
            file.seek(length - len(body) + length % 2, os.SEEK_CUR)
            continue
        if head[:4] == b"data":
            if length in _UNKNOWN and long_size is None:
                return
            length = long_size if length == 0xFFFFFFFF and long_size is not None else length
            left = size - file.tell()
            if length > left:
                raise BadInput(
                    f"{name} is truncated: its header says {length} bytes of sound, and {left} are there."
                )
            return
        file.seek(length + length % 2, os.SEEK_CUR)
    raise BadInput(f"{name} is truncated: it ends before its sound begins.")


def _check_ogg(file: IO[bytes], size: int, name: str) -> None:
    """The last page must be marked as the last, and end where the file does."""
    begin = max(0, size - _OGG_PAGE)
    file.seek(begin)
    tail = file.read()
    place = tail.rfind(b"OggS")
    while place >= 0:
        page = tail[place:]
        if len(page) >= 27 and len(page) >= 27 + page[26]:
            length = 27 + page[26] + sum(page[27 : 27 + page[26]])
            if length == len(page) and page[5] & 4:
                return
        place = tail.rfind(b"OggS", 0, place)
    raise BadInput(f"{name} is truncated: its last page is missing or cut off.")
