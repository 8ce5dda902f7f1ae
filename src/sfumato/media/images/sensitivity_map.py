"""Sensitivity maps: how sensitive each place of a picture is, as a weighted sum of four factors.

S = α₁·identity + α₂·location + α₃·behaviour + α₄·preference (Adaptive multimedia DP, section 3.1.1), on a
grid of tiles stretched evenly over the picture. A map says where it comes from: one that the caller declares,
such as boxes that were published with a picture, is public; one that was read off a picture is as private as
the picture, and noise that follows it has to pay for it or proves nothing.

**Categories.** The numbers of the five content categories are those of the paper's Table 1, quoted as
claimed: it does not say how they were measured, and an ε there has no unit. Here a range bounds the ε of one
place of a picture, in the unit that the caller asks for.

**Annotations.** Boxes that were published with the names of COCO's categories become maps by a public rule: a
person is identity; vehicles and street furniture are location; things in people's hands are behaviour; food,
books and the like are preference. Animals and furniture count for nothing.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.mechanisms import numeric, positive, share, shown
from sfumato.media.budget_allocation import noise_weights, sensitivity_aware
from sfumato.media.images.tiles import edges, tile_grid

if TYPE_CHECKING:
    from sfumato.media.detect import Detector

__all__ = ["CATEGORIES", "SensitivityMap", "annotated_map"]

Array = NDArray[np.float64]

FACTORS = ("identity", "location", "behaviour", "preference")

#: The paper learns its weights and does not print them; these put identity first.
DEFAULT_WEIGHTS = {"identity": 0.7, "location": 0.1, "behaviour": 0.1, "preference": 0.1}

# Weights written with a few decimals sum to one no better than this.
_ROUNDING = 1e-9


def factor_weights(
    weights: Mapping[str, float] | Sequence[float] | None, known: Sequence[str]
) -> dict[str, float]:
    """Return the α of all four factors: none negative, and their sum one.

    Left out, they are :data:`DEFAULT_WEIGHTS`, shared out among the ``known`` factors. Four numbers stand in
    the order of :data:`FACTORS`.
    """
    if weights is None:
        total = sum(DEFAULT_WEIGHTS[name] for name in known)
        return {name: DEFAULT_WEIGHTS[name] / total if name in known else 0.0 for name in FACTORS}
    if isinstance(weights, str) or not isinstance(weights, Mapping | Sequence | np.ndarray):
        raise BadInput(
            f"`weights` must be numbers for {', '.join(FACTORS)}, not {shown(weights)}.", parameter="weights"
        )
    given = dict(weights) if isinstance(weights, Mapping) else dict(zip(FACTORS, weights, strict=False))
    values = numeric(list(given.values()))
    named = set(given) <= set(FACTORS) and (isinstance(weights, Mapping) or len(weights) == len(FACTORS))
    if not named or values is None or not (values >= 0.0).all() or abs(values.sum() - 1.0) > _ROUNDING:
        raise BadInput(
            f"`weights` must be numbers ≥ 0 that sum to 1, for {', '.join(FACTORS)}, not {shown(weights)}.",
            parameter="weights",
        )
    return {name: float(given.get(name, 0.0)) for name in FACTORS}


@dataclass(frozen=True)
class Category:
    """A row of Table 1: the scores that the paper saw there, the ε it spends there, and how it protects."""

    name: str
    mean: float
    deviation: float
    percentile_95: float
    epsilon: tuple[float, float]
    strategy: str


#: From the least to the most sensitive, by mean score.
CATEGORIES = (
    Category("abstract patterns", 0.091, 0.054, 0.194, (5.0, 10.0), "pass-through"),
    Category("landscapes", 0.187, 0.093, 0.352, (1.5, 5.0), "minimal noise"),
    Category("crowd scenes", 0.623, 0.142, 0.847, (0.3, 0.7), "selective masking"),
    Category("facial close-ups", 0.892, 0.067, 0.981, (0.05, 0.2), "aggressive perturbation"),
    Category("identity documents", 0.944, 0.041, 0.995, (0.01, 0.1), "maximum protection"),
)

#: Scores halfway between the means of neighbouring categories.
BOUNDARIES = tuple((one.mean + two.mean) / 2.0 for one, two in pairwise(CATEGORIES))


# Lightness rises with the score, so that the map also reads in grey and to colour-blind eyes.
_COLOURS = np.array(
    [[12, 10, 40], [84, 24, 110], [190, 54, 84], [248, 148, 40], [252, 252, 170]], dtype=float
)


def heat(scores: Any) -> NDArray[np.uint8]:
    """Return scores in [0, 1], of any shape, as red, green and blue: a further axis of three."""
    places = np.linspace(0.0, 1.0, len(_COLOURS))
    values = np.clip(np.asarray(scores, dtype=np.float64), 0.0, 1.0)
    channels = [np.interp(values, places, _COLOURS[:, channel]) for channel in range(3)]
    return np.asarray(np.rint(np.stack(channels, axis=-1)), dtype=np.uint8)


# Beyond it a score no longer lowers what noise costs in a place.
_LARGEST_SCORE = 0.999
_SMALLEST_SHARE = 1e-5


class SensitivityMap:
    """Scores in [0, 1] on (rows, cols) tiles, from a map (rows, cols) for each factor that is known.

    ``factors`` maps names (identity, location, behaviour, preference) to arrays of one shape with values in
    [0, 1]. ``weights`` are the α of the four factors and sum to one; left out, identity has 0.7 and each
    other factor 0.1, shared out among the factors that are given. ``private`` says whether the map was
    computed from the content that it will protect. Arrays are copied, and never modified.
    """

    def __init__(
        self,
        factors: Mapping[str, Any],
        *,
        weights: Mapping[str, float] | Sequence[float] | None = None,
        private: bool = False,
    ) -> None:
        if not isinstance(factors, Mapping) or not factors or any(name not in FACTORS for name in factors):
            given = sorted(factors) if isinstance(factors, Mapping) else factors
            raise BadInput(
                f"`factors` must be maps named after {', '.join(FACTORS)}, not {shown(given)}.",
                parameter="factors",
            )
        maps = {name: _scores(name, factors[name]) for name in FACTORS if name in factors}
        shapes = {each.shape for each in maps.values()}
        if len(shapes) > 1:
            raise BadInput(f"the maps of the factors have different shapes: {shown(sorted(shapes))}.")
        self.factors: Mapping[str, Array] = maps
        self.weights = factor_weights(weights, tuple(maps))
        self.private = bool(private)

    @classmethod
    def from_array(
        cls, scores: Any, *, factor: str = "identity", weights: Any = None, private: bool = False
    ) -> SensitivityMap:
        """Return a map of one factor, from scores (rows, cols) in [0, 1]."""
        return cls({factor: scores}, weights=weights, private=private)

    @classmethod
    def from_boxes(
        cls,
        boxes: Mapping[str, Iterable[Sequence[float]]],
        shape: Sequence[int],
        *,
        tile: int = 16,
        weights: Any = None,
        private: bool = False,
    ) -> SensitivityMap:
        """Return a map for pictures of ``shape`` from boxes (x, y, width, height[, score]) of each factor.

        A tile has the largest score among the boxes that touch it (1 where a box names none), and 0 where
        none does. Boxes are cut off at the picture's border.
        """
        height, width = int(shape[0]), int(shape[1])
        rows, cols = tile_grid(height, width, tile)
        maps = {}
        for name, listed in boxes.items():
            maps[name] = np.zeros((rows, cols))
            for number, box in enumerate(listed):
                x, y, wide, high, score = _box(name, number, box)
                down, across = _touched(y, high, height, rows), _touched(x, wide, width, cols)
                np.maximum(maps[name][down, across], score, out=maps[name][down, across])
        return cls(maps, weights=weights, private=private)

    @classmethod
    def from_picture(
        cls,
        picture: Any,
        detectors: Iterable[Detector],
        *,
        tile: int = 64,
        alone: bool = True,
        weights: Any = None,
    ) -> SensitivityMap:
        """Return a private map of ``picture`` (h, w) or (h, w, c): for each factor the largest score.

        ``alone``: scores are computed from each tile alone. Otherwise detectors look at the whole picture,
        which finds more; one changed pixel may then change every score.
        """
        array = np.asarray(picture)
        array = array[..., None] if array.ndim == 2 else array
        grid = tile_grid(array.shape[0], array.shape[1], tile)
        maps: dict[str, Array] = {}
        for detector in detectors:
            if alone:
                found = detector.tile_scores(array[None], tile)[0]
            else:
                boxes = {detector.factor: detector.boxes(array)}
                found = cls.from_boxes(boxes, array.shape, tile=tile).factors[detector.factor]
            maps[detector.factor] = np.maximum(maps.get(detector.factor, np.zeros(grid)), found)
        return cls(maps, weights=weights, private=True)

    @property
    def scores(self) -> Array:
        """S of every tile: (rows, cols)."""
        total = sum(self.weights[name] * values for name, values in self.factors.items())
        # The weights sum to one, up to rounding.
        return np.asarray(np.clip(total, 0.0, 1.0))

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of tiles."""
        rows, cols = next(iter(self.factors.values())).shape
        return rows, cols

    def shares(self, epsilon: float, *, low: float = 0.05, reserve: float = 0.2) -> Array:
        """Return the share of ``epsilon`` that each place gets, in [``low``, 1]: (rows, cols).

        The rule is public. Each place has the ε range of its category, with no end above ``epsilon``. The
        sum of the upper ends, less ``reserve``, is shared out within the ranges so that Σ wᵢ·noiseᵢ² is
        smallest, where wᵢ = 1 − Sᵢ: noise is worth avoiding where little is given away. Ranges go before the
        reserve. What a place gets is divided by ``epsilon``, and raised to ``low`` where it is less. Of an
        ε above 10, the largest that the table allows anywhere, the rest is not spent.
        """
        asked, (least, kept_back) = positive("epsilon", epsilon), share_limits(low, reserve)
        scores = self.scores
        # The nearest category; halfway between two, the more sensitive one.
        nearest = np.searchsorted(BOUNDARIES, scores, side="right")
        ranges = np.array([category.epsilon for category in CATEGORIES])[nearest]
        floor, ceiling = np.moveaxis(np.minimum(ranges, asked), -1, 0)
        total = max(math.fsum(floor.flat), (1.0 - kept_back) * math.fsum(ceiling.flat))
        # A place of score 1 would be worth nothing; where all are, somebody still has to get the rest.
        worth = noise_weights(1.0, np.minimum(scores, _LARGEST_SCORE))
        budget = sensitivity_aware(worth, total, floor, ceiling)
        return np.clip(budget / asked, least, 1.0)

    def picture(self, shape: Sequence[int] | None = None) -> NDArray[np.uint8]:
        """Return the map in heat colours, (height, width, 3): from dark, nothing to hide, to pale yellow.

        ``shape`` is that of the picture it belongs to; without it every tile is one pixel.
        """
        colours = heat(self.scores)
        if shape is None:
            return colours
        rows, cols = self.shape
        down = np.repeat(np.arange(rows), np.diff(edges(int(shape[0]), rows)))
        across = np.repeat(np.arange(cols), np.diff(edges(int(shape[1]), cols)))
        return np.asarray(colours[down][:, across])

    def digest(self) -> str:
        """Return SHA-256 of the scores, their shape and the weights."""
        parts = [np.asarray(self.shape, dtype="<i8"), *(self.factors[name] for name in self.factors)]
        named = repr([(name, self.weights[name]) for name in self.factors]).encode()
        data = b"".join(
            np.ascontiguousarray(part).astype(part.dtype.newbyteorder("<")).tobytes() for part in parts
        )
        return hashlib.sha256(named + data).hexdigest()

    def __repr__(self) -> str:
        weights = ", ".join(f"{name} {weight:g}" for name, weight in self.weights.items())
        kind = "private" if self.private else "public"
        rows, cols = self.shape
        return f"SensitivityMap({rows}×{cols} tiles, {kind}, {weights}, sha256 {self.digest()})"


