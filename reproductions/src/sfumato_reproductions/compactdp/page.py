"""The page that the command writes: how it was made, what the numbers say, and all of it beside the paper."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

from sfumato_reproductions.compactdp.drawing import PaperDrawing
from sfumato_reproductions.compactdp.findings import says, scale_says, verdicts
from sfumato_reproductions.compactdp.printed_findings import printed_says
from sfumato_reproductions.compactdp.protocol import CHOSEN, LEFT_OUT, STATED
from sfumato_reproductions.compactdp.results import Results
from sfumato_reproductions.multimedia_dp.part import Part
from sfumato_reproductions.paper_page import PaperPage, duration, figure_section, listed, protocol, versions
from sfumato_reproductions.regenerate import Request

__all__ = ["Page"]

_LIBRARIES = ("numpy", "scipy", "scikit-learn", "torch")
_SCALE = "Contraction by a constant is a change of ruler"


@dataclass(frozen=True)
class Page(PaperPage):
    """Tables and drawings of one run, as Markdown, as text and as JSON values.

    ``scales`` is what a contraction by a constant did to learners.
    """

    PAPER: ClassVar[str] = "compactdp"

    request: Request
    results: Results
    tables: tuple[Part, ...]
    drawings: tuple[PaperDrawing, ...]
    scales: Mapping[str, Mapping[str, Any]]
    seconds: float

    @property
    def data_used(self) -> tuple[str, ...]:
        """The data sets that were asked for: without any, every table has its own."""
        return self.request.data

    def markdown(self) -> str:
        """The whole page."""
        parts = [
            "# CompactDP beside the paper",
            "This page was written by the command below and is not edited by hand. *Proven* is an upper "
            "bound on the privacy loss of one record; *nothing* is a legal value. Attacks are measured: what "
            "they find is a lower bound, and what they do not find is no promise. *Empirical ε* is the "
            "paper's word for a conversion of an attack, which is a heuristic and no bound.",
            f"```\n{self.command()}\n```",
            self._made(),
            *listed(self.findings),
            protocol(STATED, CHOSEN, LEFT_OUT),
            *(part.markdown() for part in self.tables),
            *map(figure_section, self.drawings),
        ]
        return "\n\n".join(parts) + "\n"

    @cached_property
    def findings(self) -> dict[str, list[str]]:
        """The sentences of the page, by heading."""
        judged = list(verdicts(self.results))
        return {
            "What holds of the paper": [sentence for held, sentence in judged if held],
            "What does not": [sentence for held, sentence in judged if held is False],
            "What the runs do not tell": [sentence for held, sentence in judged if held is None],
            _SCALE: list(scale_says(self.scales)),
            "What else the numbers say": list(says(self.results)),
            "What the paper's own numbers say": list(printed_says()),
        }

    def text(self, tables: bool) -> str:
        """What people are told on the terminal; with the tables themselves where ``tables`` are wanted."""
        told = ["\n".join([f"{head}:", *told]) for head, told in self.findings.items() if told]
        return "\n\n".join([self._made(), *told, *([part.text() for part in self.tables] if tables else [])])

    def numbers(self) -> dict[str, Any]:
        """Everything as JSON values."""
        run = self.results.run
        return {
            "command": self.command(),
            "sources": {str(source): vars(counted) for source, counted in self.results.counted.items()},
            "seeds": list(run.seeds),
            "quick": run.quick,
            "versions": versions(*_LIBRARIES),
            "findings": self.findings,
            "scale": {name: dict(check) for name, check in self.scales.items()},
            "tables": {part.key.removeprefix("table "): part.numbers for part in self.tables},
            "figures": {str(drawing.number): drawing.numbers for drawing in self.drawings},
        }

    def _made(self) -> str:
        results = self.results
        counts = "; ".join(
            f"{source} ({counted.dimension:,} features): {counted.records:,} records, {counted.tests:,} tests"
            for source, counted in results.counted.items()
        )
        used = ", ".join(f"{name} {version}" for name, version in versions(*_LIBRARIES).items())
        work = sum(
            made.seconds for rows in results.rows.values() for seeds in rows.values() for made in seeds
        )
        parts = [
            f"Data: {counts}. " if counts else "",
            f"Seeds: {', '.join(map(str, results.run.seeds))}. At most {results.run.attacked:,} members and "
            f"as many non-members are attacked. Versions: {used}. This run took {duration(self.seconds)}; "
            f"to learn every row from the beginning takes {duration(work)} of a processor: some were "
            "remembered from earlier runs of the same code, and rows with a first stage in common shared it. "
            "Features and measures are kept beside this page in a folder whose features only their owner may "
            "read, and which may be deleted.",
            " A quick run: too few records for its numbers to say anything." if results.run.quick else "",
        ]
        return "".join(parts)
