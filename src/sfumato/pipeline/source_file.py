"""A picture, a sound or a video on its way to be released; of an opened one only the header was read."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from pathlib import Path

from sfumato.io.atomic import First
from sfumato.mechanisms import ExpectedError, Mechanism
from sfumato.pipeline.protected import Report
from sfumato.privacy import Statement, Unit

__all__ = ["MediaFile", "per_item"]


class MediaFile(ABC):
    """One file of media and the mechanism that it goes through.

    ``statement`` is what its release will state; ``what`` names it for people, as in "a picture of 640 × 480
    pixels"; ``values`` is how many numbers are released.
    """

    path: Path
    mechanism: Mechanism
    statement: Statement
    what: str
    values: int

    @abstractmethod
    def fits(self, output: Path) -> None:
        """Refuse an ``output`` whose format cannot hold the release; nothing has been read or paid yet."""

    def expected(self) -> tuple[ExpectedError, ...]:
        """The error to expect, as far as the mechanism can tell."""
        return self.mechanism.expected_error(self.values)

    @abstractmethod
    def check(self, report: Report) -> None:
        """Read all of it, which refuses what cannot be released; draws no noise."""

    @abstractmethod
    def write(self, output: Path, first: First, report: Report) -> None:
        """Draw the release and let it appear at ``output``, in the format its name says, after ``first``.

        Nothing of the source but its pixels and samples goes along: no metadata.
        """


def per_item(statement: Statement) -> Statement:
    """``statement`` of a file that is one clip, with what it proves of the clip said of the item as well.

    So a budget that counts items pays for sounds and videos as it does for pictures.
    """
    stated = {part.unit.name: part for part in (statement.proven, *statement.also_proven)}
    if "item" in stated or "clip" not in stated:
        return statement
    item = replace(stated["clip"], unit=Unit("item"))
    return replace(statement, also_proven=(*statement.also_proven, item))
