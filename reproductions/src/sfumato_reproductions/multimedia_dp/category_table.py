"""Table 1: what detectors score pictures of the five categories, and what the ε ranges really prove."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.media.detect import Detector, Faces, Plates, Text
from sfumato.media.images import CATEGORIES, ScaledPixels, SensitivityMap, annotated_map
from sfumato.privacy import Unit
from sfumato_reproductions.multimedia_dp.part import NONE, Grid, Part, proven_epsilon
from sfumato_reproductions.multimedia_dp.protocol import SIDE
from sfumato_reproductions.multimedia_dp.sources import Sources, shipped_picture
from sfumato_reproductions.regenerate import Report

__all__ = ["category_table"]

_TILE, _CROWD, _PORTRAIT_SIDE = 64, 4, 192
_UNITS = (Unit("pixels", 1), Unit("region", 16), Unit("item"))
_OTHERS = "one to three people"


def category_table(sources: Sources, report: Report) -> Part:
    """Scores of the pictures that stand for each category, and the ranges of ε beside what they prove."""
    detectors: tuple[Detector, ...] = (Faces(), Plates(), Text("strokes"))
    found: dict[str, dict[str, Any]] = {}
    groups = _groups(sources)
    for done, (name, (source, pictures)) in enumerate(groups.items()):
        seen = [_score(picture, detectors) for picture, _ in pictures]
        declared = [score for _, score in pictures if score is not None]
        found[name] = {"source": source, "pictures": len(seen), "detected": seen, "declared": declared}
        report("table 1: scores", (done + 1) / len(groups))
    ranges = {
        category.name: {"strategy": category.strategy} | _proven(category.epsilon) for category in CATEGORIES
    }
    return Part(
        key="table 1",
        title="Table 1: categories, their scores and their ε ranges",
        told=_TOLD,
        grids=(_scores_grid(found), _ranges_grid(ranges)),
        numbers={"scores": found, "ranges": ranges},
    )


_TOLD = (
    "*Claimed* are the paper's columns; it does not say what its ε is for, nor how a score was measured. "
    "*Measured* is the largest sensitivity of a tile as our detectors score the picture, and, where boxes "
    "were published with it, as these declare it. *Proven* is for table 2's noise on pixels at the two "
    f"ends of each range, in pictures of {SIDE} × {SIDE} pixels under `replace`. No category has a range "
    "that is small for a region, let alone a picture, and *pass-through* adds no noise, so that no ε at "
    "all is proven of it."
)


def _groups(sources: Sources) -> dict[str, tuple[str, list[tuple[NDArray[Any], float | None]]]]:
    """Category -> where its pictures come from, and each with the score that its boxes declare."""
    bound = sources.run.photographs
    photographs: dict[str, list[tuple[NDArray[Any], float | None]]] = {}
    for one in sources.photographs:
        people = len(one.people)
        kind = "crowd scenes" if people >= _CROWD else _OTHERS if people else "landscapes"
        score = float(annotated_map(one.boxes, one.pixels.shape, tile=_TILE).scores.max())
        photographs.setdefault(kind, []).append((one.pixels, score))
    origin, faces = sources.portraits
    shown = faces[:: max(1, len(faces) // min(40, bound))]
    made: dict[str, tuple[str, list[tuple[NDArray[Any], float | None]]]] = {
        "identity documents": (
            "two printed pages from scikit-image",
            [(shipped_picture(name), None) for name in ("page", "text")],
        ),
        "facial close-ups": (origin, [(_enlarged(face), None) for face in shown]),
        "abstract patterns": (
            "three textures from scikit-image",
            [(shipped_picture(name), None) for name in ("brick", "grass", "gravel")],
        ),
    }
    told = {
        "crowd scenes": f"photographs with {_CROWD} or more people",
        _OTHERS: "the other photographs with people",
        "landscapes": "photographs without people",
    }
    made |= {kind: (told[kind], pictures) for kind, pictures in photographs.items()}
    order = [*(category.name for category in reversed(CATEGORIES)), _OTHERS]
    return {name: made[name] for name in order if name in made}


def _enlarged(face: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """A small portrait at a size at which a detector of faces works."""
    import cv2

    factor = _PORTRAIT_SIDE / min(face.shape)
    size = (round(face.shape[1] * factor), round(face.shape[0] * factor))
    return np.asarray(cv2.resize(face, size, interpolation=cv2.INTER_CUBIC), dtype=np.uint8)


def _score(picture: NDArray[Any], detectors: tuple[Detector, ...]) -> float:
    found = SensitivityMap.from_picture(picture, detectors, tile=_TILE, alone=False)
    return float(found.scores.max())


def _proven(claimed: tuple[float, float]) -> dict[str, Any]:
    shape = (SIDE, SIDE, 3)
    ends = [
        {str(unit): ScaledPixels(epsilon).proven(unit, shape).epsilon() for unit in _UNITS}
        for epsilon in claimed
    ]
    return {"claimed": list(claimed), "proven": ends}


def _scores_grid(found: dict[str, dict[str, Any]]) -> Grid:
    categories = {category.name: category for category in CATEGORIES}
    rows = []
    for name, one in found.items():
        paper, values = categories.get(name), np.array(one["detected"])
        claimed = (
            NONE
            if paper is None
            else f"{paper.mean:.3f} ± {paper.deviation:.3f}, 95%: {paper.percentile_95:.3f}"
        )
        declared = f"{np.mean(one['declared']):.3f}" if one["declared"] else NONE
        rows.append(
            (
                name,
                claimed,
                one["source"],
                str(one["pictures"]),
                f"{values.mean():.3f} ± {values.std():.3f}, 95%: {np.quantile(values, 0.95):.3f}",
                declared,
                _nearest_category(float(values.mean())),
            )
        )
    return Grid(
        "Scores by category",
        (
            "category",
            "claimed score",
            "measured on",
            "pictures",
            "measured: detectors",
            "measured: declared boxes, mean",
            "category of our mean score",
        ),
        tuple(rows),
    )


def _ranges_grid(ranges: dict[str, dict[str, Any]]) -> Grid:
    def shown(one: dict[str, Any], unit: Unit) -> str:
        return " to ".join(proven_epsilon(end[str(unit)]) for end in one["proven"])

    rows = tuple(
        (
            name,
            "{:g} to {:g}".format(*one["claimed"]),
            one["strategy"],
            *(shown(one, unit) for unit in _UNITS),
        )
        for name, one in reversed(ranges.items())
    )
    heads = ("category", "claimed ε", "the paper's strategy", *(f"proven ε, {unit}" for unit in _UNITS))
    return Grid("What the ranges prove with the noise of table 2 on pixels", heads, rows)


def _nearest_category(score: float) -> str:
    """Return the name of the category whose mean score is nearest; of two, the more sensitive one."""
    return min(reversed(CATEGORIES), key=lambda category: abs(category.mean - score)).name
