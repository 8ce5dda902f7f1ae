"""Distances between all rows in pieces, exact nearest neighbours, and rank correlation of distances.

A sweep never holds the n × n matrix; whoever needs distances visits its pieces. They come from a product of
matrices in float32 where that leaves nearly all distances with four digits or more, and in float64 where it
does not. :attr:`Points.error` bounds how wrong they can be, so that a visitor can ask :meth:`Points.exact`
for the few distances whose order is left open.

The nearest neighbours of every row are exact; :func:`shared` counts how many of them two spaces share.

Spearman's correlation of two lists of distances is computed from ten to a hundred million pairs.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.noise import each_block, processors

Progress = Callable[[str, float], None]
Visitor = Callable[[NDArray[np.float32], int], None]

_WIDEST_SINGLE = 50_000  # columns up to which the bound on float32's error means something
_PILOT = 256  # rows that say whether float32 will do
_CHUNK = 2048  # rows that are converted to float64 at a time
_BLOCK = 1 << 24  # most distances that one matrix product yields
_PIECE = 320_000  # distances that a visitor sees at a time: what fits a processor's cache

_SPARE = 12  # candidates beyond the k that are wanted, so that float32 rarely leaves the k-th open
_BINS = 1 << 16
_CELLS = 1 << 20
_RANKS_PILOT = 1024  # rows whose distances say where the bins should lie
_TAIL = 1e-4  # share of the pilot's distances below the first and above the last cell
_RANKS_CHUNK = 1 << 18


@dataclass(frozen=True)
class Points:
    """Rows (n, d) as :func:`sweep` needs them; made by :meth:`of`.

    Distances are in units of 2^``exponent``, the power of two that brings the largest value to at most 1, so
    that nothing overflows. ``moved`` holds the rows in those units, moved to their middle, in float32 or
    float64; ``norms`` their squared lengths.
    """

    values: NDArray[Any]
    exponent: int
    moved: NDArray[Any]
    norms: NDArray[Any]

    @classmethod
    def of(cls, values: NDArray[Any]) -> Points:
        """Return the rows of ``values``, an array (n, d) of finite numbers, which is kept and not modified.

        The middle is rounded to a power of two near the spread: integers stay integers (times a power of
        two), so that distances that are equal in truth stay equal in float32.
        """
        exponent = math.frexp(max(abs(float(values.max())), abs(float(values.min()))))[1]
        start = _scaled(values[:1], exponent)[0]
        total, squares = np.zeros(values.shape[1]), 0.0
        for first in range(0, len(values), _CHUNK):
            gap = _scaled(values[first : first + _CHUNK], exponent) - start
            total += gap.sum(axis=0)
            squares += float(np.einsum("ij,ij->", gap, gap))
        spread = math.sqrt(squares / values.size)
        middle = start
        if spread > 0.0:
            step = 2.0 ** math.floor(math.log2(spread))
            middle = start + np.rint(total / len(values) / step) * step
        chosen = np.linspace(0, len(values) - 1, min(len(values), _PILOT)).astype(np.intp)
        kind = np.float32 if _single_will_do(_scaled(values[chosen], exponent) - middle) else np.float64
        moved, norms = np.empty(values.shape, dtype=kind), np.empty(len(values), dtype=kind)
        for first in range(0, len(values), _CHUNK):
            part = slice(first, first + _CHUNK)
            moved[part] = _scaled(values[part], exponent) - middle
            norms[part] = np.einsum("ij,ij->i", moved[part], moved[part], dtype=np.float64)
        return cls(values, exponent, moved, norms)

    def __len__(self) -> int:
        return len(self.values)

    @property
    def error(self) -> tuple[float, float]:
        """Return (κ, λ): a swept squared distance v of row i is within κ·norms[i] + λ·v of the true one.

        A sum of d products in any order is off by at most d·u of the product of the lengths, where u is half
        the spacing of numbers near 1 (Higham, *Accuracy and Stability*, 3.1); rounding of the rows, of the
        norms and of their sum adds a few u. The other row's squared length is at most 2·norms[i] + 2v, which
        gives the factor 3. Distances are shown in float32, which adds to λ.
        """
        unit = float(np.finfo(self.moved.dtype).eps) / 2.0
        kappa = 3.0 * (self.moved.shape[1] + 16) * unit
        return kappa, kappa + 2.0**-24

    def exact(self, rows: NDArray[np.intp], others: NDArray[np.intp]) -> NDArray[np.float64]:
        """Return squared distances of ``rows[p]`` to ``others[p]``, from differences in float64."""
        found = np.empty(len(rows))
        size = max(1, (1 << 20) // self.values.shape[1])
        for first in range(0, len(rows), size):
            part = slice(first, first + size)
            gap = _scaled(self.values[rows[part]], self.exponent)
            gap -= _scaled(self.values[others[part]], self.exponent)
            found[part] = np.einsum("ij,ij->i", gap, gap)
        return found


def sweep(points: Points, queries: int, visitors: Sequence[Visitor], report: Callable[[float], None]) -> None:
    """Show every visitor the squared distances of the first ``queries`` rows to all rows.

    A visitor gets an array (rows, n) of float32 and the number of its first row; every row is shown once, in
    pieces, from several threads. It may overwrite a row's distance to itself and nothing else.
    """
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    count = len(points)
    height = max(1, min(512, _BLOCK // count))
    rows = max(1, _PIECE // count)
    blocks = range(0, queries, height)
    workers = min(processors(), len(blocks))
    finished, lock = 0, threading.Lock()

    def work(worker: int) -> None:
        nonlocal finished
        # One buffer for each thread, used again and again: fresh memory costs more than the arithmetic.
        buffer = np.empty((min(height, queries), count), dtype=points.moved.dtype)
        for start in blocks[worker::workers]:
            block = buffer[: min(height, queries - start)]
            np.matmul(-2.0 * points.moved[start : start + len(block)], points.moved.T, out=block)
            for first in range(0, len(block), rows):
                piece = block[first : first + rows]
                piece += points.norms
                piece += points.norms[start + first : start + first + len(piece), None]
                np.maximum(piece, 0.0, out=piece)
                shown = piece.astype(np.float32, copy=False)
                for visit in visitors:
                    visit(shown, start + first)
            with lock:
                finished += len(block)
                report(finished / queries)

    # Every thread multiplies for itself: threads of BLAS would wait for each other after every block.
    with threadpool_limits(limits=1, user_api="blas"):
        each_block(work, workers, workers)


def _single_will_do(pilot: NDArray[np.float64]) -> bool:
    """Whether all but the smallest few distances are so large against the rows that float32 orders them.

    float32 products leave an error near 1e-7 of the squared lengths. Where it is at most 1e-3 of the squared
    distance of 98 pairs in 100, those keep their ranks to that share, and however the others are shuffled, a
    rank correlation changes by no more than about 0.02³. Beyond 50,000 columns nothing is promised of it.
    """
    if pilot.shape[1] > _WIDEST_SINGLE:
        return False
    return bool(np.quantile(_pair_distances(pilot), 0.02) >= 1e-4 * np.square(pilot).sum(axis=1).mean())


def _pair_distances(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the squared distances of all pairs of a few rows."""
    norms = np.einsum("ij,ij->i", rows, rows)
    return np.asarray((norms + norms[:, None] - 2.0 * (rows @ rows.T))[np.triu_indices(len(rows), 1)])


