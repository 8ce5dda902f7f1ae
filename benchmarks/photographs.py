"""Public photographs, split by file name: one half to learn statistics from, the other half to test on.

The photographs are those of ``photos/`` in the folder of real data (COCO val2017), named by SFUMATO_DATA. A
file belongs to the statistics where the first byte of the SHA-256 of its name is even, and to the tests where
it is odd; so no photograph is ever in both, and which is which does not depend on what it shows.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

from sfumato.media.images.planes import UNITY, plane_weights

__all__ = ["DATA", "for_statistics", "for_tests", "luma_crops", "planes_of"]

DATA = Path(os.environ.get("SFUMATO_DATA", Path(__file__).parents[1].parent / "shared" / "data"))


def for_statistics() -> list[Path]:
    """Photographs that constants and weights of the package may be computed from."""
    return [path for path in _all() if _even(path)]


def for_tests() -> list[Path]:
    """Photographs that results are measured on."""
    return [path for path in _all() if not _even(path)]


def planes_of(path: Path) -> NDArray[np.float64]:
    """Luma, blue and red difference of a photograph, of shape (3, height, width), where 255 is white."""
    colours = cv2.imread(str(path), cv2.IMREAD_COLOR)[:, :, ::-1].astype(np.float64)
    return np.moveaxis(colours @ (plane_weights(3) / UNITY).T, -1, 0)


def luma_crops(side: int = 224) -> NDArray[np.uint8]:
    """The luma of the middle of each test photograph, as bytes (n, side, side)."""
    crops = []
    for path in for_tests():
        luma = planes_of(path)[0]
        top, left = (luma.shape[0] - side) // 2, (luma.shape[1] - side) // 2
        crops.append(np.rint(luma[top : top + side, left : left + side]).astype(np.uint8))
    return np.stack(crops)


def _all() -> list[Path]:
    return sorted((DATA / "photos").glob("*.jpg"))


def _even(path: Path) -> bool:
    return hashlib.sha256(path.name.encode()).digest()[0] % 2 == 0
