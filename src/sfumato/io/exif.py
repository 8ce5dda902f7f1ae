"""The one thing that is read from EXIF: which way up the picture is. Everything else in it is dropped."""

from __future__ import annotations

import struct

__all__ = ["exif_orientation"]

_ORIENTATION = 0x0112
_SHORT = 3
_MAX_TAGS = 1000


def exif_orientation(exif: bytes) -> int:
    """The orientation, 1 to 8, in a block of EXIF (with or without its ``Exif`` prefix); 1 if there is none.

    Anything that is broken counts as no orientation: viewers show such pictures as they are stored.
    """
    exif = exif.removeprefix(b"Exif\0\0")
    order = {b"II*\0": "<", b"MM\0*": ">"}.get(exif[:4])
    if order is None or len(exif) < 8:
        return 1
    (offset,) = struct.unpack_from(order + "I", exif, 4)
    if offset + 2 > len(exif):
        return 1
    (count,) = struct.unpack_from(order + "H", exif, offset)
    for start in range(offset + 2, offset + 2 + 12 * min(count, _MAX_TAGS), 12):
        if start + 12 > len(exif):
            return 1
        tag, kind, values, value = struct.unpack_from(order + "HHIH", exif, start)
        if tag == _ORIENTATION:
            return value if kind == _SHORT and values == 1 and 1 <= value <= 8 else 1
    return 1
