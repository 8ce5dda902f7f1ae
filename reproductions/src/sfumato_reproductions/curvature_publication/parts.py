"""From a request to a page: which methods are run on which data, and what is made of their measures."""

from __future__ import annotations

import time

from sfumato.errors import BadInput
from sfumato_reproductions.curvature_publication.bench import Bench
from sfumato_reproductions.curvature_publication.drawing import PaperDrawing
from sfumato_reproductions.curvature_publication.figures import Figures
from sfumato_reproductions.curvature_publication.methods import METHODS, STRATEGY_NAMES
from sfumato_reproductions.curvature_publication.page import Page
from sfumato_reproductions.curvature_publication.protocol import PAPER_DATA, TAILS, Run
from sfumato_reproductions.curvature_publication.results import Counted, Measures, Results
from sfumato_reproductions.curvature_publication.samples_figure import samples_figure
from sfumato_reproductions.curvature_publication.table_1 import table_1
from sfumato_reproductions.curvature_publication.table_2 import table_2
from sfumato_reproductions.datasets import available, check_names
from sfumato_reproductions.memory import Memory
from sfumato_reproductions.regenerate import Regenerated, Report, Request

__all__ = ["FOLDER", "tables_and_figures"]

#: Where measures and checkpoints are kept inside the output folder.
FOLDER = ".curvature-publication"

_TABLES, _FIGURES = (1, 2), (3, 4, 5, 6, 7, 8)
_SAMPLES = 3


def tables_and_figures(request: Request, report: Report) -> Regenerated:
    """Make what ``request`` names, all of it where it names nothing, and write the page.

    Table 2 and figures 4 to 8 are of the first data set, as the paper has them of MNIST alone.
    """
    everything = not request.tables and not request.figures
    tables = _TABLES if everything else request.tables
    figures = _FIGURES if everything else request.figures
    run = Run.of(_data(request), request.seeds, request.quick)
    _check_torch()
    request.output.mkdir(parents=True, exist_ok=True)
    begun = time.perf_counter()
    memory = Memory(request.output / FOLDER)
    benches = {
        (name, seed): Bench(name, run, seed, memory, report) for name in run.data for seed in run.seeds
    }
    methods: dict[str, Measures] = {}
    strategies: dict[str, Measures] = {}
    if 1 in tables or _SAMPLES in figures:
        for name in run.data:
            rows = {
                method: [benches[name, seed].method(METHODS[method]) for seed in run.seeds]
                for method in METHODS
            }
            methods[name] = {method: tuple(seeds) for method, seeds in rows.items()}
    first = run.data[0]
    if 2 in tables:
        strategies[first] = {
            strategy: tuple(benches[first, seed].strategy(strategy) for seed in run.seeds)
            for strategy in STRATEGY_NAMES
        }
    counted = {name: Counted.of(benches[name, run.seeds[0]].data) for name in run.data}
    results = Results(run, counted, methods, strategies, benches[first, run.seeds[0]].parameters)
    drawings, told = _drawings(figures, results, Figures(benches[first, run.seeds[0]]))
    parts = tuple(made(results) for number, made in ((1, table_1), (2, table_2)) if number in tables)
    for drawing in drawings:
        drawing.save(request.output)
    page = Page(request, results, parts, drawings, told, time.perf_counter() - begun)
    files = [page.write(), *(request.output / drawing.file for drawing in drawings)]
    return Regenerated(
        title="Curvature-guided publication: tables 1 and 2 and figures 3 to 8 beside ours",
        # Whoever asks for everything reads the page; whoever asks for a table wants to see it.
        text=page.text(tables=not everything),
        numbers=page.numbers(),
        files=tuple(files),
    )


def _drawings(
    figures: tuple[int, ...], results: Results, later: Figures
) -> tuple[tuple[PaperDrawing, ...], tuple[str, ...]]:
    drawings, told = [], []
    for number in figures:
        drawing = samples_figure(results) if number == _SAMPLES else later.draw(number)
        drawings.append(drawing)
        if number != _SAMPLES:
            told += later.says(drawing)
    return tuple(drawings), tuple(told)


def _data(request: Request) -> tuple[str, ...]:
    """What was asked for; else the digits if quick, else the paper's as far as they are there."""
    if not request.data:
        return ("digits",) if request.quick else available(PAPER_DATA) or ("digits",)
    check_names(request.data)
    for name in request.data:
        if name not in TAILS:
            raise BadInput(
                f"curvature-publication says nothing about {name}: --data takes {', '.join(TAILS)}."
            )
    return request.data


def _check_torch() -> None:
    try:
        import torch  # noqa: F401
    except ImportError:
        raise BadInput(
            "curvature-publication trains networks with torch: pip install 'sfumato[learn]'."
        ) from None
