"""Figure 10: accuracy against the paper's privacy score, and against what is proven."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sfumato.utility import frontier, knee
from sfumato_reproductions.tadp_rme.figure import COLOURS, MARKERS, Drawing, axes_row, legend_below, tidy
from sfumato_reproductions.tadp_rme.protocol import Run
from sfumato_reproductions.tadp_rme.published import TRUST_SWEEP
from sfumato_reproductions.tadp_rme.settings import tadp_rme
from sfumato_reproductions.tadp_rme.sweep import PRIVACY, Need, Results

__all__ = ["frontier_figure", "needs"]


def needs(run: Run) -> Iterator[Need]:
    """Everything behind the privacy score at every trust level."""
    for data in run.data:
        for trust in run.trusts:
            yield from (Need(data, tadp_rme(trust), group) for group in PRIVACY)


def frontier_figure(results: Results) -> Drawing:
    """Each point a trust level; the knee of each data set's frontier is ringed."""
    trusts = results.run.trusts
    numbers: dict[str, dict[str, Any]] = {}
    for data in results.run.data:
        accuracy = [results.mean(data, tadp_rme(trust), "accuracy") for trust in trusts]
        privacy = [results.mean(data, tadp_rme(trust), "privacy") for trust in trusts]
        names = [f"τ = {trust:g}" for trust in trusts]
        costs = [1.0 - score for score in privacy]
        bend = knee(costs, accuracy)
        numbers[data] = {
            "accuracy": accuracy,
            "privacy": privacy,
            "proven": [results.proven(data, tadp_rme(trust)) for trust in trusts],
            "frontier": [names[place] for place in frontier(costs, accuracy)],
            "knee": None if bend is None else names[bend],
        }

    def draw(figure: Any) -> None:
        left, right = axes_row(figure, 2, sharey=True)
        for data, found in numbers.items():
            look = {"color": COLOURS[data], "marker": MARKERS[data], "markersize": 5}
            left.plot(found["privacy"], found["accuracy"], label=f"{data}, ours", **look)
            if published := TRUST_SWEEP.get(data):
                rows = [published[trust] for trust in trusts]
                left.plot(
                    [row[1][0] for row in rows],
                    [row[0][0] for row in rows],
                    linestyle=":",
                    markerfacecolor="white",
                    label=f"{data}, paper",
                    **look,
                )
            names = [f"τ = {trust:g}" for trust in trusts]
            if found["knee"] is not None:
                place = names.index(found["knee"])
                at = (found["privacy"][place], found["accuracy"][place])
                left.plot(*at, "o", markersize=13, markerfacecolor="none", color=COLOURS[data])
                left.annotate(
                    f"knee: {found['knee']}",
                    at,
                    xytext=(9, 7) if data == results.run.data[0] else (-9, -13),
                    textcoords="offset points",
                    ha="left" if data == results.run.data[0] else "right",
                    fontsize=9,
                    color=COLOURS[data],
                )
            proven = [
                (e, a) for e, a in zip(found["proven"], found["accuracy"], strict=True) if e is not None
            ]
            right.plot([e for e, _ in proven], [a for _, a in proven], **look)
        right.set_xscale("log")
        right.set_xticks([50, 100, 200, 400], ["50", "100", "200", "400"])
        right.xaxis.set_minor_formatter("")
        left.set_ylim(0, 100)
        tidy(left, x="privacy score of the paper", y="accuracy, %", title="measured by the paper's attacks")
        tidy(
            right,
            x="ε proven under replace, δ = 1e-5",
            y="",
            title="proven; τ = 0 without noise proves nothing",
        )
        legend_below(figure, left, len(numbers))

    return Drawing(
        number=10,
        title="the frontier",
        caption="Left: accuracy against the paper's privacy score, knees of our frontiers ringed. Right: "
        "accuracy against the ε that is proven for one record.",
        numbers={"trust": list(trusts)} | numbers,
        size=(10.4, 5.0),
        draw=draw,
    )
