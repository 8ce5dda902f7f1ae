"""A digest of the code that measures are made by: what was kept by other code is not read back."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

__all__ = ["digest_of_files", "sources_digest"]

_PACKAGE = Path(__file__).parents[2]
_ROOMS = ("privacy", "noise", "mechanisms", "learn", "audit", "papers/compactdp")
# These lay out what was measured, in words, tables and pictures; a measure does not depend on them.
_LAYOUT = {
    f"papers/compactdp/{name}.py"
    for name in (
        *("attack_figures", "cells", "contraction_figures", "drawing"),
        *("findings", "page", "printed_findings", "tables"),
    )
}


@cache
def sources_digest() -> str:
    """Of the rooms that measures of this paper depend on, and of how data are read; computed once."""
    files = [file for room in _ROOMS for file in (_PACKAGE / room).rglob("*.py")]
    files.append(_PACKAGE / "papers" / "datasets.py")
    return digest_of_files(
        _PACKAGE, [file for file in files if file.relative_to(_PACKAGE).as_posix() not in _LAYOUT]
    )


def digest_of_files(root: Path, files: list[Path]) -> str:
    """Of the names of ``files`` below ``root`` and of what is in them, whatever their order."""
    whole = hashlib.sha256()
    for file in sorted(files):
        whole.update(hashlib.sha256(file.relative_to(root).as_posix().encode()).digest())
        whole.update(hashlib.sha256(file.read_bytes()).digest())
    return whole.hexdigest()
