"""Measures that are kept in a folder, so that a run that was stopped goes on where it was."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from sfumato.io.atomic import atomic_output
from sfumato.papers.curvature_publication.measured import Measured

__all__ = ["Memory"]


class Memory:
    """Files of measures in ``folder``, each with all that it depends on; nothing else is ever read back.

    ``folder`` is made when the first measures are kept. They hold no private pictures but the one sample of
    each class that figure 3 shows.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def recall(self, name: str, depends: dict[str, Any]) -> Measured | None:
        """What was kept under ``name`` with the same ``depends``, if anything readable was."""
        try:
            kept = json.loads(self._file(name).read_text("utf-8"))
            return Measured.read(kept["measured"]) if kept["depends"] == _digest(depends) else None
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def keep(self, name: str, depends: dict[str, Any], measured: Measured) -> None:
        """Write ``measured`` for :meth:`recall`."""
        self.folder.mkdir(parents=True, exist_ok=True)
        text = json.dumps({"depends": _digest(depends), "measured": measured.kept()})
        with atomic_output(self._file(name)) as output:
            output.write(text.encode())

    def checkpoint(self, name: str) -> Path:
        """Where a publisher may keep its training."""
        self.folder.mkdir(parents=True, exist_ok=True)
        return self.folder / f"{name}.checkpoint"

    def _file(self, name: str) -> Path:
        return self.folder / f"{name}.json"


def _digest(depends: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(depends, sort_keys=True, default=str).encode()).hexdigest()
