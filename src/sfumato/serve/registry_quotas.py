"""Rows of quotas and of jobs under way, read and written."""

from __future__ import annotations

from sqlalchemy import bindparam, delete, func, insert, select, update

from sfumato.ledger.transaction import Row, Transaction
from sfumato.serve.quotas import Quotas, Usage
from sfumato.serve.registry_errors import QuotaRefused
from sfumato.serve.registry_tables import jobs, quotas

__all__ = ["add_quotas", "begin", "count", "end", "put_quotas", "read_quotas"]

_NEW = insert(quotas)
_ONE = select(quotas).where(quotas.c.tenant == bindparam("of"))
_LOCKED = _ONE.with_for_update()  # SQLite, which has no such clause, locks the whole file
_LIMITS = ("requests_per_minute", "bytes_per_day", "jobs_at_once", "bytes_kept")
_COUNTS = ("minute", "requests", "day", "bytes")
_SET_LIMITS, _SET_COUNTS = (
    update(quotas)
    .where(quotas.c.tenant == bindparam("of"))
    .values({name: bindparam(f"new_{name}") for name in names})
    for names in (_LIMITS, _COUNTS)
)
_OTHERS = select(func.count().label("number"), func.min(jobs.c.until).label("first")).where(
    jobs.c.tenant == bindparam("of")
)
_DROP = delete(jobs).where(jobs.c.tenant == bindparam("of"), jobs.c.job == bindparam("which"))
_DROP_ENDED = delete(jobs).where(jobs.c.tenant == bindparam("of"), jobs.c.until <= bindparam("now"))
_NEW_JOB = insert(jobs)


def add_quotas(transaction: Transaction, tenant_id: str) -> None:
    """The row of a new tenant, which nothing limits yet."""
    transaction.run(_NEW, {"tenant": tenant_id} | vars(Quotas()) | vars(Usage()))


def read_quotas(transaction: Transaction, tenant_id: str) -> Quotas:
    """What the tenant may ask for."""
    return _quotas_of(transaction.first(_ONE, {"of": tenant_id}))


def put_quotas(transaction: Transaction, tenant_id: str, limits: Quotas) -> None:
    """Keep new limits; what was counted stays counted."""
    transaction.run(_SET_LIMITS, _new(limits) | {"of": tenant_id})


def count(transaction: Transaction, tenant_id: str, now: float, requests: int, bytes: int) -> None:
    """Add to what the tenant asked for, or refuse."""
    row = transaction.first(_LOCKED, {"of": tenant_id})
    limits = _quotas_of(row)
    usage = Usage(**{name: getattr(row, name) for name in _COUNTS})
    new = usage.after(limits, now, requests=requests, bytes=bytes)
    transaction.run(_SET_COUNTS, _new(new) | {"of": tenant_id})


def begin(transaction: Transaction, tenant_id: str, job: str, now: float, until: float) -> None:
    """Count ``job`` as under way until then, in place of what was kept of it, or refuse."""
    limits = _quotas_of(transaction.first(_LOCKED, {"of": tenant_id}))
    transaction.run(_DROP_ENDED, {"of": tenant_id, "now": now})
    end(transaction, tenant_id, job)
    others = transaction.first(_OTHERS, {"of": tenant_id})
    assert others is not None
    most = limits.jobs_at_once
    if most is not None and others.number >= most:
        seconds = None if others.first is None else others.first - now
        raise QuotaRefused(
            f"the quota of {most:,} jobs at the same time is used up; ask again when one of them has ended.",
            seconds,
        )
    transaction.run(_NEW_JOB, {"tenant": tenant_id, "job": job, "until": until})


def end(transaction: Transaction, tenant_id: str, job: str) -> None:
    """Count ``job`` no longer."""
    transaction.run(_DROP, {"of": tenant_id, "which": job})


def _quotas_of(row: Row | None) -> Quotas:
    assert row is not None  # a tenant is made with its row
    return Quotas(**{name: getattr(row, name) for name in _LIMITS})


def _new(values: Quotas | Usage) -> dict[str, int | None]:
    return {f"new_{name}": value for name, value in vars(values).items()}
