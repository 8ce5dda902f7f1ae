"""The S3 protocol: error codes in XML, and AWS Signature Version 4 as far as reads need it.

The canonical request is made of what came over the wire: the path as the client knows it, thus with the
prefix that the proxy is mounted at, decoded and encoded once, as S3 does.

The caller is the key whose secret signed the request, if the request is recent and complete. A secret is an
HMAC, under a secret of the service, of the key's id: nothing secret is stored for it. Every refusal of a
signature costs the same work, whether there is a key of that id or not.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from urllib.parse import quote, unquote_to_bytes
from xml.sax.saxutils import escape

from sfumato.errors import SfumatoError
from sfumato.io import Fault
from sfumato.serve.refusals import refusal_of

_STATUS: Mapping[str, int] = {
    "AccessDenied": 403,
    "BudgetRefused": 403,
    "EntityTooLarge": 400,
    "InternalError": 500,
    "InvalidAccessKeyId": 403,
    "InvalidArgument": 400,
    "InvalidRange": 416,
    "InvalidRequest": 400,
    "MethodNotAllowed": 405,
    "NoSuchBucket": 404,
    "NoSuchKey": 404,
    "NotImplemented": 501,
    "PreconditionFailed": 412,
    "RequestTimeTooSkewed": 403,
    "ServiceUnavailable": 503,
    "SignatureDoesNotMatch": 403,
    "SlowDown": 503,
}
# S3 codes of the proxy's own refusals as codes of the service, for metrics.
_WORDS: Mapping[str, str] = {
    "AccessDenied": "forbidden",
    "EntityTooLarge": "too-large",
    "NoSuchKey": "not-found",
    "RequestTimeTooSkewed": "unauthenticated",
    "ServiceUnavailable": "source-unavailable",
    "SignatureDoesNotMatch": "unauthenticated",
    "SlowDown": "busy",
}

ALGORITHM = "AWS4-HMAC-SHA256"
#: Of a body that is not signed, and of one that is empty.
UNSIGNED = "UNSIGNED-PAYLOAD"
EMPTY = hashlib.sha256(b"").hexdigest()
_SAFE = "-_.~"
_SKEW = timedelta(minutes=15)
_LONGEST = 7 * 24 * 3600
_MOST_HEADERS = 100
_CREDENTIAL = re.compile(r"([0-9a-f]{16})/((\d{8})/[a-z0-9-]{1,40}/s3/aws4_request)")
_TIME = re.compile(r"\d{8}T\d{6}Z")
_HEADER = re.compile(
    r"AWS4-HMAC-SHA256\s+Credential=([^,\s]+),\s*SignedHeaders=([^,\s]+),\s*Signature=([0-9a-f]{64})"
)
_PRESIGNED = ("Algorithm", "Credential", "Date", "Expires", "SignedHeaders", "Signature")


class Refused(SfumatoError):
    """Raised to refuse a request with an S3 error code; ``seconds`` says when to retry.

    ``word`` is the service's code of the refusal, for metrics.
    """

    def __init__(
        self, code: str, sentence: str, seconds: float | None = None, word: str | None = None
    ) -> None:
        super().__init__(sentence)
        self.code, self.seconds = code, seconds
        self.word = word or _WORDS.get(code, "bad-input")

    @property
    def status(self) -> int:
        """Return the HTTP status."""
        return _STATUS[self.code]


def refused_of(error: SfumatoError) -> Refused:
    """Return the proxy's refusal for ``error`` of the service."""
    if isinstance(error, Refused):
        return error
    if isinstance(error, Fault):
        # Where the source stands is the owner's business, and not the reader's.
        if error.missing:
            return Refused("NoSuchKey", "there is no such object.")
        return Refused("ServiceUnavailable", "the source of this bucket cannot be read now; try later.", 5.0)
    found = refusal_of(error)
    assert found is not None
    return Refused(found.s3, found.message, found.seconds, found.code)


