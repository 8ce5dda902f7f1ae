"""Published annotations as sensitivity maps: boxes with the names of COCO's eighty categories.

Which category gives away what is a public rule of this module, written down before any picture is seen: a
person is identity; vehicles and street furniture say where; things in the hands of people say what they do;
food, books and the like say what they like. Animals and furniture give nothing away.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sfumato.errors import BadInput
from sfumato.media.images.factors import FACTORS
from sfumato.media.images.sensitivity_map import SensitivityMap

__all__ = ["CATEGORY_FACTORS", "annotated_map"]

_NAMES: Mapping[str, Mapping[float, Sequence[str]]] = {
    "identity": {1.0: ("person",)},
    "location": {
        0.6: ("car", "bus", "train", "truck", "boat", "airplane", "motorcycle", "bicycle"),
        0.8: ("traffic light", "fire hydrant", "stop sign", "parking meter"),
    },
    "behaviour": {
        0.5: (
            *(
                "cell phone",
                "laptop",
                "mouse",
                "remote",
                "keyboard",
                "skis",
                "snowboard",
                "sports ball",
                "kite",
            ),
            *("baseball bat", "baseball glove", "skateboard", "surfboard", "tennis racket", "frisbee"),
            *("backpack", "umbrella", "handbag", "suitcase", "toothbrush", "hair drier", "knife", "scissors"),
        ),
    },
    "preference": {
        0.4: (
            *(
                "bottle",
                "wine glass",
                "cup",
                "fork",
                "spoon",
                "bowl",
                "banana",
                "apple",
                "sandwich",
                "orange",
            ),
            *("broccoli", "carrot", "hot dog", "pizza", "donut", "cake", "book", "tie", "teddy bear", "tv"),
        ),
    },
}

#: Category → (factor, score).
CATEGORY_FACTORS: Mapping[str, tuple[str, float]] = {
    name: (factor, score)
    for factor, scores in _NAMES.items()
    for score, names in scores.items()
    for name in names
}


def annotated_map(
    boxes: Iterable[Mapping[str, Any]],
    shape: Sequence[int],
    *,
    tile: int = 16,
    weights: Any = None,
    factors: Sequence[str] = FACTORS,
) -> SensitivityMap:
    """A public map for a picture of ``shape`` from boxes with ``category`` and ``bbox_xywh``.

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
