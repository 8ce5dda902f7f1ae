"""From a request to a page: errors are drawn, networks trained, and tables and figures made of both."""

from __future__ import annotations

import time

from sfumato.papers.datasets import check_names
from sfumato.papers.regenerate import Regenerated, Report, Request
from sfumato.papers.tldp.comparison import rows
from sfumato.papers.tldp.drawing import Drawing
from sfumato.papers.tldp.error_table import blocks
from sfumato.papers.tldp.network import check_torch
from sfumato.papers.tldp.page import Page
from sfumato.papers.tldp.protocol import PAPER_DATA, Run
from sfumato.papers.tldp.sweep import sweep

__all__ = ["tables_and_figures"]

_TABLES, _FIGURES = (5,), (1, 2)


def tables_and_figures(request: Request, report: Report) -> Regenerated:
    """Make what ``request`` names, all of it where it names nothing, and write the page."""
    everything = not request.tables and not request.figures
    tables = _TABLES if everything else request.tables
    figures = _FIGURES if everything else request.figures
    data = request.data or PAPER_DATA
    if figures:
        check_torch()
        check_names(data)
    request.output.mkdir(parents=True, exist_ok=True)
    run = Run.of(data, request.seeds, request.quick)
    begun, busy = time.perf_counter(), time.process_time()
    errors = blocks(run, report) if tables else ()
    results = sweep(run, figures, report) if figures else None
    compared = () if results is None else tuple(rows(results))
    drawings = () if results is None else tuple(Drawing(number, results) for number in figures)
    for drawing in drawings:
        drawing.save(request.output)
    took = (time.perf_counter() - begun, time.process_time() - busy)
    page = Page(request, run, errors, results, compared, drawings, *took)
    files = [page.write(), *(request.output / drawing.file for drawing in drawings)]
    return Regenerated(
        title="TLDP: table 5 and figures 1 and 2 beside ours",
        # Whoever asks for everything reads the page; whoever asks for the table wants to see it.
        text=page.text(tables=not everything),
        numbers=page.numbers(),
        files=tuple(files),
    )
