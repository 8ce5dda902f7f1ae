"""Headers of pictures, known before any pixel is decoded; and pixels turned upright."""

from __future__ import annotations

import os
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.io.formats import PICTURES, PictureFormat
from sfumato.loading import open_cv


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


class PictureLayout(Protocol):
    """The header of a file, with what its format needs to decode the rest."""

    @property
    def header(self) -> PictureHeader:
        """What the file says of its picture."""

    def decode(self, data: bytes, name: str) -> NDArray[Any]:
        """Return the pixels in ``data``, the whole file, as they are stored: not yet upright."""


def picture_suffix(path: str | os.PathLike[str]) -> str:
    """Return the suffix of a picture that ``path`` ends with, in lower case; any other is refused."""
    suffix = Path(path).suffix.lower()
    if suffix not in PICTURES:
        raise BadInput(f"{Path(path).name} has none of the suffixes of pictures {', '.join(PICTURES)}.")
    return suffix


def header_of(
    format: PictureFormat, height: int, width: int, channels: int, *, bits: int = 8, orientation: int = 1
) -> PictureHeader:
    """Return the header of a picture that is stored with these sides; orientations 5 to 8 exchange them."""
    sides = (width, height) if orientation >= 5 else (height, width)
    shape = sides if channels == 1 else (*sides, channels)
    return PictureHeader(format, shape, np.dtype(np.uint16 if bits == 16 else np.uint8), orientation)


def upright(values: NDArray[Any], orientation: int) -> NDArray[Any]:
    """Return stored pixels (h, w, …) as they are to be looked at, given EXIF's orientation; C-ordered."""
    if orientation >= 5:  # rows and columns are exchanged first
        values = values.swapaxes(0, 1)
    if orientation in (3, 4, 7, 8):
        values = values[::-1]
    if orientation in (2, 3, 6, 7):
        values = values[:, ::-1]
    return np.ascontiguousarray(values)


def library(module: str, name: str) -> Any:
    """Return library ``module``; where it is missing, ``name`` is refused with the line that installs it."""
    try:
        return open_cv() if module == "cv2" else import_module(module)
    except ImportError:
        shown = {"cv2": "OpenCV", "av": "PyAV", "pillow_heif": "pillow-heif"}.get(module, module)
        raise BadInput(f"{name} needs {shown}: pip install 'sfumato[media]'.") from None


def damaged(name: str, what: str) -> BadInput:
    """Return the refusal of a file whose ``what`` breaks the rules of its format."""
    return BadInput(f"{name} is damaged: {what}.")
