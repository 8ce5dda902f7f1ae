"""A table of a report with one row for each class: leakage, widths, noise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sfumato.errors import BadInput

__all__ = ["ClassTable"]


@dataclass(frozen=True)
class ClassTable:
    """``rows`` of texts under ``columns``, the first of which names the class; ``text`` explains them."""

    title: str
    text: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]

    def __post_init__(self) -> None:
        widths = {len(row) for row in self.rows}
        if not self.columns or widths - {len(self.columns)}:
            raise BadInput(
                f"the table {self.title!r} has {len(self.columns)} columns and rows of "
                f"{', '.join(map(str, sorted(widths))) or 'no'} texts: as many as columns are needed."
            )
