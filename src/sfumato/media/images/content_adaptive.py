"""Noise that follows a sensitivity map: the more a place gives away, the smaller its part of the budget.

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
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.mechanisms.expected_error import ExpectedError
from sfumato.mechanisms.parameters import one_of, positive, proper_share, share
from sfumato.media.detect import Detector, named_detectors
from sfumato.media.images.areas import proven_inside
from sfumato.media.images.categories import BOUNDARIES
from sfumato.media.images.factors import FACTORS, factor_weights
from sfumato.media.images.image_mechanism import PictureMechanism, Shape, picture_unit
from sfumato.media.images.plane_means import PlaneMeans
from sfumato.media.images.private_map import PrivateMap, estimated_scores
from sfumato.media.images.sensitivity_map import SensitivityMap, share_limits
from sfumato.media.images.tiles import tile_side
from sfumato.noise import Randomness
from sfumato.privacy import Claim, Guarantee, Neighbours, Unit
from sfumato.privacy.defaults import IMAGES, REQUIRED
from sfumato.privacy.wording import below_one, upward

__all__ = ["MAPS", "ContentAdaptive"]

Array = NDArray[np.float64]

MAPS = ("public", "private", "unaccounted")

# From this score on a place is counted as the most sensitive part of a map: facial close-ups and documents.
_SENSITIVE = BOUNDARIES[2]


class ContentAdaptive(PictureMechanism):
    """Block means of colour planes with noise that follows a map of sensitivity.

    ``epsilon`` and ``delta`` are the promise for ``unit``. ``map`` says where the map comes from (see the
    module). ``declared`` is the map: a :class:`SensitivityMap`, or an array of scores. Without it, which
    ``"public"`` does not allow, ``detectors`` (names, or detectors) look at each picture: at tiles of
    ``tile`` pixels where the map is private, at the whole where it is unaccounted; ``weights`` are the α of
    the four factors. ``map_share`` of ε pays for a private map. ``low`` and ``reserve`` shape the shares;
    ``block``, ``restore`` and ``chroma`` are those of ``PlaneMeans``.
    """

    def __init__(
        self,
        epsilon: float = REQUIRED,
        delta: float = 0.0,
        unit: str | Unit = IMAGES.unit,
        map: str = "public",
        *,
        declared: Any = None,
        detectors: Iterable[str | Detector] = ("faces", "text", "plates"),
        weights: Any = None,
        tile: int = 64,
        map_share: float = 0.2,
        low: float = 0.05,
        reserve: float = 0.2,
        block: int | None = None,
        restore: str = "learned",
        chroma: float | None = None,
        shape: Sequence[int] | None = None,
        randomness: Randomness | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.unit = unit
        self.map = map
        self.declared = declared
        self.detectors = detectors
        self.weights = weights
        self.tile = tile
        self.map_share = map_share
        self.low = low
        self.reserve = reserve
        self.block = block
        self.restore = restore
        self.chroma = chroma
        self.shape = shape
        self.randomness = randomness

    def claim(self) -> Claim | None:
        """What the paper says of its allocation; the budget is that of a whole item there."""
        return Claim(
            text="ε-DP with a budget by sensitivity, at 38.7% less utility loss than uniform allocation",
            source="Adaptive multimedia DP, abstract, section 3.1.2 and Table 1",
            epsilon=positive("epsilon", self.epsilon),
            delta=0.0,
        )

    def proven(self, unit: Unit, shape: Shape) -> Guarantee:
        """What holds of ``unit``, by where the map comes from."""
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
        """What holds of a ``unit`` that lies wholly in tiles of ``score`` or more of a public map.

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
        """Restored pictures; see :meth:`PictureMechanism.soften`."""
        return np.concatenate([means.soften(own, high, at) for means, own, at in self._each(pictures, first)])

    def soften_planes(
        self, pictures: NDArray[Any], high: float, first: int = 0
    ) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.float32]]:
        """Y, Cb and Cr as a JPEG with halved chroma holds them; see :meth:`PlaneMeans.soften_planes`."""
        parts = [means.soften_planes(own, high, at) for means, own, at in self._each(pictures, first)]
        luma, blue, red = (np.concatenate(planes) for planes in zip(*parts, strict=True))
        return luma, blue, red

    def maps(self, pictures: NDArray[Any], first: int = 0) -> list[SensitivityMap]:
        """The maps that noise on ``pictures`` (n, h, w, c) follows, one each.

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
        """The map of one picture (h, w, c) without noise: public if it was declared, else for its owner."""
        if self.declared is not None:
            return self._declared_map()
        alone = self._kind() == "private"
        return SensitivityMap.from_picture(
            picture, self._chosen(), tile=self.tile, alone=alone, weights=self.weights
        )

    def private_map(self) -> PrivateMap:
        """The mechanism that releases scores where the map is private."""
        return PrivateMap(self._map_share() * positive("epsilon", self.epsilon), self.unit, self.tile)

    def expected_error(self, columns: int) -> tuple[ExpectedError, ...]:
        """Those of the noise on the picture: at declared shares, or at the largest that a map may ask for."""
        kind = self._kind()
        part = 1.0 - self._map_share() if kind == "private" else 1.0
        shares = self._declared_shares() if kind == "public" else None
        return self._means(part, shares).shaped(self._picture(columns)).expected_error(columns)

    def working_bytes(self, columns: int, rows: int = 1) -> int:
        """That of noise on every pixel, which is the most that a map can ask for."""
        return 200 * columns * rows

    def _prepared(self, shape: Shape, high: float) -> None:
        kind = self._kind()
        if kind == "public":
            self._means(1.0, self._declared_shares())._prepared(shape, high)
            return
        tile_side(self.tile)
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
        """Every parameter but the randomness; maps and detectors by name and digest."""
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
        at = f" at δ={below_one(held.at_delta)}" if held.at_delta else ""
        return (
            *notes,
            f"of a {unit} inside tiles that score {_SENSITIVE:.2f} or more on the declared map, "
            f"ε={upward(held.epsilon())}{at} is proven",
        )

    def _each(self, pictures: NDArray[Any], first: int) -> Iterator[tuple[PlaneMeans, NDArray[Any], int]]:
        """Noise, the pictures that share it, and the index of the first of them."""
        kind = self._kind()
        if kind == "public":
            yield self._means(1.0, self._declared_shares()), pictures, first
            return
        part = 1.0 - self._map_share() if kind == "private" else 1.0
        for index, found in enumerate(self.maps(pictures, first)):
            yield self._means(part, self._shares(found)), pictures[index : index + 1], first + index

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
        """The noise on the picture at ``part`` of ε."""
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
