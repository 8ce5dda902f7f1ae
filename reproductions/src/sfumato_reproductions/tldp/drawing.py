"""Figures 1 and 2: F1 against claimed ε, and against the ε that is proven of a component and of a tensor."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sfumato_reproductions.tadp_rme.figure import tidy
from sfumato_reproductions.tldp.looks import SOUND_GAUSSIAN, SOUND_LAPLACE, legend, look
from sfumato_reproductions.tldp.points import Point, tensor_shape, variants
from sfumato_reproductions.tldp.settings import CLEAN, WHOLE, Setting
from sfumato_reproductions.tldp.sweep import Results

__all__ = ["PANELS", "Drawing", "curves"]

#: Panel -> what is along its axis.
PANELS = {
    "claimed": "claimed ε, the paper's axis",
    "component": "proven ε of one component",
    "tensor": "proven ε of a whole tensor",
}
#: Curve of the sound mechanisms -> the variant of TLDP whose (ε, δ) they keep to.
_SOUND = {SOUND_LAPLACE: "TLDP-L", SOUND_GAUSSIAN: "TLDP-G"}
_TITLES = {1: "type I, private training data", 2: "type II, private training features"}

# How far an axis reaches down from its end.
_DECADES = 1e5

Curve = list[tuple[float, float]]


def curves(results: Results, figure: int, data: str) -> dict[str, dict[str, Curve]]:
    """Panel -> curve -> points (ε, mean weighted F1), by rising ε.

    TLDP is placed at the ε of its own δ, a sound mechanism at the ε of the TLDP point that it is set against,
    the paper's baselines at δ = 1e-5. Under *claimed* stand the baselines, TLDP, and the sound mechanisms
    whose ε for a component is the claimed one.
    """
    made = {panel: dict(_paper(results, figure, data, panel)) for panel in PANELS}
    for name, variant in _SOUND.items():
        for panel in PANELS:
            if panel == "claimed" and variant == "TLDP-G":
                continue  # what is proven of a component is not what TLDP-G claims
            unit = "tensor" if panel == "tensor" else "component"
            plotted = []
            for epsilon in results.run.epsilons:
                point = Point(figure, data, Setting(variant, epsilon), unit)
                score = results.mean(figure, data, results.chosen[point])
                plotted.append((point.promises[0].epsilon, score))
            made[panel][name] = sorted(plotted)
    return made


def _paper(results: Results, figure: int, data: str, panel: str) -> Iterator[tuple[str, Curve]]:
    shape = tensor_shape(figure, data)
    for kind in (*WHOLE, *variants(figure, data)):
        plotted = []
        for epsilon in results.run.epsilons:
            setting = Setting(kind, epsilon)
            place = epsilon if panel == "claimed" else setting.proven(panel, shape).epsilon
            plotted.append((place, results.mean(figure, data, setting)))
        yield kind, sorted(plotted)


@dataclass(frozen=True)
class Drawing:
    """A figure of the paper drawn again, one row of panels a data set."""

    number: int
    results: Results

    @property
    def file(self) -> str:
        """The name of its picture."""
        return f"tldp-figure-{self.number}.png"

    @property
    def title(self) -> str:
        """What it shows."""
        return f"{_TITLES[self.number]}: F1 against ε"

    @property
    def caption(self) -> str:
        """How to read it."""
        return (
            "Left: the paper's axis, on which ε is a component's for TLDP and a tensor's for its baselines. "
            "Middle and right: the ε that is proven of each unit under replace, TLDP at its own δ, the "
            "baselines at δ = 1e-5 (an ε below a hundred-thousandth of the largest, as MVG's, is not "
            "shown). A *sound* mechanism keeps to the (ε, δ) of the TLDP point above or below which it "
            "stands, and was chosen on public pictures. The dashed line is a network that learned "
            "from what is not protected. Means over seeds."
        )

    def numbers(self) -> dict[str, Any]:
        """Everything that is plotted."""
        return {
            data: {
                "not_protected": self.results.mean(self.number, data, Setting(CLEAN)),
                "curves": curves(self.results, self.number, data),
            }
            for data in self.results.run.data
        }

    def save(self, folder: Path) -> None:
        """Write the picture as PNG, without pyplot, which would choose a window system for the caller."""
        from matplotlib.figure import Figure

        rows = len(self.results.run.data)
        figure = Figure(figsize=(14.0, 3.7 * rows + 0.8), layout="constrained")
        grid = figure.subplots(rows, len(PANELS), squeeze=False, sharey="row", width_ratios=(1.0, 1.3, 1.3))
        handles: dict[str, Any] = {}
        for data, panels in zip(self.results.run.data, grid, strict=True):
            plotted = curves(self.results, self.number, data)
            clean = self.results.mean(self.number, data, Setting(CLEAN))
            for axes, (panel, label) in zip(panels, PANELS.items(), strict=True):
                for kind, points in plotted[panel].items():
                    (handles[kind],) = axes.plot(*zip(*points, strict=True), **look(kind))
                axes.axhline(clean, color="black", linewidth=0.8, linestyle="--")
                axes.set_xscale("log")
                axes.set_ylim(0.0, None)
                if panel != "claimed":
                    axes.set_xlim(axes.get_xlim()[1] / _DECADES, None)
                if panel == "claimed":
                    axes.set_xticks(self.results.run.epsilons, [f"{e:g}" for e in self.results.run.epsilons])
                    axes.minorticks_off()
                tidy(axes, x=label, y="weighted F1" if panel == "claimed" else "", title=data)
        legend(figure, handles)
        figure.savefig(folder / self.file, dpi=130)
