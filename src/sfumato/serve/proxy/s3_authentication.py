"""Who asks by a signature: the key whose secret signed the request, if the request is recent and whole.

A secret is an HMAC, under a secret of the service, of the key's id: nothing secret is stored for it. Every
refusal of a signature costs the same work, whether there is a key of that id or not.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from sfumato.serve.proxy.s3_errors import Refused
from sfumato.serve.proxy.s3_signatures import (
    ALGORITHM,
    UNSIGNED,
    Scope,
    canonical_request,
    query_pairs,
    signature,
)

__all__ = ["Request", "Signed", "signed_of"]

_SKEW = timedelta(minutes=15)
_LONGEST = 7 * 24 * 3600
_MOST_HEADERS = 100
_CREDENTIAL = re.compile(r"([0-9a-f]{16})/(\d{8})/([a-z0-9-]{1,40})/(s3)/aws4_request")
_TIME = re.compile(r"\d{8}T\d{6}Z")
_HEADER = re.compile(
    r"AWS4-HMAC-SHA256\s+Credential=([^,\s]+),\s*SignedHeaders=([^,\s]+),\s*Signature=([0-9a-f]{64})"
)
_PRESIGNED = ("Algorithm", "Credential", "Date", "Expires", "SignedHeaders", "Signature")


@dataclass(frozen=True)
class Request:
    """What came over the wire; ``headers`` by their names in small letters, values joined by commas."""

    method: str
    raw_path: bytes
    raw_query: bytes
    headers: Mapping[str, str]

    @property
    def query(self) -> list[tuple[str, str]]:
        """Names and values of the query."""
        return query_pairs(self.raw_query)


@dataclass(frozen=True)
class Signed:
    """A signature, parsed: who is said to have signed what and when; None of it is believed yet."""

    key_id: str
    scope: Scope
    time: str
    headers: tuple[str, ...]
    signature: str
    payload: str
    query: tuple[tuple[str, str], ...]
    seconds: int | None = None

    def matches(self, request: Request, secret: str) -> bool:
        """Whether ``secret`` signed ``request`` so; compared in constant time."""
        canonical = canonical_request(
            request.method, request.raw_path, self.query, request.headers, self.headers, self.payload
        )
        made = signature(secret, self.time, self.scope, canonical)
        return hmac.compare_digest(made.encode(), self.signature.encode())

    def require_recent(self, now: datetime) -> None:
        """Refuse what was signed long ago, or will be; a URL until its own time has passed."""
        at = datetime.strptime(self.time, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
        if self.seconds is not None:
            if now > at + timedelta(seconds=self.seconds):
                raise Refused("AccessDenied", "the request has expired; sign a new URL.")
            if now < at - _SKEW:
                raise Refused("RequestTimeTooSkewed", "the URL was signed in the future; look at the clock.")
        elif abs(now - at) > _SKEW:
            raise Refused(
                "RequestTimeTooSkewed",
                "the request was signed more than 15 minutes ago or ahead; look at the clock.",
            )


def signed_of(request: Request) -> Signed | None:
    """The signature of ``request``, in its header or its query; None where it has none."""
    header = request.headers.get("authorization")
    presigned = [(name, value) for name, value in request.query if name.startswith("X-Amz-")]
    if header is not None and any(name == "X-Amz-Signature" for name, _ in presigned):
        raise _malformed()
    if header is not None:
        return _of_header(request, header)
    if any(name == "X-Amz-Signature" for name, _ in presigned):
        return _of_query(request, presigned)
    if any(name == "AWSAccessKeyId" for name, _ in request.query):
        raise Refused(
            "InvalidRequest", "the URL is signed by version 2; sign it by version 4 (signature_version s3v4)."
        )
    return None


def _of_header(request: Request, header: str) -> Signed:
    found = _HEADER.fullmatch(header.strip())
    if found is None:
        raise _malformed()
    headers, payload = _signed_headers(found[2], request), request.headers.get("x-amz-content-sha256")
    if payload is None or "x-amz-content-sha256" not in headers or "x-amz-date" not in headers:
        raise _malformed()
    key_id, scope, time = _credential(found[1], request.headers.get("x-amz-date", ""))
    return Signed(key_id, scope, time, headers, found[3], payload, tuple(request.query))


def _of_query(request: Request, pairs: Sequence[tuple[str, str]]) -> Signed:
    given = {name.removeprefix("X-Amz-"): value for name, value in pairs}
    missing = any(name not in given for name in _PRESIGNED)
    twice = len(given) != len(pairs)
    expires = given.get("Expires", "")
    right = expires.isascii() and expires.isdigit() and len(expires) <= 6 and 1 <= int(expires) <= _LONGEST
    if missing or twice or not right or given["Algorithm"] != ALGORITHM or "Security-Token" in given:
        raise _malformed()
    if re.fullmatch("[0-9a-f]{64}", given["Signature"]) is None:
        raise _malformed()
    key_id, scope, time = _credential(given["Credential"], given["Date"])
    rest = tuple(pair for pair in request.query if pair[0] != "X-Amz-Signature")
    headers = _signed_headers(given["SignedHeaders"], request)
    return Signed(key_id, scope, time, headers, given["Signature"], UNSIGNED, rest, int(expires))


def _signed_headers(text: str, request: Request) -> tuple[str, ...]:
    names = tuple(text.split(";"))
    in_order = list(names) == sorted(set(names)) and len(names) <= _MOST_HEADERS
    if not in_order or "host" not in names or not all(name in request.headers for name in names):
        raise _malformed()
    return names


def _credential(text: str, time: str) -> tuple[str, Scope, str]:
    found = _CREDENTIAL.fullmatch(text)
    if found is None or _TIME.fullmatch(time) is None or not time.startswith(found[2]):
        raise _malformed()
    try:
        datetime.strptime(time, "%Y%m%dT%H%M%SZ")
    except ValueError:
        raise _malformed() from None
    return found[1], Scope(found[2], found[3], found[4]), time


def _malformed() -> Refused:
    return Refused(
        "InvalidRequest",
        "the signature is not one of version 4 for the service s3 by a key of this service.",
    )
