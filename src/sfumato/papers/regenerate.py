"""Which paper, which figure: the entry point of ``sfumato paper``."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sfumato.errors import BadInput

__all__ = ["Regenerated", "Report", "regenerate"]

#: Called with the stage and the share of it that is done.
Report = Callable[[str, float], None]

# Paper -> figure -> module and function that draws it.
_FIGURES = {"multimedia-dp": {2: ("sfumato.papers.multimedia_dp", "composition_figure")}}


@dataclass(frozen=True)
class Regenerated:
    """A figure or table: its numbers, a text for people, and the files that were written."""

    title: str
    text: str
    numbers: dict[str, Any]
    files: tuple[Path, ...]

    def to_dict(self) -> dict[str, Any]:
        """As JSON values, for machines."""
        return {"title": self.title, "numbers": self.numbers, "files": [str(file) for file in self.files]}

    def __str__(self) -> str:
        return "\n".join([self.title, "", self.text, "", *(f"written: {file}" for file in self.files)])


def regenerate(name: str, figure: int | None, output: Path, report: Report | None = None) -> Regenerated:
    """Draw ``figure`` of the paper ``name`` into the folder ``output``."""
    if name not in _FIGURES:
        raise BadInput(f"there is no paper {name!r} here; choose one of {', '.join(_FIGURES)}.")
    if figure not in _FIGURES[name]:
        known = ", ".join(str(number) for number in _FIGURES[name])
        raise BadInput(f"of {name} these figures are drawn: {known}; give one with --figure.")
    module, function = _FIGURES[name][figure]
    output.mkdir(parents=True, exist_ok=True)
    result: Regenerated = getattr(importlib.import_module(module), function)(
        output, report or (lambda stage, share: None)
    )
    return result
