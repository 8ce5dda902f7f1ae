"""What a release of a file left behind: the output, and the statement beside it."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sfumato.privacy import Statement

__all__ = ["Protected", "Report", "statement_file"]

#: Called with the stage of the work and the share of it that is done, None while that is not known.
Report = Callable[[str, float | None], None]


def statement_file(output: Path) -> Path:
    """Where the statement of ``output`` is written."""
    return output.with_name(output.name + ".statement.json")


@dataclass(frozen=True)
class Protected:
    """What ``protect`` wrote: the output, the statement beside it, and what was left out of it."""

    output: Path
    statement: Statement
    rows: int
    columns: int
    left_out: tuple[str, ...]
    dataset: str | None = None

    @property
    def statement_file(self) -> Path:
        """The file beside the output that holds :meth:`document`."""
        return statement_file(self.output)

    def to_dict(self) -> dict[str, Any]:
        """As JSON values, for machines; ``epsilon`` is None where nothing finite is proven."""
        epsilon = self.statement.proven.epsilon()
        finite = math.isfinite(epsilon)
        return {
            "output": str(self.output),
            "statement_file": str(self.statement_file),
            "dataset": self.dataset,
            "rows": self.rows,
            "columns": self.columns,
            "left_out": list(self.left_out),
            "epsilon": epsilon if finite else None,
            "delta": self.statement.proven.at_delta if finite else None,
            "statement": self.statement.to_dict(),
        }

    def document(self) -> bytes:
        """What the statement file holds."""
        content = {
            "statement": self.statement.to_dict(),
            "output": self.output.name,
            "dataset": self.dataset,
            "rows": self.rows,
            "columns": self.columns,
            "left_out": list(self.left_out),
        }
        text = json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
        # A file name may hold half of a surrogate pair, whose backslash form is what JSON wants as well.
        return text.encode("utf-8", "backslashreplace")
