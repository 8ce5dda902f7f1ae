"""The allocation by sensitivity against a uniform one, on maps that people declared, and what maps cost."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from sfumato.media import water_filling
from sfumato.media.images import ContentAdaptive, SensitivityMap, annotated_map
from sfumato.privacy import Unit
from sfumato_reproductions.multimedia_dp.allocation_utility import (
    AllocationUtility,
    measured_allocation,
    modelled_allocation,
)
from sfumato_reproductions.multimedia_dp.part import Grid, Part, held, signed_percent
from sfumato_reproductions.multimedia_dp.protocol import SIDE
from sfumato_reproductions.multimedia_dp.published import ADAPTIVE_GAIN
from sfumato_reproductions.multimedia_dp.sources import Sources
from sfumato_reproductions.regenerate import Report

__all__ = ["allocation_part", "moved_by_sensitivity", "paper_objective"]

_EPSILONS, _UNIT, _TILE = (1.0, 4.0), Unit("region", 16), 16
_FACTORS: dict[str, dict[str, Any]] = {"people": {"factors": ("identity",)}, "all four factors": {}}
_MAPS = ("public", "private", "unaccounted")
_EQUALS: tuple[Literal["worst case", "total"], ...] = ("worst case", "total")


def allocation_part(sources: Sources, report: Report) -> Part | str:
    """Loss of adaptive against uniform allocation, and what each kind of map proves; or why not."""
    photographs = [one for one in sources.squares if one.boxes]
    rows: list[dict[str, Any]] = []
    steps = len(_FACTORS) * len(_EPSILONS)
    for name, factors in _FACTORS.items():
        maps = [annotated_map(one.boxes, one.pixels.shape, tile=_TILE, **factors) for one in photographs]
        kept = [place for place, found in enumerate(maps) if found.scores.max() > 0.0]
        pictures, maps = [photographs[place].pixels for place in kept], [maps[place] for place in kept]
        for epsilon in _EPSILONS if kept else ():
            losses = {
                "modelled": modelled_allocation(maps, epsilon=epsilon),
                "measured": measured_allocation(pictures, maps, epsilon=epsilon, unit=_UNIT),
            }
            rows.append({"map": name, "epsilon": epsilon, "pictures": len(kept)} | _less(losses))
            report("allocation", len(rows) / steps)
    if not rows:
        return "since no photograph has a box that is sensitive"
    kinds = _kinds(photographs[0].pixels.shape, [list(box) for box in photographs[0].people])
    return Part(
        key="allocation",
        title="Allocation by sensitivity against uniform allocation",
        told=_TOLD,
        grids=(_grid(rows), _kinds_grid(kinds)),
        numbers={"claimed": ADAPTIVE_GAIN, "rows": rows, "maps": kinds},
    )


_TOLD = (
    f"*Claimed*: {100.0 * ADAPTIVE_GAIN:.1f}% less utility loss than uniform allocation, at equal what is "
    "not said. Maps are declared boxes on tiles of 16 pixels; shares follow table 1's ranges with a "
    "reserve of 20%. *Modelled* is the mean of 1/ε² over places, *measured* the mean squared error of "
    "PlaneMeans for region(16). At *equal worst case* the uniform allocation gives every place the largest "
    "ε of the map, so that both prove the same for a region; at *equal total* the mean ε, so that a region "
    "where little is sensitive is promised less by the adaptive one. A positive number is loss that the "
    "adaptive one saves. *Outside* leaves sensitive places out, since there noise is the purpose."
)


def paper_objective(epsilon: ArrayLike, utility: ArrayLike, sensitivity: ArrayLike) -> float:
    """Σ uᵢ log(εᵢ/sᵢ), which the paper maximises; an element without utility adds nothing."""
    budgets, worth, scores = np.broadcast_arrays(*map(np.asarray, (epsilon, utility, sensitivity)))
    counts = worth > 0.0
    with np.errstate(divide="ignore"):
        return float((worth[counts] * (np.log(budgets[counts]) - np.log(scores[counts]))).sum())


@lru_cache(maxsize=1)
def moved_by_sensitivity(count: int = 6) -> float:
    """How far two very different sensitivities move the optimum of the paper's objective: a solver's answer.

    The largest change of any of ``count`` budgets, whose mean is 1, between the optima that a solver finds
    for each, or between the first of them and water filling.
    """
    from scipy.optimize import minimize

    draw = np.random.default_rng(0)
    utility, low, high = draw.uniform(0.5, 2.0, count), 0.05, 5.0
    start = np.full(count, 1.0)
    found = []
    for sensitivity in (np.full(count, 0.5), np.geomspace(0.01, 1.0, count)):
        solved = minimize(
            lambda budget, s=sensitivity: -paper_objective(budget, utility, s),
            start,
            bounds=[(low, high)] * count,
            constraints={"type": "ineq", "fun": lambda budget: count - budget.sum()},
            options={"ftol": 1e-14, "maxiter": 500},
        )
        found.append(solved.x)
    exact = water_filling(utility, float(count), low, high)
    return float(max(np.abs(found[0] - found[1]).max(), np.abs(found[0] - exact).max()))


def _less(losses: dict[str, AllocationUtility]) -> dict[str, Any]:
    found: dict[str, Any] = {"mean_share": losses["modelled"].mean_share}
    for name, made in losses.items():
        for where, counted in (("everywhere", made.everywhere), ("outside", made.outside)):
            for equal in _EQUALS:
                found[f"{name}, {where}, equal {equal}"] = counted.less(equal)
    return found


def _kinds(shape: tuple[int, ...], people: list[list[float]]) -> list[dict[str, Any]]:
    """What is proven of a region where the map is public, private, or read off the picture for free."""
    boxes = {"identity": people or [[0.0, 0.0, SIDE / 2, SIDE / 2]]}
    declared = SensitivityMap.from_boxes(boxes, shape, tile=_TILE)
    made = []
    for kind in _MAPS:
        given: dict[str, Any] = {"declared": declared} if kind == "public" else {"detectors": ("faces",)}
        noise = ContentAdaptive(4.0, unit=_UNIT, map=kind, shape=shape, **given)
        inside = noise.inside(_UNIT)
        made.append(
            {
                "map": kind,
                "claimed_epsilon": 4.0,
                "proven": held(noise.guarantee()),
                "inside": None if inside is None else held(inside),
                "why": noise.guarantee().theorem,
            }
        )
    return made


def _grid(rows: list[dict[str, Any]]) -> Grid:
    keys = [
        f"{name}, {where}, equal {equal}"
        for equal in _EQUALS
        for name in ("modelled", "measured")
        for where in ("everywhere", "outside")
    ]
    body = tuple(
        (
            row["map"],
            f"{row['epsilon']:g}",
            str(row["pictures"]),
            f"{row['mean_share']:.2f}",
            f"{100.0 * ADAPTIVE_GAIN:.1f}%",
            *(signed_percent(row[key]) for key in keys),
        )
        for row in rows
    )
    heads = ("map", "ε", "photographs", "mean share of ε", "claimed", *keys)
    return Grid("Utility loss saved by the adaptive allocation", heads, body)


def _kinds_grid(kinds: list[dict[str, Any]]) -> Grid:
    body = tuple(
        (one["map"], f"{one['claimed_epsilon']:g}", one["proven"], one["inside"] or "–", one["why"])
        for one in kinds
    )
    heads = ("map", "asked ε", f"proven, {_UNIT}", f"proven, {_UNIT} inside sensitive tiles", "why")
    return Grid("What is proven when noise follows a map", heads, body)
