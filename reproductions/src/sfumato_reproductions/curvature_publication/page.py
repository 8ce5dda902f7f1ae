"""The page that the command writes: how it was made, what the numbers say, and all of it beside the paper."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

from sfumato_reproductions.curvature_publication.drawing import PaperDrawing
from sfumato_reproductions.curvature_publication.findings import says, strategy_verdicts, verdicts
from sfumato_reproductions.curvature_publication.membership import TOOLBOX, has_art
from sfumato_reproductions.curvature_publication.protocol import CHOSEN, LEFT_OUT, STATED
from sfumato_reproductions.curvature_publication.results import Results
from sfumato_reproductions.multimedia_dp.part import Part
from sfumato_reproductions.paper_page import PaperPage, duration, figure_section, listed, protocol, versions
from sfumato_reproductions.regenerate import Request

__all__ = ["Page"]

_LIBRARIES = ("numpy", "scipy", "scikit-learn", "torch")


@dataclass(frozen=True)
class Page(PaperPage):
    """Tables and drawings of one run, as Markdown, as text and as JSON values.

    ``told`` are sentences of the figures.
    """

    PAPER: ClassVar[str] = "curvature-publication"

    request: Request
    results: Results
    tables: tuple[Part, ...]
    drawings: tuple[PaperDrawing, ...]
    told: tuple[str, ...]
    seconds: float

    @property
    def data_used(self) -> tuple[str, ...]:
        """The data sets of the run."""
        return self.results.run.data

    def markdown(self) -> str:
        """The whole page."""
        parts = [
            "# Curvature-guided publication beside the paper",
            "This page was written by the command below and is not edited by hand. *Proven* is an upper "
            "bound on the privacy loss of one record; *nothing* is a legal value. *Membership* is measured, "
            "a lower bound by the attacks that were tried, and no promise.",
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
        judged = [*verdicts(self.results), *strategy_verdicts(self.results)]
        return {
            "What holds of the paper": [sentence for held, sentence in judged if held],
            "What does not": [sentence for held, sentence in judged if not held],
            "What else the numbers say": [*says(self.results), *self.told],
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
            "data": list(run.data),
            "seeds": list(run.seeds),
            "quick": run.quick,
            "versions": self._versions(),
            "findings": self.findings,
            "tables": {part.key.removeprefix("table "): part.numbers for part in self.tables},
            "figures": {str(drawing.number): _finite(drawing.numbers) for drawing in self.drawings},
        }

    def _made(self) -> str:
        results = self.results
        counts = "; ".join(
            f"{name} {counted.private:,} private, {counted.tests:,} tests, {counted.public:,} public"
            for name, counted in results.counted.items()
        )
        used = ", ".join(f"{name} {version}" for name, version in self._versions().items())
        rows = [*results.methods.values(), *results.strategies.values()]
        work = sum(made.seconds + made.learning for row in rows for seeds in row.values() for made in seeds)
        parts = [f"Pictures: {counts}. Seeds: {', '.join(map(str, results.run.seeds))}."]
        if results.parameters:
            parts.append(
                f"The classifier has {results.parameters:,} parameters and makes {results.run.passes} passes."
            )
        parts.append(
            f"Versions: {used}. This run took {duration(self.seconds)}; fitting, publishing and learning, "
            f"some of it remembered from runs that were stopped, took {duration(work)}."
        )
        if not has_art():
            parts.append(f"{TOOLBOX} is not installed: its columns are empty.")
        if results.run.quick:
            parts.append("A quick run: too few pictures and passes for its numbers to say anything.")
        return " ".join(parts)

    def _versions(self) -> dict[str, str]:
        names = (*_LIBRARIES, *([TOOLBOX] if has_art() else []))
        return versions(*names)


def _finite(value: Any) -> Any:
    """JSON knows no NaN: a number that does not exist is null."""
    if isinstance(value, dict):
        return {key: _finite(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_finite(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
