"""Headers of pictures, and what the readers of all picture formats share."""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import IO, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.io.formats import PictureFormat, exactly


@dataclass(frozen=True)
class PictureHeader:
    """A picture as it will be read: upright, palettes resolved.

    ``shape`` is (height, width) for grey, else (height, width, channels): 2 is grey with alpha, 3 colour in
    the order red, green, blue, 4 colour with alpha. ``dtype`` is uint8 or uint16. ``orientation`` is what
    EXIF says of the stored pixels (1 to 8; 1 where it says nothing).
    """

    format: PictureFormat
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    orientation: int = 1

    @property
    def pixels(self) -> int:
        """Height times width."""
        return self.shape[0] * self.shape[1]


class PictureReader(ABC):
    """The reader of one picture, in a file that refusals call ``name``.

    The constructor of each format reads the header and checks it, without unpacking anything. The first bytes
    of the file are known to be those of the format.
    """

    format: ClassVar[PictureFormat]
    header: PictureHeader

    def __init__(self, file: IO[bytes], name: str) -> None:
        self._file, self._name = file, name

    @abstractmethod
    def decode(self, data: bytes) -> NDArray[Any]:
        """Return the pixels in ``data``, the whole file, as they are stored: not yet upright."""

    def _announce(
        self, height: int, width: int, channels: int, *, bits: int = 8, orientation: int = 1
    ) -> None:
        """Set the header of a picture that is stored with these sides; orientations 5 to 8 exchange them."""
        self._require_pixels(height, width)
        sides = (width, height) if orientation >= 5 else (height, width)
        shape = sides if channels == 1 else (*sides, channels)
        dtype = np.dtype(np.uint16 if bits == 16 else np.uint8)
        self.header = PictureHeader(self.format, shape, dtype, orientation)

    def _require_pixels(self, height: int, width: int) -> None:
        if height == 0 or width == 0:
            raise BadInput(f"{self._name} has no pixels: its {self.format} header says {width}×{height}.")

    def _take(self, count: int) -> bytes:
        """Return the next ``count`` bytes of the header."""
        return exactly(self._file, count, self._name)

    def _unpack(self, layout: str) -> tuple[Any, ...]:
        """Return the next numbers of the header, laid out as ``struct`` writes it."""
        return struct.unpack(layout, self._take(struct.calcsize(layout)))

    def _damaged(self, what: str) -> BadInput:
        """Return the refusal of a file of which ``what`` breaks the rules of its format."""
        return BadInput(f"{self._name} is damaged: {what}.")

    def _animated(self) -> BadInput:
        """Return the refusal of an animation."""
        return BadInput(f"{self._name} is an animated {self.format}; pictures with one frame are accepted.")


def upright(values: NDArray[Any], orientation: int) -> NDArray[Any]:
    """Return stored pixels (h, w, …) as they are to be looked at, given EXIF's orientation; C-ordered."""
    if orientation >= 5:  # rows and columns are exchanged first
        values = values.swapaxes(0, 1)
    if orientation in (3, 4, 7, 8):
        values = values[::-1]
    if orientation in (2, 3, 6, 7):
        values = values[:, ::-1]
    return np.ascontiguousarray(values)


_ORIENTATION = 0x0112
_SHORT = 3
_MAX_TAGS = 1000


def exif_orientation(exif: bytes) -> int:
    """Return the orientation, 1 to 8, in a block of EXIF (with or without ``Exif`` before it), or 1.

    Nothing else of EXIF is read. Anything that is broken counts as no orientation: viewers show such pictures
    as they are stored.
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
