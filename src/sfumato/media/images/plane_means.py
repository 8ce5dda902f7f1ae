"""Noise on block sums of colour planes, restored with public statistics: the default for pictures.

**Guarantee.** That of ``block_noise``: Laplace or Gaussian noise on whole block sums of luma, chroma and
transparency, as much as makes the bound over every placement of the unit the ε that was asked for. All else
is post-processing: pixels are estimated from averages under public statistics, clipped and rounded.

**Edge cases.** A picture smaller than a block is one block. Transparency is a plane of its own with noise of
its own. Floating point is rounded to 65,536 levels first, and 16-bit values lose their last bits where the
noise is so large that the grid would be finer than 2⁻⁴⁰ of it.

**Nested tiers.** All tiers share the blocks and the shares of the planes that are sensible for the most
trusted one. With these fixed, the deviations of all blocks are one vector r times a number: tier i, which
promises (ε_i, δ) or μ_i of the unit, has σ_i·r with σ_i = σ₀·μ₀/μ_i, since the loss √Σ(Δ_B/σ_B)² of
``block_noise`` is inversely proportional to that number for every placement of every unit. Tier i adds the
noises of rungs 0…i to the same whole block sums, rung 0 of deviations σ₀·r and rung j of √(σ²_j −
σ²_{j−1})·r, all independent; sums of independent normals are normal, so it has N(0, σ²_i·r²) noise and proves
what ``PlaneMeans`` with these deviations proves. Noisy sums S + N₀ + … + N_i are rounded once, to the grid
that S stands on; then come restoring, clipping and rounding to pixels.

Together: given S + N₀ in real numbers, everything else is made of noise that does not depend on the picture:
S + N₀ + N₁ adds an independent N₁, and so on. Rounding, restoring and clipping are post-processing too. So
all tiers together prove what the most trusted one proves, for every unit. Under keyed noise the rungs are a
function of the secret, of the block sums and of the list of all tiers, not of the tier that is drawn, so this
holds for tiers that are drawn one at a time. Noise must be keyed and δ > 0: sums of Laplace noises have
another law than Laplace noise, and are not nested here.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.mechanisms import (
    Delta,
    Epsilon,
    ExpectedError,
    OptionalDelta,
    Parameter,
    Tier,
    delta_between,
    epsilon_range,
    numeric,
    one_of,
    proper_share,
    shown,
)
from sfumato.media.images.block_noise import (
    BlockNoise,
    Design,
    expected_square,
    plane_scales,
    sensible_blocks,
)
from sfumato.media.images.image_mechanism import (
    ImageUnit,
    Shape,
    picture_shape,
    picture_unit,
    whole_side,
)
from sfumato.media.images.planes import UNITY, plane_names
from sfumato.media.images.restoration import (
    RESTORES,
    ChosenBlock,
    ChosenChroma,
    RestoreName,
    jpeg_planes,
    restored,
)
from sfumato.noise import NORMAL, Rounded, Stream
from sfumato.privacy import DELTA, IMAGES, REQUIRED, Unit

__all__ = ["PlaneMeans", "PlaneTier"]

Array = NDArray[np.float64]
Single = NDArray[np.float32]


@dataclass(frozen=True)
class Shares:
    """Numbers in (0, 1] on a grid (rows, columns) that covers the picture; compared by value."""

    rows: int
    columns: int
    content: bytes

    @cached_property
    def values(self) -> Array:
        """The numbers, of shape (rows, columns)."""
        return np.frombuffer(self.content, dtype="<f8").reshape(self.rows, self.columns)

    def of_blocks(self, height: int, width: int, side: int) -> Array:
        """Return the smallest share of the cells that each block of ``side`` pixels of a picture touches."""
        return _smallest(_smallest(self.values, height, side).T, width, side).T

    def named(self) -> dict[str, Any]:
        """Return shape, range and digest, as JSON values."""
        return {
            "shape": [self.rows, self.columns],
            "smallest": float(self.values.min()),
            "largest": float(self.values.max()),
            "sha256": hashlib.sha256(self.content).hexdigest(),
        }


def shares_of(value: Any) -> Shares | None:
    """Return ``value`` as a map of shares, if it is None or an array (rows, columns) of numbers in (0, 1]."""
    if value is None or isinstance(value, Shares):
        return value
    array = numeric(value)
    if array is None or array.ndim != 2 or not array.size or not ((array > 1e-6) & (array <= 1.0)).all():
        raise BadInput(
            "`shares` must be an array (rows, columns) of numbers from 0.000001 to 1.", parameter="shares"
        )
    rows, columns = array.shape
    return Shares(rows, columns, np.ascontiguousarray(array, dtype="<f8").tobytes())


def _smallest(values: Array, length: int, side: int) -> Array:
    """Return ``values``, which cover ``length`` pixels along the first axis, on blocks of ``side`` pixels.

    A cell may begin or end between two pixels; it is taken to touch both.
    """
    starts = np.arange(0, length, side)
    first = starts * len(values) // length
    last = -(-np.minimum(starts + side, length) * len(values) // length)
    return np.stack([values[a:b].min(axis=0) for a, b in zip(first, last, strict=True)])


@lru_cache(maxsize=256)
def _design(
    shape: Shape,
    unit: Unit,
    target: float,
    gaussian: bool,
    block: int | None,
    chroma: float | None,
    shares: Shares | None,
    restore: str,
) -> Design:
    blocks, chroma = sensible_blocks(shape, unit, target, gaussian, block, chroma, restore)
    scales: tuple[float | Array, ...] = plane_scales(blocks, chroma, unit, target, gaussian)
    if shares is not None:
        height, width = shape[:2]
        scales = tuple(
            scale / shares.of_blocks(height, width, blocks.side(plane)) for plane, scale in enumerate(scales)
        )
    return Design(blocks, chroma, scales, gaussian)


@dataclass(eq=False, repr=False)
class PlaneMeans(BlockNoise):
    """Adds noise to block sums of luma and chroma and restores the picture from them.

    ``epsilon`` (and ``delta``: 0 for Laplace noise, more for Gaussian) is the promise for ``unit``. ``block``
    is the side of luma's blocks; chroma's are a small multiple of it. Left out, both are what promises the
    smallest error under public statistics, and so is ``chroma``, the share of the budget that both
    differences of colour get together. ``shares``, an array (rows, columns) in (0, 1] stretched over the
    picture, is the part of ε that each place gets: noise there is divided by it. It must be public; the
    promise is that of the place with the largest share. ``restore`` is ``"none"``, ``"smooth"``,
    ``"wiener"`` or ``"learned"``: what is made of the noisy averages (see ``restoration``).

    **Guarantee.** ε, or (ε, δ), for the asked unit under replace: noise on block sums, worst placement.
    """

    kinds = ("picture", "video")
    default_for = ("picture", "video")
    batched = True

    epsilon: Epsilon = REQUIRED
    delta: OptionalDelta = 0.0
    unit: ImageUnit = IMAGES.unit
    block: ChosenBlock = None
    _: KW_ONLY
    shares: Annotated[
        Any,
        Parameter(
            "Public part of ε that each place gets, stretched over the picture.", arity=None, array=True
        ),
    ] = None
    restore: RestoreName = "learned"
    chroma: ChosenChroma = None

    def design(self, shape: Shape) -> Design:
        """Return blocks and noise scales for pictures of ``shape``."""
        one_of("restore", self.restore, RESTORES)
        return _design(
            shape,
            picture_unit(self.unit),
            self._target(),
            self._delta() > 0.0,
            None if self.block is None else whole_side("block", self.block),
            None if self.chroma is None else proper_share("chroma", self.chroma),
            shares_of(self.shares),
            self.restore,
        )

    def soften(self, pictures: NDArray[Any], high: float, first: int) -> NDArray[Any]:
        """Return restored pictures; see :meth:`PictureMechanism.soften`."""
        design = self.design(picture_shape(pictures.shape[1:]))
        means = self._noisy(design, pictures, high, first)
        soft = restored(means, design.noise, design.blocks, self.restore)
        if high != 255.0:
            soft *= np.float32(high / 255.0)
        return soft

    def soften_planes(
        self, pictures: NDArray[Any], high: float, first: int = 0
    ) -> tuple[Single, Single, Single]:
        """Return Y, Cb and Cr of a JPEG with halved chroma, not yet clipped and rounded; 255 is white.

        The release of colour pictures (n, h, w, 3), in the form (n, h, w) and twice (n, ⌈h/2⌉, ⌈w/2⌉): the
        same noise as :meth:`soften` draws, so only one of the two may be released.
        """
        if pictures.ndim != 4 or pictures.shape[3] != 3:
            raise BadInput(
                f"planes of a JPEG are made of colour pictures (n, h, w, 3), not {pictures.shape}."
            )
        design = self.design(picture_shape(pictures.shape[1:]))
        means = self._noisy(design, pictures, high, first)
        return jpeg_planes(means, design.noise, design.blocks, self.restore)

    def expected_error(self, columns: int) -> tuple[ExpectedError, ...]:
        """Return the noise on block averages and, under public statistics, the error of a pixel."""
        shape = self._picture(columns)
        design = self.design(shape)
        found = []
        for plane, name in enumerate(plane_names(shape[2])):
            side, scale = design.blocks.side(plane), float(np.max(design.scales[plane]))
            noise = float(design.noise.deviations[plane].max())
            square = expected_square(name, shape, side, scale, design.gaussian, self.restore)
            of = f"{name}, average of a block, in 255ths of white"
            found.append(ExpectedError(of, "root mean square error", noise))
            of = f"{name}, pixel of a photograph, in 255ths of white"
            found.append(ExpectedError(of, "root mean square error", math.sqrt(square)))
        return tuple(found)

    def parameters(self) -> dict[str, Any]:
        """Return every parameter but the randomness; a map of shares by its shape, range and digest."""
        values = super().parameters()
        given = shares_of(self.shares)
        values["shares"] = None if given is None else given.named()
        if self.shape is not None:
            design = self.design(self._picture(None))
            values |= {"blocks": [design.blocks.luma, design.blocks.chroma], "chroma_share": design.chroma}
        return values


# For what is lost when rungs are multiplied out and squares are taken apart.
_HAIR = 1.0 + 1e-12


@dataclass(eq=False, repr=False)
class PlaneTier(Tier, PlaneMeans):
    """The tier of readers of ``distrust`` among ``levels`` of :class:`PlaneMeans` with Gaussian noise.

    ``epsilon`` is the range (ε_min, ε_max): a tier promises ε_max − distrust·(ε_max − ε_min) of ``unit`` at
    ``delta``. Readers come one at a time, so the noise must be keyed.
    """

    epsilon: Any = REQUIRED
    delta: Delta = DELTA
    shares: None = field(default=None, init=False)

    def design(self, shape: Shape) -> Design:
        """Return the blocks of the most trusted tier, with the noise of this one."""
        levels, tier = self.ladder()
        delta_between(self.delta)
        low, high = epsilon_range(self.epsilon)
        if len(levels) > 1 and low == high:
            raise BadInput(
                f"tiers differ in their ε, but the range `epsilon` {shown(self.epsilon)} is one value.",
                parameter="epsilon",
            )
        members = [self._member(level) for level in levels]
        # A hair more where divided, so that no tier has less noise than it says.
        factors = [max(1.0, members[0]._target() / member._target() * _HAIR) for member in members]
        return _TierDesign(members[0].design(shape), factors, tier)

    def _target(self) -> float:
        return self._member(self.distrust)._target()

    def _member(self, level: float) -> PlaneMeans:
        """Return the mechanism that a tier would be alone; its blocks may be others."""
        low, high = epsilon_range(self.epsilon)
        return PlaneMeans(
            high - float(level) * (high - low),
            self.delta,
            self.unit,
            self.block,
            restore=self.restore,
            chroma=self.chroma,
            shape=self.shape,
        )

    def _notes(self) -> tuple[str, ...]:
        levels, _ = self.ladder()
        notes = super()._notes()
        if self.shape is None:
            return notes
        parameters = self.get_params(deep=False) | {"distrust": levels[0]}
        together = PlaneTier(**parameters).guarantee()
        return (*notes, f"one of {len(levels)} nested tiers; all {len(levels)} together: {together}")


class _TierDesign(Design):
    """A tier's noise on the blocks of ``base``: ``factors`` are the deviations of all tiers over its own."""

    def __init__(self, base: Design, factors: Sequence[float], tier: int) -> None:
        scales = tuple(scale * factors[tier] for scale in base.scales)
        super().__init__(base.blocks, base.chroma, scales, base.gaussian)
        self._base, self._factors, self._tier = base, factors, tier

    def white(self, high: float) -> int:
        """Return one grid for all tiers: that which the noise of the least trusted one can be drawn on."""
        widest = tuple(scale * self._factors[-1] for scale in self._base.scales)
        return Design(self.blocks, self.chroma, widest, self.gaussian).white(high)

    def rounded(self, white: int) -> Rounded:
        """Return the rungs up to this tier, in steps of the grid."""
        first = float(self._base.each.max()) * white * UNITY
        deviations = [first * factor for factor in self._factors]
        steps = [math.sqrt((b - a) * (b + a)) * _HAIR for a, b in pairwise(deviations)]
        return _OneTier([deviations[0] * _HAIR, *steps], self._tier)


class _OneTier(Rounded):
    """Nested noise of which one tier is given away; all rungs are drawn, since they share one stream."""

    def __init__(self, scales: Sequence[float], tier: int) -> None:
        super().__init__(NORMAL, scales)
        self._tier = tier

    def draw(
        self, stream: Stream, count: int, *, relative: Array | None = None, out: Array | None = None
    ) -> Array:
        """Return integers, held in float64, of shape (1, count)."""
        return super().draw(stream, count, relative=relative, out=out)[self._tier : self._tier + 1]
