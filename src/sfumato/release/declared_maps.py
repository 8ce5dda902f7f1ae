"""Public annotations of pictures: a file of boxes, by the name of the picture, as a map for each of them."""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.io import file_to_read
from sfumato.media.images.annotations import annotated_map
from sfumato.media.images.image_mechanism import PictureMechanism
from sfumato.media.images.redaction import Mask

__all__ = ["BoxMask", "DeclaredMaps"]

# Pixels; a JSON number may be larger than any picture, and than what can be rounded.
_LARGEST = 1_000_000


class DeclaredMaps:
    """Boxes for each picture: ``{name: {"boxes": [{"category": …, "bbox_xywh": […]}, …]}, …}``.

    Whoever declares them says that they are public: noise that follows them shows them.
    """

    def __init__(self, boxes: Mapping[str, Sequence[Mapping[str, Any]]], source: str) -> None:
        self._boxes, self._source = dict(boxes), source

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> DeclaredMaps:
        """The boxes in a JSON file."""
        file = file_to_read(path)
        try:
            document = json.loads(file.read_text("utf-8"))
            boxes = {name: list(entry["boxes"]) for name, entry in document.items()}
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise BadInput(
                f'{file.name} must map the names of pictures to boxes, as in {{"a.jpg": {{"boxes": '
                '[{"category": "person", "bbox_xywh": [10, 20, 50, 80]}]}}.'
            ) from None
        return cls(boxes, file.name)

    def parameters(
        self, mechanism: PictureMechanism, path: Path, name: str | None, shape: Sequence[int]
    ) -> dict[str, Any]:
        """What ``mechanism`` is told of the picture at ``path``, which has ``name`` in its folder.

        A mask covers every box; noise follows what the boxes' categories give away.
        """
        boxes = next((self._boxes[key] for key in (name, path.name) if key in self._boxes), None)
        if boxes is None:
            raise BadInput(f"{self._source} declares no boxes for {path.name}, not even an empty list.")
        if not all(_is_box(box) for box in boxes):
            raise BadInput(
                f"{self._source} declares boxes for {path.name} that are none; a category and a bbox_xywh of "
                "four numbers, with sides from 0 to a million pixels, are accepted."
            )
        if isinstance(mechanism, Mask):
            return {"mask": BoxMask([box["bbox_xywh"] for box in boxes], shape)}
        return {"declared": annotated_map(boxes, shape)}


class BoxMask:
    """Which pixels of a picture of ``shape`` boxes (x, y, width, height) touch, as an array and by digest."""

    def __init__(self, boxes: Iterable[Sequence[float]], shape: Sequence[int]) -> None:
        self._touched = np.zeros((shape[0], shape[1]), dtype=np.uint8)
        for x, y, width, height in boxes:
            left, top = max(0, math.floor(x)), max(0, math.floor(y))
            self._touched[top : max(0, math.ceil(y + height)), left : max(0, math.ceil(x + width))] = 1

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.array(self._touched, dtype=dtype)

    def __repr__(self) -> str:
        (height, width), digest = self._touched.shape, hashlib.sha256(self._touched.tobytes()).hexdigest()
        return f"boxes over {self._touched.mean():.1%} of {width} × {height} pixels, sha256 {digest}"


def _is_box(box: Any) -> bool:
    if not isinstance(box, Mapping) or not isinstance(box.get("category"), str):
        return False
    values = box.get("bbox_xywh")
    if not isinstance(values, list) or len(values) != 4:
        return False
    numbers = all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)
    return numbers and all(abs(value) <= _LARGEST for value in values) and min(values[2:]) >= 0