def _scaled(values: NDArray[Any], exponent: int) -> NDArray[np.float64]:
    return np.ldexp(values.astype(np.float64), -exponent)


class Nearest:
    """A visitor of a sweep that finds the nearest neighbours of each row; ``found`` has shape (queries, k).

    For every k in ``sizes`` the first k columns of ``found`` are the k nearest neighbours by the true
    distances, the row itself left out; equal distances are taken in the order of rows. Candidates are chosen
    by float32 distances, and wherever those do not decide who is among the k, float64 decides.
    """

    def __init__(self, points: Points, queries: int, sizes: Sequence[int]) -> None:
        self._points = points
        self._sizes = sorted(sizes)
        self.found = np.empty((queries, self._sizes[-1]), dtype=np.intp)

    def visit(self, squared: NDArray[np.float32], first: int) -> None:
        """Find the neighbours of rows ``first`` … whose squared distances to all rows are ``squared``."""
        here = np.arange(len(squared))
        squared[here, first + here] = np.inf
        others = squared.shape[1] - 1
        kept = min(self._sizes[-1] + _SPARE, others)
        near = np.argpartition(squared, kept - 1, axis=1)[:, :kept]
        value = np.take_along_axis(squared, near, axis=1).astype(np.float64)
        order = np.argsort(value, axis=1)
        near, value = np.take_along_axis(near, order, axis=1), np.take_along_axis(value, order, axis=1)
        kappa, rate = self._points.error
        own = kappa * self._points.norms[first + here, None].astype(np.float64)
        slack = own + rate * value
        low, high = value - slack, value + slack

        # Both ends rise along a row, so all but those that reach into the gap at k are surely in or out.
        undecided = np.zeros(value.shape, dtype=bool)
        for k in self._sizes:
            if k < kept:
                undecided |= (high >= low[:, k, None]) & (low <= high[:, k - 1, None])
        rows, places = np.nonzero(undecided)
        value[rows, places] = self._points.exact(first + rows, near[rows, places])
        order = np.lexsort((near, value), axis=1)
        wanted = self._sizes[-1]
        self.found[first + here] = np.take_along_axis(near, order, axis=1)[:, :wanted]

        # Somebody who is no candidate might be as near as the last one wanted: look at all of the row.
        if kept < others:
            reach = high[:, wanted - 1]
            for row in np.flatnonzero(low[:, -1] <= reach):
                limit = (reach[row] + own[row, 0]) / (1.0 - rate) * (1.0 + 1e-6)
                possible = np.flatnonzero(squared[row] <= limit)
                exact = self._points.exact(np.full(len(possible), first + row), possible)
                self.found[first + row] = possible[np.argsort(exact, kind="stable")[:wanted]]


