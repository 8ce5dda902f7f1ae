"""Names of files as clients choose them."""

from __future__ import annotations

from pathlib import Path

from sfumato.errors import BadInput
from sfumato.io.formats import suffix_of

__all__ = ["file_name", "released_name"]


def file_name(name: str) -> str:
    """A plain file name of ``name``, which a client chose: its last part, if nothing in it could mislead."""
    last = name.replace("\\", "/").rsplit("/", 1)[-1]
    plain = all(character.isalnum() or character in "._- " for character in last) and last.isascii()
    if not last or last.startswith(".") or len(last) > 100 or not plain:
        raise BadInput("the name of the file must be letters, digits, dots, dashes and spaces, at most 100.")
    suffix_of(last)  # one that can be released
    return last


def released_name(file: Path) -> str:
    """What the release of ``file`` is called: the name that a client chose may say whom it is about."""
    return f"release{suffix_of(file)}"
