"""The registry: a durable record of tenants, their API keys, quotas, policies and releases.

Each call is one transaction. Old versions of a policy are kept for the releases made under them.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from typing import Any, Self

from sqlalchemy import and_, bindparam, insert, or_, select, update

from sfumato.errors import BadInput
from sfumato.ledger import Row, Transaction
from sfumato.serve.authentication import (
    UNKNOWN,
    ApiKey,
    Caller,
    Token,
    checked_datasets,
    checked_reader,
    checked_role,
    checked_scopes,
    checked_tenant,
    digest_of,
    is_key_id,
    is_tenant_id,
    matches,
    new_tenant_id,
)
from sfumato.serve.jobs.job_store import JobTable
from sfumato.serve.registry_database import (
    MOST,
    Conflict,
    Quotas,
    RegistryDatabase,
    RegistryUnavailable,
    Unknown,
    Usage,
    closed,
    keys,
    policies,
    read_quotas,
    releases,
    tenants,
)
from sfumato.serve.registry_database import quotas as quota_rows
from sfumato.serve.trust_policy import Policy

__all__ = ["Registry", "Tenant"]

_NEW_TENANT = insert(tenants)
_CLOSED = insert(closed)
_TENANTS = select(tenants, closed.c.at.label("closed")).select_from(
    tenants.outerjoin(closed, closed.c.tenant == tenants.c.id)
)
_ALL_TENANTS = _TENANTS.order_by(tenants.c.created, tenants.c.id)
_TENANT_BY_ID = _TENANTS.where(tenants.c.id == bindparam("wanted"))
_TENANT_BY_NAME = _TENANTS.where(tenants.c.name == bindparam("wanted"))

_NEW_KEY = insert(keys)
_KEY_BY_ID = select(keys).where(keys.c.id == bindparam("key"))
_KEYS_OF_TENANT = select(keys).where(keys.c.tenant == bindparam("of"))
_KEY_OF_TENANT = _KEYS_OF_TENANT.where(keys.c.id == bindparam("key"))
_ALL_KEYS = _KEYS_OF_TENANT.order_by(keys.c.created, keys.c.id)
_REVOKE_KEYS = (
    update(keys)
    .where(keys.c.tenant == bindparam("of"), keys.c.revoked.is_(None))
    .values(revoked=bindparam("at"))
)
_REVOKE_KEY = _REVOKE_KEYS.where(keys.c.id == bindparam("key"))

_NEW_QUOTAS = insert(quota_rows)
_SET_LIMITS, _SET_COUNTS = (
    update(quota_rows)
    .where(quota_rows.c.tenant == bindparam("of"))
    .values({field.name: bindparam(f"new_{field.name}") for field in fields(kind)})
    for kind in (Quotas, Usage)
)

_NEW_POLICY = insert(policies)
_POLICIES_OF_TENANT = select(policies).where(policies.c.tenant == bindparam("of"))
_NEWEST_POLICY = _POLICIES_OF_TENANT.order_by(policies.c.version.desc()).limit(1)
_POLICY_AT = _POLICIES_OF_TENANT.where(policies.c.version == bindparam("at"))

_RELEASES_PER_PAGE = 200
_NEW_RELEASE = insert(releases)
_RELEASES_OF_TENANT = select(releases).where(releases.c.tenant == bindparam("of"))
_RELEASE_BY_ID = _RELEASES_OF_TENANT.where(releases.c.id == bindparam("which"))
_RELEASE_IDS = select(releases.c.id).where(releases.c.tenant == bindparam("of"))
_NEWEST_RELEASES = _RELEASES_OF_TENANT.order_by(releases.c.created.desc(), releases.c.id.desc()).limit(
    _RELEASES_PER_PAGE
)
_OLDER_RELEASES = _NEWEST_RELEASES.where(
    or_(
        releases.c.created < bindparam("at"),
        and_(releases.c.created == bindparam("same"), releases.c.id < bindparam("last")),
    )
)
_MOST_NAME = 200
_UNLIMITED_SECONDS = 1.0
_UNKNOWN_DIGEST = digest_of(Token.new())  # of a secret that nobody has


@dataclass(frozen=True)
class Tenant:
    """An owner of datasets, budgets, keys and a policy; its ``id`` never changes.

    From the time ``closed`` on, none of its keys is accepted.
    """

    id: str
    name: str
    created: datetime
    closed: datetime | None = None


def _tenant_of(row: Row) -> Tenant:
    closed_at = None if row.closed is None else datetime.fromisoformat(row.closed)
    return Tenant(row.id, row.name, datetime.fromisoformat(row.created), closed_at)


def _key_of(row: Row) -> ApiKey:
    try:
        return ApiKey(
            id=row.id,
            tenant=row.tenant,
            name=row.name,
            role=checked_role(row.role),
            scopes=_list_of(row.scopes),
            datasets=_list_of(row.datasets),
            reader=row.reader,
            created=_time_of(row.created),
            expires=None if row.expires is None else _time_of(row.expires),
            revoked=None if row.revoked is None else _time_of(row.revoked),
        )
    except (ValueError, TypeError):
        # What cannot be read might have narrowed the key, so the key opens nothing.
        raise RegistryUnavailable(
            f"the row of key {row.id!r} cannot be read: it was changed outside of Sfumato; restore a backup."
        ) from None


def _list_text(names: frozenset[str] | None) -> str | None:
    return None if names is None else json.dumps(sorted(names))


def _list_of(text: Any) -> frozenset[str] | None:
    if text is None:
        return None
    names = json.loads(text)
    if not isinstance(names, list):
        raise TypeError("the names are not a list")
    return frozenset(names)


def _time_of(text: Any) -> datetime:
    time = datetime.fromisoformat(text)
    if time.tzinfo is None:
        raise ValueError("the time has no zone")
    return time


@dataclass(frozen=True)
class VersionedPolicy:
    """A tenant's policy and its version; version 0, without rules, is in force before the first."""

    version: int = 0
    policy: Policy = field(default_factory=Policy)
    created: datetime | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return JSON values."""
        return {"version": self.version, "policy": self.policy.to_dict()}


def _policy_of(row: Row) -> VersionedPolicy:
    try:
        return VersionedPolicy(
            row.version, Policy.from_json(row.document), datetime.fromisoformat(row.created)
        )
    except (BadInput, ValueError, TypeError):
        # Half a policy could trust more than the whole one.
        raise RegistryUnavailable(
            f"version {row.version} of the policy of tenant {row.tenant!r} cannot be read: it was changed "
            "outside of Sfumato; restore a backup."
        ) from None


class ReleaseTable:
    """An index of releases by time of creation. A power cut may lose its newest rows.

    A release itself is stored in its own folder; missing rows are added from there when a service starts.
    """

    def __init__(self, database: RegistryDatabase) -> None:
        self._database = database

    def add(self, tenant: str, id_: str, dataset: str, created: str) -> None:
        """Record that the folder ``id_`` will hold a release; a repeated call keeps the first time."""
        with self._database.counting() as transaction:
            if transaction.first(_RELEASE_BY_ID, {"of": tenant, "which": id_}) is None:
                row = {"tenant": tenant, "id": id_, "dataset": dataset, "created": created}
                transaction.run(_NEW_RELEASE, row)

    def ids(self, tenant: str) -> set[str]:
        """Return the ids of all recorded releases of a tenant."""
        with self._database.reading() as transaction:
            return {row.id for row in transaction.all(_RELEASE_IDS, {"of": tenant})}

    def newest(self, tenant: str, after: str | None = None) -> Iterator[Row]:
        """Return a page of the tenant's rows, newest first, starting ``after`` the row with this id."""
        while True:
            with self._database.reading() as transaction:
                if after is None:
                    page = transaction.all(_NEWEST_RELEASES, {"of": tenant})
                else:
                    last = transaction.first(_RELEASE_BY_ID, {"of": tenant, "which": after})
                    if last is None:
                        return
                    place = {"at": last.created, "same": last.created, "last": last.id}
                    page = transaction.all(_OLDER_RELEASES, {"of": tenant} | place)
            yield from page
            if len(page) < _RELEASES_PER_PAGE:
                return
            after = page[-1].id


