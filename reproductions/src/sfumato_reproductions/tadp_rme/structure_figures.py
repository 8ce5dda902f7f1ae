"""Figures 7, 8 and 9: what is left of neighbourhoods and distances, and how long it takes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sfumato_reproductions.tadp_rme.figure import COLOURS, MARKERS, Drawing, axes_row, legend_below, tidy
from sfumato_reproductions.tadp_rme.protocol import Run
from sfumato_reproductions.tadp_rme.settings import gaussian, tadp_rme
from sfumato_reproductions.tadp_rme.sweep import Need, Results

__all__ = ["distances_figure", "distances_needs", "neighbours_figure", "neighbours_needs", "runtime_figure"]


def neighbours_needs(run: Run) -> Iterator[Need]:
    """Structure and probe at every trust level."""
    for data in run.data:
        for trust in run.trusts:
            yield Need(data, tadp_rme(trust), "probe")
            yield Need(data, tadp_rme(trust), "structure")


def distances_needs(run: Run) -> Iterator[Need]:
    """Structure at every trust level; for the noise alone at some of them, on the first seed."""
    for data in run.data:
        yield from (Need(data, tadp_rme(trust), "structure") for trust in run.trusts)
        for trust in _alone(run):
            yield Need(data, gaussian(trust), "structure", first_seed_only=True)


def neighbours_figure(results: Results) -> Drawing:
    """Figure 7: overlap of 5 and 10 nearest neighbours against accuracy."""
    numbers = {
        data: {
            measure: [results.mean(data, tadp_rme(trust), measure) for trust in results.run.trusts]
            for measure in ("overlap 5", "overlap 10", "accuracy")
        }
        for data in results.run.data
    }

    def draw(figure: Any) -> None:
        panels = axes_row(figure, 2, sharey=True)
        for axes, k in zip(panels, (5, 10), strict=True):
            for data, found in numbers.items():
                overlap = [max(100.0 * share, 0.02) for share in found[f"overlap {k}"]]
                look = {"color": COLOURS[data], "marker": MARKERS[data], "markersize": 5}
                axes.plot(overlap, found["accuracy"], label=data, **look)
                at = (overlap[0], found["accuracy"][0])
                offset = {"xytext": (7, 4), "textcoords": "offset points"}
                axes.annotate("τ = 0", at, fontsize=8, color=COLOURS[data], **offset)
            axes.set_xscale("log")
            axes.xaxis.set_major_formatter("{x:g}")
            axes.set_xlim(0.02, 250)
            axes.set_ylim(0, 100)
            tidy(
                axes,
                x=f"neighbours kept, k = {k}, % (logarithmic)",
                y="accuracy, %" if k == 5 else "",
                title=f"k = {k}",
            )
        legend_below(figure, panels[0], len(numbers))

    return Drawing(
        number=7,
        title="k-nearest-neighbour overlap against accuracy",
        caption="From right to left τ rises from 0 to 1. Noise alone breaks neighbourhoods already at τ = "
        "0.1; the probe, which averages over records, keeps working.",
        numbers={"trust": list(results.run.trusts)} | numbers,
        size=(9.6, 4.6),
        draw=draw,
    )


def distances_figure(results: Results) -> Drawing:
    """Figure 8: Spearman's correlation of pairwise distances."""
    trusts = results.run.trusts
    alone = _alone(results.run)
    numbers = {
        data: {
            "full": [results.mean(data, tadp_rme(trust), "spearman") for trust in trusts],
            "noise alone": [results.mean(data, gaussian(trust), "spearman") for trust in alone],
        }
        for data in results.run.data
    }

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        for data, found in numbers.items():
            look = {"color": COLOURS[data], "marker": MARKERS[data], "markersize": 5}
            axes.plot(trusts, found["full"], label=f"{data}, both", **look)
            axes.plot(
                alone,
                found["noise alone"],
                linestyle=":",
                markerfacecolor="white",
                label=f"{data}, noise alone",
                **look,
            )
        axes.axhline(0.0, color="black", linewidth=0.8)
        axes.set_ylim(-0.05, 1.05)
        tidy(axes, x="inverse trust τ (0: most trusted)", y="Spearman correlation of distances")
        legend_below(figure, axes, len(numbers))

    return Drawing(
        number=8,
        title="distances that are kept",
        caption="Rank correlation of all pairwise distances before and after. Both: noise and embedding; "
        "dotted: the same noise without the embedding; the noise does most of the work, and a reader who "
        "inverts the embedding is on that line.",
        numbers={"trust": list(trusts), "trust of noise alone": alone} | numbers,
        size=(7.2, 5.2),
        draw=draw,
    )


def runtime_figure(results: Results) -> Drawing:
    """Figure 9: CPU seconds of the release and of the probe."""
    numbers = {
        data: {
            measure: [results.mean(data, tadp_rme(trust), measure) for trust in results.run.trusts]
            for measure in ("release seconds", "probe seconds")
        }
        for data in results.run.data
    }

    def draw(figure: Any) -> None:
        panels = axes_row(figure, 2)
        for axes, measure in zip(panels, ("release seconds", "probe seconds"), strict=True):
            for data, found in numbers.items():
                look = {"color": COLOURS[data], "marker": MARKERS[data], "markersize": 5}
                axes.plot(results.run.trusts, found[measure], label=data, **look)
            axes.set_ylim(bottom=0)
            title = "the release: noise and embedding" if measure.startswith("release") else "the probe"
            tidy(axes, x="inverse trust τ", y="CPU seconds" if axes is panels[0] else "", title=title)
        legend_below(figure, panels[0], len(numbers))

    return Drawing(
        number=9,
        title="runtime",
        caption="The paper reports that runtime falls with τ and calls it the mechanism's. The release "
        "costs the same noise at every τ > 0, and less where there is no noise or no embedding; what falls "
        "is the time that the probe takes to converge on noisy rows.",
        numbers={"trust": list(results.run.trusts)} | numbers,
        size=(9.6, 4.2),
        draw=draw,
    )


def _alone(run: Run) -> list[float]:
    """Trust levels at which the noise is also shown without the embedding."""
    return [trust for trust in run.trusts if trust in (0.0, 0.25, 0.5, 0.75)]
