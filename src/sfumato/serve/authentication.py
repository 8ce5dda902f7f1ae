"""Authentication: callers, API keys, roles and scopes, network addresses, and a limit on wrong keys.

**Names.** A tenant's id is generated here and never chosen. Neither an id nor a dataset's name may contain a
colon, so datasets of equal names in two tenants never collide in the ledger.

**Tokens.** A token is ``sfu_<id>_<secret>`` and is shown once; only a hash is stored. The id finds the key
and is not secret. The secret is 256 random bits, which nobody can guess or search, so one SHA-256 without
salt or stretching is enough. Digests are compared in constant time.

**Access.** A role allows operations; scopes and datasets narrow it. ``tier`` is the least that a key can
allow: to read the objects of a bucket, in the one tier that the policy gives to its reader, and nothing else.
A key that may ``read`` a dataset may do that too. What a key does not allow is refused before anything is
looked up, and a caller cannot distinguish what does not exist from what another tenant has.

**Wrong keys.** Each site has a bucket of wrong guesses that refills with time; only wrong keys empty it.
Callers who share a site with somebody who guesses have to wait too. The buckets live in the memory of one
process. Their number is bounded: the site whose last wrong guess is the oldest is forgotten first.

**Addresses** have one form, however they were written. The address behind a proxy is believed only if a
trusted proxy reports it.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import re
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from types import MappingProxyType
from typing import Any

from sfumato.errors import BadInput, SfumatoError
from sfumato.ledger import Ledger

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_TENANT_ID = re.compile(r"t[0-9a-f]{16}")
_IN_LEDGER = re.compile(r"\bt[0-9a-f]{16}:")
_ACCEPTED = "1 to 64 letters, digits, dots, dashes and underscores, the first a letter or digit"

#: Everything that a service does for a tenant.
OPERATIONS = ("plan", "protect", "read", "tier", "audit", "budget", "keys", "policy")
#: What each role may do.
ROLES: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        "owner": frozenset(OPERATIONS),
        "publisher": frozenset({"plan", "protect", "read", "tier"}),
        "auditor": frozenset({"read", "tier", "audit", "plan"}),
    }
)
# They decide over all datasets of a tenant, so a key for some of them allows neither.
_OF_THE_WHOLE_TENANT = frozenset({"keys", "policy"})
_MOST = 1000
_MOST_TEXT = 200
_ID_DIGITS = 24
_ID = re.compile(r"[0-9a-f]{16}")
_TOKEN = re.compile(r"sfu_([0-9a-f]{16})_([0-9a-f]{64})")


def checked_dataset(name: str) -> str:
    """Return ``name`` if it can name a dataset, and is thus safe in a path, a URL and a header.

    Else raise.
    """
    return _checked("the name of a dataset", name)


def checked_tenant(name: str) -> str:
    """Return ``name`` if it can name a tenant, else raise."""
    return _checked("the name of a tenant", name)


def new_tenant_id() -> str:
    """Return a new random id of a tenant."""
    return f"t{secrets.token_hex(8)}"


def is_tenant_id(value: Any) -> bool:
    """Return whether ``value`` has the form of a tenant's id."""
    return isinstance(value, str) and _TENANT_ID.fullmatch(value) is not None


def ledger_name(tenant_id: str, dataset: str) -> str:
    """Return the ledger's name of a tenant's dataset; for an empty one, the prefix of all of its names."""
    if not is_tenant_id(tenant_id):
        raise BadInput("a tenant is named in the ledger by its id, t and 16 hexadecimal digits.")
    return f"{tenant_id}:{checked_dataset(dataset) if dataset != '' else ''}"


def own_words(sentence: str) -> str:
    """Return ``sentence`` with datasets named as their tenant names them, not as the ledger does."""
    return _IN_LEDGER.sub("", sentence)


def _checked(what: str, name: Any) -> str:
    # fullmatch, for a pattern's $ would let a line break through.
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise BadInput(f"{what} must be {_ACCEPTED}.")
    return name


