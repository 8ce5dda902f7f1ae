"""A report: one HTML file that needs nothing else, that managers can read and statisticians can check.

The page asks the network for nothing, and its content security policy would stop it: only this style, this
script (known by their hashes) and pictures inside the page are allowed. Every text from outside is escaped.
"""

from __future__ import annotations

import base64
import hashlib
import math
import os
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup, escape

import sfumato
from sfumato.errors import BadInput
from sfumato.io import atomic_output
from sfumato.ledger import Balance
from sfumato.reports.burn_down import Budget, BurnDown
from sfumato.reports.embedded_images import Pictures
from sfumato.reports.frontier_plot import Frontier, FrontierPlot, Point
from sfumato.reports.numbers import at_least, at_most, plain, share
from sfumato.reports.printable_text import shortened, shown, unbroken
from sfumato.reports.release_entry import Entry
from sfumato.reports.sections import ReleaseSection
from sfumato.reports.sentences import LARGE_DELTA, LOOSE, MODERATE, TIGHT, WEAK_ATTACK
from sfumato.reports.utility_section import remarks, utility_rows
from sfumato.reports.verdicts import alarm, summary

__all__ = ["Budget", "Entry", "Frontier", "Pictures", "Point", "environment", "render_report", "write_report"]


def write_report(
    entries: Sequence[Entry],
    output: str | os.PathLike[str],
    *,
    title: str = "Privacy report",
    date: str | None = None,
    budget: Balance | Budget | None = None,
    frontier: Frontier | Sequence[Point] | None = None,
    reproduce: Sequence[str] | None = None,
    private: bool = False,
) -> Path:
    """Write the report of ``entries`` to ``output``, whole or not at all, and return where it stands.

    A page that holds anything computed from original data is marked *not for release* and readable by its
    owner only; so is one that is ``private`` for another reason, as a command in it that names an original.
    ``reproduce`` holds commands, and comments behind a #, one a line. The same arguments give the
    same bytes: a date is printed only if one is given, and nothing about the machine or its user ever is.
    """
    page = render_report(
        entries,
        title=title,
        date=date,
        budget=budget,
        frontier=frontier,
        reproduce=reproduce,
        private=private,
    )
    path = Path(output)
    private = private or any(entry.from_originals for entry in entries)
    with atomic_output(path, mode=0o600 if private else None) as file:
        file.write(page.encode("utf-8"))
    return path


def render_report(
    entries: Sequence[Entry],
    *,
    title: str = "Privacy report",
    date: str | None = None,
    budget: Balance | Budget | None = None,
    frontier: Frontier | Sequence[Point] | None = None,
    reproduce: Sequence[str] | None = None,
    private: bool = False,
) -> str:
    """The page that :func:`write_report` writes."""
    told = tuple(entries)
    if not told:
        raise BadInput("a report needs at least one release, and none was given.")
    if not all(isinstance(entry, Entry) for entry in told):
        raise BadInput("a report is made of entries: Entry(name, statement, …) for each release.")
    sections = [ReleaseSection.of(number, entry) for number, entry in enumerate(told, start=1)]
    spent = Budget(budget) if isinstance(budget, Balance) else budget
    edge = frontier if frontier is None or isinstance(frontier, Frontier) else Frontier(frontier)
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
            summary=summary(told),
            private=private or any(entry.from_originals for entry in told),
            alarm=alarm(told),
            sections=sections,
            utility=utility_rows([entry.measures for entry in told]),
            remarks=remarks([(entry.name, entry.utility) for entry in told]),
            frontier=edge,
            frontier_plots=[] if edge is None else FrontierPlot.drawn(edge),
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
    """Templates of pages: escaped, strict about what they name, with our filters."""
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
    }
    return made


def _printed(value: Any) -> Any:
    """What a template prints: texts pass through ``shown`` in this one place, so that none is forgotten."""
    return unbroken(shown(value)) if isinstance(value, str) and not isinstance(value, Markup) else value


def _proven(epsilon: float | None) -> str:
    return "nothing" if epsilon is None or not math.isfinite(epsilon) else at_most(epsilon)


def _sortable(number: float | None, absent: str = "") -> str:
    """A number as the script reads it to sort rows; ``absent`` where there is none."""
    if number is None or math.isnan(number):
        return absent
    return repr(float(number)).replace("inf", "Infinity")


def _short(name: str) -> str:
    """A name wherever it is not introduced: in full it stands at the head of its release."""
    return shortened(name, 100)


def _verbatim(line: str) -> Markup:
    """A line that people copy, in which every space is one."""
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
