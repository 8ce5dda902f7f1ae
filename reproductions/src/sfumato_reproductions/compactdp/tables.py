"""Tables 2 to 7 beside the paper's: which methods they have, and how they are laid out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from sfumato_reproductions.compactdp.cells import (
    APPENDIX_P_HEADS,
    BESIDE,
    DIFFERENCES,
    HEURISTIC,
    against_appendix_p,
    beside,
    differences,
    heuristic,
    percent,
    proven,
)
from sfumato_reproductions.compactdp.methods import (
    BASELINES,
    CERTIFIED,
    COMBINED,
    COMPACT,
    DP_SGD,
    MAIN,
    METHODS,
    NON_PRIVATE,
)
from sfumato_reproductions.compactdp.pool import Source
from sfumato_reproductions.compactdp.protocol import STAND_INS, TABLE_DATA
from sfumato_reproductions.compactdp.published import APPENDIX_P, FIGURE_16, TABLE_3_TPR, TABLE_7, TABLES
from sfumato_reproductions.compactdp.results import Measures, Results, spread
from sfumato_reproductions.multimedia_dp.part import NONE, Grid, Part

__all__ = ["BACKBONE_METHODS", "SPECIFIED", "table"]


@dataclass(frozen=True)
class Specified:
    """A table of the paper: its title, its methods here, and whether it has the differences of appendix H."""

    title: str
    methods: tuple[str, ...]
    differences: bool = False


#: Table -> what is in it.
SPECIFIED: dict[int, Specified] = {
    2: Specified("the methods beside each other", MAIN),
    3: Specified("budgets of the second stage", (COMPACT, *COMBINED.values(), *CERTIFIED.values())),
    4: Specified("beside other private optimisers", (*MAIN[:2], *BASELINES, *MAIN[2:])),
    5: Specified("medical pictures, with the differences of appendix H", MAIN, True),
    6: Specified("clothes, with the differences of appendix H", MAIN, True),
}
#: The rows of table 7, of which accuracy alone is asked.
BACKBONE_METHODS = (NON_PRIVATE, COMPACT, DP_SGD[1.0], CERTIFIED[1.0])
_BUDGETS, _BACKBONES = 3, 7
# Non-members that a false positive rate of 0.1% needs.
_RESOLVED = 1_000


def table(number: int, results: Results) -> Part:
    """Table ``number`` of what was measured."""
    return _backbones(results) if number == _BACKBONES else _methods(number, results)


def _methods(number: int, results: Results) -> Part:
    specified, printed = SPECIFIED[number], TABLES[number]
    grids = []
    for source, rows in results.of(number, specified.methods).items():
        paper = {name: printed.get(METHODS[name].printed or "") for name in rows}
        cells = tuple((name, *beside(seeds, paper[name])) for name, seeds in rows.items())
        grids.append(Grid(f"{source}, beside the paper", ("method", *BESIDE), cells))
        if specified.differences:
            cells = tuple((name, *differences(seeds, paper[name])) for name, seeds in rows.items())
            grids.append(Grid(f"{source}, members minus non-members", ("method", *DIFFERENCES), cells))
        if number == _BUDGETS:
            grids.append(_appendix_p(source, rows))
        line = results.lines.get(source, ())
        cells = tuple((name, *heuristic(seeds, paper[name], line)) for name, seeds in rows.items())
        heads = ("method", *HEURISTIC)
        grids.append(Grid(f"{source}, *empirical ε* (heuristic: no bound in either direction)", heads, cells))
    used = {source.data for source in results.tables[number]}
    told = [f"{STAND_INS[number]}."] if number in STAND_INS and TABLE_DATA[number] in used else []
    others = sorted(used - {TABLE_DATA[number]})
    if others:
        told.append(f"Made of {' and '.join(others)}, not of the paper's data: only orders can be compared.")
    told.append(
        "Accuracy is in percent, on the tests; every cell is a mean over seeds ± their standard deviation. "
        "Behind the true positive rate stand the lowest and the highest end of its Clopper–Pearson "
        "intervals, and behind an *empirical ε* what the intervals of its rates or of its AUC leave open. "
        "*Proven ε* is at δ = 1e-5 for one record, with its neighbours; *nothing* is a legal value. *Seconds "
        "to learn* are those of a row learned from the beginning: of CompactDP + DP-SGD both stages, though "
        "such rows share one first stage here; features and attacks are not in them."
    )
    if number == _BUDGETS:
        told.extend(_true_positives(results.of(number, specified.methods)))
    fewest = min(
        made.strongest.nonmembers
        for rows in results.of(number, specified.methods).values()
        for seeds in rows.values()
        for made in seeds
    )
    if fewest < _RESOLVED:
        told.append(
            f"{fewest:,} non-members do not resolve a false positive rate of 0.1%: where there are fewer "
            f"than {_RESOLVED:,}, the threshold stands above all of them."
        )
    return Part(
        key=f"table {number}",
        title=f"Table {number}: {specified.title}",
        told=" ".join(told),
        grids=tuple(grids),
        numbers=results.to_dict(number, specified.methods),
    )


def _appendix_p(source: Source, rows: Measures) -> Grid:
    """Members against non-members over ε, with the paper's row on top."""
    auc, deviation = FIGURE_16[2:]
    advantage, confidence, accuracy = APPENDIX_P
    printed = (
        "paper: CompactDP + DP-SGD, ε = 0.5 to 8",
        f"{auc:.4f} ± {deviation:.4f}",
        f"at most {advantage:.4f}",
        f"below {confidence:.4f}",
        f"below {accuracy:.4f}",
    )
    cells = tuple((name, *against_appendix_p(seeds)) for name, seeds in rows.items())
    return Grid(f"{source}, beside appendix P", ("method", *APPENDIX_P_HEADS), (printed, *cells))