def shared(one: NDArray[np.intp], other: NDArray[np.intp], k: int) -> NDArray[np.float64]:
    """Return for each row the share of its first k entries in ``one`` that are also in ``other``."""
    both = one[:, :k, None] == other[:, None, :k]
    return np.asarray(both.any(axis=2).mean(axis=1))


def first_pair(row: int, rows: int) -> int:
    """Return where the pairs (row, row + 1), (row, row + 2) … stand among all pairs of ``rows`` rows."""
    return row * rows - row * (row + 1) // 2


def small(first: NDArray[np.float64], second: NDArray[np.float64]) -> float:
    """Return Spearman's correlation with mid-ranks for ties; NaN if either list is constant."""
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
        chosen = np.linspace(0, rows - 1, min(rows, _RANKS_PILOT)).astype(np.intp)
        squared = _pair_distances(points.moved[chosen].astype(np.float64))
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


def binned(first: NDArray[np.uint16], second: NDArray[np.uint16]) -> tuple[float, float]:
    """Return the correlation of the mid-ranks of two lists of bins, with a bound on what binning changed.

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
        return math.nan, math.pi
    parts = np.zeros(-(-first.size // _RANKS_CHUNK))

    def add(part: int) -> None:
        here = slice(part * _RANKS_CHUNK, (part + 1) * _RANKS_CHUNK)
        parts[part] = ranks[0].take(first[here].astype(np.intp)) @ ranks[1].take(second[here].astype(np.intp))

    each_block(add, len(parts))
    return math.fsum(parts) / math.sqrt(squares[0] * squares[1]), turn


def _counts(codes: NDArray[np.uint16]) -> NDArray[np.float64]:
    """Return how many codes fall into each bin."""
    workers = processors()
    counts = np.zeros((workers, _BINS))

    def count(worker: int) -> None:
        for start in range(worker * _RANKS_CHUNK, codes.size, workers * _RANKS_CHUNK):
            counts[worker] += np.bincount(codes[start : start + _RANKS_CHUNK], minlength=_BINS)

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

    def visit(self, squared: NDArray[np.float32], first: int, *, shift: int) -> None:
        """Write the distances of rows ``first`` … to all later rows into their keys, ``shift`` bits up."""
        bits = squared.view(np.uint32)
        for step in range(len(squared)):
            row = first + step
            start = first_pair(row, self._rows)
            later = bits[step, row + 1 : self._rows].astype(np.uint64)
            self.keys[start : start + self._rows - row - 1] |= later << np.uint64(shift)


def exact_ranks(keys: NDArray[np.uint64]) -> float:
    """Return Spearman's correlation of the upper and lower halves of ``keys``, exact; ``keys`` is used up.

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
    for start in range(0, keys.size, _RANKS_CHUNK):
        part = slice(start, min(start + _RANKS_CHUNK, keys.size))
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
