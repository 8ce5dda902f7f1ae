"""Table 4: a threshold chosen three ways at ε = 1, what it costs, and what is proven of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from sfumato.mechanisms import Release
from sfumato.media.detect import (
    exponential_threshold,
    functional_threshold,
    projected_gradient_threshold,
    threshold_cost,
)
from sfumato.noise import Seeded
from sfumato_reproductions.multimedia_dp.part import NONE, Grid, Part, held
from sfumato_reproductions.multimedia_dp.published import DELTA, THRESHOLDS
from sfumato_reproductions.multimedia_dp.sources import Sources
from sfumato_reproductions.multimedia_dp.threshold_records import Records, threshold_records
from sfumato_reproductions.regenerate import Report

__all__ = ["threshold_table"]

_EPSILON, _SHARE, _START = 1.0, 0.5, 0.5
_OPTIONS: dict[str, Any] = {"epsilon": _EPSILON, "positives": _SHARE}
_WAYS: dict[str, tuple[Callable[..., Release[float]], dict[str, Any]]] = {
    "functional, the paper's": (functional_threshold, {}),
    "exponential": (exponential_threshold, {}),
    "projected gradient": (projected_gradient_threshold, {"delta": DELTA}),
}


def threshold_table(sources: Sources, report: Report) -> Part:
    """Every kind of decision for which there are records, every way."""
    found = []
    records = threshold_records(sources)
    for done, (kind, (what, scored)) in enumerate(records.items()):
        report("table 4: thresholds", done / len(records))
        found.append(_decided(kind, what, scored, sources.run.draws))
    report("table 4: thresholds", 1.0)
    return Part(
        key="table 4",
        title="Table 4: private thresholds",
        told=_TOLD,
        grids=(_grid(found),),
        numbers={"epsilon": _EPSILON, "kinds": found},
    )


_TOLD = (
    "J(t) = FPR + FNR of calling a record positive from the score t on. *Claimed* are the paper's losses "
    "before and after; it does not say on what records. *Optimum* is the least J over all thresholds, "
    "which is not private. Each way was drawn often: mean ± standard deviation of J, and how often the "
    "released threshold was, but for the last bit, the score of a record. *Proven* is per record, under "
    "`replace` of its score and label."
)


def _decided(kind: str, what: str, scored: Records, draws: int) -> dict[str, Any]:
    scores, labels = scored

    def cost(threshold: float) -> float:
        return threshold_cost(scores, labels, threshold, positives=_SHARE)

    edges = np.concatenate([scores, np.nextafter(scores, 2.0), [0.0, 1.0]])
    edges = np.unique(np.clip(edges, 0.0, 1.0))
    ways = {}
    for name, (choose, more) in _WAYS.items():
        made = [choose(scores, labels, **_OPTIONS, **more, randomness=Seeded(seed)) for seed in range(draws)]
        values = np.array([one.value for one in made])
        costs = np.array([cost(value) for value in values])
        near = np.abs(values[:, None] - scores[None]).min(axis=1) <= np.spacing(1.0)
        ways[name] = {
            "proven": held(made[0].statement.proven),
            "cost": float(costs.mean()),
            "deviation": float(costs.std()),
            "threshold": float(values.mean()),
            "shows_a_score": float(near.mean()),
        }
    return {
        "kind": kind,
        "records": what,
        "count": int(labels.size),
        "start": cost(_START),
        "optimum": min(map(cost, edges)),
        "ways": ways,
    }


def _grid(found: list[dict[str, Any]]) -> Grid:
    rows = []
    for one in found:
        paper = THRESHOLDS.get(one["kind"])
        for name, way in one["ways"].items():
            rows.append(
                (
                    one["kind"],
                    f"{one['records']}; {one['count']:,} records",
                    NONE if paper is None else f"{paper.initial:.3f} → {paper.optimised:.3f}",
                    f"{one['start']:.3f}",
                    f"{one['optimum']:.3f}",
                    name,
                    f"{way['cost']:.3f} ± {way['deviation']:.3f}",
                    f"{way['threshold']:.3f}",
                    f"{100.0 * way['shows_a_score']:.0f}%",
                    f"{_EPSILON:g}" if "paper" in name else NONE,
                    way["proven"],
                )
            )
    heads = (
        "decision",
        "measured on",
        "claimed loss",
        "J at 0.5",
        "optimum",
        "way",
        "measured J",
        "mean threshold",
        "shows a record's score",
        "claimed ε",
        "proven",
    )
    return Grid("Thresholds at ε = 1", heads, tuple(rows))
