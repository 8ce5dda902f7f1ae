"""All of the page but figure 3: how it was made, what the numbers say, and all of it beside the paper."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from sfumato_reproductions.paper_page import PaperPage, figure_section, listed, protocol, versions
from sfumato_reproductions.regenerate import Request
from sfumato_reproductions.tldp import error_findings, score_findings
from sfumato_reproductions.tldp.comparison import Row
from sfumato_reproductions.tldp.drawing import Drawing
from sfumato_reproductions.tldp.error_table import Block
from sfumato_reproductions.tldp.protocol import CHOSEN, STATED, Run
from sfumato_reproductions.tldp.sweep import Results
from sfumato_reproductions.tldp.tables import column_markdown, comparison_markdown, error_markdown, error_text

__all__ = ["Page"]

_LIBRARIES = ("numpy", "scipy", "scikit-learn")
_ERRORS = (
    "## Table 5: expected error at equal proven unit, neighbours, ε and δ\n\n"
    "For either size of tensors first the paper's column, with what its noise proves: *nothing* where no "
    "ε has a δ that small. Then blocks in which every row keeps to the block's (ε, δ) for the block's "
    "unit under `replace`. *Closed form* is the largest √E‖Z‖² over all tensors, as in the paper's "
    "formulas; *drawn* is the same from samples; *shown exactly* is the chance that something of the unit "
    "is released as it is. For each unit there are two promises: TLDP-L's own (ε, δ) at claimed ε = 1, "
    "and (1, 1e-5). GridTensorLDP of 256 levels and the middle of the range are biased, the others are "
    "not (of two levels: but for rounding)."
)


@dataclass(frozen=True)
class Page(PaperPage):
    """Table 5, the comparison and the drawings of one run, as Markdown, as text and as JSON values."""

    PAPER: ClassVar[str] = "tldp"

    request: Request
    run: Run
    blocks: tuple[Block, ...]
    results: Results | None
    rows: tuple[Row, ...]
    drawings: tuple[Drawing, ...]
    seconds: float
    processor: float

    @property
    def data_used(self) -> tuple[str, ...]:
        """The data sets of the run."""
        return self.run.data

    def markdown(self) -> str:
        """The whole page."""
        parts = [
            "# TLDP beside the paper",
            "Table 5 and figures 1 and 2 were written by the command below, figure 3, at the end, by the "
            "command that stands with it; nothing is edited by hand. *Proven* is under `replace`, for the "
            "unit that is named; in table 5 and figures 1 and 2 TLDP is read at its own δ, below which "
            "nothing is proven of it. F1 is weighted, as in the paper: mean ± standard deviation over the "
            "seeds, and differences ± their standard error.",
            f"```\n{self.command()}\n```",
            self._made(),
            *listed(self.findings()),
            protocol(STATED, CHOSEN),
        ]
        if self.blocks:
            parts.append(_ERRORS)
            for sizes in dict.fromkeys(block.sizes for block in self.blocks):
                mine = [block for block in self.blocks if block.sizes == sizes]
                shape = " × ".join(map(str, sizes.shape))
                parts.append(f"### The paper's column for {sizes.name} ({shape}, Δ = {sizes.span:g})")
                parts.append(column_markdown(mine[0].column, sizes.span))
                parts += [error_markdown(block) for block in mine]
        for drawing in self.drawings:
            parts.append(figure_section(drawing))
            for data in self.run.data:
                rows = [r for r in self.rows if (r.point.figure, r.point.data) == (drawing.number, data)]
                parts.append(
                    f"### {data}: TLDP and a sound mechanism at the same proven (ε, δ)\n\n"
                    + comparison_markdown(rows)
                )
        return "\n\n".join(parts) + "\n"

    def findings(self) -> dict[str, list[str]]:
        """The sentences of the page, by heading."""
        held: list[str] = []
        failed: list[str] = []
        said: list[str] = []
        if self.blocks:
            held += error_findings.holds(self.blocks)
            failed += error_findings.fails(self.blocks)
            said += error_findings.says(self.blocks)
        if self.results is not None:
            held += score_findings.holds(self.results)
            failed += score_findings.fails(self.results, self.rows)
            said += score_findings.says(self.results, self.rows)
        return {
            "What holds of the paper": held,
            "What does not, at equal proven unit, ε and δ": failed,
            "What else the numbers say": said,
        }

    def text(self, tables: bool) -> str:
        """What people are told on the terminal; with the blocks of table 5 where ``tables`` are wanted."""
        told = ["\n".join([f"{head}:", *sentences]) for head, sentences in self.findings().items()]
        parts = [self._made(), *told]
        return "\n\n".join([*parts, *([error_text(block) for block in self.blocks] if tables else [])])

    def numbers(self) -> dict[str, Any]:
        """Everything as JSON values."""
        return {
            "command": self.command(),
            "data": list(self.run.data),
            "seeds": list(self.run.seeds),
            "claimed_epsilons": list(self.run.epsilons),
            "quick": self.run.quick,
            "versions": self._versions(),
            "findings": self.findings(),
            "tables": {"5": self._table()} if self.blocks else {},
            "figures": {str(drawing.number): drawing.numbers() for drawing in self.drawings},
            "comparison": [row.to_dict() for row in self.rows],
        }

    def _table(self) -> dict[str, Any]:
        columns = {block.sizes.name: block.column for block in self.blocks}
        return {
            "column": {name: [reading.to_dict() for reading in column] for name, column in columns.items()},
            "blocks": [block.to_dict() for block in self.blocks],
        }

    def _made(self) -> str:
        seeds = ", ".join(str(seed) for seed in self.run.seeds)
        used = ", ".join(f"{name} {version}" for name, version in self._versions().items())
        parts = []
        if self.results is not None:
            counts = "; ".join(
                f"{name} {learned:,} learned from, {tested:,} tested on, {public:,} public"
                for name, (tested, learned, public) in self.results.parts.items()
            )
            passes = "{} (type II: {})".format(*self.run.passes)
            parts.append(f"Pictures: {counts}. Passes: {passes}. Seeds: {seeds}.")
        if self.blocks:
            draws = ", ".join(f"{count:,} ({name})" for name, count in self.run.tensors.items())
            parts.append(f"Tensors drawn for each row of table 5: {draws}.")
        parts.append(
            f"Versions: {used}. It took {_duration(self.seconds)}; one processor was busy for "
            f"{_duration(self.processor)}."
        )
        if self.run.quick:
            parts.append("A quick run: too few pictures and draws for its numbers to say anything.")
        return " ".join(parts)

    def _versions(self) -> dict[str, str]:
        names = (*_LIBRARIES, *(["torch"] if self.results is not None else []))
        return versions(*names)


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} seconds" if seconds < 90.0 else f"{seconds / 60.0:.0f} minutes"
