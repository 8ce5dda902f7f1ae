"""Figures 13 and 16: what attacks are converted into, and how little a budget after the fact matters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from sfumato.papers.compactdp.drawing import COLOURS, PaperDrawing
from sfumato.papers.compactdp.measured import Measured
from sfumato.papers.compactdp.methods import CERTIFIED, COMBINED, COMPACT, DP_SGD
from sfumato.papers.compactdp.published import FIGURE_13, FIGURE_15, FIGURE_16
from sfumato.papers.compactdp.results import Measures, spread
from sfumato.papers.multimedia_dp.part import proven_epsilon
from sfumato.papers.tadp_rme.figure import axes_row, legend_below, tidy

__all__ = ["budgets_figure", "heuristics_figure"]

#: The methods of figures 13, 14 and 15, and the certified one.
_SHOWN = (COMPACT, DP_SGD[1.0], COMBINED[1.0], CERTIFIED[1.0])


def heuristics_figure(data: str, rows: Measures) -> PaperDrawing:
    """Figure 13: empirical ε of each attack on each method, of the first seed, with its interval."""
    shown = {name: rows[name][0] for name in _SHOWN if name in rows}
    numbers = {name: _converted(made) for name, made in shown.items()}

    def draw(figure: Any) -> None:
        for axes, kind in zip(axes_row(figure, 2, sharey=True), ("advantage", "rates"), strict=True):
            step = 0.8 / len(numbers)
            for index, (name, attacks) in enumerate(numbers.items()):
                known = [
                    (place, row[kind])
                    for place, row in enumerate(attacks.values())
                    if row[kind]["value"] is not None
                ]
                places = np.array([place for place, _ in known]) + step * (index - (len(numbers) - 1) / 2.0)
                values = np.array([row["value"] for _, row in known])
                ends = np.array([[row["low"], row["high"]] for _, row in known]).T
                axes.errorbar(
                    values, places, xerr=np.abs(ends - values), fmt="o", ms=4, capsize=2, lw=1,
                    color=COLOURS[index], label=name,
                )  # fmt: skip
            axes.axvline(0.0, color="black", lw=0.8)
            axes.set_yticks(range(len(next(iter(numbers.values())))), list(next(iter(numbers.values()))))
            tidy(axes, x=f"“ε” by {'advantage' if kind == 'advantage' else 'TPR/FPR'}, heuristic", y="")
        axes.invert_yaxis()
        legend_below(figure, axes, 2)

    return PaperDrawing(
        number=13,
        title="empirical ε by attack (heuristic)",
        caption=f"{data}, the first seed; the upper half of all records is flagged. Bars are what the "
        "Clopper–Pearson intervals of both rates leave open (95% together). None of these numbers is a bound "
        f"on ε: a weak attack makes a small one. The paper reads {FIGURE_13:g} off its attacks on CompactDP "
        f"and {FIGURE_15:g} off those on CompactDP with DP-SGD.",
        numbers=numbers,
        size=(11.0, 4.8),
        draw=draw,
    )


def _converted(made: Measured) -> dict[str, Any]:
    return {
        attack.name: {
            "advantage": vars(attack.heuristics.advantage),
            "rates": vars(attack.heuristics.rates),
            "auc": attack.auc,
        }
        for attack in made.attacks
    }


def budgets_figure(data: str, rows: Measures) -> PaperDrawing:
    """Figure 16: accuracy and AUC against the ε that a row is named after, for three kinds of rows."""
    kinds = {
        "CompactDP + DP-SGD, proven: nothing": (COMBINED, COLOURS[2]),
        "DP-SGD, proven: ε": (DP_SGD, COLOURS[1]),
        "certified contraction, proven: ε": (CERTIFIED, COLOURS[4]),
    }
    curves = {kind: _curve(names, rows) for kind, (names, _) in kinds.items()}
    curves = {kind: curve for kind, curve in curves.items() if curve}
    alone = rows.get(COMPACT)

    def draw(figure: Any) -> None:
        panels = axes_row(figure, 2)
        for axes, measure, factor in zip(panels, ("accuracy", "auc"), (100.0, 1.0), strict=True):
            for kind, curve in curves.items():
                colour = kinds[kind][1]
                x = list(map(float, curve))
                y = [factor * row[measure] for row in curve.values()]
                bars = [factor * (row[f"{measure} deviation"] or 0.0) for row in curve.values()]
                axes.errorbar(x, y, bars, fmt="o-", ms=4, capsize=3, lw=1.2, color=colour, label=kind)
            axes.set_xscale("log")
            axes.set_xticks(x, [f"{value:g}" for value in x])
            axes.minorticks_off()
            tidy(
                axes,
                x="ε that the row is named after",
                y="accuracy in percent" if factor > 1.0 else "largest AUC of six",
            )
        if alone is not None:
            level = 100.0 * spread(alone, lambda made: made.accuracy).mean
            name = "CompactDP without a head, proven: nothing"
            panels[0].axhline(level, color=COLOURS[2], lw=1.0, ls="--", label=name)
        panels[1].axhline(0.5, color="black", lw=0.8)
        legend_below(figure, panels[0], 2)

    low, high, auc, deviation = FIGURE_16
    return PaperDrawing(
        number=16,
        title="accuracy and AUC against ε",
        caption=f"{data}, means over seeds and their deviations. The paper has {low:g} to {high:g} percent "
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
