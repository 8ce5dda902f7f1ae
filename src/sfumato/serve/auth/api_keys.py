"""API keys: a token that is shown once, of which only a hash is kept.

A token is ``sfu_<id>_<secret>``: the id finds the key and is no secret; the secret is 256 random bits, which
nobody can guess or search, so one SHA-256 of it is enough and needs neither salt nor stretching. Digests are
compared in a time that does not depend on where they differ.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sfumato.serve.auth.callers import Caller

__all__ = ["UNKNOWN", "ApiKey", "Token", "digest_of", "is_key_id", "matches"]

_ID = re.compile(r"[0-9a-f]{16}")
_TOKEN = re.compile(r"sfu_([0-9a-f]{16})_([0-9a-f]{64})")


@dataclass(frozen=True)
class Token:
    """The two parts of a token; its ``repr`` shows the id only."""

    id: str
    secret: str = field(repr=False)

    @classmethod
    def new(cls) -> Token:
        """A token that nobody has."""
        return cls(secrets.token_hex(8), secrets.token_hex(32))

    @classmethod
    def parsed(cls, text: Any) -> Token | None:
        """The token that ``text`` spells, if it spells one; each has exactly one spelling."""
        found = _TOKEN.fullmatch(text) if isinstance(text, str) else None
        return None if found is None else cls(*found.groups())

    def shown(self) -> str:
        """What its owner is given, once."""
        return f"sfu_{self.id}_{self.secret}"


def is_key_id(value: Any) -> bool:
    """Whether ``value`` could be the id of a key."""
    return isinstance(value, str) and _ID.fullmatch(value) is not None


def digest_of(token: Token) -> str:
    """What is kept of a token's secret: SHA-256, in hexadecimal digits."""
    return hashlib.sha256(token.secret.encode()).hexdigest()


def matches(token: Token, digest: str) -> bool:
    """Whether ``digest`` is that of the token's secret; both are hashes, compared in constant time."""
    return hmac.compare_digest(digest_of(token).encode(), digest.encode())


#: What is looked up and compared where a text spells no token: as much work as for one that does.
UNKNOWN = Token("0" * 16, "0" * 64)


@dataclass(frozen=True)
class ApiKey:
    """A key as its tenant sees it: what it may do and until when; its secret is not part of it.

    ``scopes`` and ``datasets`` are None where the role alone decides.
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
        """Whether it opens anything at ``now``: neither revoked nor expired."""
        return self.revoked is None and (self.expires is None or now < self.expires)

    def caller(self) -> Caller:
        """Whoever holds it."""
        return Caller(self.tenant, self.id, self.role, self.scopes, self.datasets, self.reader, self.expires)

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
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
