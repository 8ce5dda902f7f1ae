"""Where a large file can be cut into parts that are read by themselves: at rows, or at row groups."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from sfumato.io.array_files import open_array
from sfumato.io.csv_file import arrow_faults
from sfumato.io.formats import suffix_of

__all__ = ["cuts_of"]

# Bytes of a part, before they are packed: few enough to be worked on again where something failed.
_PART_BYTES = 64 << 20


def cuts_of(path: Path, part_bytes: int = _PART_BYTES) -> list[range] | None:
    """Consecutive ranges of the rows of a ``.npy``, or of the row groups of a ``.parquet``; None of others.

    Each holds about ``part_bytes``, or one row group that is larger. They depend on the shape of the file
    alone. CSV files and archives can only be read from their beginning.
    """
    suffix = suffix_of(path)
    if suffix == ".npy":
        source = open_array(path)
        step = max(1, part_bytes * source.rows // max(1, path.stat().st_size))
        starts = list(range(0, source.rows, step))
        return [range(first, last) for first, last in pairwise([*starts, source.rows])]
    if suffix == ".parquet":
        return _together(_group_bytes(path), part_bytes)
    return None


def _group_bytes(path: Path) -> list[int]:
    import pyarrow.parquet as pq

    with arrow_faults(path.name, "Parquet"), pq.ParquetFile(str(path)) as file:
        return [file.metadata.row_group(group).total_byte_size for group in range(file.num_row_groups)]


def _together(sizes: Sequence[int], part_bytes: int) -> list[range]:
    """Ranges of ``sizes`` of which each sums up to ``part_bytes`` or just over, but for the last."""
    ranges, first, held = [], 0, 0
    for index, size in enumerate(sizes):
        held += size
        if held >= part_bytes or index == len(sizes) - 1:
            ranges.append(range(first, index + 1))
            first, held = index + 1, 0
    return ranges
