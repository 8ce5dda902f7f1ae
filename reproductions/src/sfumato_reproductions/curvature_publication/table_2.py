"""Table 2: strategies along the paths of one trained model, beside the paper's."""

from __future__ import annotations

from sfumato_reproductions.curvature_publication.cells import BESIDE, DETAIL, beside, detail
from sfumato_reproductions.curvature_publication.methods import STRATEGY_NAMES
from sfumato_reproductions.curvature_publication.published import STRATEGIES
from sfumato_reproductions.curvature_publication.results import Results
from sfumato_reproductions.multimedia_dp.part import Grid, Part

__all__ = ["table_2"]


def table_2(results: Results) -> Part:
    """Two grids a data set; the paper has MNIST alone."""
    grids = []
    for data, rows in results.strategies.items():
        named = {name: f"{STRATEGY_NAMES[name]} ({name})" for name in rows}
        first = tuple(
            (named[name], *beside(seeds, STRATEGIES.get(name) if data == "mnist" else None))
            for name, seeds in rows.items()
        )
        second = tuple((named[name], *detail(seeds)) for name, seeds in rows.items())
        grids.append(Grid(f"{data}, beside the paper", ("strategy", *BESIDE), first))
        grids.append(Grid(f"{data}, attacks in detail", ("strategy", *DETAIL), second))
    return Part(
        key="table 2",
        title="Table 2: where along its path a picture is moved",
        told=(
            "One model is trained and moves the same pictures by the paper's three strategies: to the middle "
            "of the straight line, to the highest curvature along the geodesic, and to the lowest before the "
            "highest (equation 15), which is its own; and by one that is not in the paper, to the lowest of "
            "the whole geodesic."
        ),
        grids=tuple(grids),
        numbers=results.to_dict()["2"],
    )
