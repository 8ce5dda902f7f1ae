"""Authentication: API keys, roles and scopes, names, network addresses, and a limit on wrong keys.

**Names.** A tenant's id is generated here and never chosen. Neither an id nor a dataset's name may contain a
colon, so datasets of equal names in two tenants never collide in the ledger.

**Tokens.** A token is ``sfu_<id>_<secret>`` and is shown once; only a hash is stored. The id finds the key
and is not secret. The secret is 256 random bits, which nobody can guess or search, so one SHA-256 without
salt or stretching is enough. Digests are compared in constant time.

**Access.** A role allows operations; scopes and datasets narrow it. ``tier`` is the least that a key can
allow: to read the objects of a bucket, in the one tier that the policy gives to its reader, and nothing else.
A key that may ``read`` a dataset may do that too. What a key does not allow is refused before anything is
looked up, and a caller cannot distinguish what does not exist from what another tenant has.

**Wrong keys.** Each site has a bucket of wrong keys that refills with time; only wrong keys empty it. Callers
who share a site with somebody who tries keys have to wait too. The buckets live in the memory of one process.
Their number is bounded: the site whose last wrong key is the oldest is forgotten first.

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
from typing import Annotated, Any

from pydantic import StringConstraints

from sfumato.errors import BadInput
from sfumato.ledger import Ledger
from sfumato.serve.refusals import Forbidden, NotFound, TooManyGuesses

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_ACCEPTED = "1 to 64 letters, digits, dots, dashes and underscores, the first a letter or digit"
_TENANT_ID = re.compile(r"t[0-9a-f]{16}")
_KEY_ID = re.compile(r"[0-9a-f]{16}")
_TOKEN = re.compile(r"sfu_([0-9a-f]{16})_([0-9a-f]{64})")
_RECORD_ID = re.compile(r"[0-9a-f]{24}")
#: The name of a dataset in a request model.
DatasetName = Annotated[str, StringConstraints(pattern=f"^{_NAME.pattern}$")]

#: All operations of a tenant.
OPERATIONS = ("plan", "protect", "read", "tier", "audit", "budget", "keys", "policy")
#: The operations of each role.
ROLES: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        "owner": frozenset(OPERATIONS),
        "publisher": frozenset({"plan", "protect", "read", "tier"}),
        "auditor": frozenset({"read", "tier", "audit", "plan"}),
    }
)
# They concern all datasets of a tenant, so a key for some datasets allows neither.
_OF_THE_WHOLE_TENANT = frozenset({"keys", "policy"})
_MOST_NAMES = 1000
_MOST_TEXT = 200


def checked_name(what: str, name: Any) -> str:
    """Return ``name`` if it can name ``what``, a dataset or a tenant, else raise.

    Such a name is safe in a path, a URL and a header.
    """
    # fullmatch, because the $ of a pattern would accept a final line break.
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise BadInput(f"the name of a {what} must be {_ACCEPTED}.")
    return name


def checked_text(what: str, text: Any) -> str:
    """Return ``text`` if it is 1 to 200 printable characters, else raise."""
    if not isinstance(text, str) or not 1 <= len(text) <= _MOST_TEXT or not text.isprintable():
        raise BadInput(f"{what} must be 1 to {_MOST_TEXT} printable characters.")
    return text


def new_tenant_id() -> str:
    """Return a new random id of a tenant."""
    return f"t{secrets.token_hex(8)}"


def is_tenant_id(value: Any) -> bool:
    """Return whether ``value`` has the form of a tenant's id."""
    return isinstance(value, str) and _TENANT_ID.fullmatch(value) is not None


def is_key_id(value: Any) -> bool:
    """Return whether ``value`` has the form of a key's id."""
    return isinstance(value, str) and _KEY_ID.fullmatch(value) is not None


def is_record_id(text: str) -> bool:
    """Return whether ``text`` has the form of a release's or job's id."""
    return _RECORD_ID.fullmatch(text) is not None


