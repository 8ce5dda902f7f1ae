"""The record of a job, and the statements that read and write it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from sqlalchemy import and_, bindparam, delete, func, insert, or_, select, update

from sfumato.ledger.transaction import Row, Transaction
from sfumato.serve.registry_tables import job_records

__all__ = [
    "COUNTS",
    "DROP",
    "LAPSED",
    "NEW",
    "NEWEST",
    "NEXT",
    "OLDER",
    "ONE",
    "REQUESTED",
    "JobRecord",
    "locked",
    "put",
    "record_of",
    "row_of",
]

_COLUMNS = job_records.c
NEW = insert(job_records)
ONE = select(job_records).where(_COLUMNS.id == bindparam("which"))
_LOCKED = ONE.with_for_update()  # SQLite, which has no such clause, locks the whole file
REQUESTED = select(job_records).where(
    _COLUMNS.tenant == bindparam("of"),
    _COLUMNS.kind == bindparam("sort"),
    _COLUMNS.dataset == bindparam("about"),
    _COLUMNS.request == bindparam("asked_as"),
)
_CHANGED = ("state", "stage", "share", "ended", "attempt", "tries", "hold", "worker", "until", "cancelled")
_CHANGED_TEXTS = ("result", "problem")
_SET = (
    update(job_records)
    .where(_COLUMNS.id == bindparam("which"))
    .values({name: bindparam(f"new_{name}") for name in (*_CHANGED, *_CHANGED_TEXTS)})
)
DROP = delete(job_records).where(_COLUMNS.id == bindparam("which"))
_others = job_records.alias("others")
_BUSY = (
    select(func.count())
    .select_from(_others)
    .where(_others.c.tenant == _COLUMNS.tenant, _others.c.state == "running")
    .scalar_subquery()
)
# The tenant with the fewest jobs under way is next, so that none waits behind all of another's.
NEXT = (
    select(job_records)
    .where(_COLUMNS.state == "queued")
    .order_by(_BUSY, _COLUMNS.created, _COLUMNS.id)
    .limit(1)
    .with_for_update(skip_locked=True)
)
LAPSED = (
    select(job_records)
    .where(or_(_COLUMNS.state == "accepted", _COLUMNS.state == "running"), _COLUMNS.until <= bindparam("now"))
    .order_by(_COLUMNS.until)
    .limit(1)
    .with_for_update(skip_locked=True)
)
_OF_TENANT = select(job_records).where(_COLUMNS.tenant == bindparam("of"), _COLUMNS.state != "accepted")
NEWEST = _OF_TENANT.order_by(_COLUMNS.created.desc(), _COLUMNS.id.desc()).limit(200)
OLDER = NEWEST.where(
    or_(
        _COLUMNS.created < bindparam("at"),
        and_(_COLUMNS.created == bindparam("same"), _COLUMNS.id < bindparam("last")),
    )
)
COUNTS = (
    select(_COLUMNS.state, func.count().label("number"), func.min(_COLUMNS.created).label("first"))
    .where(or_(_COLUMNS.state == "queued", _COLUMNS.state == "running"))
    .group_by(_COLUMNS.state)
)


@dataclass(frozen=True)
class JobRecord:
    """One job as it is kept; ``asked``, ``result`` and ``problem`` are JSON values."""

    id: str
    tenant: str
    kind: str
    dataset: str
    request: str | None
    asked: Mapping[str, Any]
    content: str
    created: str
    state: str = "accepted"
    stage: str | None = None
    share: float | None = None
    ended: str | None = None
    attempt: int = 1
    tries: int = 0
    hold: int | None = None
    worker: str | None = None
    until: float = 0.0
    cancelled: bool = False
    result: Mapping[str, Any] | None = None
    problem: Mapping[str, Any] | None = None


def locked(transaction: Transaction, id_: str) -> JobRecord | None:
    """The job of this id, which nobody else changes until the transaction ends."""
    row = transaction.first(_LOCKED, {"which": id_})
    return None if row is None else record_of(row)


def put(transaction: Transaction, changed: JobRecord) -> JobRecord:
    """Keep what has changed of a job; returns it."""
    row = row_of(changed)
    new = {f"new_{name}": row[name] for name in (*_CHANGED, *_CHANGED_TEXTS)}
    transaction.run(_SET, new | {"which": changed.id})
    return changed


def row_of(record: JobRecord) -> dict[str, Any]:
    """The row of a new job."""
    texts = {name: _text(getattr(record, name)) for name in ("asked", *_CHANGED_TEXTS)}
    return vars(record) | texts | {"cancelled": int(record.cancelled)}


def record_of(row: Row) -> JobRecord:
    """The job that ``row`` holds."""
    values = {field.name: getattr(row, field.name) for field in fields(JobRecord)}
    parsed = {
        name: None if values[name] is None else json.loads(values[name])
        for name in ("asked", *_CHANGED_TEXTS)
    }
    return JobRecord(**(values | parsed | {"cancelled": bool(row.cancelled)}))


def _text(value: Any) -> str | None:
    return None if value is None else json.dumps(value)
