"""Base of mechanisms that add noise to sums over blocks of pixels, and the choice of the blocks.

**Guarantee.** Block sums are whole numbers on a public grid (see ``planes``). Laplace noise of scale s_B on
each (δ = 0), or Gaussian noise of deviation σ_B (δ > 0), is drawn in real numbers and rounded to that grid,
which is post-processing because the sums are whole. ``placements`` bounds the loss Σ|Δ_B|/s_B, or
√Σ(Δ_B/σ_B)², over every placement of a unit under replacement of its pixels by any colour. What is made of
the noisy sums is post-processing.

**Choice of blocks.** Unless they are given, the side of the blocks and the shares of the planes are those
with the smallest expected error, before any picture is seen: that of the best linear estimate under the
public spectrum, which is what noise leaves of the frequencies that blocks resolve, and all of the others.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import KW_ONLY, dataclass
from functools import cached_property, lru_cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sfumato.mechanisms import RandomSource, delta_between, noise_multiplier, positive
from sfumato.media.images.image_mechanism import PictureMechanism, Shape, footprint, picture_unit
from sfumato.media.images.placements import Layer, gaussian_mu, laplace_epsilon
from sfumato.media.images.planes import UNITY, Blocks, block_sums, levels_of, plane_names
from sfumato.media.images.restoration import STATISTICS, Bands, Noise
from sfumato.noise import LAPLACE, MAX_SCALE, NORMAL, Rounded
from sfumato.privacy import Guarantee, Unit

Array = NDArray[np.float64]
Single = NDArray[np.float32]

_SIDES = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 56, 64, 80, 96, 112, 128, 192, 256)
_TIMES = (1, 2, 3, 4)
_SHARES = (0.1, 0.2, 0.3, 0.4, 0.5)
# An error of blue or red difference is seen less than one of luma.
_SEEN = {"luma": 1.0, "blue": 0.5, "red": 0.5, "alpha": 1.0}
# So many frequencies are taken one by one, and as many of the others.
_EACH = 24
# How much of the variance of the noise counts for those who know what photographs look like. A network sees
# shapes and outliers too, and does as well as Wiener's filter under less noise.
_TAKEN = {"wiener": 1.0, "learned": 0.6}
# How much larger errors are taken to be in blocks that the edge cuts off; even noise is also filtered faster.
_EDGE = 1.0
# Errors as close as this count as equal, and fewer blocks are faster.
_EQUAL = 1.005
# What transparency gets of the budget, where there is any.
_ALPHA = 0.2


def relative_scales(channels: int, chroma: float, gaussian: bool) -> tuple[float, ...]:
    """Return noise scales of the planes relative to each other; blue and red together get ``chroma``.

    A share of pure ε divides the scale; a share of μ² divides its square.
    """
    names = plane_names(channels)
    alpha = _ALPHA if "alpha" in names else 0.0
    two = chroma if "blue" in names else 0.0
    shares = {"luma": (1.0 - alpha) * (1.0 - two), "blue": two / 2, "red": two / 2, "alpha": alpha}
    for name in ("blue", "red"):
        shares[name] *= 1.0 - alpha
    return tuple(float(shares[name] ** (-0.5 if gaussian else -1.0)) for name in names)


def loss(
    blocks: Blocks, scales: tuple[float | Array, ...], unit: Unit, gaussian: bool, *, high: float = 1.0
) -> float:
    """Return certified ε or μ of noise of ``scales`` on block sums of planes, for pixels in [0, ``high``]."""
    weights = blocks.weights / UNITY
    layers = [
        Layer(blocks.side(plane), tuple(float(w) for w in weights[plane]), scale)
        for plane, scale in enumerate(scales)
    ]
    return (gaussian_mu if gaussian else laplace_epsilon)(layers, unit, blocks.shape, high)


def plane_scales(
    blocks: Blocks, chroma: float, unit: Unit, target: float, gaussian: bool
) -> tuple[float, ...]:
    """Return uniform noise scales on block sums of pixels in [0, 1] with the loss ``target`` (ε or μ)."""
    relative = relative_scales(blocks.shape[2], chroma, gaussian)
    factor = loss(blocks, relative, unit, gaussian) / target
    return tuple(factor * scale for scale in relative)


def expected_square(
    plane: str, shape: Shape, side: int, scale: float, gaussian: bool, restore: str = "wiener"
) -> float:
    """Return the expected squared error of a pixel, in 255ths of white; ``scale`` is that of block sums."""
    rows, columns = (-(-length // side) for length in shape[:2])
    weights, power, covariance = _averaged(plane, rows, columns, side)
    # On the scale of orthonormal coefficients of pixels, a block mean weighs as much as its side.
    noise = (255.0 * scale / side) ** 2 * (1.0 if gaussian else 2.0) * _TAKEN.get(restore, 1.0)
    known = covariance**2 / (power + noise) if restore in _TAKEN else power - noise
    return _variance(plane, rows * side, columns * side) - float((weights * known).sum())


@lru_cache(maxsize=512)
def _averaged(plane: str, rows: int, columns: int, side: int) -> tuple[Array, Array, Array]:
    """Return weights a pixel of some frequencies of averages, the power of these, and their covariance."""
    (down, high), (across, wide) = _some(rows), _some(columns)
    power, covariance = STATISTICS[plane].averaged(Bands(rows, side, down), Bands(columns, side, across))
    return np.outer(high, wide) / (rows * columns * side**2), power, covariance


@lru_cache(maxsize=512)
def _variance(plane: str, height: int, width: int) -> float:
    """Return the expected squared distance of a pixel from the public mean."""
    weights, power, _ = _averaged(plane, height, width, 1)
    return float((weights * power).sum())


def _some(count: int) -> tuple[NDArray[np.int64], Array]:
    """Return lowest of ``count`` frequencies and ever fewer of the others, and how many each stands for."""
    ends = np.unique(np.append(np.geomspace(_EACH, max(count, _EACH), _EACH).astype(np.int64), range(_EACH)))
    ends = np.append(ends[ends < count], count)
    return (ends[:-1] + ends[1:] - 1) // 2, np.diff(ends).astype(np.float64)


def _ragged(shape: Shape, side: int) -> float:
    """Return the share of pixels in blocks that the edge of the picture cuts off."""
    height, width = shape[0], shape[1]
    whole = (height - height % side) * (width - width % side)
    return 1.0 - whole / (height * width) if side <= min(height, width) else 0.0


def _part(shape: Shape, unit: Unit) -> Shape:
    """Return a smaller picture in which the unit costs as much, or nearly so, as in a large one."""
    covered = footprint(unit, shape)
    rows, columns = (0, 0) if unit.size is None else covered[:2]
    return min(shape[0], max(512, 4 * rows)), min(shape[1], max(512, 4 * columns)), shape[2]


@lru_cache(maxsize=256)
def sensible_blocks(
    shape: Shape,
    unit: Unit,
    target: float,
    gaussian: bool,
    block: int | None,
    chroma: float | None,
    restore: str,
) -> tuple[Blocks, float]:
    """Return sides of blocks and chroma's share of the budget with the smallest expected error.

    ``target`` is ε, or μ where noise is Gaussian. A given ``block`` or ``chroma`` is kept.
    """
    names = plane_names(shape[2])
    longest = max(shape[0], shape[1])
    sides = [side for side in _SIDES if side < longest] + [longest] if block is None else [block]
    times = _TIMES if "blue" in names else (1,)
    part = _part(shape, unit)
    # Of the whole item a part is looked at: ε grows with the number of pixels, and μ with its root.
    pixels = shape[0] * shape[1] / (part[0] * part[1]) if unit.size is None else 1.0
    reached = target / (math.sqrt(pixels) if gaussian else pixels)
    shares = [0.0] if "blue" not in names else [chroma] if chroma is not None else list(_SHARES)

    def error(side: int, multiple: int, two: float) -> float:
        blocks = Blocks(part, side, side * multiple)
        scales = plane_scales(blocks, two, unit, reached, gaussian)
        return sum(
            _SEEN[name]
            * (1.0 + _EDGE * _ragged(shape, blocks.side(plane)))
            * expected_square(name, shape, blocks.side(plane), scale, gaussian, restore)
            for plane, (name, scale) in enumerate(zip(names, scales, strict=True))
        )

    side, multiple, two = sides[0], times[-1 if len(times) == 1 else 1], shares[len(shares) // 2]
    for _ in range(2):  # one thing after the other, twice: the three hardly depend on each other
        errors = [error(one, multiple, two) for one in sides]
        side = max(one for one, each in zip(sides, errors, strict=True) if each <= _EQUAL * min(errors))
        multiple = min(
            (one for one in times if one == 1 or side * one <= longest), key=lambda one: error(side, one, two)
        )
        two = min(shares, key=lambda one: error(side, multiple, one))
    return Blocks(shape, side, side * multiple), two


@dataclass(eq=False, repr=False)
class PlacedNoise(PictureMechanism):
    """Base of mechanisms that add noise to ``what``; subclasses hold ``epsilon`` and may hold ``delta``."""

    #: What noise is added to, as theorems name it.
    what: ClassVar[str]

    _: KW_ONLY
    randomness: RandomSource = None

    @abstractmethod
    def design(self, shape: Shape) -> Any:
        """Return what noise is added to, and how much of it, for pictures of ``shape``.

        A pure function of the parameters. It says whether the noise is ``gaussian`` rather than Laplace, and
        its ``loss`` for a unit: certified ε, or μ where the noise is Gaussian, over every placement.
        """

    def proven(self, unit: Unit, shape: Shape) -> Guarantee:
        """Return ε, or a curve of Gaussian noise, over every placement of ``unit``."""
        design = self.design(shape)
        multiplier = 1.0 / design.loss(unit)
        if design.gaussian:
            theorem = f"analytic Gaussian, L2 sensitivity of {self.what} over every placement"
            return Guarantee.gaussian(multiplier, unit=unit, theorem=theorem, at_delta=self._delta())
        theorem = f"Laplace mechanism, L1 sensitivity of {self.what} over every placement"
        return Guarantee.laplace(multiplier, unit=unit, theorem=theorem)

    def parameters(self) -> dict[str, Any]:
        """Return every parameter but the randomness, as JSON values."""
        return super().parameters() | {"unit": str(picture_unit(self.unit))}

    def _target(self) -> float:
        """Return ε, or the μ of (ε, δ), less 1e-11 of it: so the proven ε is at most the requested one."""
        epsilon, delta = positive("epsilon", self.epsilon), self._delta()
        return (1.0 - 1e-11) * (epsilon if delta == 0.0 else 1.0 / noise_multiplier(epsilon, delta))

    def _delta(self) -> float:
        delta = getattr(self, "delta", 0.0)
        return 0.0 if delta == 0 else delta_between(delta)

    def _add_noise(self, cells: Array, relative: Array, rounded: Rounded, white: float, first: int) -> None:
        """Add noise to whole numbers ``cells`` (n, size) in place, picture ``first`` of the data first.

        ``relative`` (size,) is the scale of the noise on each over the largest, which ``rounded`` has.
        ``white``, the scale they stand on, is part of keyed content: equal numbers on another scale get
        noise of another size, which must not come from the same stream.
        """
        count, size = cells.shape
        content = np.column_stack([cells, np.full(count, white)]) if self.keyed else cells
        streams = self._streams(first, content)
        height = count // len(streams)
        relative = np.tile(relative, height)
        for part, stream in enumerate(streams):
            noise = rounded.draw(stream, height * size, relative=relative)[0]
            cells[part * height : (part + 1) * height] += noise.reshape(height, size)


# The finest grid that floating point is put on.
_FINEST = 65_535


class Design:
    """Blocks and noise for pictures of one shape; ``scales`` are on block sums of pixels in [0, 1]."""

    def __init__(
        self, blocks: Blocks, chroma: float, scales: tuple[float | Array, ...], gaussian: bool
    ) -> None:
        self.blocks, self.chroma, self.scales, self.gaussian = blocks, chroma, scales, gaussian
        self._rounded: dict[int, Rounded] = {}

    @cached_property
    def each(self) -> Array:
        """The scale of every block of every plane, one after the other."""
        sizes = self.blocks.sizes
        return np.asarray(
            np.concatenate([np.broadcast_to(np.ravel(s), n) for s, n in zip(self.scales, sizes, strict=True)])
        )

    @cached_property
    def relative(self) -> Array:
        """Every scale over the largest."""
        return np.asarray(self.each / self.each.max())

    @cached_property
    def noise(self) -> Noise:
        """The noise on block averages."""
        factor = 255.0 if self.gaussian else 255.0 * math.sqrt(2.0)
        each = [factor * scale / self.blocks.counts(plane) for plane, scale in enumerate(self.scales)]
        return Noise(each, not self.gaussian)

    @cached_property
    def counts(self) -> Array:
        """How many pixels every block holds."""
        return np.concatenate([self.blocks.counts(plane).ravel() for plane in range(len(self.scales))])

    def loss(self, unit: Unit) -> float:
        """Return certified ε or μ over every placement of ``unit``."""
        return loss(self.blocks, self.scales, unit, self.gaussian)

    def white(self, high: float) -> int:
        """Return white of the levels that pixels are put on: that of their type, or less under much noise."""
        white = _FINEST if high == 1.0 else int(high)
        while white > 1 and self.each.max() * white * UNITY > MAX_SCALE:
            white >>= 1
        return white

    def rounded(self, white: int) -> Rounded:
        """Return the noise with the largest scale, in steps of the grid of ``white`` levels."""
        if white not in self._rounded:
            # A hair more than the scales, for what is lost when they are multiplied out.
            scale = float(self.each.max()) * white * UNITY * (1.0 + 1e-12)
            self._rounded[white] = Rounded(NORMAL if self.gaussian else LAPLACE, [scale])
        return self._rounded[white]


class BlockNoise(PlacedNoise):
    """Base of mechanisms that release noisy block sums; subclasses hold ``epsilon`` and ``delta``."""

    what = "block sums"
    delta: float

    @abstractmethod
    def design(self, shape: Shape) -> Design:
        """Return blocks and noise scales for pictures of ``shape``: a pure function of the parameters."""

    def working_bytes(self, columns: int, rows: int = 1) -> int:
        """Return little for each value and more for each block, or more for each value of unknown shape."""
        blocks = columns if self.shape is None else sum(self.design(self._picture(columns)).blocks.sizes)
        return (24 * columns + 180 * blocks) * rows

    def _prepared(self, shape: Shape, high: float) -> None:
        design = self.design(shape)
        design.rounded(design.white(high))

    def _noisy(self, design: Design, pictures: NDArray[Any], high: float, first: int) -> list[Single]:
        """Return noisy averages of each plane over blocks, (n, rows, columns), where 255 is white."""
        white = design.white(high)
        sums = block_sums(levels_of(pictures, white), design.blocks, white)
        self._add_noise(sums, design.relative, design.rounded(white), float(white), first)
        sums *= 255.0 / (white * UNITY) / design.counts
        means, ends = sums.astype(np.float32), np.cumsum(design.blocks.sizes)
        return [
            part.reshape(len(sums), *design.blocks.grid(plane))
            for plane, part in enumerate(np.split(means, ends[:-1], axis=1))
        ]
