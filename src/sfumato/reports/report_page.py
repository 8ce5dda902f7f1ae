"""``sf.report``: releases and audits, and what the originals say about their utility, as one page."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sfumato.audits.audit_result import Audit
from sfumato.audits.findings import Finding
from sfumato.errors import BadInput
from sfumato.ledger import Balance
from sfumato.mechanisms import Release
from sfumato.reports.burn_down import Budget
from sfumato.reports.embedded_images import Pictures
from sfumato.reports.frontier_plot import Frontier, Point
from sfumato.reports.page import write_report
from sfumato.reports.release_entry import Entry
from sfumato.utility import Field

__all__ = ["report"]

Progress = Callable[[str, float], None]

# What stands on the frontier's axis: the first measure that was taken of every release and begins so.
_UTILITIES = (
    "linear-probe accuracy",
    "accuracy on originals",
    "overlap of 10 nearest neighbours",
    "overlap of 5 nearest neighbours",
)
_NEIGHBOURS = 10


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
    entries = []
    for number, (item, name) in enumerate(zip(items, called, strict=True)):
        tell = _part(progress, number, len(items), name)
        entries.append(_entry(item, name, records, labels, image_shape, fields, show_originals, seed, tell))
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


def _entry(
    item: Release | Audit,
    name: str,
    records: NDArray[Any] | None,
    labels: ArrayLike | None,
    image_shape: tuple[int, ...] | None,
    fields: Sequence[Field] | None,
    show_originals: int,
    seed: int,
    tell: Progress | None,
) -> Entry:
    release, findings = _parts(item)
    if records is None:
        return Entry(name, release.statement, findings, provenance=release.provenance)
    from sfumato.utility.assessment import assess
    from sfumato.utility.table_utility import assess_table

    released = np.asarray(release.value)
    flat = released.reshape(len(released), -1)
    rows = records.reshape(len(records), -1)
    if fields is not None:
        found = assess_table(rows, flat, fields, labels, seed=seed, report=tell)
    else:
        found = assess(rows, flat, labels, image_shape=image_shape, seed=seed, report=tell)
    kept = None if found.structure is None else found.structure.by_row.get(_NEIGHBOURS)
    pictures = None
    if show_originals and image_shape is not None and flat.shape[1] == int(np.prod(image_shape)):
        chosen = slice(0, show_originals)
        before = records.reshape(len(records), *image_shape)[chosen]
        span = (float(before.min()), float(before.max()))
        pictures = Pictures(before, flat.reshape(len(flat), *image_shape)[chosen], span)
    return Entry(
        name,
        release.statement,
        findings,
        utility=found.to_dict(),
        pictures=pictures,
        neighbourhood=kept,
        provenance=release.provenance,
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
    """Utility against ε, where every release was measured on one scale and there are at least two."""
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
    """The measured ε that may stand on one axis with the proven one: of the same unit, neighbours and δ."""
    compared, proven = entry.compared, entry.statement.proven
    if compared is None or compared.guarantee is not proven or compared.evidence.delta != proven.at_delta:
        return None
    return compared.evidence.epsilon_lower


def _part(progress: Progress | None, number: int, count: int, name: str) -> Progress | None:
    if progress is None:
        return None
    return lambda stage, share: progress(f"measuring {name}", (number + share) / count)
