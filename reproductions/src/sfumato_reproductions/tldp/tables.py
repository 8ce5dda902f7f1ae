"""Tables of the page: Markdown for the page, aligned columns for a terminal."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence

from sfumato.privacy import format_table
from sfumato_reproductions.tldp.comparison import Row
from sfumato_reproductions.tldp.error_table import Block
from sfumato_reproductions.tldp.printed_proof import CLAIMED, Reading
from sfumato_reproductions.tldp.promise import DELTA, Promise
from sfumato_reproductions.tldp.settings import GAUSSIAN

__all__ = [
    "column_markdown",
    "comparison_markdown",
    "error_markdown",
    "error_text",
    "plus_minus",
    "shown",
]

_NONE = "–"
_NOTHING = "nothing"
_COLUMN_HEADS = (
    "method",
    f"the paper's E‖Z‖ at ε = {CLAIMED:g}",
    "deviation of its noise, in Δ",
    f"ε of a component at δ = {DELTA:g}",
    f"ε of a tensor at δ = {DELTA:g}",
    "(ε, δ) of a component at its own δ",
    "(ε, δ) of a tensor at its own δ",
    "note",
)
_ERROR_HEADS = (
    "mechanism",
    f"paper, claimed ε = {CLAIMED:g}",
    "closed form",
    "drawn ± standard error",
    "apart, in standard errors",
    "E‖Z‖",
    "ε given to it",
    "proven ε",
    "shown exactly",
    "note",
)
_ROW_HEADS = (
    "method",
    "claimed ε",
    "unit",
    "proven (ε, δ)",
    "F1 of TLDP",
    "sound mechanism",
    "proven (ε, δ)",
    "its F1",
    "difference ± standard error",
)


def shown(value: float) -> str:
    """A number to four digits, or to three in powers of ten."""
    if value == 0.0:
        return "0"
    if 0.99995 <= value < 1.0:
        return f"1 − {1.0 - value:.1g}".replace("e-0", "e-").replace("e-", "e−")
    text = f"{value:.4g}" if 1e-3 <= abs(value) < 1e7 else f"{value:.2e}"
    return text.replace("e-0", "e-").replace("e+0", "e").replace("e+", "e").replace("-", "−")


def plus_minus(scores: Sequence[float]) -> str:
    """Mean ± standard deviation over seeds, to three digits."""
    mean = f"{statistics.fmean(scores):.3f}"
    return f"{mean} ± {statistics.stdev(scores):.3f}" if len(scores) > 1 else mean


def _markdown(heads: Sequence[str], body: Iterable[Sequence[str]]) -> str:
    return "\n".join("| " + " | ".join(row) + " |" for row in [heads, ["---"] * len(heads), *body])


def _pair(promise: Promise) -> str:
    return f"({shown(promise.epsilon)}, {shown(promise.delta)})"


def column_markdown(column: Sequence[Reading], span: float) -> str:
    """The paper's column, and what its noise proves."""
    body = []
    for reading in column:
        proven = [shown(epsilon) if math.isfinite(epsilon) else _NOTHING for epsilon in reading.proven]
        own = [_NONE, _NONE] if reading.own is None else [_pair(promise) for promise in reading.own]
        value = f"{reading.formula} = {shown(reading.value)}"
        body.append([reading.name, value, shown(reading.deviation / span), *proven, *own, reading.note])
    return _markdown(_COLUMN_HEADS, body)


def _error_rows(block: Block) -> list[list[str]]:
    rows = []
    for line in block.lines:
        made = line.candidate
        rows.append(
            [
                made.name,
                _NONE if line.printed is None else shown(line.printed.value),
                shown(made.closed),
                f"{shown(line.drawn)} ± {line.standard_error:.2g}",
                f"{line.apart:+.1f}".replace("-", "−") + ("" if line.agrees else " (differs)"),
                shown(line.mean_norm),
                shown(made.asked),
                shown(made.epsilon),
                shown(made.shown),
                made.note,
            ]
        )
    return rows


def _heading(block: Block) -> str:
    promise = block.promise
    return f"{block.title}, ε = {shown(promise.epsilon)}, δ = {shown(promise.delta)}"


def error_markdown(block: Block) -> str:
    """One block of table 5 as a section of the page."""
    return f"### {_heading(block)}\n\n{_markdown(_ERROR_HEADS, _error_rows(block))}"


def error_text(block: Block) -> str:
    """The same for a terminal, without notes."""
    rows = [row[:-1] for row in _error_rows(block)]
    return "\n".join([f"{_heading(block)}, replace", *format_table(_ERROR_HEADS[:-1], rows, width=170)])


def comparison_markdown(rows: Sequence[Row]) -> str:
    """One row for every TLDP point of a plot and unit."""
    body = []
    for row in rows:
        error = row.standard_error
        given = f", ε = {shown(row.sound.epsilon)}" + (" of the tensor" if row.sound.kind == GAUSSIAN else "")
        body.append(
            [
                row.point.tldp.kind,
                f"{row.point.tldp.epsilon:g}",
                row.point.unit,
                "; ".join(map(_pair, row.point.promises)),
                plus_minus(row.score),
                row.sound.kind + given,
                "; ".join(map(_pair, row.sound_promises())),
                plus_minus(row.sound_score),
                f"{row.difference:+.3f}".replace("-", "−") + ("" if error is None else f" ± {error:.3f}"),
            ]
        )
    return _markdown(_ROW_HEADS, body)