def ledger_name(tenant_id: str, dataset: str) -> str:
    """Return the ledger's name of a tenant's dataset; for an empty one, the prefix of all of its names."""
    if not is_tenant_id(tenant_id):
        raise BadInput("a tenant is named in the ledger by its id, t and 16 hexadecimal digits.")
    return f"{tenant_id}:{checked_name('dataset', dataset) if dataset != '' else ''}"


@dataclass(frozen=True)
class ApiKey:
    """A key of a tenant, without its secret: what it allows, and until when.

    The caller of a request is the key that the request presents. ``scopes`` and ``datasets`` are None if the
    role alone decides; ``reader`` is the name of its holder in policies.
    """

    tenant: str
    id: str
    role: str
    scopes: frozenset[str] | None = None
    datasets: frozenset[str] | None = None
    reader: str | None = None
    expires: datetime | None = None
    name: str = ""
    created: datetime | None = None
    revoked: datetime | None = None

    def access(self) -> dict[str, Any]:
        """Return what the key allows, as JSON values."""
        return {
            "role": self.role,
            "scopes": None if self.scopes is None else sorted(self.scopes),
            "datasets": None if self.datasets is None else sorted(self.datasets),
            "reader": self.reader,
        }

    def to_dict(self) -> dict[str, Any]:
        """Return JSON values."""
        times = {name: getattr(self, name) for name in ("created", "expires", "revoked")}
        return (
            {"id": self.id, "name": self.name}
            | self.access()
            | {name: None if moment is None else moment.isoformat() for name, moment in times.items()}
        )

    def is_usable(self, now: datetime) -> bool:
        """Return whether the key is neither revoked nor expired at ``now``."""
        return self.revoked is None and (self.expires is None or now < self.expires)

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

    def may_grant(self, other: ApiKey) -> bool:
        """Return whether the holder may create ``other``, which must allow nothing beyond this key.

        A key that may create keys has every dataset, so datasets never matter here. Policies trust by reader,
        so only a key that may change the policy creates keys of other readers.
        """
        operations = ROLES[other.role] if other.scopes is None else other.scopes
        return (
            self.may("keys")
            and all(self.may(operation) for operation in operations)
            and (other.reader == self.reader or self.may("policy"))
            and not self.is_outlasted_by(other.expires)
        )

    def is_outlasted_by(self, expires: datetime | None) -> bool:
        """Return whether a key that expires then, or never if None, would outlast this one."""
        if self.expires is None:
            return False
        # A time without a zone is refused where keys are created.
        return expires is None or (expires.tzinfo is not None and expires > self.expires)


def checked_role(role: Any) -> str:
    """Return ``role``, or raise if there is no such role."""
    if not isinstance(role, str) or role not in ROLES:
        raise BadInput(f"a role is one of {', '.join(ROLES)}, not {shortened(role)}.")
    return role


def checked_scopes(role: str, scopes: Iterable[str] | None) -> frozenset[str] | None:
    """Return ``scopes`` of a key of this role, one or more of its operations, or raise."""
    if scopes is None:
        return None
    chosen = _checked_names("scopes", scopes)
    for one in chosen:
        if one not in ROLES[role]:
            accepted = ", ".join(name for name in OPERATIONS if name in ROLES[role])
            raise BadInput(f"the scopes of a key of role {role} are among {accepted}, not {shortened(one)}.")
    return chosen


def checked_datasets(datasets: Iterable[str] | None) -> frozenset[str] | None:
    """Return the ``datasets`` of a key: one or more names, or None for all, including later ones."""
    if datasets is None:
        return None
    return frozenset(checked_name("dataset", one) for one in _checked_names("datasets", datasets))


