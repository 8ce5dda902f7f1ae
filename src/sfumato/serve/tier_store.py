"""What owners declare about tiers, kept beside the tenants: sources with their tiers, and facts of readers.

A declaration never changes: another one, even under the same name, has an id of its own, and with it noise
and payments of its own.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import TextClause, text

from sfumato.ledger.transaction import Row
from sfumato.serve.auth.api_keys import ApiKey
from sfumato.serve.reader_tiers import ReaderFacts
from sfumato.serve.registry_database import RegistryDatabase
from sfumato.serve.registry_errors import Conflict, RegistryUnavailable, Unknown
from sfumato.serve.registry_keys import key_with_digest

__all__ = ["Kept", "TierStore"]

# "removed" is empty while a declaration is in force, so that one name is in force once.
_TABLES: tuple[TextClause, ...] = (
    text(
        "CREATE TABLE IF NOT EXISTS serve_sources (id TEXT PRIMARY KEY, tenant TEXT NOT NULL, "
        "name TEXT NOT NULL, document TEXT NOT NULL, created TEXT NOT NULL, removed TEXT NOT NULL, "
        "UNIQUE (tenant, name, removed))"
    ),
    text(
        "CREATE TABLE IF NOT EXISTS serve_readers (tenant TEXT NOT NULL, reader TEXT NOT NULL, "
        "document TEXT NOT NULL, PRIMARY KEY (tenant, reader))"
    ),
)
_ADD = text("INSERT INTO serve_sources VALUES (:id, :tenant, :name, :document, :created, '')")
_ONE = text("SELECT * FROM serve_sources WHERE tenant = :tenant AND name = :name AND removed = ''")
_ALL = text("SELECT * FROM serve_sources WHERE tenant = :tenant AND removed = '' ORDER BY name")
_REMOVE = text(
    "UPDATE serve_sources SET removed = :removed WHERE tenant = :tenant AND id = :id AND removed = ''"
)
_READER = text("SELECT * FROM serve_readers WHERE tenant = :tenant AND reader = :reader")
_READERS = text("SELECT * FROM serve_readers WHERE tenant = :tenant ORDER BY reader")
_FORGET = text("DELETE FROM serve_readers WHERE tenant = :tenant AND reader = :reader")
_SAY = text("INSERT INTO serve_readers VALUES (:tenant, :reader, :document)")


@dataclass(frozen=True)
class Kept:
    """A declaration as it is kept; the ``document`` is as it was declared."""

    id: str
    tenant: str
    name: str
    document: Mapping[str, Any]
    created: datetime


class TierStore:
    """Declarations and readers on the registry's database; each call is about one tenant."""

    def __init__(self, url: str) -> None:
        self._database = RegistryDatabase(url)
        with self._database.writing() as transaction:
            self._database.alone(transaction)
            for table in _TABLES:
                transaction.run(table, {})

    def close(self) -> None:
        """Give back every connection."""
        self._database.close()

    def declare(self, tenant: str, name: str, document: Mapping[str, Any]) -> Kept:
        """Keep a declaration; the same one again is the first one, another under its name is refused."""
        with self._database.writing() as transaction:
            self._database.alone(transaction)
            row = transaction.first(_ONE, {"tenant": tenant, "name": name})
            if row is not None:
                before = _kept(row)
                if before.document != json.loads(json.dumps(document)):
                    raise Conflict(
                        f"{name!r} is declared otherwise already, and a declaration never changes; remove it "
                        "first, or choose another name."
                    )
                return before
            made = Kept(secrets.token_hex(12), tenant, name, document, datetime.now(UTC))
            values = {"id": made.id, "tenant": tenant, "name": name, "created": made.created.isoformat()}
            transaction.run(_ADD, values | {"document": json.dumps(document, sort_keys=True)})
        return made

    def declared(self, tenant: str, name: str) -> Kept | None:
        """The declaration in force under ``name``, if there is one."""
        with self._database.reading() as transaction:
            row = transaction.first(_ONE, {"tenant": tenant, "name": name})
        return None if row is None else _kept(row)

    def all_declared(self, tenant: str) -> list[Kept]:
        """Every declaration in force, by name."""
        with self._database.reading() as transaction:
            return [_kept(row) for row in transaction.all(_ALL, {"tenant": tenant})]

    def remove(self, tenant: str, name: str) -> Kept:
        """Let a declaration be in force no longer; what was paid for it stays paid."""
        with self._database.writing() as transaction:
            row = transaction.first(_ONE, {"tenant": tenant, "name": name})
            if row is None:
                raise Unknown(f"nothing is declared under the name {name[:63]!r}.")
            found = _kept(row)
            now = datetime.now(UTC).isoformat()
            transaction.run(_REMOVE, {"tenant": tenant, "id": found.id, "removed": f"{now} {found.id}"})
        return found

    def facts(self, tenant: str, reader: str | None) -> ReaderFacts:
        """What the tenant says of ``reader``: nothing, where it said nothing."""
        if reader is None:
            return ReaderFacts()
        with self._database.reading() as transaction:
            row = transaction.first(_READER, {"tenant": tenant, "reader": reader})
        return ReaderFacts() if row is None else _facts(row)

    def readers(self, tenant: str) -> dict[str, ReaderFacts]:
        """Every reader of whom the tenant says something."""
        with self._database.reading() as transaction:
            return {row.reader: _facts(row) for row in transaction.all(_READERS, {"tenant": tenant})}

    def say(self, tenant: str, reader: str, facts: ReaderFacts | None) -> None:
        """Let these be the facts of ``reader``; None where nothing is to be said any more."""
        with self._database.writing() as transaction:
            self._database.alone(transaction)
            transaction.run(_FORGET, {"tenant": tenant, "reader": reader})
            if facts is not None:
                document = json.dumps(facts.to_dict())
                transaction.run(_SAY, {"tenant": tenant, "reader": reader, "document": document})

    def key(self, key_id: str) -> ApiKey | None:
        """The key of this id, of whatever tenant: for those who prove that they hold it."""
        with self._database.reading() as transaction:
            found = key_with_digest(transaction, key_id)
        return None if found is None else found[0]


def _kept(row: Row) -> Kept:
    try:
        document = json.loads(row.document)
        return Kept(row.id, row.tenant, row.name, document, datetime.fromisoformat(row.created))
    except ValueError:
        raise RegistryUnavailable(
            f"the row of source {row.id!r} was not written by a registry: another hand was here."
        ) from None


def _facts(row: Row) -> ReaderFacts:
    try:
        return ReaderFacts.of(**json.loads(row.document))
    except (ValueError, TypeError):
        raise RegistryUnavailable("the row of a reader was not written by a registry.") from None
