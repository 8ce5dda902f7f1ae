"""What a release would promise and cost, before anything is spent: only shapes and types are read."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sfumato.io import ArraySource, Schema
from sfumato.ledger import Ledger, Preview
from sfumato.mechanisms import ExpectedError, Mechanism
from sfumato.pipeline.arrays import columns_of, shaped, state
from sfumato.pipeline.opening import open_source
from sfumato.pipeline.payment import Payment
from sfumato.pipeline.tables import rows_of
from sfumato.privacy import Statement
from sfumato.transforms import Transform

__all__ = ["Plan", "plan"]

# Records that change together: several rows of one person, a household, a ward.
_GROUPS = (1, 2, 5, 10)


@dataclass(frozen=True)
class Plan:
    """What ``protect`` with the same arguments would do.

    ``rows`` is None where only reading the file would tell. ``groups`` gives ε at the headline δ for records
    that change together, infinite where nothing finite is proven. ``cost`` is what the ledger would say.
    """

    source: Path
    rows: int | None
    columns: int
    statement: Statement
    groups: Mapping[int, float]
    expected: tuple[ExpectedError, ...]
    cost: Preview | None

    def to_dict(self) -> dict[str, Any]:
        """As JSON values; an infinite ε is None."""
        return {
            "source": str(self.source),
            "rows": self.rows,
            "columns": self.columns,
            "statement": self.statement.to_dict(),
            "epsilon_of_group": {str(k): e if math.isfinite(e) else None for k, e in self.groups.items()},
            "expected_error": [error.to_dict() for error in self.expected],
            "cost": None if self.cost is None else self.cost.to_dict(),
        }


def plan(
    source: str | os.PathLike[str],
    mechanism: Mechanism,
    *,
    array: str | None = None,
    schema: str | os.PathLike[str] | Schema | None = None,
    then: Transform | None = None,
    dataset: str | None = None,
    ledger: Ledger | None = None,
) -> Plan:
    """What ``protect`` would promise for ``source``, its cost to ``dataset``, and the error to expect."""
    opened = open_source(source, array=array, schema=schema, then=then)
    if isinstance(opened, ArraySource):
        mechanism, columns = shaped(opened, mechanism), columns_of(opened)
        statement, expected = state(opened, mechanism, then), mechanism.expected_error(columns)
    else:
        declared = opened.schema
        columns, rows = len(declared.released), rows_of(mechanism, declared)
        names = [[column.name for column in part] for part in (declared.numeric, declared.coded)]
        statement, expected = rows.statement(), rows.expected_error(*names)
    return Plan(
        source=Path(source),
        rows=opened.rows,
        columns=columns,
        statement=statement,
        groups=_groups(statement),
        expected=expected,
        cost=_cost(statement, dataset, ledger),
    )


def _groups(statement: Statement) -> dict[int, float]:
    proven = statement.proven
    return {size: proven.group(size).epsilon() for size in _GROUPS}


def _cost(statement: Statement, dataset: str | None, ledger: Ledger | None) -> Preview | None:
    if dataset is None or ledger is None or not ledger.names():
        return None
    return ledger.preview(dataset, Payment(dataset, ledger).charged(statement))
