"""Photographs with published boxes of people, where they are at hand, and one that scikit-image ships."""

import json

import numpy as np
import pytest
from skimage import data

from real_data import real

#: Around the face of scikit-image's astronaut: x, y, width, height.
FACE = (170, 55, 110, 120)


def astronaut(side=224):
    """The astronaut's head and shoulders, a colour picture of ``side`` × ``side`` pixels."""
    return np.ascontiguousarray(data.astronaut()[:448, 32:480][:: 448 // side, :: 448 // side])


def photographs(limit):
    """At most ``limit`` (name, picture, boxes) with people in them; skips where there are none."""
    folder = real("photos")
    cv2 = pytest.importorskip("cv2")
    annotations = json.loads((folder / "annotations.json").read_text())
    found = []
    for name, each in sorted(annotations.items()):
        if any(box["category"] == "person" for box in each["boxes"]) and len(found) < limit:
            found.append((name, cv2.imread(str(folder / name))[..., ::-1], each["boxes"]))
    return found