def _now() -> datetime:
    return datetime.now(UTC)


class Registry:
    """Tenants with their keys, quotas and policies, on SQLite (``sqlite:///file``) or ``postgresql://…``.

    Any number of threads and processes may share one. Every call about a tenant takes its id, and never
    reads, changes or reveals anything of another tenant. ``clock`` returns the time in UTC.
    """

    def __init__(self, url: str, *, clock: Callable[[], datetime] = _now) -> None:
        self._clock = clock
        self.database = self._database = RegistryDatabase(url)
        # Until when each tenant without quotas is known to have none, so that not every request writes.
        self._unlimited: dict[str, float] = {}
        #: Jobs that were accepted, and the releases of each tenant by their time.
        self.jobs = JobTable(self._database, clock)
        self.releases = ReleaseTable(self._database)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close every connection."""
        self._database.close()

    def require_answer(self) -> None:
        """Raise :class:`RegistryUnavailable` unless the database answers and has its tables."""
        self._database.require_answer()

    # Tenants

    def create_tenant(self, name: str) -> Tenant:
        """Create and return a tenant; raise if the name is taken."""
        made = Tenant(new_tenant_id(), checked_tenant(name), self._clock())
        with self._database.writing() as transaction:
            self._database.alone(transaction)
            if transaction.first(_TENANT_BY_NAME, {"wanted": made.name}) is not None:
                raise Conflict(f"there is a tenant named {made.name!r} already; choose another name.")
            row = {"id": made.id, "name": made.name, "created": made.created.isoformat()}
            transaction.run(_NEW_TENANT, row)
            transaction.run(_NEW_QUOTAS, {"tenant": made.id} | vars(Quotas()) | vars(Usage()))
        return made

    def tenants(self) -> list[Tenant]:
        """Return every tenant, oldest first."""
        with self._database.reading() as transaction:
            return [_tenant_of(row) for row in transaction.all(_ALL_TENANTS)]

    def tenant(self, tenant_id: str) -> Tenant:
        """Return the tenant with this id."""
        with self._database.reading() as transaction:
            return _known(transaction, tenant_id)

    def tenant_called(self, name: str) -> Tenant:
        """Return the tenant with this name."""
        with self._database.reading() as transaction:
            row = transaction.first(_TENANT_BY_NAME, {"wanted": name})
        if row is None:
            raise Unknown(f"there is no tenant named {name[:64]!r}.")
        return _tenant_of(row)

    def close_tenant(self, tenant_id: str) -> Tenant:
        """Close a tenant for good: its keys are no longer accepted, and it gets no new ones.

        Its name stays taken and its data stays stored. Repeated calls change nothing.
        """
        now = self._clock()
        with self._database.writing() as transaction:
            self._database.alone(transaction)
            if _known(transaction, tenant_id).closed is None:
                transaction.run(_CLOSED, {"tenant": tenant_id, "at": now.isoformat()})
                transaction.run(_REVOKE_KEYS, {"of": tenant_id, "at": now.isoformat()})
            return _known(transaction, tenant_id)

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
        """Create a key and return it with its token, which is shown only once.

        Only a hash of its secret is kept.

        ``scopes`` and ``datasets`` narrow what the role allows. ``reader`` is the name by which policies know
        the holder. From ``expires`` on the key is not accepted.
        """
        now, token = self._clock(), Token.new()
        made = ApiKey(
            id=token.id,
            tenant=tenant_id,
            name=_checked_text("the name of a key", name),
            role=checked_role(role),
            scopes=checked_scopes(role, scopes),
            datasets=checked_datasets(datasets),
            reader=checked_reader(reader),
            created=now,
            expires=_checked_expiry(expires, now),
        )
        with self._database.writing() as transaction:
            self._database.alone(transaction)  # a tenant that is closed meanwhile is left with no key
            if _known(transaction, tenant_id).closed is not None:
                raise Conflict("the tenant was closed, and is given no more keys.")
            transaction.run(
                _NEW_KEY,
                vars(made)
                | {
                    "digest": digest_of(token),
                    "scopes": _list_text(made.scopes),
                    "datasets": _list_text(made.datasets),
                    "created": made.created.isoformat(),
                    "expires": None if made.expires is None else made.expires.isoformat(),
                },
            )
        return made, token.shown()

    def authenticate(self, token: str) -> Caller | None:
        """Return the holder of ``token``; None for a wrong, unknown, expired or revoked token alike.

        Digests are compared in every case, in constant time. The time of the lookup reveals at most whether a
        key with this id exists, and ids are not secret.
        """
        given = Token.parsed(token)
        tried = given or UNKNOWN
        with self._database.reading() as transaction:
            row = transaction.first(_KEY_BY_ID, {"key": tried.id})
        right = matches(tried, _UNKNOWN_DIGEST if row is None else str(row.digest))
        if given is None or row is None:
            return None
        key = _key_of(row)
        return key.caller() if right and key.usable(self._clock()) else None

    def key(self, key_id: str) -> ApiKey | None:
        """Return the key with this id, of any tenant, for a request that proves that it holds the key."""
        with self._database.reading() as transaction:
            row = transaction.first(_KEY_BY_ID, {"key": key_id})
        return None if row is None else _key_of(row)

    def keys(self, tenant_id: str) -> list[ApiKey]:
        """Return the tenant's keys, oldest first, with revoked and expired ones, without their secrets."""
        with self._database.reading() as transaction:
            _known(transaction, tenant_id)
            return [_key_of(row) for row in transaction.all(_ALL_KEYS, {"of": tenant_id})]

    def revoke_key(self, tenant_id: str, key_id: str) -> ApiKey:
        """Revoke the tenant's key and return it. Repeated calls change nothing."""
        which = {"of": tenant_id, "key": key_id}
        with self._database.writing() as transaction:
            _known(transaction, tenant_id)
            row = None
            if is_key_id(key_id):
                transaction.run(_REVOKE_KEY, which | {"at": self._clock().isoformat()})
                row = transaction.first(_KEY_OF_TENANT, which)
            if row is None:
                raise Unknown("the tenant has no key of this id.")
            return _key_of(row)

    # Quotas

    def quotas(self, tenant_id: str) -> Quotas:
        """Return the tenant's quotas; a new tenant has no limits."""
        with self._database.reading() as transaction:
            _known(transaction, tenant_id)
            return read_quotas(transaction, tenant_id)[0]

    def set_quotas(self, tenant_id: str, quotas: Quotas) -> None:
        """Set the tenant's quotas; what was counted in this minute and day is kept."""
        with self._database.writing() as transaction:
            _known(transaction, tenant_id)
            transaction.run(_SET_LIMITS, _changes(quotas) | {"of": tenant_id})
        self._unlimited.pop(tenant_id, None)

    def charge(self, tenant_id: str, requests: int = 1, bytes: int = 0) -> None:
        """Count a tenant's request, or raise :class:`QuotaRefused` and count nothing.

        Counting is atomic between processes. Counts do not wait for the disk, so a power cut may lose the
        last of them. An unlimited tenant is not counted, and a tenant that just got its first quotas from
        another process may go on without them for one second.
        """
        asked = (_checked_count("requests", requests), _checked_count("bytes", bytes))
        if time.monotonic() < self._unlimited.get(tenant_id, 0.0):
            return
        # Whoever reads waits for nobody; whoever counts waits for all who write, and for their disk.
        if self.quotas(tenant_id) == Quotas():
            self._unlimited[tenant_id] = time.monotonic() + _UNLIMITED_SECONDS
            return
        with self._database.counting() as transaction:
            limits, usage = read_quotas(transaction, tenant_id, lock=True)
            new = usage.after(limits, self._clock().timestamp(), requests=asked[0], bytes=asked[1])
            transaction.run(_SET_COUNTS, _changes(new) | {"of": tenant_id})

    # Policies

    def policy(self, tenant_id: str, version: int | None = None) -> VersionedPolicy:
        """Return the tenant's policy in force, or a ``version`` of it.

        Before the first, nobody is trusted.
        """
        with self._database.reading() as transaction:
            _known(transaction, tenant_id)
            if version is None:
                row = transaction.first(_NEWEST_POLICY, {"of": tenant_id})
                return VersionedPolicy() if row is None else _policy_of(row)
            if version == 0:
                return VersionedPolicy()
            row = (
                transaction.first(_POLICY_AT, {"of": tenant_id, "at": version})
                if 0 < version < 2**31
                else None
            )
        if row is None:
            raise Unknown(f"the tenant's policy has no version {version}.")
        return _policy_of(row)

    def set_policy(self, tenant_id: str, policy: Policy, *, after: int | None = None) -> VersionedPolicy:
        """Put ``policy`` in force as the next version and return it.

        If ``after`` is given, it must still be the newest version, so that no change is overwritten unseen.
        """
        with self._database.writing() as transaction:
            self._database.alone(transaction)
            _known(transaction, tenant_id)
            # Even one that cannot be read has a version, so that it can be replaced.
            row = transaction.first(_NEWEST_POLICY, {"of": tenant_id})
            newest = 0 if row is None else int(row.version)
            if after is not None and after != newest:
                raise Conflict(
                    f"the policy is at version {newest}, not {after}; read it again and then change it."
                )
            now = self._clock()
            new = {"version": newest + 1, "created": now.isoformat(), "document": policy.to_json()}
            transaction.run(_NEW_POLICY, {"tenant": tenant_id} | new)
        return VersionedPolicy(newest + 1, policy, now)


