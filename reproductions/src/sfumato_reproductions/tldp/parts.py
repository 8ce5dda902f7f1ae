"""From a request to a page: errors are drawn, networks trained, and tables and figures made of both."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

from sfumato_reproductions.datasets import check_names
from sfumato_reproductions.regenerate import Regenerated, Report, Request
from sfumato_reproductions.tldp.comparison import rows
from sfumato_reproductions.tldp.drawing import Drawing
from sfumato_reproductions.tldp.error_table import blocks
from sfumato_reproductions.tldp.network import check_torch
from sfumato_reproductions.tldp.page import Page
from sfumato_reproductions.tldp.protocol import PAPER_DATA, Run
from sfumato_reproductions.tldp.sweep import sweep
from sfumato_reproductions.tldp.whole_page import write_page

__all__ = ["tables_and_figures"]

_TABLES, _FIGURES, _FEDERATED = (5,), (1, 2), 3


def tables_and_figures(request: Request, report: Report) -> Regenerated:
    """Make what ``request`` names, all of it where it names nothing, and write the page.

    Figure 3 has data of its own, and its part of the page is written apart: see ``whole_page``.
    """
    everything = not request.tables and not request.figures
    tables = _TABLES if everything else request.tables
    figures = (*_FIGURES, _FEDERATED) if everything else request.figures
    pictures = tuple(number for number in figures if number in _FIGURES)
    data = request.data or PAPER_DATA
    if figures:
        check_torch()
    if pictures:
        check_names(data)
    if _FEDERATED in figures:
        from sfumato_reproductions.tldp.federated.chapter import data_for

        data_for(request)
    request.output.mkdir(parents=True, exist_ok=True)
    front = None
    if tables or pictures:
        front = _front(replace(request, tables=tables, figures=pictures), data, report)
    chapter = None
    if _FEDERATED in figures:
        from sfumato_reproductions.tldp.federated import made

        chapter = made(request, report)
    parts = [part for part in (front, chapter) if part is not None]
    page = write_page(
        request.output / "tldp.md", *(None if part is None else part.markdown() for part in (front, chapter))
    )
    drawn = [drawing.file for drawing in front.drawings] if front else []
    drawn += [chapter.drawing.file] if chapter else []
    # Whoever asks for everything reads the page; whoever asks for the table wants to see it.
    texts = [front.text(tables=not everything)] if front else []
    texts += [chapter.text()] if chapter else []
    numbers: dict[str, Any] = {"command": parts[0].command(), "tables": {}, "figures": {}, "comparison": []}
    numbers |= front.numbers() if front else {}
    numbers["figures"] |= {"3": chapter.numbers()} if chapter else {}
    return Regenerated(
        title="TLDP: table 5 and figures 1, 2 and 3 beside ours",
        text="\n\n".join(texts),
        numbers=numbers,
        files=(page, *(request.output / name for name in drawn)),
    )


def _front(request: Request, data: tuple[str, ...], report: Report) -> Page:
    """Table 5 and figures 1 and 2, as far as ``request`` names them."""
    run = Run.of(data, request.seeds, request.quick)
    begun, busy = time.perf_counter(), time.process_time()
    errors = blocks(run, report) if request.tables else ()
    results = sweep(run, request.figures, report) if request.figures else None
    compared = () if results is None else tuple(rows(results))
    drawings = () if results is None else tuple(Drawing(number, results) for number in request.figures)
    for drawing in drawings:
        drawing.save(request.output)
    took = (time.perf_counter() - begun, time.process_time() - busy)
    return Page(request, run, errors, results, compared, drawings, *took)
