"""Records for table 4: real scores with a label each, as many positive as negative ones."""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np
from numpy.typing import NDArray

from sfumato.media.detect import Faces, Saliency
from sfumato.media.images import tiles_of
from sfumato_reproductions.multimedia_dp.learned_scorer import SensitivityScorer, tile_embedding
from sfumato_reproductions.multimedia_dp.sources import Photograph, Sources

__all__ = ["threshold_records"]

Floats = NDArray[np.float64]
#: Scores (n,) in [0, 1] and labels (n,) of 0 and 1.
Records = tuple[Floats, NDArray[np.int64]]

_TILE, _MOST = 64, 1000


def threshold_records(sources: Sources) -> dict[str, tuple[str, Records]]:
    """Kind of decision -> what was scored, and the records.

    Faces against tiles without people, objects in tiles by saliency, and people in tiles by the learned
    scorer of section 3.1.1, trained on public photographs; the last only where torch is installed.
    """
    tiles = [_tiles(photograph) for photograph in sources.photographs]
    cut = np.concatenate([each for each, _, _ in tiles])
    people, objects = (np.concatenate([each[place] for each in tiles]) for place in (1, 2))
    origin, faces = sources.portraits
    empty = cut[~people][: len(faces)]
    face_tiles = np.stack([_square(face) for face in faces])
    detector = Faces()
    scores = np.concatenate([detector.scores(face_tiles), detector.scores(empty)])
    labels = np.concatenate([np.ones(len(face_tiles), dtype=bool), np.zeros(len(empty), dtype=bool)])
    found = {
        "face detection": (f"{origin} against tiles without people, by cascade", _even(scores, labels)),
        "object localisation": (
            "tiles inside and outside declared boxes, by saliency",
            _even(Saliency().scores(cut), objects),
        ),
    }
    if find_spec("torch") is not None and people.any() and not people.all():
        learned = [_tiles(photograph) for photograph in sources.public_photographs]
        shown, known = (np.concatenate([each[place] for each in learned]) for place in (0, 1))
        if known.any() and not known.all():
            epochs = 3 if sources.run.quick else 30
            scorer = SensitivityScorer(epochs=epochs).fit(tile_embedding(shown), known.astype(np.float64))
            scores = scorer.scores(tile_embedding(cut))
            found["sensitivity (section 3.1.1)"] = (
                "tiles with and without people, by the learned scorer",
                _even(scores, people),
            )
    return found


def _tiles(photograph: Photograph) -> tuple[NDArray[np.uint8], NDArray[np.bool_], NDArray[np.bool_]]:
    """Tiles (n, side, side, 3) at most 64 pixels wide, and whether the middle of each lies in a box.

    First in one of a person, then in any.
    """
    import cv2

    height, width = photograph.pixels.shape[:2]
    cut = tiles_of(photograph.pixels[None], _TILE)[0]
    rows, cols = cut.shape[:2]
    flat = cut.reshape(-1, *cut.shape[2:])
    same = np.stack([cv2.resize(tile, (_TILE, _TILE), interpolation=cv2.INTER_AREA) for tile in flat])
    down, across = (np.arange(parts + 1) * side // parts for side, parts in ((height, rows), (width, cols)))
    y, x = 0.5 * (down[1:] + down[:-1])[:, None], 0.5 * (across[1:] + across[:-1])[None, :]

    def inside(boxes: list[list[float]]) -> NDArray[np.bool_]:
        within = np.zeros((rows, cols), dtype=np.bool_)
        for left, top, wide, high in boxes:
            within |= (x >= left) & (x < left + wide) & (y >= top) & (y < top + high)
        return within.ravel()

    return same, inside(photograph.people), inside([list(box["bbox_xywh"]) for box in photograph.boxes])


def _square(face: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """The middle of a portrait as a tile in three channels."""
    import cv2

    side = min(face.shape)
    top, left = (face.shape[0] - side) // 2, (face.shape[1] - side) // 2
    small = cv2.resize(
        face[top : top + side, left : left + side], (_TILE, _TILE), interpolation=cv2.INTER_AREA
    )
    return np.repeat(np.asarray(small, dtype=np.uint8)[..., None], 3, axis=2)


def _even(scores: Floats, labels: NDArray[np.bool_]) -> Records:
    """As many positive as negative records, drawn without looking at scores."""
    draw = np.random.default_rng(0)
    parts = [draw.permutation(np.flatnonzero(labels == side)) for side in (True, False)]
    count = min(_MOST, *(len(part) for part in parts))
    chosen = np.concatenate([part[:count] for part in parts])
    return np.clip(scores[chosen], 0.0, 1.0), labels[chosen].astype(np.int64)
