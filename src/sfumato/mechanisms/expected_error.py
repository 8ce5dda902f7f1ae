"""How far a release will be from the data, as far as that can be said without looking at it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

__all__ = ["ExpectedError"]


@dataclass(frozen=True)
class ExpectedError:
    """What the noise does to one kind of value, in the data's own unit; what clipping does is not in it."""

    of: str
    measure: Literal["root mean square error", "share of wrong answers"]
    value: float

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return asdict(self)

    def __str__(self) -> str:
        shown = f"{self.value:.4g}" if self.measure == "root mean square error" else f"{self.value:.1%}"
        return f"{self.of}: {self.measure} {shown}"
