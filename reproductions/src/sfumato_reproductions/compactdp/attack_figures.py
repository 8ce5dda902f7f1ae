"""Figures 13 and 16: what attacks are converted into, and how little a budget after the fact matters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sfumato_reproductions.compactdp.attack import Attack, Range
from sfumato_reproductions.compactdp.cells import Line, range_by_line
from sfumato_reproductions.compactdp.drawing import COLOURS, PaperDrawing
from sfumato_reproductions.compactdp.methods import CERTIFIED, COMBINED, COMPACT, DP_SGD
from sfumato_reproductions.compactdp.published import FIGURE_13, FIGURE_15, FIGURE_16
from sfumato_reproductions.compactdp.results import Measures, spread
from sfumato_reproductions.multimedia_dp.part import proven_epsilon
from sfumato_reproductions.tadp_rme.figure import axes_row, legend_below, tidy

__all__ = ["SHOWN", "budgets_figure", "heuristics_figure"]

#: The methods of figures 13, 14 and 15, and the certified one.
SHOWN = (COMPACT, DP_SGD[1.0], COMBINED[1.0], CERTIFIED[1.0])
_PRINTED = {COMPACT: FIGURE_13, COMBINED[1.0]: FIGURE_15}
# Series stand side by side, on a logarithmic axis by these factors.
_ASIDE = (0.93, 1.0, 1.075)


def heuristics_figure(
    data: str, attacks: Mapping[str, Sequence[tuple[Attack, ...]]], line: Line, seeds: int
) -> PaperDrawing:
    """Figure 13: three conversions of ``attacks``, method -> those of each seed, with their intervals."""
    numbers = {name: _converted(found, line) for name, found in attacks.items()}
    kinds = {"advantage": "advantage", "rates": "TPR/FPR", "line": "AUC"}

    def draw(figure: Any) -> None:
        for axes, (kind, word) in zip(axes_row(figure, 3, sharey=True), kinds.items(), strict=True):
            step = 0.8 / len(numbers)
            for index, (name, rows) in enumerate(numbers.items()):
                shift = step * (index - (len(numbers) - 1) / 2.0)
                _bars(axes, [row[kind] for row in rows.values()], shift, COLOURS[index], name)
            axes.axvline(0.0, color="black", lw=0.8)
            for index, name in enumerate(numbers):
                if name in _PRINTED:
                    axes.axvline(_PRINTED[name], color=COLOURS[index], lw=1.0, ls=":",
                                 label=f"the paper's {_PRINTED[name]:g} for {name}")  # fmt: skip
            names = list(next(iter(numbers.values())))
            axes.set_yticks(range(len(names)), names)
            tidy(axes, x=f"“ε” by {word}, heuristic", y="")
        axes.invert_yaxis()
        legend_below(figure, axes, 3)

    return PaperDrawing(
        number=13,
        title="empirical ε by attack (heuristic)",
        caption=f"{data}; means over {_counted(seeds)}, with bars from the lowest to the highest end of what "
        "the intervals of any seed leave open: of both rates, Clopper–Pearson, 95% together, where the upper "
        "half of all records is flagged, and of the AUC, on the line of the tables (through the largest AUC "
        "of DP-SGD at known ε). None of these numbers is a bound on ε: a weak attack makes a small one. The "
        "attacks are appendix N's, logistic regression and a random forest on three outputs; it speaks of "
        "four combinations and does not say which, so all six are here. Dotted: the *empirical ε* that its "
        f"text reads off its own attacks, “approximately {FIGURE_13:g}” for CompactDP and “nearly "
        f"{FIGURE_15:g}” for CompactDP with DP-SGD (figure 15); it does not say by which conversion. "
        "Those of table 1's attacks stand in the tables.",
        numbers=numbers,
        size=(14.0, 5.4),
        draw=draw,
    )


def _bars(axes: Any, rows: Sequence[Mapping[str, Any]], shift: float, colour: str, name: str) -> None:
    """Values with their ends, one under the other; what has none is left out."""
    known = [(place, row) for place, row in enumerate(rows) if None not in row.values()]
    values = np.array([row["value"] for _, row in known])
    ends = np.array([[row["low"], row["high"]] for _, row in known]).reshape(-1, 2).T
    places = np.array([place for place, _ in known], dtype=np.float64) + shift
    axes.errorbar(
        values, places, xerr=np.abs(ends - values), fmt="o", ms=4, capsize=2, lw=1, color=colour, label=name
    )


def _counted(seeds: int) -> str:
    return f"{seeds} seeds" if seeds > 1 else "one seed"


def _converted(seeds: Sequence[tuple[Attack, ...]], line: Line) -> dict[str, Any]:
    """Attack -> its conversions and its mean AUC, over seeds."""
    found = {}
    for same in zip(*seeds, strict=True):
        heuristics = [attack.heuristics for attack in same]
        found[same[0].name] = {
            "advantage": vars(Range.over([one.advantage for one in heuristics])),
            "rates": vars(Range.over([one.rates for one in heuristics])),
            "line": vars(Range.over([range_by_line(attack, line) for attack in same])),
            "auc": float(np.mean([attack.auc for attack in same])),
        }
    return found


def budgets_figure(data: str, rows: Measures) -> PaperDrawing:
    """Figure 16: accuracy and AUC against the ε that a row is named after, for three kinds of rows."""
    kinds = {
        "CompactDP + DP-SGD, proven: nothing": (COMBINED, COLOURS[2]),
        "DP-SGD, proven: ε": (DP_SGD, COLOURS[1]),
        "certified contraction, proven: ε": (CERTIFIED, COLOURS[4]),
    }
    curves = {kind: _curve(names, rows) for kind, (names, _) in kinds.items()}
    curves = {kind: curve for kind, curve in curves.items() if curve}
    alone, seeds = rows.get(COMPACT), max(map(len, rows.values()))

    def draw(figure: Any) -> None:
        panels = axes_row(figure, 2)
        for axes, measure, factor in zip(panels, ("accuracy", "auc"), (100.0, 1.0), strict=True):
            for (kind, curve), aside in zip(curves.items(), _ASIDE, strict=False):
                colour = kinds[kind][1]
                x = list(map(float, curve))
                y = [factor * row[measure] for row in curve.values()]
                bars = [factor * (row[f"{measure} deviation"] or 0.0) for row in curve.values()]
                places = [aside * value for value in x]
                axes.errorbar(places, y, bars, fmt="o-", ms=4, capsize=3, lw=1.2, color=colour, label=kind)
            axes.set_xscale("log")
            axes.set_xticks(x, [f"{value:g}" for value in x])
            axes.minorticks_off()
            tidy(
                axes,
                x="ε that the row is named after",
                y="accuracy in percent" if factor > 1.0 else "largest AUC of six",
            )
        if alone is not None:
            levels = (
                100.0 * spread(alone, lambda made: made.accuracy).mean,
                spread(alone, lambda made: made.auc).mean,
            )
            name = "CompactDP without a head, proven: nothing"
            for axes, level in zip(panels, levels, strict=True):
                axes.axhline(level, color=COLOURS[2], lw=1.0, ls="--", label=name)
        panels[1].axhline(0.5, color="black", lw=0.8)
        legend_below(figure, panels[0], 2)

    low, high, auc, deviation = FIGURE_16
    return PaperDrawing(
        number=16,
        title="accuracy and AUC against ε",
        caption=f"{data}, means over {_counted(seeds)} and their deviations; series stand a little aside "
        f"of their ε so that bars do not cover each other. The paper has {low:g} to {high:g} percent "
        f"and an AUC of {auc:g} ± {deviation:g} for CompactDP + DP-SGD from 0.5 to 8: the ε on the axis is "
        "that of the head alone, behind features that were trained on every record without noise. "
        + "; ".join(f"{kind.split(',')[0]}: {_proven(curve)}" for kind, curve in curves.items())
        + ".",
        numbers=curves,
        size=(10.0, 4.4),
        draw=draw,
    )


def _curve(names: Mapping[float, str], rows: Measures) -> dict[str, dict[str, Any]]:
    """ε -> accuracy, AUC and what is proven."""
    found = {}
    for epsilon, name in names.items():
        if name in rows and rows[name][0].attacks:
            accuracy = spread(rows[name], lambda made: made.accuracy)
            auc = spread(rows[name], lambda made: made.auc)
            proven = rows[name][0].proven.epsilon
            found[f"{epsilon:g}"] = {
                "accuracy": accuracy.mean,
                "accuracy deviation": accuracy.deviation,
                "auc": auc.mean,
                "auc deviation": auc.deviation,
                "proven": None if np.isinf(proven) else proven,
            }
    return found


def _proven(curve: Mapping[str, Mapping[str, Any]]) -> str:
    values = [row["proven"] for row in curve.values()]
    if any(value is None for value in values):
        return "proven nothing at any ε"
    return f"proven ε = {', '.join(map(proven_epsilon, values))}"