@dataclass(frozen=True)
class Caller:
    """The sender of a request, identified by a key: ``tenant`` is an id, ``reader`` a name in policies."""

    tenant: str
    key_id: str
    role: str
    scopes: frozenset[str] | None = None
    datasets: frozenset[str] | None = None
    reader: str | None = None
    expires: datetime | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return JSON values: who asks, and what the key allows."""
        return {
            "tenant": self.tenant,
            "key": self.key_id,
            "role": self.role,
            "scopes": None if self.scopes is None else sorted(self.scopes),
            "datasets": None if self.datasets is None else sorted(self.datasets),
            "reader": self.reader,
        }

    def may(self, operation: str, dataset: str | None = None) -> bool:
        """Return whether the key allows ``operation`` on ``dataset``; without one, on any dataset.

        An operation that lists things must check again for each dataset it is about to show.
        """
        if operation not in OPERATIONS:
            raise BadInput(f"an operation is one of {', '.join(OPERATIONS)}, not {operation!r}.")
        if operation == "tier" and self.may("read", dataset):
            return True
        if operation not in ROLES[self.role] or (self.scopes is not None and operation not in self.scopes):
            return False
        if self.datasets is None:
            return True
        return operation not in _OF_THE_WHOLE_TENANT and (dataset is None or dataset in self.datasets)

    def may_grant(
        self,
        *,
        role: str,
        scopes: Iterable[str] | None = None,
        reader: str | None = None,
        expires: datetime | None = None,
    ) -> bool:
        """Return whether the caller may create such a key: one that allows nothing beyond the caller's own.

        A caller that may create keys has every dataset, so datasets never matter here. Policies trust by
        reader, so only a caller that may change the policy creates keys of other readers. A key of a caller
        whose own expires must expire no later.
        """
        granted = ROLES[checked_role(role)]
        asked = checked_scopes(role, scopes)
        return (
            self.may("keys")
            and all(self.may(operation) for operation in (granted if asked is None else asked))
            and (reader == self.reader or self.may("policy"))
            and not self.outlasted_by(expires)
        )

    def outlasted_by(self, expires: datetime | None) -> bool:
        """Return whether a key that expires then, or never, would outlast the caller's own."""
        if self.expires is None:
            return False
        # A time of no zone is none of a key: it is refused where keys are made.
        return expires is None or (expires.tzinfo is not None and expires > self.expires)


def checked_role(role: Any) -> str:
    """Return ``role``, or raise if there is no such role."""
    if not isinstance(role, str) or role not in ROLES:
        raise BadInput(f"a role is one of {', '.join(ROLES)}, not {_shown(role)}.")
    return role


def checked_scopes(role: str, scopes: Iterable[str] | None) -> frozenset[str] | None:
    """Return ``scopes`` of a key of this role, one or more of its operations, or raise."""
    if scopes is None:
        return None
    chosen = _several("scopes", scopes)
    for one in chosen:
        if one not in ROLES[role]:
            accepted = ", ".join(name for name in OPERATIONS if name in ROLES[role])
            raise BadInput(f"the scopes of a key of role {role} are among {accepted}, not {_shown(one)}.")
    return chosen


def checked_datasets(datasets: Iterable[str] | None) -> frozenset[str] | None:
    """Return the ``datasets`` of a key: one or more names, or None for all, including later ones."""
    if datasets is None:
        return None
    return frozenset(checked_dataset(one) for one in _several("datasets", datasets))


def checked_reader(reader: Any) -> str | None:
    """Return ``reader``, or raise if a policy could not name it."""
    if reader is None:
        return None
    if not isinstance(reader, str) or not 1 <= len(reader) <= _MOST_TEXT or not reader.isprintable():
        raise BadInput(f"a reader is named by 1 to {_MOST_TEXT} printable characters.")
    return reader


def _several(what: str, values: Any) -> frozenset[str]:
    # A text is also a sequence of texts, of one letter each.
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise BadInput(f"the {what} of a key are a list of names, not {_shown(values)}.")
    chosen = list(values)
    if not 1 <= len(chosen) <= _MOST or not all(isinstance(one, str) for one in chosen):
        raise BadInput(f"the {what} of a key are 1 to {_MOST:,} names; leave them out to allow all.")
    return frozenset(chosen)


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "…"


class Forbidden(SfumatoError):
    """Raised if the caller's key does not allow the operation."""


class NotFound(SfumatoError):
    """Raised if there is nothing of this name that the caller may know of."""