def share_limits(low: float, reserve: float) -> tuple[float, float]:
    """Return the two numbers that shape shares, if they are in range."""
    least, kept_back = share("low", low), share("reserve", reserve)
    if least < _SMALLEST_SHARE:
        raise BadInput(
            f"`low` must lie between {_SMALLEST_SHARE:g} and 1: no share at all is infinitely noisy.",
            parameter="low",
        )
    return least, kept_back


def _scores(name: str, values: Any) -> Array:
    array = numeric(values)
    if array is None or array.ndim != 2 or not array.size:
        raise BadInput(f"the map of {name} must be an array (rows, columns) of numbers.")
    if not ((array >= 0.0) & (array <= 1.0)).all():
        raise BadInput(f"the map of {name} must hold scores from 0 to 1.")
    array.setflags(write=False)
    return array


def _box(factor: str, number: int, box: Sequence[float]) -> tuple[float, float, float, float, float]:
    values = numeric(box)
    if values is None or values.shape not in ((4,), (5,)) or not np.isfinite(values).all():
        raise BadInput(f"box {number} of {factor} must be (x, y, width, height), or these and a score.")
    if (values[2:4] < 0.0).any() or not 0.0 <= (
        score := float(values[4]) if values.size == 5 else 1.0
    ) <= 1.0:
        raise BadInput(f"box {number} of {factor} has a negative side, or a score outside 0 to 1.")
    x, y, wide, high = (float(value) for value in values[:4])
    return x, y, wide, high, score


