"""From a request to a page: which methods are learned on which data, and what is made of their measures."""

from __future__ import annotations

import time

from sfumato.errors import BadInput
from sfumato_reproductions.datasets import MEDICAL, NAMES, check_names
from sfumato_reproductions.memory import Memory
from sfumato_reproductions.regenerate import Regenerated, Report, Request

__all__ = ["FOLDER", "tables_and_figures"]

#: Where measures and features are kept inside the output folder; it may be deleted at any time.
FOLDER = ".compactdp"

_TABLES, _FIGURES = (2, 3, 4, 5, 6, 7), (3, 11, 12, 13, 16)
# Classes are looked into on the data of these tables.
_CLASSES = (2, 6)


def tables_and_figures(request: Request, report: Report) -> Regenerated:
    """Make what ``request`` names, all of it where it names nothing, and write the page.

    Every table has its own data; ``data`` of the request take their place in all of them.
    """
    check_names(request.data, (*NAMES, *MEDICAL))
    _check_torch()
    from sfumato_reproductions.compactdp.classes import class_measures, classes_part
    from sfumato_reproductions.compactdp.features import Features
    from sfumato_reproductions.compactdp.figures import Figures
    from sfumato_reproductions.compactdp.page import Page
    from sfumato_reproductions.compactdp.protocol import Run
    from sfumato_reproductions.compactdp.rows import Rows
    from sfumato_reproductions.compactdp.scale import scale_checks
    from sfumato_reproductions.compactdp.tables import table

    everything = not request.tables and not request.figures
    tables = _TABLES if everything else request.tables
    figures = _FIGURES if everything else request.figures
    run = Run.of(request.seeds, request.quick)
    data = request.data or (("digits",) if request.quick else ())
    request.output.mkdir(parents=True, exist_ok=True)
    begun, folder = time.perf_counter(), request.output / FOLDER
    rows = Rows(run, data, Memory(folder), Features(folder / "features"), report)
    results = rows.measure(tables, figures)
    drawer = Figures(rows, results)
    drawings = tuple(drawer.draw(number) for number in figures)
    for drawing in drawings:
        drawing.save(request.output)
    scales = scale_checks(rows.bench(drawer.source, run.seeds[0])) if everything else {}
    parts = [table(number, results) for number in tables]
    if everything:
        sources = dict.fromkeys(source for number in _CLASSES for source in rows.sources(number))
        parts.append(
            classes_part(
                {
                    source: [class_measures(rows.bench(source, seed)) for seed in run.seeds]
                    for source in sources
                }
            )
        )
    page = Page(request, results, tuple(parts), drawings, scales, time.perf_counter() - begun)
    return Regenerated(
        title="CompactDP: tables 2 to 7 and figures 3, 11, 12, 13 and 16 beside ours",
        # Whoever asks for everything reads the page; whoever asks for a table wants to see it.
        text=page.text(tables=not everything),
        numbers=page.numbers(),
        files=(page.write(), *(request.output / drawing.file for drawing in drawings)),
    )


def _check_torch() -> None:
    try:
        import torch  # noqa: F401
    except ImportError:
        raise BadInput("compactdp trains with torch: pip install 'sfumato[learn]'.") from None
