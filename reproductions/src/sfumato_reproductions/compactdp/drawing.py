"""What the figures of this paper share: their file names and the colours of methods."""

from __future__ import annotations

from dataclasses import dataclass

from sfumato_reproductions.tadp_rme.figure import Drawing

__all__ = ["AFTER", "BEFORE", "COLOURS", "PaperDrawing"]

#: Colours of what stands before and after contraction.
BEFORE, AFTER = "#2166ac", "#b2182b"
#: Colours of methods, in their order.
COLOURS = ("#525252", "#2166ac", "#b2182b", "#e08214", "#1b7837", "#762a83")


@dataclass(frozen=True)
class PaperDrawing(Drawing):
    """A figure of this paper drawn again."""

    @property
    def file(self) -> str:
        """The name of its picture."""
        return f"compactdp-figure-{self.number}.png"