def _true_positives(sources: Mapping[Source, Measures]) -> Iterator[str]:
    """What section 4.4 says of all rows, beside ours of the same rows."""
    for source, rows in sources.items():
        rates = [
            spread(rows[name], lambda made: made.strongest.tpr).mean
            for name in (COMPACT, *COMBINED.values())
            if name in rows
        ]
        low, high = TABLE_3_TPR
        yield (
            f"The paper's table has no true positive rate; section 4.4 gives {low:.4f} to {high:.4f} at 0.1% "
            f"FPR over all of its rows. Those of the same rows here, CompactDP alone and with DP-SGD on "
            f"{source}, are {min(rates):.4f} to {max(rates):.4f}, means over seeds."
        )


def _backbones(results: Results) -> Part:
    heads = ("features", "of one record", *BACKBONE_METHODS, "proven ε of the last two")
    rows: list[tuple[str, ...]] = [
        (
            f"paper: {name} ({trained}, {size:,}M parameters)",
            NONE,
            f"{plain:.1f}",
            f"{ours:.1f}",
            NONE,
            NONE,
            NONE,
        )
        for name, (trained, size, plain, ours) in TABLE_7.items()
    ]
    found = results.of(_BACKBONES, BACKBONE_METHODS)
    rows += [_backbone(source, results.counted[source].dimension, row) for source, row in found.items()]
    return Part(
        key=f"table {_BACKBONES}",
        title=f"Table {_BACKBONES}: backbones",
        told="Accuracy in percent on the tests. The paper's backbones have up to a billion parameters and "
        "saw up to 142 million pictures; ours are those whose numbers come with a package, or need none. "
        "What is compared is the step from *non-private* to *CompactDP*, row by row.",
        grids=(Grid("Backbones", heads, tuple(rows)),),
        numbers=results.to_dict(_BACKBONES, BACKBONE_METHODS),
    )


def _backbone(source: Source, dimension: int, rows: Measures) -> tuple[str, ...]:
    cells = [
        percent(spread(rows[name], lambda made: made.accuracy)) if name in rows else NONE
        for name in BACKBONE_METHODS
    ]
    last = [proven(rows[name]) for name in BACKBONE_METHODS[2:] if name in rows]
    return (str(source), f"{dimension:,}", *cells, "; ".join(last) or NONE)
