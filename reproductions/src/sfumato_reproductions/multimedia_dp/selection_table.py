"""Table 5: where five strategies put noise, what they leave bare, and what is proven of each."""

from __future__ import annotations

from typing import Any

import numpy as np

from sfumato.media.images import PlaneMeans, SelectiveNoise
from sfumato.noise import Seeded
from sfumato.privacy import Unit
from sfumato.utility import ssim
from sfumato_reproductions.multimedia_dp.part import NONE, Grid, Part, held
from sfumato_reproductions.multimedia_dp.protocol import SIDE
from sfumato_reproductions.multimedia_dp.selection_measures import PUBLISHED_SELECTION, selection_measures
from sfumato_reproductions.multimedia_dp.sources import Photograph, Sources
from sfumato_reproductions.regenerate import Report

__all__ = ["selection_table"]

_SHAPE, _UNIT, _REGION = (SIDE, SIDE, 3), Unit("pixels", 1), Unit("region", 16)
_EPSILONS = (1.0, 10.0)
_OURS = "PlaneMeans"


def selection_table(sources: Sources, report: Report) -> Part | str:
    """Five strategies at the paper's coverages on photographs with people, and ours; or why not."""
    pictures = [photograph for photograph in sources.squares if photograph.people]
    if not pictures:
        return "since no photograph has a box of a person"
    rows: list[dict[str, Any]] = []
    steps = len(_EPSILONS) * len(PUBLISHED_SELECTION)
    for epsilon in _EPSILONS:
        for strategy in PUBLISHED_SELECTION:
            rows.append(_measured(strategy, epsilon, pictures))
            report("table 5: selection", len([row for row in rows if row["strategy"] != _OURS]) / steps)
        rows.append(_ours(epsilon, pictures))
    return Part(
        key="table 5",
        title="Table 5: selective perturbation",
        told=_TOLD,
        grids=tuple(
            _grid(epsilon, [row for row in rows if row["epsilon"] == epsilon], len(pictures))
            for epsilon in _EPSILONS
        ),
        numbers={"pictures": len(pictures), "rows": rows},
    )


_TOLD = (
    "*Claimed* are the paper's columns. *Measured* are means over photographs: precision against the boxes "
    "of people that were published with them, retention as structural similarity, and *left bare*, the "
    "share of people's pixels that were released as they are. *Proven* under `replace`: a pair (ε, δ) "
    "where a coin shows pixels, *nothing* where what is shown depends on the picture."
)


def _measured(strategy: str, epsilon: float, pictures: list[Photograph]) -> dict[str, Any]:
    coverage = PUBLISHED_SELECTION[strategy][0]
    measures = []
    for seed, photograph in enumerate(pictures):
        noise = SelectiveNoise(epsilon, strategy, _UNIT, coverage=coverage, randomness=Seeded(seed))
        measures.append(selection_measures(noise, photograph.pixels, photograph.people))
    noise = SelectiveNoise(epsilon, strategy, _UNIT, coverage=coverage)
    names = ("coverage", "precision", "shown", "retention", "seconds")
    means = {name: float(np.nanmean([getattr(one, name) for one in measures])) for name in names}
    return {
        "strategy": strategy,
        "epsilon": epsilon,
        **means,
        "proven": held(noise.proven(_UNIT, _SHAPE)),
        "proven_region": held(noise.proven(_REGION, _SHAPE)),
    }


def _ours(epsilon: float, pictures: list[Photograph]) -> dict[str, Any]:
    """Noise everywhere, on block sums, at the promise of the uniform row."""
    noise = PlaneMeans(epsilon, unit=_UNIT, randomness=Seeded(0))
    originals = np.stack([photograph.pixels for photograph in pictures])
    released = noise.release(originals).value
    return {
        "strategy": _OURS,
        "epsilon": epsilon,
        "coverage": 1.0,
        "precision": None,
        "shown": 0.0,
        "retention": float(ssim(originals, released, data_range=255.0).mean()),
        "seconds": None,
        "proven": held(noise.proven(_UNIT, _SHAPE)),
        "proven_region": held(noise.proven(_REGION, _SHAPE)),
    }


def _grid(epsilon: float, rows: list[dict[str, Any]], count: int) -> Grid:
    uniform = next(row["seconds"] for row in rows if row["strategy"] == "uniform")
    body = []
    for row in rows:
        paper = PUBLISHED_SELECTION.get(row["strategy"])
        claimed = (
            [f"{100.0 * value:.1f}%" for value in paper[:3]] + [f"{paper[3]:.2f}ε", f"{paper[4]:.1f}×"]
            if paper
            else [NONE] * 5
        )
        body.append(
            (
                row["strategy"],
                ", ".join(claimed[:3]) if paper else NONE,
                claimed[3],
                f"{100.0 * row['coverage']:.0f}%",
                NONE if row["precision"] is None else f"{100.0 * row['precision']:.1f}%",
                f"{100.0 * row['shown']:.0f}%",
                f"{100.0 * row['retention']:.1f}%",
                claimed[4],
                NONE if row["seconds"] is None else f"{row['seconds'] / uniform:.1f}×",
                row["proven"],
                row["proven_region"],
            )
        )
    heads = (
        "strategy",
        "claimed coverage, precision, retention",
        "claimed privacy loss",
        "coverage",
        "measured precision",
        "measured: left bare",
        "measured retention",
        "claimed overhead",
        "measured overhead",
        f"proven, {_UNIT}",
        f"proven, {_REGION}",
    )
    return Grid(f"Noise of ε = {epsilon:g} for one pixel, on {count} photographs", heads, tuple(body))
