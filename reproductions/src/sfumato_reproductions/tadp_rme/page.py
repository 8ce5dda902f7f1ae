"""The page that the command writes: how it was made, what agrees, and everything beside the paper."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from sfumato_reproductions.paper_page import PaperPage, figure_section, listed, protocol, versions
from sfumato_reproductions.regenerate import Request
from sfumato_reproductions.tadp_rme.figure import Drawing
from sfumato_reproductions.tadp_rme.findings import findings
from sfumato_reproductions.tadp_rme.protocol import ACCURACY_POINTS, CHOSEN, DELTA, ERROR, STATED
from sfumato_reproductions.tadp_rme.sweep import Results
from sfumato_reproductions.tadp_rme.table import Table

__all__ = ["Page"]

_LIBRARIES = ("numpy", "scipy", "scikit-learn")
_OPEN = "It leaves open, and we chose, alike for all data sets, tables and figures:"


@dataclass(frozen=True)
class Page(PaperPage):
    """Tables and drawings of one run, as Markdown and as JSON values."""

    PAPER: ClassVar[str] = "tadp-rme"

    request: Request
    results: Results
    tables: tuple[Table, ...]
    drawings: tuple[Drawing, ...]
    seconds: float

    @property
    def data_used(self) -> tuple[str, ...]:
        """The data sets of the run."""
        return self.results.run.data

    def markdown(self) -> str:
        """The whole page."""
        parts = [
            "# TADP-RME beside the paper",
            "This page was written by the command below and is not edited by hand. Every cell of *ours* is "
            "the mean ± standard deviation over the seeds; *proven ε* is for one record under `replace`, "
            f"at δ = {DELTA:g}; *nothing* is a legal value.",
            f"```\n{self.command()}\n```",
            self._made(),
            protocol(STATED, CHOSEN, open_head=_OPEN),
        ]
        parts += listed({"What agrees": self.agreement(), "What the numbers say": findings(self.results)})
        parts += [table.markdown() for table in self.tables]
        parts += [figure_section(drawing) for drawing in self.drawings]
        return "\n\n".join(parts) + "\n"

    def agreement(self) -> list[str]:
        """How many rows of tables 1 and 4 agree with the paper, counted."""
        sentences = []
        for table in self.tables:
            agreeing, total = table.counted
            if not total:
                continue
            limits = f"accuracy within {ACCURACY_POINTS:g} points"
            if table.number == 1:
                limits += f" and reconstruction error within {ERROR:g}"
            sentences.append(
                f"Table {table.number}: {agreeing} of {total} rows of MNIST and Fashion-MNIST agree "
                f"({limits})."
            )
        return sentences

    def summary(self) -> list[str]:
        """What people are told on the terminal."""
        return [sentence for sentence in (self._made(), *self.agreement()) if sentence]

    def numbers(self) -> dict[str, Any]:
        """Everything as JSON values."""
        run = self.results.run
        counted = {table.number: table.counted for table in self.tables if table.counted[1]}
        return {
            "command": self.command(),
            "data": list(run.data),
            "seeds": list(run.seeds),
            "rows": dict(self.results.rows),
            "quick": run.quick,
            "versions": versions(*_LIBRARIES),
            "agreement": {
                str(number): {"agree": agreeing, "rows": total}
                for number, (agreeing, total) in counted.items()
            },
            "findings": findings(self.results),
            "tables": {str(table.number): table.to_dict() for table in self.tables},
            "figures": {str(drawing.number): drawing.numbers for drawing in self.drawings},
        }

    def _made(self) -> str:
        run = self.results.run
        rows = ", ".join(f"{name} {count:,}" for name, count in self.results.rows.items())
        seeds = ", ".join(str(seed) for seed in run.seeds)
        used = ", ".join(f"{name} {version}" for name, version in versions(*_LIBRARIES).items())
        short = self.seconds < 90.0
        took = f"{self.seconds:.0f} seconds" if short else f"{self.seconds / 60.0:.0f} minutes"
        text = f"Records: {rows}. Seeds: {seeds}. Versions: {used}. It took {took}."
        if run.quick:
            text += (
                " A quick run: fewer records, seeds and trust levels than the paper, so its numbers are not."
            )
        return text
