"""The durable record of tenants: their keys, how much they may ask for, and whom they trust."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any, Self

from sfumato.errors import BadInput
from sfumato.ledger.transaction import Transaction
from sfumato.serve.auth.api_keys import UNKNOWN, ApiKey, Token, digest_of, matches
from sfumato.serve.auth.callers import Caller, checked_datasets, checked_reader, checked_role, checked_scopes
from sfumato.serve.auth.dataset_names import checked_tenant, is_tenant_id, new_tenant_id
from sfumato.serve.auth.trust_policy import Policy
from sfumato.serve.jobs.job_table import JobTable
from sfumato.serve.quotas import MOST, Quotas
from sfumato.serve.registry_database import RegistryDatabase
from sfumato.serve.registry_errors import Conflict, Unknown
from sfumato.serve.registry_keys import add_key, key_with_digest, keys_of_tenant, revoke, revoke_all
from sfumato.serve.registry_policies import (
    VersionedPolicy,
    add_policy,
    newest_policy,
    newest_version,
    policy_at,
)
from sfumato.serve.registry_quotas import add_quotas, begin, count, end, put_quotas, read_quotas
from sfumato.serve.registry_releases import ReleaseTable
from sfumato.serve.registry_tenants import (
    Tenant,
    add_tenant,
    all_tenants,
    put_closed,
    tenant_named,
    tenant_of_id,
)

__all__ = ["Registry"]

_MOST_NAME = 200
_UNLIMITED_SECONDS = 1.0
_UNKNOWN_DIGEST = digest_of(Token.new())  # of a secret that nobody has


def _now() -> datetime:
    return datetime.now(UTC)


class Registry:
    """Tenants with their keys, quotas and policies, on SQLite (``sqlite:///file``) or ``postgresql://…``.

    Any number of threads and processes may share one. Every call that is about a tenant takes its id, and
    nothing of another tenant is ever read, changed or told by it. ``clock`` tells the time, in UTC.
    """

    def __init__(self, url: str, *, clock: Callable[[], datetime] = _now) -> None:
        self._clock = clock
        self._database = RegistryDatabase(url)
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
        """Give back every connection."""
        self._database.close()

    def require_answer(self) -> None:
        """Raise :class:`RegistryUnavailable` unless the database answers and has its tables."""
        self._database.require_answer()

    # Tenants

    def create_tenant(self, name: str) -> Tenant:
        """A new tenant; a name that is taken is refused."""
        made = Tenant(new_tenant_id(), checked_tenant(name), self._clock())
        with self._database.writing() as transaction:
            self._database.alone(transaction)
            if tenant_named(transaction, made.name) is not None:
                raise Conflict(f"there is a tenant named {made.name!r} already; choose another name.")
            add_tenant(transaction, made)
            add_quotas(transaction, made.id)
        return made

    def tenants(self) -> list[Tenant]:
        """Every tenant, oldest first."""
        with self._database.reading() as transaction:
            return all_tenants(transaction)

    def tenant(self, tenant_id: str) -> Tenant:
        """The tenant of this id."""
        with self._database.reading() as transaction:
            return _known(transaction, tenant_id)

    def tenant_called(self, name: str) -> Tenant:
        """The tenant of this name."""
        with self._database.reading() as transaction:
            found = tenant_named(transaction, name)
        if found is None:
            raise Unknown(f"there is no tenant named {name[:64]!r}.")
        return found

    def close_tenant(self, tenant_id: str) -> Tenant:
        """Let every key of the tenant open nothing from now on, for good: it is given no other.

        Its name stays taken, and everything that is kept of it stays. Doing it twice changes nothing.
        """
        now = self._clock()
        with self._database.writing() as transaction:
            self._database.alone(transaction)
            if _known(transaction, tenant_id).closed is None:
                put_closed(transaction, tenant_id, now)
                revoke_all(transaction, tenant_id, now)
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
        """A new key and its token, which is shown this once: only a hash of its secret is kept.

        ``scopes`` and ``datasets`` narrow what the role allows; ``reader`` is whom a policy knows the holder
        as; from ``expires`` on the key opens nothing.
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
            add_key(transaction, made, digest_of(token))
        return made, token.shown()

    def authenticate(self, token: str) -> Caller | None:
        """Who holds ``token``; None, alike, for a wrong, unknown, expired or revoked one.

        Digests are compared in every case, in constant time. How long it takes to find a row tells at most
        whether there is a key of this id, which is no secret.
        """
        given = Token.parsed(token)
        tried = given or UNKNOWN
        with self._database.reading() as transaction:
            found = key_with_digest(transaction, tried.id)
        key, digest = found or (None, _UNKNOWN_DIGEST)
        right = matches(tried, digest)
        if given is None or key is None or not right or not key.usable(self._clock()):
            return None
        return key.caller()

    def keys(self, tenant_id: str) -> list[ApiKey]:
        """The tenant's keys, oldest first, revoked and expired ones too; secrets are not part of them."""
        with self._database.reading() as transaction:
            _known(transaction, tenant_id)
            return keys_of_tenant(transaction, tenant_id)

    def revoke_key(self, tenant_id: str, key_id: str) -> ApiKey:
        """Let the tenant's key open nothing from now on. Doing it twice changes nothing."""
        with self._database.writing() as transaction:
            _known(transaction, tenant_id)
            found = revoke(transaction, tenant_id, key_id, self._clock())
            if found is None:
                raise Unknown("the tenant has no key of this id.")
            return found

    # Quotas

    def quotas(self, tenant_id: str) -> Quotas:
        """What the tenant may ask for; nothing limits a new one."""
        with self._database.reading() as transaction:
            _known(transaction, tenant_id)
            return read_quotas(transaction, tenant_id)

    def set_quotas(self, tenant_id: str, quotas: Quotas) -> None:
        """Give the tenant these quotas; what was counted in this minute and day stays counted."""
        with self._database.writing() as transaction:
            _known(transaction, tenant_id)
            put_quotas(transaction, tenant_id, quotas)
        self._unlimited.pop(tenant_id, None)

    def charge(self, tenant_id: str, requests: int = 1, bytes: int = 0) -> None:
        """Count what the tenant asks for, or raise :class:`QuotaRefused` and count nothing.

        It is whole, whoever else counts at the same time. Counts do not wait for the disk, so a power cut
        may forget the last of them. Of a tenant that nothing limits nothing is counted, and one that was just
        given its first quotas by another process may go on without them for a second.
        """
        asked = (_checked_count("requests", requests), _checked_count("bytes", bytes))
        if time.monotonic() < self._unlimited.get(tenant_id, 0.0):
            return
        # Whoever reads waits for nobody; whoever counts waits for all who write, and for their disk.
        if self.quotas(tenant_id) == Quotas():
            self._unlimited[tenant_id] = time.monotonic() + _UNLIMITED_SECONDS
            return
        with self._database.counting() as transaction:
            count(transaction, tenant_id, self._clock().timestamp(), *asked)

    def begin_job(self, tenant_id: str, job: str, *, seconds: float = 60.0) -> None:
        """Count ``job`` as one of the tenant's under way, or raise :class:`QuotaRefused`.

        It counts until ``end_job``, or until ``seconds`` have passed: whoever works on it begins it again
        before that, so that the job of a process that died does not stand in the way for ever.
        """
        name, now = _checked_text("the id of a job", job), self._clock().timestamp()
        if not 0 < seconds < math.inf:
            raise BadInput(f"a job is under way for some seconds, not {seconds!r}.")
        with self._database.counting() as transaction:
            _known(transaction, tenant_id)
            begin(transaction, tenant_id, name, now, now + seconds)

    def end_job(self, tenant_id: str, job: str) -> None:
        """Count ``job`` no longer. Doing it twice changes nothing."""
        with self._database.counting() as transaction:
            _known(transaction, tenant_id)
            end(transaction, tenant_id, _checked_text("the id of a job", job))

    def job_counts(self) -> dict[str, float]:
        """How many jobs of all tenants are queued and running, and for how long the oldest is queued."""
        return self.jobs.counts()

    # Policies

    def policy(self, tenant_id: str, version: int | None = None) -> VersionedPolicy:
        """The tenant's policy in force, or a ``version`` of it; before the first it trusts nobody."""
        with self._database.reading() as transaction:
            _known(transaction, tenant_id)
            if version is None:
                return newest_policy(transaction, tenant_id)
            found = policy_at(transaction, tenant_id, version)
        if found is None:
            raise Unknown(f"the tenant's policy has no version {version}.")
        return found

    def set_policy(self, tenant_id: str, policy: Policy, *, after: int | None = None) -> VersionedPolicy:
        """Put ``policy`` in force as the next version.

        With ``after``, only where that is still the newest version: nobody undoes another's change unseen.
        """
        with self._database.writing() as transaction:
            self._database.alone(transaction)
            _known(transaction, tenant_id)
            newest = newest_version(transaction, tenant_id)
            if after is not None and after != newest:
                raise Conflict(
                    f"the policy is at version {newest}, not {after}; read it again and then change it."
                )
            made = VersionedPolicy(newest + 1, policy, self._clock())
            add_policy(transaction, tenant_id, made)
        return made


def _known(transaction: Transaction, tenant_id: str) -> Tenant:
    found = tenant_of_id(transaction, tenant_id) if is_tenant_id(tenant_id) else None
    if found is None:
        raise Unknown("there is no tenant of this id.")
    return found


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
