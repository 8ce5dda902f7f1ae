"""A folder that appears whole or not at all."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sfumato.io.atomic import writing

__all__ = ["atomic_folder"]


@contextmanager
def atomic_folder(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A folder to fill, which appears at ``path`` if the block ends without an exception, and not otherwise.

    It stands in a hidden folder beside ``path``, closed to others until all is there. ``path`` must not
    exist, or be an empty folder.
    """
    target = Path(os.path.realpath(path))
    hidden = target.parent / f".{secrets.token_hex(8)}"
    inside = hidden / "whole"
    with writing(target):
        try:
            hidden.mkdir(mode=0o700)
            inside.mkdir()
            yield inside
            os.replace(inside, target)
        finally:
            shutil.rmtree(hidden, ignore_errors=True)
