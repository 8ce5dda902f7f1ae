"""Plain-text tables of box-drawing characters, 100 columns wide unless told otherwise."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from itertools import zip_longest

__all__ = ["WIDTH", "aligned", "boxed", "wrapped"]

WIDTH = 100
_NARROWEST = 8


def wrapped(text: str, width: int = WIDTH) -> list[str]:
    """``text`` in lines of at most ``width`` characters.

    What cannot be printed becomes a space: a statement may come from a file that is not ours, and must not
    move the cursor of the terminal it is read on.
    """
    clean = "".join(character if character.isprintable() else " " for character in text)
    return textwrap.wrap(clean, width) or [""]


def boxed(columns: Mapping[str, Sequence[str]], width: int = WIDTH) -> list[str]:
    """A box at most ``width`` wide with one column for each entry: its name, a rule, its paragraphs."""
    width = (width - 1) // len(columns) - 3
    cells = [[line for text in texts for line in wrapped(text, width)] for texts in columns.values()]
    rows = [list(columns), *zip_longest(*cells, fillvalue="")]
    lines = ["│ " + " │ ".join(f"{cell:<{width}}" for cell in row) + " │" for row in rows]
    top, middle, bottom = (_rule(ends, [width] * len(columns)) for ends in ("┌┬┐", "├┼┤", "└┴┘"))
    return [top, lines[0], middle, *lines[1:], bottom]


def aligned(header: Sequence[str], rows: Sequence[Sequence[str]], width: int = WIDTH) -> list[str]:
    """A table at most ``width`` wide with one line a row, or more where cells have to be wrapped.

    Columns are as wide as their longest cell. Where that does not fit, the widest columns give way, down to
    eight characters each; a table of many columns may then stay wider than ``width``.
    """
    if any(len(row) != len(header) for row in rows):
        raise ValueError(f"every row of the table must have {len(header)} cells.")
    widths = [max(len(cell) for cell in column) for column in zip(header, *rows, strict=True)]
    while sum(widths) + 3 * len(widths) + 1 > width and max(widths) > _NARROWEST:
        widths[widths.index(max(widths))] -= 1
    lines = [_rule("┌┬┐", widths), *_row(header, widths), _rule("├┼┤", widths)]
    for row in rows:
        lines += _row(row, widths)
    return [*lines, _rule("└┴┘", widths)]


def _rule(ends: str, widths: Sequence[int]) -> str:
    return ends[0] + ends[1].join("─" * (width + 2) for width in widths) + ends[2]


def _row(cells: Sequence[str], widths: Sequence[int]) -> list[str]:
    columns = [wrapped(cell, width) for cell, width in zip(cells, widths, strict=True)]
    return [
        "│ " + " │ ".join(f"{cell:<{width}}" for cell, width in zip(line, widths, strict=True)) + " │"
        for line in zip_longest(*columns, fillvalue="")
    ]