def _known(transaction: Transaction, tenant_id: str) -> Tenant:
    row = transaction.first(_TENANT_BY_ID, {"wanted": tenant_id}) if is_tenant_id(tenant_id) else None
    if row is None:
        raise Unknown("there is no tenant of this id.")
    return _tenant_of(row)


def _changes(values: Quotas | Usage) -> dict[str, int | None]:
    return {f"new_{name}": value for name, value in vars(values).items()}


def _checked_text(what: str, text: Any) -> str:
    if not isinstance(text, str) or not 1 <= len(text) <= _MOST_NAME or not text.isprintable():
        raise BadInput(f"{what} must be 1 to {_MOST_NAME} printable characters.")
    return text


def _checked_count(what: str, count: Any) -> int:
    if isinstance(count, bool) or not isinstance(count, int) or not 0 <= count <= MOST:
        raise BadInput(f"{what} are counted in whole numbers from 0 to 2^53.")
    return count


def _checked_expiry(expires: Any, now: datetime) -> datetime | None:
    if expires is None:
        return None
    if not isinstance(expires, datetime) or expires.tzinfo is None:
        raise BadInput("a key expires at a time of a known zone, as in 2030-01-31T12:00:00+00:00.")
    if expires <= now:
        raise BadInput("a key expires in the future, not in the past.")
    try:
        return expires.astimezone(UTC)
    except OverflowError:
        raise BadInput("a key expires before the year 10000.") from None
