"""A digest of the code that measures are made by: what was kept by other code is not read back."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

import sfumato

__all__ = ["digest_of_files", "sources_digest"]

_LIBRARY = Path(sfumato.__file__).parent
_PROJECT = Path(__file__).parents[1]
_ROOMS = ("privacy", "noise", "mechanisms", "learners", "audits")
# These lay out what was measured, in words, tables and pictures; a measure does not depend on them.
_LAYOUT = {
    f"{name}.py"
    for name in (
        *("attack_figures", "cells", "contraction_figures", "drawing"),
        *("findings", "page", "printed_findings", "tables"),
    )
}


@cache
def sources_digest() -> str:
    """Of the rooms that measures of this paper depend on, and of how data are read; computed once."""
    library = [file for room in _ROOMS for file in (_LIBRARY / room).rglob("*.py")]
    here = [file for file in (_PROJECT / "compactdp").glob("*.py") if file.name not in _LAYOUT]
    return digest_of_files(_LIBRARY, library) + digest_of_files(_PROJECT, [*here, _PROJECT / "datasets.py"])


def digest_of_files(root: Path, files: list[Path]) -> str:
    """Of the names of ``files`` below ``root`` and of what is in them, whatever their order."""
    whole = hashlib.sha256()
    for file in sorted(files):
        whole.update(hashlib.sha256(file.relative_to(root).as_posix().encode()).digest())
        whole.update(hashlib.sha256(file.read_bytes()).digest())
    return whole.hexdigest()