def require(caller: Caller, operation: str, dataset: str | None) -> None:
    """Raise :class:`Forbidden` if the key does not allow ``operation`` on ``dataset``."""
    if not caller.may(operation, dataset):
        raise Forbidden(
            f"this key does not allow the operation {operation!r} here; ask the tenant's owner for one that "
            "does."
        )


def named(caller: Caller, operation: str, dataset: str) -> str:
    """Return the ledger's name of the caller's ``dataset``, for an ``operation`` that the key allows."""
    checked = checked_dataset(dataset)
    require(caller, operation, checked)
    return ledger_name(caller.tenant, checked)


def known(ledger: Ledger, caller: Caller, operation: str, dataset: str) -> str:
    """Return the ledger's name of a dataset with a budget, for an ``operation`` that the key allows.

    Without a budget nothing is released and nothing revealed.
    """
    name = named(caller, operation, dataset)
    if not ledger.has(name):
        raise NotFound(f"there is no budget of dataset {dataset!r}; its owner has to open one first.")
    return name


def is_id(text: str) -> bool:
    """Return whether ``text`` has the form of a release's or job's id: 24 hexadecimal digits."""
    return len(text) == _ID_DIGITS and all(character in "0123456789abcdef" for character in text)


@dataclass(frozen=True)
class Token:
    """The id and the secret of a token; its ``repr`` shows the id only."""

    id: str
    secret: str = field(repr=False)

    @classmethod
    def new(cls) -> Token:
        """Return a new random token."""
        return cls(secrets.token_hex(8), secrets.token_hex(32))

    @classmethod
    def parsed(cls, text: Any) -> Token | None:
        """Return the token that ``text`` spells, or None; each token has exactly one spelling."""
        found = _TOKEN.fullmatch(text) if isinstance(text, str) else None
        return None if found is None else cls(*found.groups())

    def shown(self) -> str:
        """Return the text that the owner is given, once."""
        return f"sfu_{self.id}_{self.secret}"


def is_key_id(value: Any) -> bool:
    """Return whether ``value`` has the form of a key's id."""
    return isinstance(value, str) and _ID.fullmatch(value) is not None


def digest_of(token: Token) -> str:
    """Return the SHA-256 of a token's secret in hexadecimal, which is what is stored."""
    return hashlib.sha256(token.secret.encode()).hexdigest()


def matches(token: Token, digest: str) -> bool:
    """Return whether ``digest`` is that of the token's secret, in constant time."""
    return hmac.compare_digest(digest_of(token).encode(), digest.encode())


#: What is looked up and compared where a text spells no token: as much work as for one that does.
UNKNOWN = Token("0" * 16, "0" * 64)


@dataclass(frozen=True)
class ApiKey:
    """A key as its tenant sees it: what it allows and until when, without its secret.

    ``scopes`` and ``datasets`` are None if the role alone decides.
    """

    id: str
    tenant: str
    name: str
    role: str
    scopes: frozenset[str] | None
    datasets: frozenset[str] | None
    reader: str | None
    created: datetime
    expires: datetime | None = None
    revoked: datetime | None = None

    def usable(self, now: datetime) -> bool:
        """Return whether the key is neither revoked nor expired at ``now``."""
        return self.revoked is None and (self.expires is None or now < self.expires)

    def caller(self) -> Caller:
        """Return the caller that holds this key."""
        return Caller(self.tenant, self.id, self.role, self.scopes, self.datasets, self.reader, self.expires)

    def to_dict(self) -> dict[str, Any]:
        """Return JSON values."""
        return {
            "id": self.id,
            "name": self.name,
            "role": self.role,
            "scopes": None if self.scopes is None else sorted(self.scopes),
            "datasets": None if self.datasets is None else sorted(self.datasets),
            "reader": self.reader,
            "created": self.created.isoformat(),
            "expires": None if self.expires is None else self.expires.isoformat(),
            "revoked": None if self.revoked is None else self.revoked.isoformat(),
        }


Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

# An IPv4 address as a socket for both families writes it, ::ffff:192.0.2.1.
_MAPPED = IPv6Network("::ffff:0:0/96")
_SITE_BITS = 64


def address_of(text: str | None) -> Address | None:
    """Return the address that ``text`` spells, or None.

    An IPv4-mapped IPv6 address becomes the IPv4 address.
    """
    try:
        found = ipaddress.ip_address(text or "")
    except ValueError:
        return None
    if isinstance(found, IPv4Address):
        return found
    return found.ipv4_mapped or IPv6Address(int(found))  # the latter without the name of an interface


