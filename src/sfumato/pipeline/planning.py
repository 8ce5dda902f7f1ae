"""What a release would promise and cost, before anything is spent: only shapes and types are read."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sfumato.errors import BadInput
from sfumato.io import MEDIA, ArraySource, Schema, kind_of
from sfumato.ledger import Ledger, Preview
from sfumato.mechanisms import ExpectedError, Mechanism
from sfumato.pipeline.arrays import columns_of, shaped, state
from sfumato.pipeline.folder import count_of, open_folder, refuse_nothing
from sfumato.pipeline.media_mechanisms import MediaMechanisms
from sfumato.pipeline.opening import open_source, refuse_options
from sfumato.pipeline.payment import Payment
from sfumato.pipeline.tables import rows_of
from sfumato.pipeline.together import check_charge, together
from sfumato.privacy import Statement
from sfumato.transforms import Transform

__all__ = ["Plan", "cost_of", "groups_of", "plan"]

# Records that change together: several rows of one person, a household, a ward.
_GROUPS = (1, 2, 5, 10)


@dataclass(frozen=True)
class Plan:
    """What ``protect`` with the same arguments would do.

    ``rows`` is None where only reading the file would tell. ``groups`` gives ε at the headline δ for records
    that change together, infinite where nothing finite is proven. ``cost`` is what the ledger would say.
    ``what`` names media for people; ``skipped`` are files of a folder that would be left out, and why.
    """

    source: Path
    rows: int | None
    columns: int
    statement: Statement
    groups: Mapping[int, float]
    expected: tuple[ExpectedError, ...]
    cost: Preview | None
    what: str | None = None
    skipped: tuple[tuple[str, str], ...] = ()

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
            "what": self.what,
            "skipped": [{"file": name, "why": why} for name, why in self.skipped],
        }


def plan(
    source: str | os.PathLike[str],
    mechanism: Mechanism | MediaMechanisms,
    *,
    array: str | None = None,
    schema: str | os.PathLike[str] | Schema | None = None,
    then: Transform | None = None,
    dataset: str | None = None,
    ledger: Ledger | None = None,
) -> Plan:
    """What ``protect`` would promise for ``source``, its cost to ``dataset``, and the error to expect.

    Of media only headers are read, but for a video, whose frames have to be counted. A folder is planned as
    one release of its files without those that their headers refuse.
    """
    if Path(source).is_dir() or kind_of(source) in MEDIA:
        refuse_options(source, array=array, schema=schema, then=then, bounds_from_data=False)
        return _media_plan(Path(source), MediaMechanisms.of(mechanism), dataset, ledger)
    if isinstance(mechanism, MediaMechanisms):
        raise BadInput(f"{Path(source).name} holds records; mechanisms for media are not for them.")
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
        groups=groups_of(statement),
        expected=expected,
        cost=cost_of(statement, dataset, ledger),
    )


def _media_plan(
    source: Path, mechanisms: MediaMechanisms, dataset: str | None, ledger: Ledger | None
) -> Plan:
    skipped: dict[Path, str] = {}
    if source.is_dir():
        found, skipped = open_folder(source, mechanisms.open)
        refuse_nothing(source, found, skipped)
        files = list(found.values())
        statement = together([file.statement for file in files], mechanisms.of_folders)
        if dataset is not None and ledger is not None and ledger.names():
            check_charge(
                [file.path.name for file in files],
                [file.statement for file in files],
                Payment(dataset, ledger),
            )
    else:
        files = [mechanisms.open(source)]
        statement = files[0].statement
    largest = max(files, key=lambda file: file.values)
    return Plan(
        source=source,
        rows=len(files),
        columns=largest.values,
        statement=statement,
        groups=groups_of(statement),
        expected=largest.expected(),
        cost=cost_of(statement, dataset, ledger),
        what=count_of(files) if source.is_dir() else largest.what,
        skipped=tuple((str(name), why) for name, why in skipped.items()),
    )


def groups_of(statement: Statement) -> dict[int, float]:
    """ε at the headline δ for records that change together."""
    proven = statement.proven
    return {size: proven.group(size).epsilon() for size in _GROUPS}


def cost_of(statement: Statement, dataset: str | None, ledger: Ledger | None) -> Preview | None:
    """What the ledger would say to a release with ``statement``; None where nothing is charged."""
    if dataset is None or ledger is None or not ledger.names():
        return None
    return ledger.preview(dataset, Payment(dataset, ledger).charged(statement))
