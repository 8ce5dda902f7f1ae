"""Features row by row: blocks of one size, so that no row feels another, and rows no longer than 1.

**Guarantee passes through.** Libraries of linear algebra add up in an order that may depend on how many rows
a product has, so the last bits of a row could tell how many others there are. Here every block has the same
number of rows, the last one is filled up with zero pictures that are thrown away, and no step looks across
rows: a row depends on its own picture and on nothing in the values of others. The bound on the length is
enforced in double precision after everything else.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Block", "in_blocks", "within_length_one"]

Report = Callable[[str, float], None]
Block = Callable[[NDArray[np.float32]], NDArray[np.float32]]

# Rounding to single precision lengthens a row by less than this share.
_SPARE = 2.0**-20


def within_length_one(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    """``rows`` (n, d), those that are longer than 1 − 2⁻²⁰ shortened to it, the others as they are."""
    lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows, dtype=np.float64))
    shares = np.minimum(1.0, (1.0 - _SPARE) / np.maximum(lengths, _SPARE))
    return np.asarray(rows * shares.astype(np.float32)[:, None])


def in_blocks(
    features: Block,
    pictures: NDArray[Any],
    *,
    size: int,
    dimension: int,
    stage: str,
    report: Report | None = None,
) -> NDArray[np.float32]:
    """Rows (n, ``dimension``) of length at most 1: ``features`` of ``pictures``, always ``size`` at a time.

    ``features`` takes (``size``, …) pictures and gives (``size``, ``dimension``), row by row. Values below 0
    or above 255 are taken as 0 and 255, so that none is too large to compute with.
    """
    found = np.empty((len(pictures), dimension), dtype=np.float32)
    for start in range(0, len(pictures), size):
        part = pictures[start : start + size]
        block = np.zeros((size, *pictures.shape[1:]), dtype=np.float32)
        block[: len(part)] = np.clip(part.astype(np.float64), 0.0, 255.0)
        found[start : start + len(part)] = within_length_one(features(block))[: len(part)]
        if report is not None:
            report(stage, (start + len(part)) / len(pictures))
    return found
