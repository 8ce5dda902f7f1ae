"""All distances between rows, a piece at a time: float32 where BLAS is fast, float64 where it matters.

A sweep never holds the n × n matrix; whoever needs distances visits its pieces. They come from a product of
matrices in float32 where that leaves nearly all distances with four digits or more, and in float64 where it
does not. :attr:`Points.error` bounds how wrong they can be, so that a visitor can ask :meth:`Points.exact`
for the few distances whose order is left open.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.noise import each_block, processors

__all__ = ["Points", "Progress", "Visitor", "sweep"]

Progress = Callable[[str, float], None]
Visitor = Callable[[NDArray[np.float32], int], None]

_WIDEST_SINGLE = 50_000  # columns up to which the bound on float32's error means something
_PILOT = 256  # rows that say whether float32 will do
_CHUNK = 2048  # rows that are converted to float64 at a time
_BLOCK = 1 << 24  # most distances that one matrix product yields
_PIECE = 320_000  # distances that a visitor sees at a time: what fits a processor's cache


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
        """The rows of ``values``, an array (n, d) of finite numbers, which is kept and not modified.

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
        """(κ, λ): a swept squared distance v of row i is within κ·norms[i] + λ·v of the true one.

        A sum of d products in any order is off by at most d·u of the product of the lengths, where u is half
        the spacing of numbers near 1 (Higham, *Accuracy and Stability*, 3.1); rounding of the rows, of the
        norms and of their sum adds a few u. The other row's squared length is at most 2·norms[i] + 2v, which
        gives the factor 3. Distances are shown in float32, which adds to λ.
        """
        unit = float(np.finfo(self.moved.dtype).eps) / 2.0
        kappa = 3.0 * (self.moved.shape[1] + 16) * unit
        return kappa, kappa + 2.0**-24

    def exact(self, rows: NDArray[np.intp], others: NDArray[np.intp]) -> NDArray[np.float64]:
        """Squared distances of ``rows[p]`` to ``others[p]``, from differences in float64."""
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
    norms = np.einsum("ij,ij->i", pilot, pilot)
    squared = (norms + norms[:, None] - 2.0 * (pilot @ pilot.T))[np.triu_indices(len(pilot), 1)]
    return bool(np.quantile(squared, 0.02) >= 1e-4 * norms.mean())


def _scaled(values: NDArray[Any], exponent: int) -> NDArray[np.float64]:
    return np.ldexp(values.astype(np.float64), -exponent)
