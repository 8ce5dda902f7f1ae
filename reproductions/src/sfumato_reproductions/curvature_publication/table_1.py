"""Table 1: every method beside the paper's numbers, and its attacks in detail."""

from __future__ import annotations

from sfumato_reproductions.curvature_publication.candidates import CONFIDENCE
from sfumato_reproductions.curvature_publication.cells import ATTACKS, BESIDE, DETAIL, beside, detail, percent
from sfumato_reproductions.curvature_publication.methods import METHODS
from sfumato_reproductions.curvature_publication.published import TABLE_1
from sfumato_reproductions.curvature_publication.results import Results
from sfumato_reproductions.multimedia_dp.part import NONE, Grid, Part

__all__ = ["LABEL_ALONE", "table_1"]

#: The row of an attacker who sees no model.
LABEL_ALONE = "label alone, no model"


def table_1(results: Results) -> Part:
    """Two grids a data set."""
    grids = []
    for data, rows in results.methods.items():
        printed = TABLE_1.get(data, {})
        alone = results.counted[data].label_alone
        first = [
            (name, *beside(seeds, printed.get(METHODS[name].printed or ""))) for name, seeds in rows.items()
        ]
        second = [(name, *detail(seeds)) for name, seeds in rows.items()]
        empty = (NONE,) * len(BESIDE)
        first.append((LABEL_ALONE, empty[0], percent(alone), *empty[2:]))
        told = [percent(alone if "as the paper" in head else 0.5) for head in ATTACKS.values()]
        second.append((LABEL_ALONE, *told, *(NONE,) * (len(DETAIL) - len(told))))
        grids.append(Grid(f"{data}, beside the paper", ("method", *BESIDE), tuple(first)))
        grids.append(Grid(f"{data}, attacks in detail", ("method", *DETAIL), tuple(second)))
    return Part(
        key="table 1",
        title="Table 1: publishing methods beside the paper",
        told=(
            "Membership is the share of right answers about members and non-members in equal numbers, with "
            f"its {CONFIDENCE:.0%} interval; 50% is a coin. *Proven ε* is at δ = 1e-5 for one record, with "
            "the neighbours that it holds for. The Fréchet distance and the inception-style score are over a "
            "network of our own (see the protocol) and are not FID and IS: only their order can be set "
            "beside the paper's."
        ),
        grids=tuple(grids),
        numbers={
            data: {"label_alone": results.counted[data].label_alone, "methods": rows}
            for data, rows in results.to_dict()["1"].items()
        },
    )
