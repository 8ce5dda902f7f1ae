"""Plain-text tables of box-drawing characters, 100 columns wide unless told otherwise."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from itertools import zip_longest

__all__ = ["WIDTH", "boxed", "wrapped"]

WIDTH = 100


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
    rules = ["─" * (width + 2)] * len(columns)
    top, middle, bottom = (
        "┌" + "┬".join(rules) + "┐",
        "├" + "┼".join(rules) + "┤",
        "└" + "┴".join(rules) + "┘",
    )
    return [top, lines[0], middle, *lines[1:], bottom]
