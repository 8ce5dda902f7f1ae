"""Bounds on how much one unit of a picture can change sums over blocks of pixels, over all placements.

A picture is released as layers. A :class:`Layer` cuts it into square blocks and adds noise to the sum, over
each block B, of one linear value c·x of the pixels' colours x ∈ [0, h]^channels. Two pictures that differ in
the pixels S of one unit have colour differences d_p ∈ [−h, h]^channels, p ∈ S, any of them. Write n_B for
the number of pixels of S in B, and v for a corner of the cube, v ∈ {−1, 1}^channels.

**Laplace** noise of scale s_B has the loss ε = Σ_layers Σ_B |Σ_{p∈B∩S} c·d_p| / s_B. By the triangle
inequality it is at most Σ_{p∈S} Σ_layers |c·d_p| / s_{B(p)}; each term is convex in d_p, so largest at a
corner:

    ε ≤ h · Σ_{p∈S} g(p),    g(p) = max_v Σ_layers |c·v| / s_{B(p)}.

If one corner attains g at every pixel of S (always where scales are uniform, and for one pixel) nothing
cancels and this is exact. The worst S is the m pixels of largest g, or the rectangle of largest sum.

**Gaussian** noise of deviation σ_B has μ² = Σ_layers Σ_B (Σ_{p∈B∩S} c·d_p)² / σ_B². For any two pixels,
(c·d_p)(c·d_q) ≤ ½(c·d_p)² + ½(c·d_q)²; summed over the pairs within each block,

    μ² ≤ Σ_{p∈S} Σ_layers (c·d_p)² n_{B(p)}/σ²_{B(p)} ≤ h² · Σ_{p∈S} max_v Σ_layers (c·v)² n_{B(p)}/σ²_{B(p)},

the last step because the middle is convex in each d_p. If one corner attains every maximum, taking it for
all pixels gives equality. That is so for one pixel, for one layer, and for layers on the same blocks with
scales in a fixed ratio; these are merged here, and one *group* of them has μ² = h²·Σ_B w_B n_B², where
w_B = max_v Σ_layers (c·v)²/σ_B². Which placement is the worst:

- *A rectangle.* Move it along one axis, between two places where its edges meet edges of blocks. The lengths
  it shares with a block and with a piece of that block are linear with slopes in {−1, 0, 1}, never of
  opposite sign, so their product is convex, and so is the bound (a sum of maxima of sums of such
  products). Hence the worst places are those where edges meet, on each axis. Where scales are uniform, one
  period of the blocks is enough; and with one block size, the corner, where as many blocks as possible are
  filled.
- *Any m pixels.* Two bounds hold and the smaller is taken. (a) In each group let every block hold
  k = min(m, largest block) pixels. With n and w in falling order, Σ n_i² w_i is by Abel's summation
  Σ_j (w_j − w_{j+1}) Σ_{i≤j} n_i², and every inner sum is largest when blocks are filled one after the other
  (k² is convex); so the best w get k pixels each and the next one the rest. Groups add up, each at its own
  worst corner. (b) n_B ≤ min(m, pixels of B), so each pixel costs at most
  max_v Σ_layers (c·v)² min(m, |B|)/σ_B², and the m costliest pixels are taken. One of them is exact for a
  group while m fits one block, and whenever the blocks so filled are of full size.

Every term is positive, so rounding errors are relative; the results are raised by 1e-12 to cover them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.mechanisms import LARGEST, SMALLEST
from sfumato.media.images.image_mechanism import Footprint, footprint, picture_shape
from sfumato.privacy import Unit

Whole = NDArray[np.int64]
Array = NDArray[np.float64]


def corner_values(colour: Sequence[float]) -> Array:
    """Return c·v for every corner v ∈ {−1, 1}^channels, one of each pair ±v; first all signs positive."""
    corners = [(1.0, *signs) for signs in itertools.product((1.0, -1.0), repeat=len(colour) - 1)]
    return np.asarray(np.array(corners) @ np.array(colour, dtype=np.float64))


def worst_corner(strengths: Sequence[Array], costs: Sequence[Array]) -> Array:
    """Return max_v Σ_i strengths[i][v]·costs[i] at each place; corner by corner, to save memory."""
    worst: Array | None = None
    for corner in zip(*strengths, strict=True):
        total = corner[0] * costs[0]
        for strength, cost in zip(corner[1:], costs[1:], strict=True):
            total = total + strength * cost
        worst = total if worst is None else np.maximum(worst, total)
    return np.asarray(worst)


def sum_of_largest(values: Array, counts: NDArray[np.int64], wanted: int) -> float:
    """Return the sum of the ``wanted`` largest values, each of which is there ``counts`` times."""
    order = np.argsort(values, axis=None)[::-1]
    ordered, each = values.ravel()[order], counts.ravel()[order]
    taken = np.clip(wanted - (np.cumsum(each) - each), 0, each)
    return float((ordered * taken).sum())


class Axis:
    """``size`` pixels cut into pieces wherever a block of any of the sizes ``blocks`` begins.

    ``edges`` (pieces + 1,) are the cuts and both ends; ``owners`` holds, for each size, the index of the
    block that each piece lies in, and ``ends`` where that block begins and ends.
    """

    def __init__(self, size: int, blocks: Sequence[int]) -> None:
        cuts = [np.arange(0, size, block, dtype=np.int64) for block in set(blocks)]
        self.edges: Whole = np.unique(np.concatenate([*cuts, np.array([size], dtype=np.int64)]))
        self.lengths: Whole = np.diff(self.edges)
        self.owners: list[Whole] = [self.edges[:-1] // block for block in blocks]
        self.ends: list[tuple[Whole, Whole]] = [
            (owner * block, np.minimum((owner + 1) * block, size))
            for owner, block in zip(self.owners, blocks, strict=True)
        ]


class Stretches:
    """Stretches of ``size`` pixels inside an axis, from every start where one of their ends meets a cut.

    A ``size`` beyond the axis means all of it. ``last`` leaves out the starts beyond it. ``pieces``
    (starts, k) holds the pieces that each stretch touches, ``overlap`` (starts, k) how many pixels of each.
    """

    def __init__(self, axis: Axis, size: int, last: int | None = None) -> None:
        self._axis, whole = axis, int(axis.edges[-1])
        self.size = min(size, whole)
        latest = whole - self.size if last is None else min(last, whole - self.size)
        starts = np.unique(np.concatenate([axis.edges, axis.edges - self.size]))
        self.starts: Whole = starts[(starts >= 0) & (starts <= latest)]
        first = np.searchsorted(axis.edges, self.starts, side="right") - 1
        after = np.searchsorted(axis.edges, self.starts + self.size, side="left")
        reach = first[:, None] + np.arange(int((after - first).max()))
        self.pieces = np.minimum(reach, len(axis.lengths) - 1)
        inside = self._shared(axis.edges[:-1], axis.edges[1:])
        self.overlap: Array = np.where(reach < len(axis.lengths), inside, 0.0)

    def of_blocks(self, kind: int) -> Array:
        """Return the pixels that each stretch shares with the block, of size ``kind``, of each piece."""
        return self._shared(*self._axis.ends[kind])

    def sums(self, values: Array) -> Array:
        """Return Σ overlap · value over the pieces of each stretch; ``values`` is (pieces, columns)."""
        return self._sums(self.overlap, values)

    def square_sums(self, values: Array) -> Array:
        """Return Σ overlap² · value over the pieces of each stretch; ``values`` is (pieces, columns)."""
        return self._sums(np.square(self.overlap), values)

    def _sums(self, weights: Array, values: Array) -> Array:
        # Sums of positive terms; differences of running sums would be faster but lose digits to cancellation.
        total = np.zeros((len(self.starts), values.shape[1]))
        for weight, piece in zip(weights.T, self.pieces.T, strict=True):
            total += weight[:, None] * values[piece]
        return total

    def _shared(self, low: Whole, high: Whole) -> Array:
        start = self.starts[:, None]
        common = np.minimum(high[self.pieces], start + self.size) - np.maximum(low[self.pieces], start)
        return np.asarray(np.maximum(common, 0), dtype=np.float64)


_ROUNDING = 1.0 + 1e-12
# How many pairs of a placement and a piece of it are held in memory at once.
_AT_ONCE = 1 << 20


@dataclass(frozen=True)
class Layer:
    """Blocks of ``block``×``block`` pixels (smaller in the last row and column) with noise on their sums.

    ``colour`` holds one number a channel: the value of a pixel in this layer is Σ colour[c]·value[c].
    ``scale`` is the Laplace scale or the Gaussian deviation of the noise on the *sum* of that value over a
    block: one number, or an array with one number for each block, of shape (⌈height/block⌉, ⌈width/block⌉).
    """

    block: int
    colour: tuple[float, ...]
    scale: float | Array

    def __post_init__(self) -> None:
        check_scales(self.scale)


def check_scales(scales: Any) -> None:
    """Refuse noise scales that are not positive numbers in the range of every size and budget."""
    values = np.asarray(scales)
    if not ((values >= SMALLEST) & (values <= LARGEST)).all():
        raise BadInput(
            f"the noise would have a scale from {values.min():g} to {values.max():g}, and scales from "
            f"{SMALLEST:g} to {LARGEST:g} can be drawn: give another `epsilon`.",
            parameter="epsilon",
        )


def laplace_epsilon(layers: Sequence[Layer], unit: Unit | str, shape: Sequence[int], high: float) -> float:
    """Return a certified bound on ε of ``layers`` with Laplace noise, over every placement of ``unit``.

    ``unit`` is one of pictures under replacement: its pixels take any colour in [0, ``high``]^channels.
    ``shape`` is (height, width) or (height, width, channels). The bound is proportional to 1/scale.
    """
    (height, width, _), covered = picture_shape(shape), footprint(unit, shape)
    strengths, maps = [np.abs(corner_values(layer.colour)) for layer in layers], _maps(layers)
    if all(inverse.size == 1 for inverse in maps):
        return high * covered.pixels * float(worst_corner(strengths, maps)[0, 0]) * _ROUNDING
    blocks = [int(layer.block) for layer in layers]
    rows, columns = Axis(height, blocks), Axis(width, blocks)
    losses = worst_corner(strengths, _onto_pieces(maps, rows, columns))
    if covered.anywhere:
        worst = sum_of_largest(losses, np.outer(rows.lengths, columns.lengths), covered.anywhere)
    else:
        down, across = Stretches(rows, covered.rows), Stretches(columns, covered.columns)
        worst = float(down.sums(across.sums(losses.T).T).max())
    return high * worst * _ROUNDING


def gaussian_mu(layers: Sequence[Layer], unit: Unit | str, shape: Sequence[int], high: float) -> float:
    """Return a certified bound on the μ of ``layers`` with Gaussian noise, whose noise multiplier is 1/μ.

    Arguments are those of :func:`laplace_epsilon`; the bound is proportional to 1/scale.
    """
    (height, width, _), covered = picture_shape(shape), footprint(unit, shape)
    bound = _pixels_square if covered.anywhere else _rectangle_square
    square = bound(_grouped(layers), height, width, covered)
    return high * math.sqrt(square) * _ROUNDING


@dataclass(frozen=True)
class _Group:
    """Layers on the same blocks whose scales stand in a fixed ratio.

    ``strength`` is Σ (c·v)²/ratio² for each corner v; ``precision`` is 1/σ_B² of the first layer, of shape
    (1, 1) where that is the same for all blocks.
    """

    block: int
    strength: Array
    precision: Array

    @property
    def weight(self) -> Array:
        """w_B of the proof."""
        return np.asarray(self.strength.max() * self.precision)


def _grouped(layers: Sequence[Layer]) -> list[_Group]:
    groups: list[_Group] = []
    for layer, inverse in zip(layers, _maps(layers), strict=True):
        strength, precision = np.square(corner_values(layer.colour)), np.square(inverse)
        for i, group in enumerate(groups):
            if group.block != layer.block or group.precision.shape != precision.shape:
                continue
            ratio = precision / group.precision
            # Scales that differ in their last digits are taken for the smaller ones, which only adds loss.
            if ratio.max() <= ratio.min() * (1.0 + 1e-9):
                groups[i] = _Group(group.block, group.strength + ratio.max() * strength, group.precision)
                break
        else:
            groups.append(_Group(int(layer.block), strength, precision))
    return groups


def _rectangle_square(groups: Sequence[_Group], height: int, width: int, covered: Footprint) -> float:
    """Return the bound on μ²/h² for rectangles."""
    blocks, even = [group.block for group in groups], all(group.precision.size == 1 for group in groups)
    if len(groups) == 1 and even:
        sides = (_filled(side, blocks[0]) for side in (covered.rows, covered.columns))
        return float(groups[0].weight[0, 0]) * math.prod(sides)
    rows, columns = Axis(height, blocks), Axis(width, blocks)
    period = math.lcm(*blocks) if even else None
    down, across = Stretches(rows, covered.rows, period), Stretches(columns, covered.columns, period)
    if len(groups) == 1:
        return float(down.square_sums(across.square_sums(groups[0].weight.T).T).max())
    precisions = _onto_pieces([group.precision for group in groups], rows, columns)
    tall = [down.of_blocks(kind) for kind in range(len(groups))]
    wide = [across.of_blocks(kind) for kind in range(len(groups))]
    strengths, worst = [group.strength for group in groups], 0.0
    step = max(1, _AT_ONCE // across.overlap.size)
    for first in range(0, len(down.starts), step):
        part, total = slice(first, first + step), np.zeros(())
        for k in range(down.pieces.shape[1]):
            piece = down.pieces[part, k, None, None]
            costs = [
                high[part, k, None, None] * broad * precision[piece, across.pieces]
                for high, broad, precision in zip(tall, wide, precisions, strict=True)
            ]
            area = down.overlap[part, k, None, None] * across.overlap
            total = total + (area * worst_corner(strengths, costs)).sum(axis=2)
        worst = max(worst, float(total.max()))
    return worst


def _pixels_square(groups: Sequence[_Group], height: int, width: int, covered: Footprint) -> float:
    """Return the bound on μ²/h² for so many pixels anywhere: the smaller of (a) and (b)."""
    blocks, count = [group.block for group in groups], covered.anywhere
    filled = 0.0
    for group in groups:
        room = min(count, min(group.block, height) * min(group.block, width))
        if group.weight.size == 1:
            filled += float(group.weight[0, 0]) * _filled(count, room)
        else:
            best, (full, rest) = np.sort(group.weight, axis=None)[::-1], divmod(count, room)
            filled += room**2 * float(best[:full].sum()) + rest**2 * float(best[full : full + 1].sum())
    rows, columns = Axis(height, blocks), Axis(width, blocks)
    costs = []
    for kind, precision in enumerate(_onto_pieces([group.precision for group in groups], rows, columns)):
        (top, bottom), (left, right) = rows.ends[kind], columns.ends[kind]
        costs.append(precision * np.minimum(np.outer(bottom - top, right - left), count))
    each = worst_corner([group.strength for group in groups], costs)
    return min(filled, sum_of_largest(each, np.outer(rows.lengths, columns.lengths), count))


def _filled(count: int, block: int) -> float:
    """Return Σ n² when ``count`` pixels fill blocks of ``block`` pixels one after the other."""
    full, rest = divmod(count, block)
    return float(full * block**2 + rest**2)


def _maps(layers: Sequence[Layer]) -> list[Array]:
    """Return 1/scale of each layer, of shape (rows, columns) of its blocks; (1, 1) where all are equal."""
    scales = [np.atleast_2d(np.asarray(layer.scale, dtype=np.float64)) for layer in layers]
    return [1.0 / (scale[:1, :1] if scale.min() == scale.max() else scale) for scale in scales]


def _onto_pieces(maps: Sequence[Array], rows: Axis, columns: Axis) -> list[Array]:
    """Return each map read at the pieces that the blocks of all layers cut the picture into."""
    shape = (len(rows.lengths), len(columns.lengths))
    return [
        np.broadcast_to(values, shape) if values.size == 1 else values[np.ix_(down, across)]
        for values, down, across in zip(maps, rows.owners, columns.owners, strict=True)
    ]
