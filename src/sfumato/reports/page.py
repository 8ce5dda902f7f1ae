"""The HTML report: one self-contained file for managers to read and statisticians to check.

The page makes no network request, and its content security policy forbids any: only this style, this script
(known by their hashes) and embedded images are allowed. Every text from outside is escaped. ``sf.report``
writes such a page about releases and audits, with their utility if the originals are given.
"""

from __future__ import annotations

import base64
import hashlib
import math
import os
from collections.abc import Callable, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup, escape
from numpy.typing import ArrayLike

import sfumato
from sfumato.audits import Audit, Finding
from sfumato.errors import BadInput
from sfumato.io import atomic_output
from sfumato.ledger import Balance
from sfumato.mechanisms import Release
from sfumato.reports.columns import LARGE_DELTA, LOOSE, MODERATE, TIGHT, WEAK_ATTACK, alarm, summary
from sfumato.reports.contact_sheet import Pictures
from sfumato.reports.page_text import (
    at_least,
    at_most,
    percent,
    plain,
    share,
    shortened,
    shown,
    unbroken,
)
from sfumato.reports.plots import Frontier, FrontierPlot, Point
from sfumato.reports.release_entry import Budget, BurnDown, Entry
from sfumato.reports.sections import ReleaseSection, Strip, bound_of
from sfumato.reports.utility_section import joined_remarks, utility_rows
from sfumato.utility import Field

__all__ = ["environment", "render_report", "report", "write_report"]

Progress = Callable[[str, float], None]

# What stands on the frontier's axis: the first measure that was taken of every release and begins so.
_UTILITIES = (
    "linear-probe accuracy",
    "accuracy on originals",
    "overlap of 10 nearest neighbours",
    "overlap of 5 nearest neighbours",
)
_NEIGHBOURS = 10


def write_report(
    entries: Sequence[Entry], output: str | os.PathLike[str], *, private: bool = False, **page: Any
) -> Path:
    """Write the report of ``entries`` to ``output``, whole or not at all, and return where it stands.

    ``page`` are further arguments of :func:`render_report`. A page that holds anything computed from original
    data is marked *not for release* and readable by its owner only; so is one that is ``private`` for another
    reason, as a command in it that names an original.
    """
    text = render_report(entries, private=private, **page)
    path = Path(output)
    private = private or any(entry.from_originals for entry in entries)
    with atomic_output(path, mode=0o600 if private else None) as file:
        file.write(text.encode("utf-8"))
    return path


def render_report(
    entries: Sequence[Entry],
    *,
    title: str = "Privacy report",
    date: str | None = None,
    budget: Balance | Budget | None = None,
    frontier: Frontier | None = None,
    reproduce: Sequence[str] | None = None,
    private: bool = False,
) -> str:
    """Return the page about ``entries``.

    ``reproduce`` holds commands, and comments behind a #, one a line. The same arguments give the same bytes:
    a date is printed only if one is given, and nothing about the machine or its user ever is.
    """
    if not entries:
        raise BadInput("a report needs at least one release, and none was given.")
    sections = [ReleaseSection(number, entry) for number, entry in enumerate(entries, start=1)]
    spent = Budget(budget) if isinstance(budget, Balance) else budget
    style, script = Markup(_template("style.css")), Markup(_template("script.js"))
    return (
        environment()
        .get_template("page.html")
        .render(
            title=title,
            date=date,
            version=sfumato.__version__,
            style=style,
            script=script,
            policy=_policy(style, script),
            summary=summary(entries),
            private=private or any(entry.from_originals for entry in entries),
            alarm=alarm(entries),
            sections=sections,
            utility=utility_rows([entry.measures for entry in entries]),
            remarks=joined_remarks([(entry.name, entry.remarks) for entry in entries]),
            frontier=frontier,
            frontier_plots=[] if frontier is None else FrontierPlot.drawn(frontier),
            budget=None if spent is None else _budget(spent),
            reproduce=[line for text in reproduce or () for line in text.splitlines()],
            weak_attack=WEAK_ATTACK,
            words=[plain(size) for size in (TIGHT, MODERATE, LOOSE, LARGE_DELTA)],
        )
    )


def _budget(spent: Budget) -> dict[str, Any]:
    balance, steps = spent.balance, spent.steps()
    return {
        "balance": balance,
        "steps": steps,
        "plots": BurnDown.drawn(steps),
        "used": balance.used,
        "used_text": share(balance.used),
        "left": at_least(balance.left),
        "left_pure": at_least(balance.left_pure),
        "epsilon": plain(balance.epsilon),
        "delta": plain(balance.delta),
    }


@cache
def environment() -> Environment:
    """Return the Jinja environment of pages: escaping, strict about undefined names, with our filters."""
    made = Environment(
        loader=FunctionLoader(_template),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_printed,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "number": plain,
        "proven": _proven,
        "sortable": _sortable,
        "short": _short,
        "cut": shortened,
        "verbatim": _verbatim,
        "at_least": at_least,
        "percent": percent,
        "strip": Strip.of,
        "bound_of": bound_of,
    }
    return made


def _printed(value: Any) -> Any:
    """Return what a template prints; all texts pass through ``shown`` here, so that none is forgotten."""
    return unbroken(shown(value)) if isinstance(value, str) and not isinstance(value, Markup) else value


def _proven(epsilon: float | None) -> str:
    return "nothing" if epsilon is None or not math.isfinite(epsilon) else at_most(epsilon)


