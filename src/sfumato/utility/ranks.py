"""Spearman's correlation of two lists of distances, from ten to a hundred million pairs."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.noise import each_block, processors
from sfumato.utility.distances import Points

__all__ = ["Codes", "Keys", "binned", "exact_ranks", "first_pair", "small"]

_BINS = 1 << 16
_CELLS = 1 << 20
_PILOT = 1024  # rows whose distances say where the bins should lie
_TAIL = 1e-4  # share of the pilot's distances below the first and above the last cell
_CHUNK = 1 << 18


def first_pair(row: int, rows: int) -> int:
    """Where the pairs (row, row + 1), (row, row + 2) … stand among all pairs of ``rows`` rows."""
    return row * rows - row * (row + 1) // 2


def small(first: NDArray[np.float64], second: NDArray[np.float64]) -> float:
    """Spearman's correlation with mid-ranks for ties; NaN where either list is constant."""
    from scipy.stats import rankdata

    one, two = (rankdata(values) - (values.size + 1) / 2 for values in (first, second))
    lengths = math.sqrt(float(one @ one) * float(two @ two))
    return float(one @ two) / lengths if lengths > 0.0 else math.nan


class Codes:
    """A visitor of a sweep that keeps a 16-bit bin for the distance of each pair of the first ``rows`` rows.

    The bins are made to hold equally many distances, judged by a pilot: the pairs among a thousand rows,
    evenly spaced. A distance finds its bin through a table of cells, which are ranges of the bits of float32:
    non-negative floats are ordered as the integers that their bits spell, so cells are narrow where distances
    are small, and distances may spread over any orders of magnitude.
    """

    def __init__(self, points: Points, rows: int) -> None:
        self._rows = rows
        self.codes = np.empty(rows * (rows - 1) // 2, dtype=np.uint16)
        chosen = np.linspace(0, rows - 1, min(rows, _PILOT)).astype(np.intp)
        pilot = points.moved[chosen].astype(np.float64)
        norms = np.einsum("ij,ij->i", pilot, pilot)
        squared = (norms + norms[:, None] - 2.0 * (pilot @ pilot.T))[np.triu_indices(len(pilot), 1)]
        bits = np.sort(np.maximum(squared, 0.0).astype(np.float32)).view(np.int32)
        tail = int(_TAIL * bits.size)
        self._low = bits[tail]
        span = int(bits[-1 - tail]) - int(self._low) + 1
        self._shift = np.int32(max(0, math.ceil(math.log2(span / _CELLS))))
        ends = int(self._low) + (
            np.arange(1, (span >> int(self._shift)) + 2, dtype=np.int64) << int(self._shift)
        )
        below = np.searchsorted(bits, ends) / bits.size
        self._bin = np.minimum(below * _BINS, _BINS - 1).astype(np.uint16)

    def visit(self, squared: NDArray[np.float32], first: int) -> None:
        """Keep the bins of the pairs of rows ``first`` … with all later rows."""
        cells = squared.view(np.int32)[:, first : self._rows] - self._low
        cells >>= self._shift
        np.clip(cells, 0, len(self._bin) - 1, out=cells)
        bins = self._bin.take(cells.astype(np.intp))
        for step in range(len(squared)):
            start = first_pair(first + step, self._rows)
            self.codes[start : start + self._rows - first - step - 1] = bins[step, step + 1 :]


@dataclass(frozen=True)
class Binned:
    """Spearman's correlation by bins; binning changed it by at most ``error``."""

    value: float
    error: float


def binned(first: NDArray[np.uint16], second: NDArray[np.uint16]) -> Binned:
    """The correlation of the mid-ranks of two lists of bins, with a bound on what binning changed.

    Ranks r are the bins' mid-ranks plus a part orthogonal to everything that is constant in each bin, whose
    squared length is at most Σ n(n² − 1)/12 over bins with n members. So binning turns r by an angle of at
    most atan of the two lengths' ratio, and the correlation, a cosine, changes by at most the sum of the
    two angles. Where either list has one bin alone, the value is NaN and the bound π.
    """
    ranks, squares, turn = [], [], 0.0
    for codes in (first, second):
        counts = _counts(codes)
        middle = np.cumsum(counts) - (counts + 1) / 2.0 - (codes.size - 1) / 2.0
        length = float(counts @ middle**2)
        turn += math.atan2(math.sqrt(float((counts * (counts**2 - 1.0)).sum()) / 12.0), math.sqrt(length))
        ranks.append(middle)
        squares.append(length)
    if min(squares) == 0.0:
        return Binned(math.nan, math.pi)
    parts = np.zeros(-(-first.size // _CHUNK))

    def add(part: int) -> None:
        here = slice(part * _CHUNK, (part + 1) * _CHUNK)
        parts[part] = ranks[0].take(first[here].astype(np.intp)) @ ranks[1].take(second[here].astype(np.intp))

    each_block(add, len(parts))
    return Binned(math.fsum(parts) / math.sqrt(squares[0] * squares[1]), turn)


def _counts(codes: NDArray[np.uint16]) -> NDArray[np.float64]:
    """How many codes fall into each bin."""
    workers = processors()
    counts = np.zeros((workers, _BINS))

    def count(worker: int) -> None:
        for start in range(worker * _CHUNK, codes.size, workers * _CHUNK):
            counts[worker] += np.bincount(codes[start : start + _CHUNK], minlength=_BINS)

    each_block(count, workers)
    return np.asarray(counts.sum(axis=0))


class Keys:
    """A visitor of two sweeps, one over each space, that packs both distances of a pair into 64 bits.

    Non-negative floats are ordered as the integers that their bits spell, so sorting the keys sorts pairs by
    the distance in the upper half and carries the other along.
    """

    def __init__(self, rows: int) -> None:
        self._rows = rows
        self.keys = np.zeros(rows * (rows - 1) // 2, dtype=np.uint64)

    def visit_first(self, squared: NDArray[np.float32], first: int) -> None:
        """Write the distances of rows ``first`` … to all later rows into the upper half of their keys."""
        self._write(squared, first, np.uint64(32))

    def visit_second(self, squared: NDArray[np.float32], first: int) -> None:
        """The same for the lower half."""
        self._write(squared, first, np.uint64(0))

    def _write(self, squared: NDArray[np.float32], first: int, shift: np.uint64) -> None:
        bits = squared.view(np.uint32)
        for step in range(len(squared)):
            row = first + step
            start = first_pair(row, self._rows)
            later = bits[step, row + 1 : self._rows].astype(np.uint64)
            self.keys[start : start + self._rows - row - 1] |= later << shift


def exact_ranks(keys: NDArray[np.uint64]) -> float:
    """Spearman's correlation of the upper and lower halves of ``keys``, exact; ``keys`` is used up.

    Two sorts: by the upper half, whose mid-ranks (doubled, to stay whole) then take its place under the
    lower half; and by that, whose mid-ranks are then read off. NaN where either half is constant.
    """
    centre = keys.size - 1
    keys.sort()
    for part, ranks in _doubled_mid_ranks(keys):
        keys[part] = (keys[part] << np.uint64(32)) | ranks.astype(np.uint64)
    keys.sort()
    product, one, two = 0.0, 0.0, 0.0
    for part, ranks in _doubled_mid_ranks(keys):
        upper = (ranks - centre).astype(np.float64)
        lower = (keys[part] & np.uint64(0xFFFFFFFF)).astype(np.float64) - centre
        product += float(upper @ lower)
        one += float(upper @ upper)
        two += float(lower @ lower)
    return product / math.sqrt(one * two) if one * two > 0.0 else math.nan


def _doubled_mid_ranks(keys: NDArray[np.uint64]) -> Iterator[tuple[slice, NDArray[np.int64]]]:
    """Twice the mid-ranks, from 0, of the upper halves of sorted keys; parts yielded may be overwritten."""
    known, begun = -1, 0  # the upper half of the run that was open at the end of the last part, and its start
    for start in range(0, keys.size, _CHUNK):
        part = slice(start, min(start + _CHUNK, keys.size))
        upper = keys[part] >> np.uint64(32)
        starts = np.flatnonzero(np.append(True, upper[1:] != upper[:-1]))
        lengths = np.diff(starts, append=len(upper))
        last = int(upper[-1])
        end = part.stop + int(np.searchsorted(keys[part.stop :], np.uint64((last + 1) << 32)))
        starts += start
        ends = np.append(starts[1:], end)
        if int(upper[0]) == known:
            starts[0] = begun
        known, begun = last, int(starts[-1])
        yield part, np.repeat(starts + ends - 1, lengths)
