"""Content-adaptive noise: the more sensitive a place is, the smaller its share of the budget.

**Guarantee.** Noise is that of ``PlaneMeans``, divided by shares in (0, 1] that a public rule reads off a map
(``SensitivityMap.shares``). What is proven depends on where the map comes from:

- ``map="public"``: the map was declared, and is part of the parameters. The worst placement of the unit under
  these shares is what holds.
- ``map="private"``: scores are computed from each tile alone, and released with noise at ``map_share`` of ε
  (``PrivateMap``). Whatever shares follow from the noisy map, they are at most 1, so the noise on the picture
  is at least that of uniform shares at the rest of ε, whose loss bounds it. Both compose adaptively: the sum
  holds, whatever the map says.
- ``map="unaccounted"``: the map was read off the picture and not paid for. Nothing is proven: where noise is
  strong, and where weak, says what stands there.

**Edge cases.** A place never gets more than the asked ε, so at equal worst case a map only ever adds noise. A
map that is declared but was computed from a picture is refused as a public one.

**Areas.** A bound over every placement of a unit holds for those inside an area of a picture too, and is far
too large for them where the area's noise is strong. Noisy sums over blocks that the area does not touch say
nothing of such a unit, so they may be left out, as if their noise were infinite: the same certified bound
then holds for placements inside the area.

**Private maps.** Scores are clipped to [0, 1], each computed from its own tile alone. A unit lies in at most
k tiles, over every placement (:func:`~sfumato.media.images.tiles.touched_tiles`, exact), so replacing its
pixels moves the scores by at most k in L1. Scores are put on a public grid toward zero, which keeps them in
[0, 1], and Laplace noise of scale k/ε is drawn in real numbers and rounded to that grid: pure ε, with no
slack. Smoothing and clipping afterwards use the noisy scores alone. A score is at most 1, so a map is worth
having only where ε is well above k: tiles should be as large as what is looked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.mechanisms import (
    Epsilon,
    ExpectedError,
    OptionalDelta,
    Parameter,
    RandomSource,
    one_of,
    positive,
    proper_share,
    share,
)
from sfumato.media.detect import Detector, named_detectors
from sfumato.media.images.block_noise import BlockNoise, loss
from sfumato.media.images.image_mechanism import (
    ImageUnit,
    PictureMechanism,
    Shape,
    picture_unit,
    whole_side,
)
from sfumato.media.images.plane_means import PlaneMeans
from sfumato.media.images.planes import Blocks
from sfumato.media.images.restoration import ChosenBlock, ChosenChroma, RestoreName
from sfumato.media.images.sensitivity_map import (
    BOUNDARIES,
    FACTORS,
    SensitivityMap,
    factor_weights,
    share_limits,
)
from sfumato.media.images.tiles import edges, tile_grid, touched_tiles
from sfumato.noise import LAPLACE, Rounded, Stream, grid_step
from sfumato.privacy import IMAGES, REQUIRED, Claim, Guarantee, Neighbours, Unit, format_delta, format_upper

__all__ = ["ContentAdaptive"]

Array = NDArray[np.float64]

# As good as infinite; the little that it leaves is on the safe side.
_DROWNED = 1e9


def proven_inside(means: BlockNoise, area: NDArray[np.bool_], unit: Unit, shape: Shape) -> Guarantee:
    """Return what ``means`` proves of a ``unit`` inside ``area``, tiles (rows, cols) of a public map."""
    design = means.design(shape)
    scales = _scales_inside(design.scales, area, design.blocks)
    lost = loss(design.blocks, scales, unit, design.gaussian)
    theorem = "block sums over every placement inside an area of a public map"
    if design.gaussian:
        return Guarantee.gaussian(1.0 / lost, unit=unit, theorem=theorem, at_delta=float(means.delta))
    return Guarantee.laplace(1.0 / lost, unit=unit, theorem=theorem)


def _scales_inside(
    scales: Sequence[float | Array], area: NDArray[np.bool_], blocks: Blocks
) -> tuple[Array, ...]:
    """Return noise scales of each plane, as good as infinite for blocks that do not touch the area."""
    height, width = blocks.shape[:2]
    down, across = edges(height, area.shape[0]), edges(width, area.shape[1])
    pixels = np.repeat(np.repeat(area, np.diff(down), axis=0), np.diff(across), axis=1)
    found = []
    for plane, scale in enumerate(scales):
        side = blocks.side(plane)
        rows = np.logical_or.reduceat(pixels, np.arange(0, height, side), axis=0)
        touched = np.logical_or.reduceat(rows, np.arange(0, width, side), axis=1)
        found.append(np.where(touched, scale, _DROWNED * np.max(scale)))
    return tuple(found)


# What a score is taken to be before anything is known of it: mean and deviation. Public and wide.
_MEAN, _DEVIATION = 0.3, 0.35
# Weight of a neighbouring tile in the smoothing, where noise drowns the scores.
_NEIGHBOUR = 0.5


@dataclass(frozen=True)
class PrivateMap:
    """A map of tiles of ``tile`` pixels at pure ``epsilon`` for ``unit``."""

    epsilon: float
    unit: Unit | str = IMAGES.unit
    tile: int = 64

    def touched(self, unit: Unit, shape: Shape) -> int:
        """Return how many tiles of a picture of ``shape`` one ``unit`` can lie in."""
        return touched_tiles(unit, shape[0], shape[1], *tile_grid(shape[0], shape[1], self.tile))

    def scale(self, shape: Shape) -> float:
        """Return the scale of the noise on every score."""
        # A hair more, so that the ε read back from the scale is at most what was asked for.
        return self.touched(picture_unit(self.unit), shape) / self.epsilon * (1.0 + 1e-12)

    def proven(self, unit: Unit, shape: Shape) -> Guarantee:
        """Return pure ε for ``unit``: the tiles it can lie in, over the scale."""
        return Guarantee.laplace(
            self.scale(shape) / self.touched(unit, shape),
            unit=unit,
            theorem="Laplace mechanism on tile scores, over every placement",
        )

    def cells(self, scores: Array, shape: Shape) -> Array:
        """Return scores (n, rows, cols), clipped to [0, 1] and put on the grid: whole numbers (n, tiles)."""
        inside = np.clip(scores, 0.0, 1.0).reshape(len(scores), -1)
        return np.trunc(inside / self._step(shape))

    def noisy(self, cells: Array, shape: Shape, streams: Sequence[Stream]) -> Array:
        """Return noisy scores (n, rows, cols) of ``cells``; one stream for all pictures, or one for each."""
        step, count, rounded = self._step(shape), len(cells), self.rounded(shape)
        height = count // len(streams)
        noise = [rounded.draw(stream, height * cells.shape[1])[0] for stream in streams]
        noised = (cells + np.concatenate(noise).reshape(cells.shape)) * step
        return np.asarray(noised.reshape(count, *tile_grid(shape[0], shape[1], self.tile)))

    def rounded(self, shape: Shape) -> Rounded:
        """Return the noise, in steps of the grid."""
        return Rounded(LAPLACE, [self.scale(shape) / self._step(shape)])

    def _step(self, shape: Shape) -> float:
        return grid_step(self.scale(shape), 1.0)


def estimated_scores(noisy: Array, scale: float) -> Array:
    """Return estimates in [0, 1] of the true scores from noisy ones (n, rows, cols).

    Each score is averaged with its neighbours, the more the larger the noise is against the spread of
    scores, and then drawn towards a public mean as a linear estimate would. Nothing else is looked at.
    """
    from scipy.ndimage import correlate1d

    variance = 2.0 * scale**2
    beside = _NEIGHBOUR * variance / (variance + _DEVIATION**2)
    kernel = np.array([beside, 1.0, beside]) / (1.0 + 2.0 * beside)
    smooth = correlate1d(correlate1d(noisy, kernel, axis=1, mode="nearest"), kernel, axis=2, mode="nearest")
    left = variance * float(np.square(kernel).sum()) ** 2
    trust = _DEVIATION**2 / (_DEVIATION**2 + left)
    return np.asarray(np.clip(_MEAN + trust * (smooth - _MEAN), 0.0, 1.0))


MAPS = ("public", "private", "unaccounted")

# From this score on a place is counted as the most sensitive part of a map: facial close-ups and documents.
_SENSITIVE = BOUNDARIES[2]


@dataclass(eq=False, repr=False)
class ContentAdaptive(PictureMechanism):
    """Block means of colour planes with noise that follows a map of sensitivity.

    ``epsilon`` and ``delta`` are the promise for ``unit``. ``map`` says where the map comes from (see the
    module). ``declared`` is the map: a :class:`SensitivityMap`, or an array of scores. Without it, which
    ``"public"`` does not allow, ``detectors`` (names, or detectors) look at each picture: at tiles of
    ``tile`` pixels where the map is private, at the whole where it is unaccounted; ``weights`` are the α of
    the four factors. ``map_share`` of ε pays for a private map. ``low`` and ``reserve`` shape the shares;
    ``block``, ``restore`` and ``chroma`` are those of ``PlaneMeans``.

    **Guarantee.** Under replace, with a public map ε; with a private map that of map and noise, by adaptive
    composition; with an unaccounted map nothing.
    """

    kinds = ("picture", "video")

    epsilon: Epsilon = REQUIRED
    delta: OptionalDelta = 0.0
    unit: ImageUnit = IMAGES.unit
    map: Annotated[
        str,
        Parameter(
            "What the noise follows: public boxes (.json), or private or unaccounted, by detectors.",
            choices=MAPS,
            symbol="MAP",
        ),
    ] = "public"
    _: KW_ONLY
    declared: Annotated[
        Any,
        Parameter("Map of sensitivity, or an array of scores.", array=True, doors=("python", "service")),
    ] = None
    detectors: Annotated[
        Iterable[str | Detector], Parameter("What looks for sensitive places.", arity=None)
    ] = ("faces", "text", "plates")
    weights: Annotated[
        Any, Parameter("Weights of identity, location, behaviour and preference.", arity=None)
    ] = None
    tile: Annotated[int, Parameter("Side in pixels of a tile of the map.")] = 64
    map_share: Annotated[float, Parameter("Share of ε that pays for a private map.")] = 0.2
    low: Annotated[float, Parameter("Least share of ε that a place gets.")] = 0.05
    reserve: Annotated[float, Parameter("Share of the noise's ε that is spread evenly.")] = 0.2
    block: ChosenBlock = None
    restore: RestoreName = "learned"
    chroma: ChosenChroma = None
    randomness: RandomSource = None

    def claim(self) -> Claim | None:
        """Return what the paper says of its allocation; the budget is that of a whole item there."""
        return Claim(
            text="ε-DP with a budget by sensitivity, at 38.7% less utility loss than uniform allocation",
            source="Adaptive multimedia DP, abstract, section 3.1.2 and Table 1",
            epsilon=positive("epsilon", self.epsilon),
            delta=0.0,
        )

    def proven(self, unit: Unit, shape: Shape) -> Guarantee:
        """Return what holds of ``unit``, by where the map comes from."""
        kind = self._kind()
        if kind == "public":
            return self._means(1.0, self._declared_shares()).proven(unit, shape)
        if kind == "private":
            rest = self._means(1.0 - self._map_share()).proven(unit, shape)
            return self.private_map().proven(unit, shape) + rest
        return Guarantee.nothing(
            "the noise follows a map that was read off the picture and not paid for",
            unit=unit,
            neighbours=Neighbours.REPLACE,
        )

    def inside(self, unit: Unit | str, *, score: float = _SENSITIVE) -> Guarantee | None:
        """Return what holds of a ``unit`` that lies wholly in tiles of ``score`` or more of a public map.

        None where no tile scores so much, where the unit is the item, where the map is not public, and where
        its tiles are smaller than a pixel.
        """
        wanted, shape = picture_unit(unit), self._picture(None)
        if self._kind() != "public" or wanted.name == "item":
            return None
        area = self._public_map().scores >= share("score", score)
        finer = area.shape[0] > shape[0] or area.shape[1] > shape[1]
        if finer or not area.any():
            return None
        return proven_inside(self._means(1.0, self._declared_shares()), area, wanted, shape)

    def soften(self, pictures: NDArray[Any], high: float, first: int) -> NDArray[Any]:
        """Return restored pictures; see :meth:`PictureMechanism.soften`."""
        kind = self._kind()
        if kind == "public":
            return self._means(1.0, self._declared_shares()).soften(pictures, high, first)
        part = 1.0 - self._map_share() if kind == "private" else 1.0
        softened = [
            self._means(part, self._shares(found)).soften(pictures[index : index + 1], high, first + index)
            for index, found in enumerate(self.maps(pictures, first))
        ]
        return np.concatenate(softened)

    def maps(self, pictures: NDArray[Any], first: int = 0) -> list[SensitivityMap]:
        """Return the maps that noise on ``pictures`` (n, h, w, c) follows, one each.

        A private map is drawn anew by every call, with noise: to call this is to release it.
        """
        kind = self._kind()
        if kind == "public":
            return [self._public_map()] * len(pictures)
        if kind == "unaccounted":
            return [self.seen(picture) for picture in pictures]
        chosen, shape, private = self._chosen(), pictures.shape[1:], self.private_map()
        found = [
            SensitivityMap.from_picture(p, chosen, tile=self.tile, weights=self.weights) for p in pictures
        ]
        cells = private.cells(np.stack([each.scores for each in found]), shape)
        noisy = private.noisy(cells, shape, self._streams(first, cells))
        scores = estimated_scores(noisy, private.scale(shape))
        return [SensitivityMap.from_array(each) for each in scores]

    def seen(self, picture: NDArray[Any]) -> SensitivityMap:
        """Return the map of one picture (h, w, c) without noise: for its owner, unless it was declared."""
        if self.declared is not None:
            return self._declared_map()
        alone = self._kind() == "private"
        return SensitivityMap.from_picture(
            picture, self._chosen(), tile=self.tile, alone=alone, weights=self.weights
        )

    def private_map(self) -> PrivateMap:
        """Return the mechanism that releases scores where the map is private."""
        return PrivateMap(self._map_share() * positive("epsilon", self.epsilon), self.unit, self.tile)

    def expected_error(self, columns: int) -> tuple[ExpectedError, ...]:
        """Return the errors of the noise at declared shares, or at the largest shares that a map can give."""
        kind = self._kind()
        part = 1.0 - self._map_share() if kind == "private" else 1.0
        shares = self._declared_shares() if kind == "public" else None
        return self._means(part, shares).shaped(self._picture(columns)).expected_error(columns)

    def working_bytes(self, columns: int, rows: int = 1) -> int:
        """Return that of noise on every pixel, which is the most that a map can ask for."""
        return 200 * columns * rows

    def _prepared(self, shape: Shape, high: float) -> None:
        kind = self._kind()
        if kind == "public":
            self._means(1.0, self._declared_shares())._prepared(shape, high)
            return
        whole_side("tile", self.tile)
        if self.declared is None:
            for detector in self._chosen():
                detector.load()
        part = 1.0
        if kind == "private":
            self.private_map().rounded(shape)
            part = 1.0 - self._map_share()
        # Whatever the map will say, no place gets less than the least share, nor more than all.
        least, _ = share_limits(self.low, self.reserve)
        for least_or_all in (least, 1.0):
            self._means(part, np.full((1, 1), least_or_all))._prepared(shape, high)

    def parameters(self) -> dict[str, Any]:
        """Return every parameter but the randomness; maps and detectors by name and digest."""
        values = super().parameters() | {"unit": str(picture_unit(self.unit))}
        looks = self._kind() != "public" and self.declared is None
        values["detectors"] = [detector.name for detector in self._chosen()] if looks else []
        values["declared"] = None if self.declared is None else repr(self._declared_map())
        values["weights"] = None if self.weights is None else factor_weights(self.weights, FACTORS)
        return values

    def _notes(self) -> tuple[str, ...]:
        notes = super()._notes()
        if self.shape is None or self._kind() != "public":
            return notes
        unit = picture_unit(self.unit)
        held = self.inside(unit)
        if held is None:
            return notes
        at = f" at δ={format_delta(held.at_delta)}" if held.at_delta else ""
        return (
            *notes,
            f"of a {unit} inside tiles that score {_SENSITIVE:.2f} or more on the declared map, "
            f"ε={format_upper(held.epsilon())}{at} is proven",
        )

    def _kind(self) -> str:
        kind = one_of("map", self.map, MAPS)
        share_limits(self.low, self.reserve)  # refused here, before any noise is drawn
        if kind == "private" and self.declared is not None:
            raise BadInput(
                "a private map is computed by detectors, with noise: leave out `declared`, or give "
                "`map='public'`.",
                parameter="declared",
            )
        return kind

    def _map_share(self) -> float:
        return proper_share("map_share", self.map_share)  # map and noise both need a part of ε

    def _declared_map(self) -> SensitivityMap:
        if isinstance(self.declared, SensitivityMap):
            return self.declared
        return SensitivityMap.from_array(self.declared, weights=self.weights)

    def _public_map(self) -> SensitivityMap:
        if self.declared is None:
            raise BadInput(
                "`map='public'` needs a declared map: give `declared`, such as SensitivityMap.from_boxes(…).",
                parameter="declared",
            )
        found = self._declared_map()
        if found.private:
            raise BadInput(
                "the declared map was computed from a picture, so it is not public: "
                "use `map='private'` with detectors, or `map='unaccounted'`.",
                parameter="map",
            )
        return found

    def _chosen(self) -> tuple[Detector, ...]:
        return named_detectors(self.detectors)

    def _shares(self, found: SensitivityMap) -> Array:
        return found.shares(positive("epsilon", self.epsilon), low=self.low, reserve=self.reserve)

    def _declared_shares(self) -> Array:
        return self._shares(self._public_map())

    def _means(self, part: float, shares: Array | None = None) -> PlaneMeans:
        """Return the noise on the picture at ``part`` of ε."""
        return PlaneMeans(
            part * positive("epsilon", self.epsilon),
            self.delta,
            self.unit,
            self.block,
            shares=shares,
            restore=self.restore,
            chroma=self.chroma,
            shape=self.shape,
            randomness=self.randomness,
        )
