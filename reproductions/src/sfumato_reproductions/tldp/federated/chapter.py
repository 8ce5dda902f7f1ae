"""The chapter of the page about figure 3: how it was made, what the numbers say, and all of them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from sfumato_reproductions.datasets import FOLDER
from sfumato_reproductions.memory import Memory
from sfumato_reproductions.paper_page import PaperPage, duration, figure_section, protocol, versions
from sfumato_reproductions.regenerate import Report, Request
from sfumato_reproductions.tldp.federated import findings
from sfumato_reproductions.tldp.federated.comparison import Row, rows
from sfumato_reproductions.tldp.federated.drawing import Drawing
from sfumato_reproductions.tldp.federated.protocol import CHOSEN, DATA, STATED, FederatedRun
from sfumato_reproductions.tldp.federated.sweep import Results, sweep
from sfumato_reproductions.tldp.federated.tables import comparison_markdown, methods_markdown, sound_markdown
from sfumato_reproductions.tldp.federated.tasks import check_data

__all__ = ["KEPT", "Chapter", "data_for", "made"]

#: Where measures are kept inside the output folder; it may be deleted at any time.
KEPT = ".tldp"


def data_for(request: Request) -> tuple[str, ...]:
    """The data sets of figure 3; digits where none are named and the folder of files is not, or if quick."""
    data = request.data or (DATA if os.environ.get(FOLDER) and not request.quick else ("digits",))
    check_data(data)
    return data


def made(request: Request, report: Report) -> Chapter:
    """Train, compare and draw; a run that was stopped goes on from what it kept in the output folder."""
    run = FederatedRun.of(data_for(request), request.seeds, request.quick)
    results = sweep(run, Memory(request.output / KEPT), report)
    chapter = Chapter(replace(request, tables=(), figures=(3,)), results, tuple(rows(results)))
    chapter.drawing.save(request.output)
    return chapter


@dataclass(frozen=True)
class Chapter(PaperPage):
    """Figure 3 as Markdown, as text and as JSON values."""

    PAPER: ClassVar[str] = "tldp"

    request: Request
    results: Results
    rows: tuple[Row, ...]

    @property
    def data_used(self) -> tuple[str, ...]:
        """The data sets of the run."""
        return self.results.run.data

    @property
    def drawing(self) -> Drawing:
        """The figure."""
        return Drawing(self.results)

    def markdown(self) -> str:
        """The whole chapter."""
        parts = [
            figure_section(self.drawing),
            f"```\n{self.command()}\n```",
            self._made(),
            *(
                "\n\n".join([f"### {head}", "\n".join(f"- {sentence}" for sentence in told)])
                for head, told in self.findings().items()
            ),
            protocol(STATED, CHOSEN).replace("## Protocol", "### Protocol of figure 3"),
            *self._tables(),
        ]
        return "\n\n".join(parts) + "\n"

    def findings(self) -> dict[str, list[str]]:
        """The sentences of the chapter, by heading."""
        return {
            "What holds of figure 3, at claimed ε": list(findings.holds(self.results)),
            "What does not, at proven ε of a client": list(findings.fails(self.results, self.rows)),
            "What else figure 3 says": list(findings.says(self.results, self.rows)),
        }

    def text(self) -> str:
        """What people are told on the terminal."""
        told = ["\n".join([f"{head}:", *sentences]) for head, sentences in self.findings().items()]
        return "\n\n".join([self._made(), *told])

    def numbers(self) -> dict[str, Any]:
        """Everything as JSON values."""
        run = self.results.run
        return {
            "command": self.command(),
            "seeds": list(run.seeds),
            "rounds": run.rounds,
            "claimed_epsilons": list(run.claimed),
            "proven_epsilons": list(run.totals),
            "quick": run.quick,
            "findings": self.findings(),
            "data": self.drawing.numbers(),
            "comparison": [row.to_dict() for row in self.rows],
        }

    def _tables(self) -> Iterator[str]:
        run = self.results.run
        for data, found in self.results.found.items():
            mine = [row for row in self.rows if row.data == data]
            yield (
                f"### {data}: the paper's methods in federated training\n\nF1, and in brackets the proven ε "
                f"of a client over all rounds.\n\n{methods_markdown(found, run)}"
            )
            yield f"The sound mechanism at an ε of a client over all rounds:\n\n{sound_markdown(found, run)}"
            head = f"### {data}: TLDP and a sound mechanism at equal ε of a client"
            yield f"{head}\n\n{comparison_markdown(mine)}"

    def _made(self) -> str:
        run = self.results.run
        counts = "; ".join(
            f"{name} {learned:,} in three clients, {tested:,} tested on, {held:,} held back, "
            f"{found.model.size:,} parameters, rate {found.rate:g}"
            for name, found in self.results.found.items()
            for learned, tested, held in [found.counts]
        )
        used = ", ".join(f"{name} {version}" for name, version in versions("numpy", "torch").items())
        busy = sum(found.seconds for found in self.results.found.values())
        parts = [
            f"Records: {counts}. Rounds: {run.rounds}. Seeds: {', '.join(map(str, run.seeds))}.",
            f"Versions: {used}. One processor was busy for {duration(busy)}.",
        ]
        if run.quick:
            parts.append("A quick run: too few records and rounds for its numbers to say anything.")
        return " ".join(parts)
