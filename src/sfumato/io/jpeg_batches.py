"""Many JPEG files of one size at once: from bytes to one array, and from planes of luma and chroma to bytes.

The fast way for folders of photographs. A release that stays in JPEG's own planes is never turned into red,
green and blue and back.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.io.image_header import upright
from sfumato.io.jpeg import encode_planes, jpeg_layout

__all__ = ["decode_many", "encode_many"]


def decode_many(files: Sequence[bytes], names: Sequence[str], shape: tuple[int, ...]) -> NDArray[np.uint8]:
    """The upright pictures in ``files``, (n, …), all of ``shape``: (h, w) in grey or (h, w, 3) in colour.

    ``names`` is what refusals call them; the first file that cannot be read or has another shape is refused.
    """
    pictures = np.empty((len(files), *shape), np.uint8)
    for place, (data, name) in enumerate(zip(files, names, strict=True)):
        layout = jpeg_layout(io.BytesIO(data), name)
        if layout.header.shape != shape:
            raise BadInput(f"{name} has the shape {layout.header.shape}; pictures of {shape} were expected.")
        if layout.header.orientation == 1:
            layout.decode(data, name, into=pictures[place])
        else:
            pictures[place] = upright(layout.decode(data, name), layout.header.orientation)
    return pictures


def encode_many(planes: Sequence[NDArray[Any]], quality: int) -> list[bytes]:
    """Files of Y (n, h, w) or of Y, Cb and Cr, the latter two (n, (h + 1)//2, (w + 1)//2); 255 is white.

    Values are rounded, and clipped where they leave 0 to 255. No metadata; equal planes give equal bytes.
    """
    if len(planes) not in (1, 3) or len({len(plane) for plane in planes}) != 1:
        raise BadInput(f"a picture has a plane of luma, or one and two of chroma, not {len(planes)}.")
    levels = []
    for plane in planes:
        rounded = np.rint(plane)
        levels.append(np.clip(rounded, 0, 255, out=rounded).astype(np.uint8))
    if len(levels) == 1:
        return [encode_planes(luma, None, None, quality) for luma in levels[0]]
    return [encode_planes(luma, blue, red, quality) for luma, blue, red in zip(*levels, strict=True)]