def network_of(text: str) -> Network:
    """Return the network that ``text`` spells, as in 10.0.0.0/8; raise ValueError for anything else."""
    found = ipaddress.ip_network(text)
    if isinstance(found, IPv6Network) and found.subnet_of(_MAPPED):
        inner = int(found.network_address) & 0xFFFF_FFFF
        return IPv4Network((inner, found.prefixlen - _MAPPED.prefixlen))
    return found


def site_of(text: str | None) -> str:
    """Return the site of an address: an IPv4 address, or the first 64 bits of an IPv6 address.

    A site is what one customer of a network provider has. Everything that is not an address is one site.
    """
    found = address_of(text)
    if isinstance(found, IPv6Address):
        return str(IPv6Network((int(found), _SITE_BITS), strict=False))
    return "" if found is None else str(found)


def address_behind(peer: str | None, forwarded: str | None, trusted: Sequence[Network]) -> str | None:
    """Return the address of the client: the ``peer``, unless it is a ``trusted`` proxy.

    Proxies append the address of their client to the header X-Forwarded-For, ``forwarded``. It is read from
    its end, and the first address that is not a trusted proxy is returned. Anybody could have written what
    stands before it. If a part is not an address, the proxy that wrote it is the last known address.
    """
    known = peer
    parts = [] if forwarded is None else forwarded.split(",")
    while _is_in(known, trusted) and parts:
        part = _bare(parts.pop().strip())
        if address_of(part) is None:
            break
        known = part
    return known


def _is_in(text: str | None, networks: Sequence[Network]) -> bool:
    address = address_of(text)
    return address is not None and any(address in network for network in networks)


def _bare(text: str) -> str:
    """Return an address without the port that proxies add, as in 192.0.2.1:4711 or [2001:db8::1]:4711."""
    if text.startswith("["):
        return text[1:].partition("]")[0]
    return text.partition(":")[0] if text.count(":") == 1 else text


@dataclass(slots=True)
class _Bucket:
    left: float
    at: float


class KeyThrottle:
    """Allows ``guesses`` wrong keys at once from one site, and one more every ``seconds`` / ``guesses``.

    A site is an IPv4 address or an IPv6 /64. ``clock`` returns monotonic seconds.
    """

    def __init__(
        self,
        *,
        guesses: int = 10,
        seconds: float = 60.0,
        sites: int = 10_000,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._guesses = guesses
        self._rate = guesses / seconds
        self._sites = sites
        self._clock = clock
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()
        self._lock = threading.Lock()

    def wait(self, address: str | None) -> float:
        """Return for how many seconds no key from ``address`` is checked; 0 if one may be checked now."""
        site = site_of(address)
        with self._lock:
            bucket = self._buckets.get(site)
            left = self._guesses if bucket is None else self._left(bucket)
            return max(0.0, (1.0 - left) / self._rate)

    def require(self, address: str | None) -> None:
        """Raise :class:`TooManyGuesses` if no key from ``address`` is checked now."""
        wait = self.wait(address)
        if wait > 0.0:
            raise TooManyGuesses(wait)

    def failed(self, address: str | None) -> None:
        """Count a wrong key from ``address``."""
        site = site_of(address)
        with self._lock:
            now = self._clock()
            bucket = self._buckets.pop(site, None) or _Bucket(self._guesses, now)
            # Below zero, for those who guess many at once; not for ever, for those who share an address.
            left = max(self._left(bucket) - 1.0, -float(self._guesses))
            self._buckets[site] = _Bucket(left, now)
            if len(self._buckets) > self._sites:
                self._buckets.popitem(last=False)

    @property
    def remembered(self) -> int:
        """Return the number of sites with a bucket."""
        return len(self._buckets)

    def _left(self, bucket: _Bucket) -> float:
        return min(float(self._guesses), bucket.left + (self._clock() - bucket.at) * self._rate)


class Unauthenticated(SfumatoError):
    """Raised if the request has no valid key."""


class TooManyGuesses(SfumatoError):
    """Raised after too many wrong keys from one site; after ``seconds`` another key is checked."""

    def __init__(self, seconds: float) -> None:
        super().__init__("too many wrong keys came from this address; check the key and retry later.")
        self.seconds = seconds
