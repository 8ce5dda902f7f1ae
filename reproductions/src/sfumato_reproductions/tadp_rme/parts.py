"""From a request to a page: what is needed is measured once, then tables and figures are made of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping

from sfumato_reproductions.datasets import check_names
from sfumato_reproductions.regenerate import Regenerated, Report, Request
from sfumato_reproductions.tadp_rme import (
    ablation,
    accuracy_figures,
    attacks,
    baselines,
    frontier_figure,
    parameters,
    structure_figures,
    theory_figures,
    trust_sweep,
)
from sfumato_reproductions.tadp_rme.figure import Drawing
from sfumato_reproductions.tadp_rme.page import Page
from sfumato_reproductions.tadp_rme.protocol import PAPER_DATA, Run
from sfumato_reproductions.tadp_rme.sweep import Need, Results, sweep
from sfumato_reproductions.tadp_rme.table import Table

__all__ = ["tables_and_figures"]

Needs = Callable[[Run], Iterable[Need]]

_TABLES: Mapping[int, tuple[Needs, Callable[[Results], Table]]] = {
    1: (trust_sweep.needs, trust_sweep.table),
    2: (baselines.needs, baselines.table),
    3: (attacks.needs, attacks.table),
    4: (ablation.needs, ablation.table),
    5: (parameters.needs, parameters.table),
}
_FIGURES: Mapping[int, tuple[Needs, Callable[[Results], Drawing]]] = {
    2: (lambda run: (), lambda results: theory_figures.divergence_figure()),
    3: (lambda run: (), lambda results: theory_figures.pairing_figure(results.run)),
    4: (accuracy_figures.needs, accuracy_figures.trade_off_figure),
    5: (accuracy_figures.needs, accuracy_figures.retention_figure),
    6: (accuracy_figures.needs, accuracy_figures.bars_figure),
    7: (structure_figures.neighbours_needs, structure_figures.neighbours_figure),
    8: (structure_figures.distances_needs, structure_figures.distances_figure),
    9: (accuracy_figures.needs, structure_figures.runtime_figure),
    10: (frontier_figure.needs, frontier_figure.frontier_figure),
}


def tables_and_figures(request: Request, report: Report) -> Regenerated:
    """Make what ``request`` names, all of it where it names nothing, and write the page."""
    data = request.data or PAPER_DATA
    check_names(data)
    request.output.mkdir(parents=True, exist_ok=True)
    everything = not request.tables and not request.figures
    tables = tuple(_TABLES) if everything else request.tables
    figures = tuple(_FIGURES) if everything else request.figures
    run = Run.of(data, request.seeds, request.quick)
    begun = time.perf_counter()
    needs = [need for number in tables for need in _TABLES[number][0](run)]
    needs += [need for number in figures for need in _FIGURES[number][0](run)]
    results = sweep(run, needs, report)
    made = [_TABLES[number][1](results) for number in tables]
    drawn = []
    for done, number in enumerate(figures):
        drawing = _FIGURES[number][1](results)
        drawing.save(request.output)
        drawn.append(drawing)
        report("drawing", (done + 1) / len(figures))
    page = Page(request, results, tuple(made), tuple(drawn), time.perf_counter() - begun)
    files = [page.write(), *(request.output / drawing.file for drawing in drawn)]
    return Regenerated(
        title="TADP-RME: its tables and figures beside ours",
        # Whoever asks for everything reads the page; whoever asks for one table wants to see it.
        text="\n\n".join([*page.summary(), *([] if everything else [table.text() for table in made])]),
        numbers=page.numbers(),
        files=tuple(files),
    )