def _touched(start: float, length: float, limit: int, parts: int) -> slice:
    """Return the tiles of a side that the pixels from ``start`` on for ``length`` lie in; empty outside."""
    first, last = max(int(np.floor(start)), 0), min(int(np.ceil(start + length)), limit)
    if first >= last:
        return slice(0, 0)
    cuts = edges(limit, parts)
    low, high = np.searchsorted(cuts, [first, last - 1], side="right") - 1
    return slice(int(low), int(high) + 1)


_NAMES: Mapping[str, Mapping[float, str]] = {
    "identity": {1.0: "person"},
    "location": {
        0.6: "car, bus, train, truck, boat, airplane, motorcycle, bicycle",
        0.8: "traffic light, fire hydrant, stop sign, parking meter",
    },
    "behaviour": {
        0.5: "cell phone, laptop, mouse, remote, keyboard, skis, snowboard, sports ball, kite, baseball bat, "
        "baseball glove, skateboard, surfboard, tennis racket, frisbee, backpack, umbrella, handbag, "
        "suitcase, toothbrush, hair drier, knife, scissors"
    },
    "preference": {
        0.4: "bottle, wine glass, cup, fork, spoon, bowl, banana, apple, sandwich, orange, broccoli, carrot, "
        "hot dog, pizza, donut, cake, book, tie, teddy bear, tv"
    },
}

