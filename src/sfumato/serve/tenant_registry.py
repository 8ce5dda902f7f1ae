"""The registry: a durable record of tenants, their API keys, quotas and trust policies.

Each call is one transaction. Old versions of a policy are kept for the releases made under them.

A tenant has quotas of requests per minute, bytes per day, concurrent jobs and stored bytes. Minutes and days
are whole, by the UTC clock. No tenant gets more than its quota in any of them, and a refused request is not
counted.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime
from typing import Any, Self

from sqlalchemy import bindparam, insert, select, update

from sfumato.errors import BadInput
from sfumato.ledger import Row, Transaction
from sfumato.serve.authentication import (
    UNKNOWN,
    ApiKey,
    Token,
    checked_datasets,
    checked_name,
    checked_role,
    checked_scopes,
    checked_text,
    digest_of,
    is_key_id,
    is_tenant_id,
    matches,
    new_tenant_id,
)
from sfumato.serve.refusals import Conflict, QuotaRefused, RegistryUnavailable, Unknown
from sfumato.serve.registry_database import RegistryDatabase, closed, keys, policies, rows_where, tenants
from sfumato.serve.registry_database import quotas as quota_rows
from sfumato.serve.trust_policy import Policy

__all__ = ["Registry", "Tenant"]

_MINUTE, _DAY = 60, 86_400
# The greatest count; every reader of JSON has it exactly.
_MOST = 2**53
_UNLIMITED_SECONDS = 1.0
_UNKNOWN_DIGEST = digest_of(Token.new())  # of a secret that nobody has


@dataclass(frozen=True)
class Quotas:
    """The limits of a tenant; None means unlimited, 0 shuts the tenant out.

    ``bytes_kept`` limits storage on the disk; if None, the limit of the service applies.
    """

    requests_per_minute: int | None = None
    bytes_per_day: int | None = None
    jobs_at_once: int | None = None
    bytes_kept: int | None = None

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if value is not None and (type(value) is not int or not 0 <= value <= _MOST):
                raise BadInput(f"the quota {name} must be a whole number from 0 to 2^53, or none.")


@dataclass(frozen=True)
class Usage:
    """What a tenant used in the newest minute and day, both numbered since the epoch."""

    minute: int = 0
    requests: int = 0
    day: int = 0
    bytes: int = 0

    def after(self, quotas: Quotas, now: float, *, requests: int, bytes: int) -> Usage:
        """Return the usage with ``requests`` and ``bytes`` added at ``now`` (seconds), or raise a refusal."""
        minute, day = _window(self.minute, now, _MINUTE), _window(self.day, now, _DAY)
        new = Usage(
            minute,
            requests + (self.requests if minute == self.minute else 0),
            day,
            bytes + (self.bytes if day == self.day else 0),
        )
        minute_ends, day_ends = (minute + 1) * _MINUTE - now, (day + 1) * _DAY - now
        _require(new.requests, requests, quotas.requests_per_minute, "requests a minute", minute_ends)
        _require(new.bytes, bytes, quotas.bytes_per_day, "bytes a day", day_ends)
        return new


def _window(last: int, now: float, length: int) -> int:
    """Return the number of the window to count in.

    The clocks of several machines differ a little. If ours is one window behind, the newest window continues;
    otherwise two clocks would reset each other's counts. A clock that is off by more is ignored.
    """
    current = int(now // length)
    return last if last == current + 1 else current


def _require(used: int, requested: int, most: int | None, what: str, seconds: float) -> None:
    """Raise if ``used`` exceeds ``most``; after ``seconds`` the next window begins."""
    if most is None or requested == 0 or used <= most:
        return
    if requested > most:
        raise QuotaRefused(f"one request needs {requested:,} of {most:,} {what}; split it.", None)
    raise QuotaRefused(f"the quota of {most:,} {what} is used up for {seconds:.0f} seconds more.", seconds)


_QUOTAS = rows_where(quota_rows, "tenant")
_LOCKED_QUOTAS = _QUOTAS.with_for_update()  # SQLite, which has no such clause, locks the whole file
_NEW_QUOTAS = insert(quota_rows)
_SET_LIMITS, _SET_USAGE = (
    update(quota_rows)
    .where(quota_rows.c.tenant == bindparam("of"))
    .values({field.name: bindparam(f"new_{field.name}") for field in fields(kind)})
    for kind in (Quotas, Usage)
)


def read_quotas(transaction: Transaction, tenant_id: str, *, lock: bool = False) -> tuple[Quotas, Usage]:
    """Return the limits and the usage of a tenant.

    With ``lock``, nobody else counts against them until the transaction ends.
    """
    row = transaction.first(_LOCKED_QUOTAS if lock else _QUOTAS, {"tenant": tenant_id})
    assert row is not None  # every tenant is created with its row
    limits, usage = (
        {field.name: getattr(row, field.name) for field in fields(kind)} for kind in (Quotas, Usage)
    )
    return Quotas(**limits), Usage(**usage)


@dataclass(frozen=True)
class Tenant:
    """An owner of datasets, budgets, keys and a policy; its ``id`` never changes.

    From the time ``closed`` on, none of its keys is accepted.
    """

    id: str
    name: str
    created: datetime
    closed: datetime | None = None


_TENANTS = select(tenants, closed.c.at.label("closed")).select_from(
    tenants.outerjoin(closed, closed.c.tenant == tenants.c.id)
)
_ALL_TENANTS = _TENANTS.order_by(tenants.c.created, tenants.c.id)
_TENANT_BY_ID = _TENANTS.where(tenants.c.id == bindparam("id"))
_TENANT_BY_NAME = _TENANTS.where(tenants.c.name == bindparam("name"))
_NEW_TENANT, _CLOSE_TENANT = insert(tenants), insert(closed)


def _tenant_of(row: Row) -> Tenant:
    return Tenant(row.id, row.name, datetime.fromisoformat(row.created), _optional_time(row.closed))


def _known(transaction: Transaction, tenant_id: str) -> Tenant:
    """Return the tenant with this id, or raise."""
    row = transaction.first(_TENANT_BY_ID, {"id": tenant_id}) if is_tenant_id(tenant_id) else None
    if row is None:
        raise Unknown("there is no tenant of this id.")
    return _tenant_of(row)


_KEY_BY_ID = rows_where(keys, "id")
_KEY_OF_TENANT = rows_where(keys, "tenant", "id")
_KEYS_OF_TENANT = rows_where(keys, "tenant").order_by(keys.c.created, keys.c.id)
_NEW_KEY = insert(keys)
_REVOKE_KEYS = (
    update(keys)
    .where(keys.c.tenant == bindparam("of"), keys.c.revoked.is_(None))
    .values(revoked=bindparam("at"))
)
_REVOKE_KEY = _REVOKE_KEYS.where(keys.c.id == bindparam("key"))


def _key_of(row: Row) -> ApiKey:
    try:
        return ApiKey(
            tenant=row.tenant,
            id=row.id,
            role=checked_role(row.role),
            scopes=_names_of(row.scopes),
            datasets=_names_of(row.datasets),
            reader=row.reader,
            expires=_optional_time(row.expires),
            name=row.name,
            created=_optional_time(row.created),
            revoked=_optional_time(row.revoked),
        )
    except (ValueError, TypeError):
        # The unreadable part might have narrowed the key, so the key is not accepted.
        raise RegistryUnavailable(
            f"the row of key {row.id!r} cannot be read: it was changed outside of Sfumato; restore a backup."
        ) from None


def _names_text(names: frozenset[str] | None) -> str | None:
    return None if names is None else json.dumps(sorted(names))


def _names_of(text: Any) -> frozenset[str] | None:
    if text is None:
        return None
    names = json.loads(text)
    if not isinstance(names, list):
        raise TypeError("the names are not a list")
    return frozenset(names)


def _optional_time(text: Any) -> datetime | None:
    if text is None:
        return None
    time = datetime.fromisoformat(text)
    if time.tzinfo is None:
        raise ValueError("the time has no zone")
    return time


def _checked_expiry(expires: Any, now: datetime) -> datetime | None:
    if expires is None:
        return None
    if not isinstance(expires, datetime) or expires.tzinfo is None:
        raise BadInput("a key expires at a time with a zone, as in 2030-01-31T12:00:00+00:00.")
    if expires <= now:
        raise BadInput("a key expires in the future, not in the past.")
    try:
        return expires.astimezone(UTC)
    except OverflowError:
        raise BadInput("a key expires before the year 10000.") from None


@dataclass(frozen=True)
class VersionedPolicy:
    """A tenant's policy and its version; version 0, without rules, is in force before the first."""

    version: int = 0
    policy: Policy = field(default_factory=Policy)
    created: datetime | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return JSON values."""
        return {"version": self.version, "policy": self.policy.to_dict()}


_NEWEST_POLICY = rows_where(policies, "tenant").order_by(policies.c.version.desc()).limit(1)
_NEW_POLICY = insert(policies)


def _policy_of(row: Row) -> VersionedPolicy:
    try:
        return VersionedPolicy(row.version, Policy.from_json(row.document), _optional_time(row.created))
    except (BadInput, ValueError, TypeError):
        # Half a policy could trust more than the whole one.
        raise RegistryUnavailable(
            f"version {row.version} of the policy of tenant {row.tenant!r} cannot be read: it was changed "
            "outside of Sfumato; restore a backup."
        ) from None


def _now() -> datetime:
    return datetime.now(UTC)


class Registry:
    """Tenants with their keys, quotas and policies, on SQLite (``sqlite:///file``) or ``postgresql://…``.

    Any number of threads and processes may share one. Every call about a tenant takes its id, and never
    reads, changes or reveals anything of another tenant. ``clock`` returns the time in UTC.
    """

    def __init__(self, url: str, *, clock: Callable[[], datetime] = _now) -> None:
        self.database, self.clock = RegistryDatabase(url), clock
        # Until when each tenant without quotas is known to have none, so that not every request writes.
        self._unlimited: dict[str, float] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close every connection."""
        self.database.close()

    # Tenants

    def create_tenant(self, name: str) -> Tenant:
        """Create and return a tenant; raise if the name is taken."""
        made = Tenant(new_tenant_id(), checked_name("tenant", name), self.clock())
        with self.database.writing() as transaction:
            self.database.alone(transaction)
            if transaction.first(_TENANT_BY_NAME, {"name": made.name}) is not None:
                raise Conflict(f"there is a tenant named {made.name!r} already; choose another name.")
            row = {"id": made.id, "name": made.name, "created": made.created.isoformat()}
            transaction.run(_NEW_TENANT, row)
            transaction.run(_NEW_QUOTAS, {"tenant": made.id} | vars(Quotas()) | vars(Usage()))
        return made

    def tenants(self) -> list[Tenant]:
        """Return every tenant, oldest first."""
        with self.database.reading() as transaction:
            return [_tenant_of(row) for row in transaction.all(_ALL_TENANTS)]

    def tenant(self, tenant_id: str) -> Tenant:
        """Return the tenant with this id."""
        with self.database.reading() as transaction:
            return _known(transaction, tenant_id)

    def tenant_called(self, name: str) -> Tenant:
        """Return the tenant with this name."""
        with self.database.reading() as transaction:
            row = transaction.first(_TENANT_BY_NAME, {"name": name})
        if row is None:
            raise Unknown(f"there is no tenant named {name[:64]!r}.")
        return _tenant_of(row)

    def close_tenant(self, tenant_id: str) -> Tenant:
        """Close a tenant for good: its keys are no longer accepted, and it gets no new ones.

        Its name stays taken and its data stays stored. Repeated calls change nothing.
        """
        now = self.clock()
        with self.database.writing() as transaction:
            self.database.alone(transaction)
            found = _known(transaction, tenant_id)
            if found.closed is None:
                transaction.run(_CLOSE_TENANT, {"tenant": tenant_id, "at": now.isoformat()})
                transaction.run(_REVOKE_KEYS, {"of": tenant_id, "at": now.isoformat()})
                found = replace(found, closed=now)
        return found

    # Keys

    def create_key(
        self,
        tenant_id: str,
        *,
        name: str,
        role: str,
        scopes: Iterable[str] | None = None,
        datasets: Iterable[str] | None = None,
        reader: str | None = None,
        expires: datetime | None = None,
    ) -> tuple[ApiKey, str]:
        """Create a key and return it with its token, which is shown only once: only a hash is stored.

        ``scopes`` and ``datasets`` narrow what the role allows. ``reader`` is the name by which policies know
        the holder. From ``expires`` on the key is not accepted.
        """
        now, token = self.clock(), Token.new()
        made = ApiKey(
            tenant=tenant_id,
            id=token.id,
            role=checked_role(role),
            scopes=checked_scopes(role, scopes),
            datasets=checked_datasets(datasets),
            reader=None if reader is None else checked_text("the name of a reader", reader),
            expires=_checked_expiry(expires, now),
            name=checked_text("the name of a key", name),
            created=now,
        )
        stored = vars(made) | {
            "digest": digest_of(token),
            "scopes": _names_text(made.scopes),
            "datasets": _names_text(made.datasets),
            "created": now.isoformat(),
            "expires": None if made.expires is None else made.expires.isoformat(),
        }
        with self.database.writing() as transaction:
            self.database.alone(transaction)  # a tenant that is closed meanwhile is left with no key
            if _known(transaction, tenant_id).closed is not None:
                raise Conflict("the tenant was closed, and is given no more keys.")
            transaction.run(_NEW_KEY, stored)
        return made, token.shown()

    def authenticate(self, token: str) -> ApiKey | None:
        """Return the key of ``token``; None for a wrong, unknown, expired or revoked token alike.

        Digests are compared in every case, in constant time. The time of the lookup reveals at most whether a
        key with this id exists, and ids are not secret.
        """
        given = Token.parsed(token)
        tried = given or UNKNOWN
        with self.database.reading() as transaction:
            row = transaction.first(_KEY_BY_ID, {"id": tried.id})
        right = matches(tried, _UNKNOWN_DIGEST if row is None else str(row.digest))
        if given is None or row is None:
            return None
        key = _key_of(row)
        return key if right and key.is_usable(self.clock()) else None

    def key(self, key_id: str) -> ApiKey | None:
        """Return the key with this id, of any tenant, for a request that proves that it holds the key."""
        with self.database.reading() as transaction:
            row = transaction.first(_KEY_BY_ID, {"id": key_id})
        return None if row is None else _key_of(row)

    def keys(self, tenant_id: str) -> list[ApiKey]:
        """Return the tenant's keys, oldest first, with revoked and expired ones, without their secrets."""
        with self.database.reading() as transaction:
            _known(transaction, tenant_id)
            return [_key_of(row) for row in transaction.all(_KEYS_OF_TENANT, {"tenant": tenant_id})]

    def revoke_key(self, tenant_id: str, key_id: str) -> ApiKey:
        """Revoke the tenant's key and return it. Repeated calls change nothing."""
        with self.database.writing() as transaction:
            _known(transaction, tenant_id)
            row = None
            if is_key_id(key_id):
                now = self.clock().isoformat()
                transaction.run(_REVOKE_KEY, {"of": tenant_id, "key": key_id, "at": now})
                row = transaction.first(_KEY_OF_TENANT, {"tenant": tenant_id, "id": key_id})
            if row is None:
                raise Unknown("the tenant has no key of this id.")
            return _key_of(row)

    # Quotas

    def quotas(self, tenant_id: str) -> Quotas:
        """Return the tenant's quotas; a new tenant has no limits."""
        with self.database.reading() as transaction:
            _known(transaction, tenant_id)
            return read_quotas(transaction, tenant_id)[0]

    def recent_quotas(self, tenant_id: str) -> Quotas:
        """Return the tenant's quotas, read again after a second if there are none.

        A tenant that just got its first quotas from another process may go on without them for that long.
        """
        if time.monotonic() < self._unlimited.get(tenant_id, 0.0):
            return Quotas()
        found = self.quotas(tenant_id)
        if found == Quotas():
            self._unlimited[tenant_id] = time.monotonic() + _UNLIMITED_SECONDS
        return found

    def set_quotas(self, tenant_id: str, quotas: Quotas) -> None:
        """Set the tenant's quotas; the usage of this minute and day is kept."""
        with self.database.writing() as transaction:
            _known(transaction, tenant_id)
            transaction.run(_SET_LIMITS, _new_values(quotas) | {"of": tenant_id})
        self._unlimited.pop(tenant_id, None)

    def charge(self, tenant_id: str, requests: int = 1, bytes: int = 0) -> None:
        """Count a tenant's request, or raise :class:`QuotaRefused` and count nothing.

        Counting is atomic between processes. Counts do not wait for the disk, so a power cut may lose the
        last of them. An unlimited tenant is not counted.
        """
        # Reading waits for nobody; counting waits for all writers, and for their disk.
        if self.recent_quotas(tenant_id) == Quotas():
            return
        with self.database.counting() as transaction:
            limits, usage = read_quotas(transaction, tenant_id, lock=True)
            new = usage.after(limits, self.clock().timestamp(), requests=requests, bytes=bytes)
            transaction.run(_SET_USAGE, _new_values(new) | {"of": tenant_id})

    # Policies

    def policy(self, tenant_id: str) -> VersionedPolicy:
        """Return the tenant's policy in force; before the first, nobody is trusted."""
        with self.database.reading() as transaction:
            _known(transaction, tenant_id)
            row = transaction.first(_NEWEST_POLICY, {"tenant": tenant_id})
        return VersionedPolicy() if row is None else _policy_of(row)

    def set_policy(self, tenant_id: str, policy: Policy, *, after: int | None = None) -> VersionedPolicy:
        """Put ``policy`` in force as the next version and return it.

        If ``after`` is given, it must still be the newest version, so that no change is overwritten unseen.
        """
        with self.database.writing() as transaction:
            self.database.alone(transaction)
            _known(transaction, tenant_id)
            # A policy that cannot be read still has a version, so that it can be replaced.
            row = transaction.first(_NEWEST_POLICY, {"tenant": tenant_id})
            newest = 0 if row is None else int(row.version)
            if after is not None and after != newest:
                raise Conflict(
                    f"the policy is at version {newest}, not {after}; read it again and then change it."
                )
            now = self.clock()
            new = {"version": newest + 1, "created": now.isoformat(), "document": policy.to_json()}
            transaction.run(_NEW_POLICY, {"tenant": tenant_id} | new)
        return VersionedPolicy(newest + 1, policy, now)


def _new_values(values: Quotas | Usage) -> dict[str, int | None]:
    return {f"new_{name}": value for name, value in vars(values).items()}
