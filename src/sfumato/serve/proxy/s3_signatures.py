"""Signature Version 4 of Amazon Web Services, as far as reads need it: what is signed, and by which key.

The canonical request is made of what came over the wire: the path as the client knows it, so with the prefix
that the proxy is mounted at, decoded and encoded once, as S3 does.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import quote, unquote_to_bytes

__all__ = ["EMPTY", "UNSIGNED", "Scope", "canonical_request", "query_pairs", "signature"]

ALGORITHM = "AWS4-HMAC-SHA256"
#: Of a body that is not signed, and of one that is empty.
UNSIGNED = "UNSIGNED-PAYLOAD"
EMPTY = hashlib.sha256(b"").hexdigest()
_SAFE = "-_.~"


@dataclass(frozen=True)
class Scope:
    """Where a signature counts: on one day, in a region, for a service."""

    day: str
    region: str
    service: str

    @property
    def text(self) -> str:
        """As it is signed."""
        return f"{self.day}/{self.region}/{self.service}/aws4_request"


def query_pairs(raw: bytes) -> list[tuple[str, str]]:
    """The names and values of a query, decoded; a plus sign is a plus sign."""
    pairs = []
    for part in raw.decode("latin-1").split("&"):
        if part:
            name, _, value = part.partition("=")
            pairs.append((_decoded(name), _decoded(value)))
    return pairs


def canonical_request(
    method: str,
    raw_path: bytes,
    query: Sequence[tuple[str, str]],
    headers: Mapping[str, str],
    signed: Sequence[str],
    payload: str,
) -> str:
    """What is signed of a request; ``query`` is without the signature itself, ``signed`` in small letters."""
    path = quote(unquote_to_bytes(raw_path), safe="/" + _SAFE)
    pairs = sorted((_encoded(name), _encoded(value)) for name, value in query)
    lines = [
        method,
        path or "/",
        "&".join(f"{name}={value}" for name, value in pairs),
        *(f"{name}:{' '.join(headers.get(name, '').split())}" for name in signed),
        "",
        ";".join(signed),
        payload,
    ]
    return "\n".join(lines)


def signature(secret: str, time: str, scope: Scope, canonical: str) -> str:
    """The signature, in hexadecimal digits, of a canonical request at ``time``."""
    digest = hashlib.sha256(canonical.encode()).hexdigest()
    message = "\n".join([ALGORITHM, time, scope.text, digest])
    key = f"AWS4{secret}".encode()
    for part in (scope.day, scope.region, scope.service, "aws4_request"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    return hmac.new(key, message.encode(), hashlib.sha256).hexdigest()


def _decoded(text: str) -> str:
    # Bytes that are no UTF-8 stay apart, so that what was signed is what is compared.
    return unquote_to_bytes(text).decode("utf-8", "surrogateescape")


def _encoded(text: str) -> str:
    return quote(text.encode("utf-8", "surrogateescape"), safe=_SAFE)
