"""Figures 4, 5 and 6: accuracy by trust level, in three views."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from sfumato_reproductions.tadp_rme.figure import COLOURS, MARKERS, Drawing, axes_row, legend_below, tidy
from sfumato_reproductions.tadp_rme.protocol import Run
from sfumato_reproductions.tadp_rme.published import TRUST_SWEEP
from sfumato_reproductions.tadp_rme.settings import tadp_rme
from sfumato_reproductions.tadp_rme.sweep import Need, Results

__all__ = ["bars_figure", "needs", "retention_figure", "trade_off_figure"]

_REGIMES = {0.0: "τ = 0", 0.5: "τ = 0.5", 1.0: "τ = 1"}


def needs(run: Run) -> Iterator[Need]:
    """The probe at every trust level."""
    for data in run.data:
        yield from (Need(data, tadp_rme(trust), "probe") for trust in run.trusts)


def _ours(results: Results, data: str) -> tuple[list[float], list[float]]:
    """Mean accuracy and its deviation at every trust level."""
    values = [results.values(data, tadp_rme(trust), "accuracy") for trust in results.run.trusts]
    return [float(np.mean(v)) for v in values], [
        float(np.std(v, ddof=1)) if len(v) > 1 else 0.0 for v in values
    ]


def _paper(results: Results, data: str) -> list[float] | None:
    published = TRUST_SWEEP.get(data)
    return None if published is None else [published[trust][0][0] for trust in results.run.trusts]


def trade_off_figure(results: Results) -> Drawing:
    """Figure 4: accuracy against τ."""
    numbers = {data: _ours(results, data) for data in results.run.data}

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        for data, (means, deviations) in numbers.items():
            look = {"color": COLOURS[data], "marker": MARKERS[data], "markersize": 5}
            axes.plot(results.run.trusts, means, label=f"{data}, ours", **look)
            axes.errorbar(results.run.trusts, means, deviations, capsize=3, fmt="none", color=COLOURS[data])
            if paper := _paper(results, data):
                axes.plot(
                    results.run.trusts,
                    paper,
                    linestyle=":",
                    markerfacecolor="white",
                    label=f"{data}, paper",
                    **look,
                )
        axes.axhline(10.0, color="grey", linewidth=0.8, linestyle="--")
        axes.annotate(
            "chance", (0.0, 10.0), xytext=(2, 3), textcoords="offset points", color="grey", fontsize=9
        )
        axes.set_ylim(0, 100)
        tidy(axes, x="inverse trust τ (0: most trusted)", y="accuracy of the probe, %")
        legend_below(figure, axes, len(numbers))

    return Drawing(
        number=4,
        title="accuracy by inverse trust",
        caption="Mean over seeds, bars: one standard deviation. τ = 0 is without noise, τ = 1 without "
        "embedding.",
        numbers={"trust": list(results.run.trusts), "accuracy": numbers},
        size=(7.2, 5.2),
        draw=draw,
    )


def retention_figure(results: Results) -> Drawing:
    """Figure 5: accuracy as a share of that at τ = 0."""
    numbers = {data: _share(_ours(results, data)[0]) for data in results.run.data}

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        axes.axhspan(50.0, 105.0, color="#1b7837", alpha=0.07)
        axes.axhspan(0.0, 25.0, color="#b2182b", alpha=0.07)
        for height, text, colour in ((52, "above half", "#1b7837"), (20, "below a quarter", "#b2182b")):
            axes.annotate(text, (0.01, height), xycoords=("axes fraction", "data"), color=colour)
        for data, kept in numbers.items():
            look = {"color": COLOURS[data], "marker": MARKERS[data], "markersize": 5}
            axes.plot(results.run.trusts, kept, label=f"{data}, ours", **look)
            if paper := _paper(results, data):
                axes.plot(
                    results.run.trusts,
                    _share(paper),
                    linestyle=":",
                    markerfacecolor="white",
                    label=f"{data}, paper",
                    **look,
                )
        axes.set_ylim(0, 105)
        tidy(axes, x="inverse trust τ (0: most trusted)", y="accuracy, % of that at τ = 0")
        legend_below(figure, axes, len(numbers))

    return Drawing(
        number=5,
        title="utility retention",
        caption="The fall from τ = 0 to the next level is the step from no noise to noise, not a step of "
        "trust.",
        numbers={"trust": list(results.run.trusts), "retention": numbers},
        size=(7.2, 5.2),
        draw=draw,
    )


def bars_figure(results: Results) -> Drawing:
    """Figure 6: accuracy at τ = 0, 0.5 and 1."""
    regimes = [trust for trust in results.run.trusts if trust in _REGIMES]
    numbers = {
        data: {_REGIMES[trust]: results.mean(data, tadp_rme(trust), "accuracy") for trust in regimes}
        for data in results.run.data
    }

    def draw(figure: Any) -> None:
        panels = axes_row(figure, len(numbers), sharey=True)
        for axes, (data, means) in zip(panels, numbers.items(), strict=True):
            places = np.arange(len(regimes))
            published = TRUST_SWEEP.get(data)
            if published is not None:
                paper = [published[trust][0][0] for trust in regimes]
                shown = axes.bar(places - 0.2, paper, 0.38, color="#bdbdbd", label="paper")
                axes.bar_label(shown, fmt="%.1f", fontsize=8)
            ours = axes.bar(
                places + (0.2 if published else 0.0), list(means.values()), 0.38, color=COLOURS[data]
            )
            ours.set_label("ours")
            axes.bar_label(ours, fmt="%.1f", fontsize=8)
            axes.set_xticks(places, list(means))
            axes.set_ylim(0, 105)
            tidy(axes, x="", y="accuracy, %" if axes is panels[0] else "", title=data)
            axes.legend(frameon=False, fontsize=9)

    return Drawing(
        number=6,
        title="utility at τ = 0, 0.5 and 1",
        caption="Accuracy of the probe in the three regimes of the paper.",
        numbers=numbers,
        size=(max(4.4, 3.2 * len(numbers)), 3.8),
        draw=draw,
    )


def _share(values: list[float]) -> list[float]:
    return [100.0 * value / values[0] for value in values]