def _sortable(number: float | None, absent: str = "") -> str:
    """Return a number as the script reads it to sort rows; ``absent`` if there is none."""
    if number is None or math.isnan(number):
        return absent
    return repr(float(number)).replace("inf", "Infinity")


def _short(name: str) -> str:
    """Return a shortened name, for all places but the head of its release."""
    return shortened(name, 100)


def _verbatim(line: str) -> Markup:
    """Return a line to copy, in which every space is kept."""
    return escape(shown(line))


def _template(name: str) -> str:
    return files("sfumato.reports").joinpath("templates", name).read_text("utf-8")


def _policy(style: str, script: str) -> Markup:
    allowed = {
        "default-src": "'none'",
        "style-src": _hash(style),
        "script-src": _hash(script),
        "img-src": "data:",
        "base-uri": "'none'",
        "form-action": "'none'",
    }
    return Markup("; ".join(f"{what} {where}" for what, where in allowed.items()))


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode('ascii')}'"


def report(
    releases: Sequence[Release | Audit],
    output: str | os.PathLike[str],
    *,
    original: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    names: Sequence[str] | None = None,
    image_shape: tuple[int, ...] | None = None,
    fields: Sequence[Field] | None = None,
    show_originals: int = 0,
    title: str = "Privacy report",
    date: str | None = None,
    budget: Balance | Budget | None = None,
    reproduce: Sequence[str] = (),
    seed: int = 0,
    progress: Progress | None = None,
) -> Path:
    """Write one HTML file about ``releases``, each of them a release or the audit of one.

    With the ``original`` records, row for row, the page says what each release is still good for; with
    ``labels``, also how well they can be learned from it. ``fields`` say that a record is a row of a table,
    and where its columns stand. ``image_shape`` says that a record is a picture, and ``show_originals`` how
    many of them the page shows, before and after; none unless asked. Two or more releases with a measured
    utility make a frontier. A page that holds anything computed from originals is for their owner alone: it
    says so, and the file is readable by its owner only.
    """
    items = list(releases) if isinstance(releases, Sequence) else []
    if not items or not all(isinstance(item, Release | Audit) for item in items):
        raise BadInput("a report is made of a list of releases, or of the audits of releases.")
    called = [_name(item, number) for number, item in enumerate(items, start=1)] if names is None else names
    if len(called) != len(items):
        raise BadInput(f"{len(called)} names were given for {len(items)} releases.")
    if show_originals and (original is None or image_shape is None):
        raise BadInput("pictures are shown before and after: give the original records and image_shape.")
    records = None if original is None else np.asarray(original)

    def entry(number: int, item: Release | Audit, name: str) -> Entry:
        release, findings = _parts(item)
        if records is None:
            return Entry(name, release.statement, findings, provenance=release.provenance)
        from sfumato.utility import assess, assess_table

        def tell(stage: str, share: float) -> None:
            if progress is not None:
                progress(f"measuring {name}", (number + share) / len(items))

        released = np.asarray(release.value)
        flat, rows = released.reshape(len(released), -1), records.reshape(len(records), -1)
        if fields is not None:
            found = assess_table(rows, flat, fields, labels, seed=seed, report=tell)
        else:
            found = assess(rows, flat, labels, image_shape=image_shape, seed=seed, report=tell)
        pictures = None
        if show_originals and image_shape is not None and flat.shape[1] == rows.shape[1]:
            before, after = (side[:show_originals].reshape(-1, *image_shape) for side in (rows, flat))
            pictures = Pictures(before, after, (float(before.min()), float(before.max())))
        return Entry(
            name,
            release.statement,
            findings,
            measures=found.measures,
            remarks=found.remarks,
            pictures=pictures,
            neighbourhood=None if found.structure is None else found.structure.by_row.get(_NEIGHBOURS),
            provenance=release.provenance,
        )

    entries = [
        entry(number, item, name) for number, (item, name) in enumerate(zip(items, called, strict=True))
    ]
    return write_report(
        entries,
        output,
        title=title,
        date=date,
        budget=budget,
        frontier=_frontier(entries),
        reproduce=list(reproduce) or None,
        private=records is not None,
    )


def _parts(item: Release | Audit) -> tuple[Release, tuple[Finding, ...]]:
    if isinstance(item, Release):
        return item, ()
    if item.release is None:
        raise BadInput("an audit without its release cannot be reported.")
    return item.release, item.findings


def _name(item: Release | Audit, number: int) -> str:
    return f"{_parts(item)[0].statement.mechanism} {number}"


def _frontier(entries: Sequence[Entry]) -> Frontier | None:
    """Return utility against ε if at least two releases were all measured on one scale; else None."""
    known = [{measure.name: measure.value for measure in entry.measures} for entry in entries]
    names = [name for start in _UTILITIES for name in known[0] if name.startswith(start)]
    for utility in names:
        values = [found.get(utility) for found in known]
        if len(entries) > 1 and all(value is not None for value in values):
            points = [
                Point(
                    entry.name,
                    float(value or 0.0),
                    entry.statement.proven.epsilon(),
                    _measured(entry),
                )
                for entry, value in zip(entries, values, strict=True)
            ]
            return Frontier(points, utility=utility)
    return None


def _measured(entry: Entry) -> float | None:
    """Return the measured ε that may share an axis with the proven one: same unit, neighbours and δ."""
    compared, proven = entry.compared, entry.statement.proven
    if compared is None or compared.guarantee is not proven or compared.evidence.delta != proven.at_delta:
        return None
    return compared.evidence.epsilon_lower
