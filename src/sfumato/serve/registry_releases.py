"""Rows that say which releases a tenant has and when they were made, so that the newest are found at once."""

from __future__ import annotations

from collections.abc import Iterator

from sqlalchemy import and_, bindparam, insert, or_, select

from sfumato.ledger.transaction import Row
from sfumato.serve.registry_database import RegistryDatabase
from sfumato.serve.registry_tables import releases

__all__ = ["ReleaseTable"]

_PAGE = 200
_NEW = insert(releases)
_OF_TENANT = select(releases).where(releases.c.tenant == bindparam("of"))
_ONE = _OF_TENANT.where(releases.c.id == bindparam("which"))
_IDS = select(releases.c.id).where(releases.c.tenant == bindparam("of"))
_NEWEST = _OF_TENANT.order_by(releases.c.created.desc(), releases.c.id.desc()).limit(_PAGE)
_OLDER = _NEWEST.where(
    or_(
        releases.c.created < bindparam("at"),
        and_(releases.c.created == bindparam("same"), releases.c.id < bindparam("last")),
    )
)


class ReleaseTable:
    """Where releases stand in time. It is an index, of which a power cut may take the newest rows.

    What a release is stands in its own folder, from which missing rows are added when a service starts.
    """

    def __init__(self, database: RegistryDatabase) -> None:
        self._database = database

    def add(self, tenant: str, id_: str, dataset: str, created: str) -> None:
        """Note that the folder ``id_`` is to hold a release; noted before, it keeps its time."""
        with self._database.counting() as transaction:
            if transaction.first(_ONE, {"of": tenant, "which": id_}) is None:
                row = {"tenant": tenant, "id": id_, "dataset": dataset, "created": created}
                transaction.run(_NEW, row)

    def ids(self, tenant: str) -> set[str]:
        """All that are noted of a tenant."""
        with self._database.reading() as transaction:
            return {row.id for row in transaction.all(_IDS, {"of": tenant})}

    def newest(self, tenant: str, after: str | None = None) -> Iterator[Row]:
        """The tenant's rows, newest first, a page at a time; those ``after`` the row of this id."""
        while True:
            with self._database.reading() as transaction:
                if after is None:
                    page = transaction.all(_NEWEST, {"of": tenant})
                else:
                    last = transaction.first(_ONE, {"of": tenant, "which": after})
                    if last is None:
                        return
                    place = {"at": last.created, "same": last.created, "last": last.id}
                    page = transaction.all(_OLDER, {"of": tenant} | place)
            yield from page
            if len(page) < _PAGE:
                return
            after = page[-1].id
