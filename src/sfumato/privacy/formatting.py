"""Text of guarantees: numbers that still hold when rounded, names of combined theorems, box-drawn tables."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from itertools import zip_longest

__all__ = [
    "TEXT_WIDTH",
    "format_delta",
    "format_lower",
    "format_table",
    "format_upper",
    "printable",
    "wrap_text",
]

_COMPOSITION = "composition of "
TEXT_WIDTH = 100
_NARROWEST = 8


def format_upper(value: float, digits: int = 4) -> str:
    """Return ``value`` ≥ 0 in ``digits`` significant digits, rounded up: a printed upper bound still holds.

    A value within 1e-9 of a round number is taken for it: 1.0000000001 prints as 1.
    """
    return _rounded(value, digits, 1.0)


def format_lower(value: float, digits: int = 4) -> str:
    """Return ``value`` as :func:`format_upper` does, rounded down: a printed lower bound still holds."""
    return _rounded(value, digits, -1.0)


def _rounded(value: float, digits: int, sign: float) -> str:
    """Return ``value`` rounded up where ``sign`` is 1, and down where it is −1."""
    if value == 0.0 or not math.isfinite(value):
        return f"{value:g}"
    nearest = float(f"{value:.{digits}g}")
    if sign * nearest < sign * value * (1.0 - sign * 1e-9):
        last_digit = 10.0 ** (math.floor(math.log10(value)) - digits + 1)
        nearest = float(f"{nearest + sign * last_digit:.{digits}g}")
    return f"{nearest:.{digits}g}"


def format_delta(delta: float, digits: int = 6) -> str:
    """Return δ in ``digits`` digits, rounded up; one that would round to 1 is written as "1 − rest"."""
    text = format_upper(delta, digits)
    if text != "1" or delta >= 1.0:
        return text
    rest = 1.0 - delta
    digit = 10.0 ** math.floor(math.log10(rest))
    return f"1 − {math.floor(rest / digit) * digit:.1g}"


def combined_theorem(theorems: Iterable[str]) -> str:
    """Return the theorem of a composition: each distinct theorem once, nested compositions flattened."""
    names: dict[str, None] = {}
    for theorem in theorems:
        names.update(dict.fromkeys(theorem.removeprefix(_COMPOSITION).split(" + ")))
    return _COMPOSITION + " + ".join(names)


def printable(name: object) -> str:
    """Return ``name`` on one line: it may come from anywhere, and must not move the cursor of a terminal."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in str(name))


def wrap_text(text: str, width: int = TEXT_WIDTH) -> list[str]:
    """Return ``text`` in lines of at most ``width`` characters.

    What cannot be printed becomes a space: a statement may come from a file that is not ours, and must not
    move the cursor of the terminal it is read on.
    """
    clean = "".join(character if character.isprintable() else " " for character in text)
    return textwrap.wrap(clean, width) or [""]


def format_columns(columns: Mapping[str, Sequence[str]], width: int = TEXT_WIDTH) -> list[str]:
    """Return a box at most ``width`` wide, one column for each entry: its name, a rule, its paragraphs."""
    each = (width - 1) // len(columns) - 3
    return _box(list(columns), [list(columns.values())], [each] * len(columns))


def format_table(header: Sequence[str], rows: Sequence[Sequence[str]], width: int = TEXT_WIDTH) -> list[str]:
    """Return a table at most ``width`` wide with one line a row, or more where cells have to be wrapped.

    Columns are as wide as their longest cell. Where that does not fit, the widest columns give way, down to
    eight characters each; a table of many columns may then stay wider than ``width``.
    """
    if any(len(row) != len(header) for row in rows):
        raise ValueError(f"every row of the table must have {len(header)} cells.")
    widths = [max(len(cell) for cell in column) for column in zip(header, *rows, strict=True)]
    while sum(widths) + 3 * len(widths) + 1 > width and max(widths) > _NARROWEST:
        widths[widths.index(max(widths))] -= 1
    return _box(header, [[[cell] for cell in row] for row in rows], widths)


def _box(header: Sequence[str], rows: Sequence[Sequence[Sequence[str]]], widths: Sequence[int]) -> list[str]:
    """Return a box of columns of these ``widths``; a cell of ``rows`` is a list of paragraphs."""
    lines = [_rule("┌┬┐", widths), *_row([[name] for name in header], widths), _rule("├┼┤", widths)]
    for row in rows:
        lines += _row(row, widths)
    return [*lines, _rule("└┴┘", widths)]


def _rule(ends: str, widths: Sequence[int]) -> str:
    return ends[0] + ends[1].join("─" * (width + 2) for width in widths) + ends[2]


def _row(cells: Sequence[Sequence[str]], widths: Sequence[int]) -> list[str]:
    columns = [
        [line for text in texts for line in wrap_text(text, width)]
        for texts, width in zip(cells, widths, strict=True)
    ]
    return [
        "│ " + " │ ".join(f"{cell:<{width}}" for cell, width in zip(line, widths, strict=True)) + " │"
        for line in zip_longest(*columns, fillvalue="")
    ]
