"""Measures that are kept in a folder, so that a run that was stopped goes on where it was."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sfumato.io import atomic_output

__all__ = ["Memory", "digest"]


class Memory:
    """Files of JSON values in ``folder``, each with all that it depends on; nothing else is read back.

    ``folder`` is made when the first value is kept.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def recall(self, name: str, depends: Mapping[str, Any]) -> Any | None:
        """What was kept under ``name`` with the same ``depends``, if anything readable was."""
        try:
            kept = json.loads(self._file(name).read_text("utf-8"))
            return kept["measured"] if kept["depends"] == digest(depends) else None
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def keep(self, name: str, depends: Mapping[str, Any], value: Any) -> None:
        """Write ``value``, which JSON must hold, for :meth:`recall`."""
        self.folder.mkdir(parents=True, exist_ok=True)
        text = json.dumps({"depends": digest(depends), "measured": value})
        with atomic_output(self._file(name)) as output:
            output.write(text.encode())

    def _file(self, name: str) -> Path:
        return self.folder / f"{name}.json"


def digest(depends: Mapping[str, Any]) -> str:
    """Of values and their names, whatever their order."""
    return hashlib.sha256(json.dumps(depends, sort_keys=True, default=str).encode()).hexdigest()
