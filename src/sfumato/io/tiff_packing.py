"""Strips and tiles of TIFF, unpacked: Deflate by zlib, LZW and PackBits here.

libtiff would unpack the latter faster, and complains of broken data on the terminal.
"""

from __future__ import annotations

import zlib
from functools import cache

import numpy as np
from numpy.typing import NDArray

from sfumato.io.tiff_tags import DEFLATE, LZW, NONE, OLD_DEFLATE, PACKBITS

__all__ = ["PACKINGS", "unpacked"]

PACKINGS = (NONE, LZW, DEFLATE, OLD_DEFLATE, PACKBITS)
_CLEAR, _END, _FIRST = 256, 257, 258  # codes below are bytes, codes above are strings
_TABLE = 4096 - _FIRST  # codes have at most 12 bits
# A table is cleared when it is full, after thousands of bytes; to clear it for nothing would only take time.
_SPARE_TABLES, _BYTES_OF_TABLE = 100, 2_000


def unpacked(packed: bytes, packing: int, expected: int) -> bytes:
    """The first ``expected`` bytes, or fewer where there are fewer; broken data is a ValueError."""
    if packing == NONE:
        return packed[:expected]
    if packing == LZW:
        return _lzw(packed, expected)
    if packing == PACKBITS:
        return _packbits(packed, expected)
    try:
        # One byte more than is needed, so that the checksum behind the last one is reached.
        return zlib.decompressobj().decompress(packed, expected + 1)[:expected]
    except zlib.error as error:
        raise ValueError("broken Deflate data") from error


def _packbits(packed: bytes, expected: int) -> bytes:
    out, place = bytearray(), 0
    while len(out) < expected and place < len(packed):
        count = packed[place]
        if count < 128:
            out += packed[place + 1 : place + 2 + count]
            place += 2 + count
        else:
            if count > 128:
                out += packed[place + 1 : place + 2] * (257 - count)
            place += 2 if count > 128 else 1
    return bytes(out[:expected])


def _lzw(packed: bytes, expected: int) -> bytes:
    """A string is what an earlier code gave and the byte behind it, hence a part of the output."""
    data = np.frombuffer(packed + bytes(4), np.uint8).astype(np.uint32)
    out, bit, ended, tables = bytearray(), 0, False, 0
    while len(out) < expected and not ended:
        tables += 1
        if tables > _SPARE_TABLES + len(out) // _BYTES_OF_TABLE:
            raise ValueError("tables of LZW that are cleared all the time")
        codes, bit, ended = _codes(data, bit, 8 * len(packed))
        starts: list[int] = []
        for code in codes:
            here = len(out)
            starts.append(here)
            if code < _CLEAR:
                out.append(code)
                continue
            number = code - _FIRST
            if number + 1 >= len(starts):
                raise ValueError("a code of LZW before its string")
            first, last = starts[number], starts[number + 1]
            out += out[first : last + 1]
            if last == here:  # the byte behind the earlier string is the first of this one
                out.append(out[first])
            if here >= expected:
                break
    return bytes(out[:expected])


def _codes(data: NDArray[np.uint32], bit: int, bits: int) -> tuple[list[int], int, bool]:
    """Codes from ``bit`` on up to the next clearing or the end; where they end, and if they are the last."""
    widths, offsets = _widths()
    known = np.searchsorted(bit + offsets + widths, bits, side="right")  # codes that lie within the data
    places, widths = bit + offsets[:known], widths[:known]
    at = places >> 3
    words = data[at] << 24 | data[at + 1] << 16 | data[at + 2] << 8 | data[at + 3]
    codes = words >> (32 - widths - (places & 7)).astype(np.uint32) & ((1 << widths) - 1).astype(np.uint32)
    marks = np.flatnonzero((codes == _CLEAR) | (codes == _END))
    if not len(marks):
        if known == len(offsets):
            raise ValueError("a table of LZW that is too long")
        return codes.tolist(), bits, True
    mark = int(marks[0])
    return codes[:mark].tolist(), int(places[mark] + widths[mark]), bool(codes[mark] == _END)


@cache
def _widths() -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Bits of each code after a clearing, which grow with the table, and where each starts."""
    strings = _FIRST + np.maximum(np.arange(_TABLE + 2) - 1, 0)
    widths = 9 + (strings[:, None] > np.array([510, 1022, 2046])).sum(axis=1)
    return widths, np.cumsum(widths) - widths
