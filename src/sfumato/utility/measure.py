"""The numbers about one release, as a table for people and as values for machines."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

from sfumato.privacy.text_table import aligned
from sfumato.utility.structure import Structure

__all__ = ["Assessment", "Measure"]


@dataclass(frozen=True)
class Measure:
    """One number about a release.

    ``original`` is what the original itself reaches, ``chance`` what a release that says nothing would, where
    these are known; ``better`` says which way is good: "nearer" means nearer to the original. ``margin`` is
    by how much a release that says nothing may seem better than chance; without one, nothing is concluded.
    """

    name: str
    value: float
    better: Literal["higher", "lower", "nearer"]
    original: float | None = None
    chance: float | None = None
    note: str = ""
    margin: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """As JSON values, for machines."""
        return asdict(self)


@dataclass(frozen=True)
class Assessment:
    """The measures that apply to a release, and one remark for each that was left out.

    ``structure`` holds the shares of every single row, for a plot. The numbers are computed from the original
    records and are not themselves protected.
    """

    measures: tuple[Measure, ...]
    remarks: tuple[str, ...]
    rows: int
    structure: Structure | None = None

    def __getitem__(self, name: str) -> Measure:
        for measure in self.measures:
            if measure.name == name:
                return measure
        raise KeyError(name)

    def __str__(self) -> str:
        rows = [
            [one.name, _shown(one.value), _shown(one.original), _shown(one.chance), one.better, one.note]
            for one in self.measures
        ]
        lines = [f"Utility of {self.rows:,} released records"]
        if rows:
            lines += aligned(["measure", "release", "original", "chance", "better", "note"], rows)
        return "\n".join([*lines, *(f"Note: {sentence}" for sentence in self.remarks)])

    def to_dict(self) -> dict[str, Any]:
        """As JSON values, for machines."""
        return {
            "rows": self.rows,
            "measures": [measure.to_dict() for measure in self.measures],
            "remarks": list(self.remarks),
            "structure": None if self.structure is None else self.structure.to_dict(),
        }


def _shown(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"