#: Category → (factor, score).
CATEGORY_FACTORS: Mapping[str, tuple[str, float]] = {
    name: (factor, score)
    for factor, scores in _NAMES.items()
    for score, names in scores.items()
    for name in names.split(", ")
}


def annotated_map(
    boxes: Iterable[Mapping[str, Any]],
    shape: Sequence[int],
    *,
    tile: int = 16,
    weights: Any = None,
    factors: Sequence[str] = FACTORS,
) -> SensitivityMap:
    """Return a public map for a picture of ``shape`` from boxes with ``category`` and ``bbox_xywh``.

    Only the named ``factors`` are looked at; ``("identity",)`` gives a map of people. Categories of
    :data:`CATEGORY_FACTORS` alone count.
    """
    if not factors or any(name not in FACTORS for name in factors):
        raise BadInput(f"`factors` must be among {', '.join(FACTORS)}, not {factors!r}.", parameter="factors")
    found: dict[str, list[Sequence[float]]] = {name: [] for name in factors}
    for number, box in enumerate(boxes):
        if not isinstance(box, Mapping) or not {"category", "bbox_xywh"} <= set(box):
            raise BadInput(f"annotation {number} must have a category and a bbox_xywh.")
        factor, score = CATEGORY_FACTORS.get(str(box["category"]), ("", 0.0))
        if factor in found:
            found[factor].append((*box["bbox_xywh"], score))
    return SensitivityMap.from_boxes(found, shape, tile=tile, weights=weights)