def _checked_names(what: str, values: Any) -> frozenset[str]:
    # A text is also a sequence of texts, of one letter each.
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise BadInput(f"the {what} of a key are a list of names, not {shortened(values)}.")
    chosen = list(values)
    if not 1 <= len(chosen) <= _MOST_NAMES or not all(isinstance(one, str) for one in chosen):
        raise BadInput(f"the {what} of a key are 1 to {_MOST_NAMES:,} names; leave them out to allow all.")
    return frozenset(chosen)


def shortened(value: Any) -> str:
    """Return ``value`` as text of at most 60 characters, for a message."""
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "…"


def require(caller: ApiKey, operation: str, dataset: str | None) -> None:
    """Raise :class:`Forbidden` if the key does not allow ``operation`` on ``dataset``."""
    if not caller.may(operation, dataset):
        raise Forbidden(
            f"this key does not allow the operation {operation!r} here; ask the tenant's owner for one that "
            "does."
        )


def allowed_name(caller: ApiKey, operation: str, dataset: str) -> str:
    """Return the ledger's name of the caller's ``dataset``, for an ``operation`` that the key allows."""
    checked = checked_name("dataset", dataset)
    require(caller, operation, checked)
    return ledger_name(caller.tenant, checked)


def budget_name(ledger: Ledger, caller: ApiKey, operation: str, dataset: str) -> str:
    """Return the ledger's name of a dataset with a budget, for an ``operation`` that the key allows.

    Without a budget nothing is released and nothing revealed.
    """
    name = allowed_name(caller, operation, dataset)
    if not ledger.has(name):
        raise NotFound(f"there is no budget of dataset {dataset!r}; its owner has to open one first.")
    return name


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


def digest_of(token: Token) -> str:
    """Return the SHA-256 of a token's secret in hexadecimal, which is what is stored."""
    return hashlib.sha256(token.secret.encode()).hexdigest()


def matches(token: Token, digest: str) -> bool:
    """Return whether ``digest`` is that of the token's secret, in constant time."""
    return hmac.compare_digest(digest_of(token).encode(), digest.encode())


#: Looked up and compared if a text spells no token, so that this takes as long as for one that does.
UNKNOWN = Token("0" * 16, "0" * 64)


Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

# IPv4 addresses as a socket for both families writes them, ::ffff:192.0.2.1.
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
        part = _without_port(parts.pop().strip())
        if address_of(part) is None:
            break
        known = part
    return known


def _is_in(text: str | None, networks: Sequence[Network]) -> bool:
    address = address_of(text)
    return address is not None and any(address in network for network in networks)


def _without_port(text: str) -> str:
    """Return an address without the port that proxies add, as in 192.0.2.1:4711 or [2001:db8::1]:4711."""
    if text.startswith("["):
        return text[1:].partition("]")[0]
    return text.partition(":")[0] if text.count(":") == 1 else text


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
        self._guesses, self._rate, self._sites = float(guesses), guesses / seconds, sites
        self._clock = clock
        # How many wrong keys were left to each site, and when.
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()
        self._lock = threading.Lock()

    def wait(self, address: str | None) -> float:
        """Return for how many seconds no key from ``address`` is checked; 0 if one may be checked now."""
        with self._lock:
            return max(0.0, (1.0 - self._left(site_of(address))) / self._rate)

    def require(self, address: str | None) -> None:
        """Raise :class:`TooManyGuesses` if no key from ``address`` is checked now."""
        wait = self.wait(address)
        if wait > 0.0:
            raise TooManyGuesses(wait)

    def failed(self, address: str | None) -> None:
        """Count a wrong key from ``address``."""
        site = site_of(address)
        with self._lock:
            # Below zero, for those who try many keys at once; bounded, for those who share an address.
            left = max(self._left(site) - 1.0, -self._guesses)
            self._buckets[site] = (left, self._clock())
            self._buckets.move_to_end(site)
            if len(self._buckets) > self._sites:
                self._buckets.popitem(last=False)

    def _left(self, site: str) -> float:
        now = self._clock()
        left, at = self._buckets.get(site, (self._guesses, now))
        return min(self._guesses, left + (now - at) * self._rate)
