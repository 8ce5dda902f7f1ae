"""Table 5: expected errors at one promise for all, in closed form and drawn, beside the paper's column.

The paper's error is the largest E‖Z‖₂ over all tensors, and its formulas are √E‖Z‖², which is a little more
(Jensen). Here *closed form* is the largest √E‖Z‖², *drawn* is the same from samples, and *E‖Z‖* the mean of
the drawn norms.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from sfumato.noise import Seeded
from sfumato_reproductions.regenerate import Report
from sfumato_reproductions.tldp.candidate import Candidate
from sfumato_reproductions.tldp.paper_candidates import paper_candidates
from sfumato_reproductions.tldp.printed_proof import CLAIMED, Reading, claimed_point, readings
from sfumato_reproductions.tldp.promise import DELTA, Promise
from sfumato_reproductions.tldp.protocol import Run
from sfumato_reproductions.tldp.published import Sizes
from sfumato_reproductions.tldp.sound_candidates import sound_candidates

__all__ = ["SIZES", "TOLERANCE", "Block", "Line", "blocks"]

SIZES = (Sizes("MNIST", (28, 28), 256.0), Sizes("small", (3, 3, 3), 1.0))

#: Closed form and drawn mean squares agree within so many standard errors: by chance 1 row in 10⁹ does not.
TOLERANCE = 6.2
# What rounding to grids and turning of directions may add, as a share of the square.
_GRID = 1e-4


@dataclass(frozen=True)
class Line:
    """A mechanism, the paper's reading, and what was drawn.

    ``drawn`` is the root mean square, ``mean_norm`` E‖Z‖, ``standard_error`` that of the root mean square.
    """

    candidate: Candidate
    printed: Reading | None
    drawn: float
    mean_norm: float
    standard_error: float

    @property
    def apart(self) -> float:
        """Drawn minus closed form, in standard errors, beyond what rounding may add."""
        closed = self.candidate.closed
        apart = self.drawn - closed
        beyond = max(0.0, abs(apart) - _GRID * closed / 2.0)
        if not beyond:
            return 0.0
        return math.copysign(beyond / self.standard_error if self.standard_error else math.inf, apart)

    @property
    def agrees(self) -> bool:
        """Whether the drawn error is the closed form's, up to chance."""
        return abs(self.apart) <= TOLERANCE

    def to_dict(self) -> dict[str, Any]:
        """As JSON values, for machines."""
        made = self.candidate
        return {
            "mechanism": made.name,
            "paper": None if self.printed is None else self.printed.value,
            "asked_epsilon": made.asked,
            "proven_epsilon": made.epsilon,
            "shown_exactly": made.shown,
            "closed_form": made.closed,
            "drawn": self.drawn,
            "standard_error": self.standard_error,
            "mean_norm": self.mean_norm,
            "agrees": self.agrees,
            "note": made.note,
        }


@dataclass(frozen=True)
class Block:
    """All mechanisms brought to one promise, for one size of tensors, and the paper's column for it."""

    sizes: Sizes
    promise: Promise
    column: tuple[Reading, ...]
    lines: tuple[Line, ...]

    @property
    def title(self) -> str:
        """Size and unit."""
        shape = " × ".join(map(str, self.sizes.shape))
        return f"{self.sizes.name} ({shape}, Δ = {self.sizes.span:g}), unit {self.promise.unit}"

    def line(self, name: str) -> Line:
        """The line of a mechanism."""
        return next(line for line in self.lines if line.candidate.name == name)

    def to_dict(self) -> dict[str, Any]:
        """As JSON values, for machines."""
        return {
            "size": self.sizes.name,
            "shape": list(self.sizes.shape),
            "span": self.sizes.span,
            "unit": self.promise.unit,
            "neighbours": "replace",
            "epsilon": self.promise.epsilon,
            "delta": self.promise.delta,
            "rows": [line.to_dict() for line in self.lines],
        }


def blocks(run: Run, report: Report) -> tuple[Block, ...]:
    """For both sizes and units: TLDP-L's own (ε, δ) at the claimed ε, and (1, 1e-5)."""
    made = []
    asked = [(sizes, promise) for sizes in SIZES for promise in _promises(sizes)]
    for done, (sizes, promise) in enumerate(asked):
        column = tuple(readings(sizes))
        lines = tuple(_lines(sizes, promise, column, run.tensors[sizes.name]))
        made.append(Block(sizes, promise, column, lines))
        report("drawing errors", (done + 1) / len(asked))
    return tuple(made)


def _promises(sizes: Sizes) -> Iterator[Promise]:
    for unit in ("component", "tensor"):
        yield claimed_point("TLDP-L", sizes, unit)
        yield Promise(unit, CLAIMED, DELTA)


def _lines(sizes: Sizes, promise: Promise, column: tuple[Reading, ...], tensors: int) -> Iterator[Line]:
    printed = {reading.name: reading for reading in column}
    for made in (paper_candidates, sound_candidates):
        for candidate in made(promise, sizes, Seeded(0)):
            squares = max(
                (candidate.errors(value, tensors, sizes.count) for value in candidate.values), key=np.mean
            )
            drawn = math.sqrt(float(squares.mean()))
            error = float(squares.std(ddof=1)) / math.sqrt(tensors) / (2.0 * drawn)
            yield Line(candidate, printed.get(candidate.name), drawn, float(np.sqrt(squares).mean()), error)
