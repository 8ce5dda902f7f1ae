"""The page that the command writes: how it was made, what the numbers say, and all of it beside the paper."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

from sfumato_reproductions.multimedia_dp.part import Part
from sfumato_reproductions.multimedia_dp.points import fails, holds
from sfumato_reproductions.multimedia_dp.protocol import CHOSEN, LEFT_OUT, STATED
from sfumato_reproductions.multimedia_dp.says import says
from sfumato_reproductions.paper_page import PaperPage, listed, protocol, versions
from sfumato_reproductions.regenerate import Regenerated, Request

__all__ = ["Page"]

_LIBRARIES = ("numpy", "scipy", "scikit-learn", "scikit-image", "opencv-python-headless")


@dataclass(frozen=True)
class Page(PaperPage):
    """The parts and the figure of one run, as Markdown, as text and as JSON values.

    ``absent`` names parts that were asked for and could not be made, with the reason; ``data`` says what was
    measured on.
    """

    PAPER: ClassVar[str] = "multimedia-dp"

    request: Request
    parts: tuple[Part, ...]
    absent: dict[str, str]
    figure: Regenerated | None
    data: str
    seconds: float

    def markdown(self) -> str:
        """The whole page."""
        parts = [
            "# Adaptive multimedia DP beside the paper",
            "This page was written by the command below and is not edited by hand. *Claimed* is what the "
            "paper says, *proven* what a theorem gives for the unit that is named, under `replace`, "
            "*measured* what this run found. *Nothing* is a legal value of proven.",
            f"```\n{self.command()}\n```",
            self._made(),
            *listed(self.findings),
            protocol(STATED, CHOSEN, LEFT_OUT),
            *(part.markdown() for part in self.parts),
        ]
        if self.figure is not None:
            parts.append(
                f"## Figure 2: privacy budget under composition\n\n![{self.figure.title}]"
                f"({self.figure.files[0].name})\n\n```\n{self.figure.text}\n```"
            )
        return "\n\n".join(parts) + "\n"

    @cached_property
    def findings(self) -> dict[str, list[str]]:
        """The sentences of the page, by heading."""
        made = {part.key: part for part in self.parts}
        return {
            "What holds of the paper": holds(None if self.figure is None else self.figure.numbers),
            "What does not": fails(made),
            "What else the numbers say": says(made),
        }

    def text(self, tables: bool) -> str:
        """What people are told on the terminal; with the tables themselves where ``tables`` are wanted."""
        told = ["\n".join([f"{head}:", *told]) for head, told in self.findings.items() if told]
        return "\n\n".join([self._made(), *told, *([part.text() for part in self.parts] if tables else [])])

    def numbers(self) -> dict[str, Any]:
        """Everything as JSON values."""
        numbers: dict[str, Any] = {
            "command": self.command(),
            "quick": self.request.quick,
            "data": self.data,
            "absent": self.absent,
            "versions": versions(*_LIBRARIES),
            "findings": self.findings,
            "tables": {
                part.key.removeprefix("table "): part.numbers
                for part in self.parts
                if part.key.startswith("table ")
            },
            "measures": {part.key: part.numbers for part in self.parts if not part.key.startswith("table ")},
        }
        return numbers | ({} if self.figure is None else {"figures": {"2": self.figure.numbers}})

    def _made(self) -> str:
        used = ", ".join(f"{name} {version}" for name, version in versions(*_LIBRARIES).items())
        minutes = self.seconds >= 90.0
        took = f"{self.seconds / 60.0:.1f} minutes" if minutes else f"{self.seconds:.0f} seconds"
        parts = [self.data[:1].upper() + self.data[1:], f"Versions: {used}. It took {took}."]
        parts += [f"Left out: {name}, {reason}." for name, reason in self.absent.items()]
        if self.request.quick:
            parts.append("A quick run: too few pictures and draws for its numbers to say anything.")
        return " ".join(parts)
