"""Figure 3: F1 against the ε claimed of a round, and against the ε proven of a client over all rounds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sfumato_reproductions.tadp_rme.figure import tidy
from sfumato_reproductions.tldp.federated.methods import CLEAN, Method, kinds
from sfumato_reproductions.tldp.federated.sweep import Measured, Results
from sfumato_reproductions.tldp.looks import SOUND_FEDERATED, legend, look

__all__ = ["PANELS", "Drawing", "curves"]

#: Panel -> what is along its axis.
PANELS = {
    "claimed": "claimed ε of one round, the paper's axis (sound: proven, all rounds)",
    "proven": "proven ε of a client over all rounds, δ = 1e-5",
}
# How far the proven axis reaches down from its end, and how wide the margin to its right is.
_DECADES, _MARGIN = 1e5, 40.0

Curve = list[tuple[float, float]]


def curves(found: Measured, claimed: Sequence[float], totals: Sequence[float]) -> dict[str, dict[str, Curve]]:
    """Panel -> curve -> points (ε, mean weighted F1); ε is infinite where nothing is proven."""
    made: dict[str, dict[str, Curve]] = {panel: {} for panel in PANELS}
    for kind in kinds(found.model):
        methods = [Method(kind, epsilon) for epsilon in claimed]
        made["claimed"][kind] = [(method.epsilon, found.mean(method)) for method in methods]
        made["proven"][kind] = [(method.proven(found.model), found.mean(method)) for method in methods]
    for panel in PANELS:
        made[panel][SOUND_FEDERATED] = [(epsilon, found.mean(found.chosen[epsilon])) for epsilon in totals]
    return made


@dataclass(frozen=True)
class Drawing:
    """The figure drawn again, one row of panels a data set."""

    results: Results
    number: int = 3

    @property
    def file(self) -> str:
        """The name of its picture."""
        return "tldp-figure-3.png"

    @property
    def title(self) -> str:
        """What it shows."""
        return "type III, federated training: F1 against ε"

    @property
    def caption(self) -> str:
        """How to read it."""
        return (
            "Left: the ε that is claimed of one round, the paper's axis. Right: the ε that is proven of one "
            "client over all rounds under `replace` at δ = 1e-5; methods of which nothing is proven stand in "
            "the grey margin, by rising claimed ε from left to right (an ε below a hundred-thousandth of the "
            "largest, as MVG's, is not shown). *Averaged first* is TLDP "
            "by the list of steps of section 5.2.3, noised by the server: its ε is proven against everybody "
            "but the server, that of all others against the server too. *Sound* stands on both sides at its "
            "proven ε over all rounds. The dashed line is the same training without protection, the dotted "
            "one is guessing, which a model of nothing but noise may miss by far to either side where there "
            "are two classes. Means over seeds."
        )

    def numbers(self) -> dict[str, Any]:
        """Everything that is plotted; an infinite ε is null."""
        run = self.results.run
        return {
            data: {
                "not_protected": found.mean(Method(CLEAN)),
                "parameters": found.model.size,
                "curves": {
                    panel: {
                        kind: [[x if math.isfinite(x) else None, y] for x, y in curve]
                        for kind, curve in drawn.items()
                    }
                    for panel, drawn in curves(found, run.claimed, run.totals).items()
                },
            }
            for data, found in self.results.found.items()
        }

    def save(self, folder: Path) -> None:
        """Write the picture as PNG, without pyplot, which would choose a window system for the caller."""
        from matplotlib.figure import Figure

        run, rows = self.results.run, len(self.results.found)
        figure = Figure(figsize=(13.0, 3.6 * rows + 0.8), layout="constrained")
        grid = figure.subplots(rows, len(PANELS), squeeze=False, sharey="row", width_ratios=(1.0, 1.35))
        handles: dict[str, Any] = {}
        for (data, found), panels in zip(self.results.found.items(), grid, strict=True):
            plotted = curves(found, run.claimed, run.totals)
            for axes, (panel, label) in zip(panels, PANELS.items(), strict=True):
                edge = max(x for curve in plotted[panel].values() for x, _ in curve if math.isfinite(x))
                for kind, points in reversed(plotted[panel].items()):
                    handles[kind] = _draw(axes, kind, points, edge * 2.0)
                axes.axhline(found.mean(Method(CLEAN)), color="black", linewidth=0.8, linestyle="--")
                axes.axhline(found.guessing, color="black", linewidth=0.8, linestyle=":")
                axes.set_xscale("log")
                axes.set_ylim(0.0, 1.0)
                if panel == "proven":
                    axes.set_xlim(edge / _DECADES, edge * 2.0 * _MARGIN)
                    axes.axvspan(edge * 2.0, edge * 2.0 * _MARGIN, color="#eeeeee", zorder=0)
                    middle = edge * 2.0 * math.sqrt(_MARGIN)
                    axes.text(middle, 1.0, "nothing is proven", ha="center", va="bottom", fontsize=9)
                    # No numbers in the margin, where places along the axis are no ε.
                    least, most = math.ceil(math.log10(edge / _DECADES)), math.floor(math.log10(edge * 2.0))
                    axes.set_xticks([10.0**power for power in range(least, most + 1)])
                    axes.minorticks_off()
                name = f"{data}, {found.model.size:,} parameters"
                tidy(axes, x=label, y="weighted F1" if panel == "claimed" else "")
                axes.set_title(name, fontsize=11, loc="left")
        legend(figure, handles)
        figure.savefig(folder / self.file, dpi=130)


def _draw(axes: Any, kind: str, points: Curve, margin: float) -> Any:
    """One curve; points without a finite ε stand beyond ``margin``, evenly."""
    count = len(points)
    placed = [
        (x if math.isfinite(x) else margin * _MARGIN ** ((place + 0.5) / count), y)
        for place, (x, y) in enumerate(points)
    ]
    finite = [at for at, (x, _) in zip(placed, points, strict=True) if math.isfinite(x)]
    beyond = [at for at, (x, _) in zip(placed, points, strict=True) if not math.isfinite(x)]
    handle = None
    for part in (finite, beyond):
        if part:
            (handle,) = axes.plot(*zip(*part, strict=True), **look(kind))
    return handle