def error_xml(refused: Refused, resource: str) -> tuple[bytes, str]:
    """Return the XML body of a refusal, and the id that it gives to the request."""
    request = secrets.token_hex(8)
    body = (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f"<Error><Code>{refused.code}</Code><Message>{escape(_printable(str(refused)))}</Message>"
        f"<Resource>{escape(_printable(resource))}</Resource><RequestId>{request}</RequestId></Error>"
    )
    return body.encode("utf-8", "replace"), request


def _printable(text: str) -> str:
    """Return ``text`` without characters that XML cannot contain."""
    return "".join(one if one.isprintable() else "\N{REPLACEMENT CHARACTER}" for one in text)


def query_pairs(raw: bytes) -> list[tuple[str, str]]:
    """Return the decoded names and values of a query; a plus sign stays a plus sign."""
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
    """Return the signed text of a request; ``query`` excludes the signature, ``signed`` is in lower case."""
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


def signature(secret: str, time: str, scope: str, canonical: str) -> str:
    """Return the signature of a canonical request at ``time``, in hexadecimal.

    ``scope`` is the day, the region and the service, as in 20130524/us-east-1/s3/aws4_request.
    """
    digest = hashlib.sha256(canonical.encode()).hexdigest()
    message = "\n".join([ALGORITHM, time, scope, digest])
    key = f"AWS4{secret}".encode()
    for part in scope.split("/"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    return hmac.new(key, message.encode(), hashlib.sha256).hexdigest()


def _decoded(text: str) -> str:
    # Bytes that are no UTF-8 stay apart, so that what was signed is what is compared.
    return unquote_to_bytes(text).decode("utf-8", "surrogateescape")


def _encoded(text: str) -> str:
    return quote(text.encode("utf-8", "surrogateescape"), safe=_SAFE)


@dataclass(frozen=True)
class Request:
    """A request as it came over the wire; ``headers`` by lower-case name, values joined by commas."""

    method: str
    raw_path: bytes
    raw_query: bytes
    headers: Mapping[str, str]

    @property
    def query(self) -> list[tuple[str, str]]:
        """Return the names and values of the query."""
        return query_pairs(self.raw_query)


@dataclass(frozen=True)
class Signed:
    """A parsed signature: who claims to have signed what and when; nothing is verified yet."""

    key_id: str
    scope: str
    time: str
    headers: tuple[str, ...]
    signature: str
    payload: str
    query: tuple[tuple[str, str], ...]
    seconds: int | None = None

    def matches(self, request: Request, secret: str) -> bool:
        """Return whether ``secret`` signed ``request``, in constant time."""
        canonical = canonical_request(
            request.method, request.raw_path, self.query, request.headers, self.headers, self.payload
        )
        made = signature(secret, self.time, self.scope, canonical)
        return hmac.compare_digest(made.encode(), self.signature.encode())

    def require_recent(self, now: datetime) -> None:
        """Raise if the signature is too old or from the future; a URL is valid until its own expiry."""
        at = datetime.strptime(self.time, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
        if self.seconds is not None:
            if now > at + timedelta(seconds=self.seconds):
                raise Refused("AccessDenied", "the request has expired; sign a new URL.")
            if now < at - _SKEW:
                raise Refused("RequestTimeTooSkewed", "the URL was signed in the future; check the clock.")
        elif abs(now - at) > _SKEW:
            raise Refused(
                "RequestTimeTooSkewed",
                "the request was signed more than 15 minutes ago or ahead; check the clock.",
            )


def signed_of(request: Request) -> Signed | None:
    """Return the signature of ``request``, from its header or its query; None if it has none."""
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


def _credential(text: str, time: str) -> tuple[str, str, str]:
    """Return the id of the key, the scope and the time of a signature."""
    found = _CREDENTIAL.fullmatch(text)
    if found is None or _TIME.fullmatch(time) is None or not time.startswith(found[3]):
        raise _malformed()
    try:
        datetime.strptime(time, "%Y%m%dT%H%M%SZ")
    except ValueError:
        raise _malformed() from None
    return found[1], found[2], time


def _malformed() -> Refused:
    return Refused(
        "InvalidRequest",
        "the signature is not one of version 4 for the service s3 by a key of this service.",
    )
