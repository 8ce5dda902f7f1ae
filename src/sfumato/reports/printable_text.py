"""Text from outside as a page may show it: printable, and without saying where it came from."""

from __future__ import annotations

import re
from itertools import accumulate
from unicodedata import east_asian_width

__all__ = ["shortened", "shown", "unbroken"]

# "δ = 10⁻⁶" is one word and stays on one line.
_SIGN = re.compile(r"([εδ]₀?) ([=≥≤]) (?=\S)")
_TIMES = re.compile(r"(?<=\d) × (?=\d)")

# What stands before a slash that begins a path, and not a fraction, a closing tag or a relative path.
_START = r"(?<![\w.)\]}!*^/\\<…-])"
_WITHOUT_FOLDERS = (
    # In quotes a path may hold spaces.
    (re.compile(r"([\"'])(?:~[^\"'/]*)?/[^\"']*/([^\"'/]*)\1"), r"\1\2\1"),
    # A home folder itself has nothing to show but somebody's name.
    (re.compile(_START + r"/(?:home|Users)/[^\s\"'/]+/?(?![^\s\"'])"), "~"),
    (re.compile(_START + r"(?:~[\w.-]*/(?:[^\s\"'/]+/)*|/(?:[^\s\"'/]+/)+)"), ""),
    (re.compile(_START + r"(?:[A-Za-z]:|\\\\)[\\/]?(?:[^\s\"'\\/]+[\\/])+"), ""),
    # Addresses of files and databases hold folders, names and passwords; of web pages only the last two.
    (re.compile(r"\b(?!https?:)([a-z][a-z0-9+.-]+)://[^\s\"']*/(?=[^\s\"'/]*)"), r"\1://…/"),
    (re.compile(r"\b(https?://)[^\s\"'/@]*@"), r"\1"),
)


def shown(text: str) -> str:
    """``text`` with every character that cannot be printed as a space, and absolute paths as file names.

    What cannot be printed includes line ends, marks that turn the direction of writing and broken halves of
    characters, none of which may rearrange a page. Folders, users and passwords of addresses are left out;
    relative paths stay as they are.
    """
    clean = "".join(character if character.isprintable() else " " for character in text)
    for pattern, replacement in _WITHOUT_FOLDERS:
        clean = pattern.sub(replacement, clean)
    return clean


def unbroken(text: str) -> str:
    """``text`` with spaces that do not break in formulas such as "δ = 1" and "3 × 10"."""
    return _TIMES.sub("\u00a0×\u00a0", _SIGN.sub("\\1\u00a0\\2\u00a0", text))


def shortened(text: str, most: int) -> str:
    """``shown(text)`` as wide as ``most`` small letters at most, with an ellipsis where something was cut."""
    clean = " ".join(shown(text).split())
    ends = list(accumulate(2 if _wide(letter) else 1 for letter in clean))
    if not ends or ends[-1] <= most:
        return clean
    return clean[: sum(end < most for end in ends)].rstrip() + "…"


def _wide(letter: str) -> bool:
    return letter.isupper() or letter in "mw@%" or east_asian_width(letter) in "WF"
