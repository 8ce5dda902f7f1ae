"""The S3 application: buckets, listings, and objects of the reader's tier, read only.

Path style only, below the prefix at which the application is mounted, which is part of what clients sign.
Everything but reads is refused with S3's own error codes. An object is answered whole or by range, or not at
all if the reader has it already. The mount answers its prefix with and without the final slash.

Only what can be released is listed. An object that nobody requested yet is not drawn, so its size is unknown
and given as 0; a listing draws nothing and spends nothing. S3's two versions of a listing are one here:
version 1 continues after a marker, which is a name, and version 2 after a token.
"""

from __future__ import annotations

import base64
import binascii
import math
import mimetypes
import os
import re
import secrets
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import format_datetime, parsedate_to_datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote_to_bytes
from xml.sax.saxutils import escape

import anyio
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response, StreamingResponse
from starlette.routing import Match, Mount
from starlette.types import Receive, Scope, Send

from sfumato.errors import SfumatoError
from sfumato.serve.authentication import ApiKey
from sfumato.serve.proxy.buckets import Bucket, Found
from sfumato.serve.proxy.protected_objects import Objects, ObjectTier
from sfumato.serve.proxy.s3_protocol import (
    EMPTY,
    UNSIGNED,
    Refused,
    Request,
    error_xml,
    refused_of,
    signed_of,
)
from sfumato.serve.refusals import REFUSAL
from sfumato.serve.service import Service

_NAMESPACE = "http://s3.amazonaws.com/doc/2006-03-01/"
_MOST = 1000
_BOTH = frozenset({"prefix", "delimiter", "max-keys", "encoding-type"})
# The parameters of a listing, by its list-type: version 1 has none.
_PARAMETERS: Mapping[str | None, frozenset[str]] = {
    None: _BOTH | {"marker"},
    "2": _BOTH | {"list-type", "continuation-token", "start-after", "fetch-owner"},
}


def _tags(**values: str | None) -> str:
    """Return XML elements of these names with escaped contents, without those that are None."""
    return "".join(f"<{name}>{value}</{name}>" for name, value in values.items() if value is not None)


def _document(root: str, content: str) -> bytes:
    text = f'<?xml version="1.0" encoding="UTF-8"?>\n<{root} xmlns="{_NAMESPACE}">{content}</{root}>'
    return text.encode("utf-8", "replace")


def bucket_list(buckets: Sequence[Bucket]) -> bytes:
    """Return the XML list of all buckets that the reader may read."""
    each = [_tags(Bucket=_tags(Name=one.name, CreationDate=stamp(one.created))) for one in buckets]
    owner = _tags(Owner=_tags(ID="sfumato", DisplayName="sfumato"))
    return _document("ListAllMyBucketsResult", owner + _tags(Buckets="".join(each)))


@dataclass(frozen=True)
class Page:
    """A validated request for a listing of objects; ``second`` for version 2.

    ``goes_on`` says whether ``after`` is where another page may have ended, and not a chosen start.
    """

    prefix: str
    delimiter: str
    most: int
    after: str
    goes_on: bool
    encoded: bool
    second: bool
    token: str | None
    start_after: str

    def xml(self, bucket: Bucket, found: Sequence[Found], tier: Callable[[Found], ObjectTier]) -> bytes:
        """Return the page: objects and, if a delimiter is given, their common prefixes up to it."""
        entries: list[str] = []
        last, more = "", False
        for one in found:
            if not one.shown.startswith(self.prefix) or one.shown.encode() <= self.after.encode():
                continue
            rest = one.shown[len(self.prefix) :]
            end = rest.find(self.delimiter) if self.delimiter else -1
            common = "" if end < 0 else self.prefix + rest[: end + len(self.delimiter)]
            # A page may have ended with what several keys have in common, some of which come after it.
            if common and common in (last, self.after if self.goes_on else None):
                continue
            if len(entries) == self.most:
                more = True
                break
            if common:
                entries.append(_tags(CommonPrefixes=_tags(Prefix=self._text(common))))
            else:
                entries.append(_tags(Contents=self._object(bucket, tier(one))))
            last = common or one.shown
        return self._whole(bucket, entries, last if more and self.most else None)

    def _object(self, bucket: Bucket, one: ObjectTier) -> str:
        return _tags(
            Key=self._text(one.found.shown),
            LastModified=stamp(one.found.modified or bucket.created),
            ETag=escape(one.etag),
            Size=str(one.size or 0),
            StorageClass="STANDARD",
        )

    def _whole(self, bucket: Bucket, entries: list[str], last: str | None) -> bytes:
        """Return the page with the name of its ``last`` entry, if there are more."""
        if self.second:
            place = _tags(
                KeyCount=str(len(entries)),
                StartAfter=self._text(self.start_after) if self.start_after else None,
                ContinuationToken=escape(self.token) if self.token else None,
                NextContinuationToken=None if last is None else _token(last),
            )
        else:
            place = _tags(
                Marker=self._text(self.after), NextMarker=None if last is None else self._text(last)
            )
        head = _tags(
            Name=bucket.name,
            Prefix=self._text(self.prefix),
            Delimiter=self._text(self.delimiter) if self.delimiter else None,
            EncodingType="url" if self.encoded else None,
            MaxKeys=str(self.most),
            IsTruncated="false" if last is None else "true",
        )
        return _document("ListBucketResult", head + place + "".join(entries))

    def _text(self, text: str) -> str:
        return quote(text, safe="/") if self.encoded else escape(text)


def page_of(query: Mapping[str, str]) -> Page | None:
    """Return the page that a query requests; None if it requests something other than a listing."""
    kind = query.get("list-type")
    if kind not in _PARAMETERS or not set(query) <= _PARAMETERS[kind]:
        return None
    most, coding = query.get("max-keys", str(_MOST)), query.get("encoding-type", "")
    if not (most.isascii() and most.isdigit() and len(most) <= 10):
        raise Refused("InvalidArgument", "max-keys must be a whole number.")
    if coding not in ("", "url"):
        raise Refused("InvalidArgument", "encoding-type is url, or left out.")
    token = query.get("continuation-token")
    names = ("prefix", "delimiter", "start-after", "marker")
    prefix, delimiter, start, marker = texts = [query.get(name, "") for name in names]
    if any(len(one) > 1024 or not one.isprintable() for one in texts):
        raise Refused(
            "InvalidArgument",
            "prefix, delimiter, marker and start-after are at most 1,024 printable characters.",
        )
    return Page(
        prefix=prefix,
        delimiter=delimiter,
        most=min(int(most), _MOST),
        after=(start or marker) if token is None else _untoken(token),
        goes_on=bool(token or marker),
        encoded=coding == "url",
        second=kind == "2",
        token=token,
        start_after=start,
    )


def stamp(time: datetime) -> str:
    """Return ``time`` as S3 writes it in XML."""
    return time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z")


def _token(last: str) -> str:
    return base64.urlsafe_b64encode(last.encode("utf-8", "surrogateescape")).decode()


def _untoken(token: str) -> str:
    try:
        return base64.b64decode(token.encode("ascii"), b"-_", validate=True).decode()
    except (binascii.Error, ValueError):
        raise Refused("InvalidArgument", "this continuation-token is not one of this service.") from None


_CHUNK = 256 << 10
_RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})")

_CERTIFICATE = ".cert.json"


def about(etag: str, modified: datetime, further: Mapping[str, str]) -> dict[str, str]:
    """Return the headers of an object whose bytes ``etag`` identifies, with ``further`` headers."""
    return {
        "ETag": etag,
        "Last-Modified": format_datetime(modified.astimezone(UTC).replace(microsecond=0), usegmt=True),
        "Accept-Ranges": "bytes",
        "Cache-Control": "private",
        "X-Content-Type-Options": "nosniff",
        **further,
    }


async def answered(
    file: Path, method: str, request_headers: Mapping[str, str], headers: Mapping[str, str]
) -> Response:
    """Answer a GET or HEAD of ``file``, with these ``headers``."""
    opened = await anyio.open_file(file, "rb")
    try:
        size = os.fstat(opened.wrapped.fileno()).st_size
        part = _part(request_headers, size, headers["ETag"])
        start, stop = (0, size) if part is None else part
        answer = {**headers, "Content-Length": str(stop - start)}
        if part is not None:
            answer["Content-Range"] = f"bytes {start}-{stop - 1}/{size}"
        status = 200 if part is None else 206
        if method == "HEAD":
            await opened.aclose()
            return Response(status_code=status, headers=answer)
        return StreamingResponse(_bytes(opened, start, stop), status, headers=answer)
    except BaseException:
        await opened.aclose()
        raise


async def _bytes(file: anyio.AsyncFile[bytes], start: int, stop: int) -> AsyncIterator[bytes]:
    async with file:
        await file.seek(start)
        left = stop - start
        while left and (chunk := await file.read(min(_CHUNK, left))):
            left -= len(chunk)
            yield chunk


def media_type(name: str) -> str:
    """Return the media type of a file by its name alone."""
    kind, packed = mimetypes.guess_type(name)
    return "application/octet-stream" if kind is None or packed is not None else kind


def is_had(headers: Mapping[str, str], etag: str, modified: datetime) -> bool:
    """Return whether the reader already has the bytes of ``etag``; raise if it requires others."""
    wanted, had = headers.get("if-match"), headers.get("if-none-match")
    whole = modified.astimezone(UTC).replace(microsecond=0)
    if wanted is not None:
        if not _header_names(wanted, etag):
            raise Refused("PreconditionFailed", "the object is not the one that If-Match names.")
    elif (since := _time(headers.get("if-unmodified-since"))) is not None and whole > since:
        raise Refused("PreconditionFailed", "the object has changed since.")
    if had is not None:
        return _header_names(had, etag)
    since = _time(headers.get("if-modified-since"))
    return since is not None and whole <= since


def _header_names(header: str, etag: str) -> bool:
    given = [one.strip().removeprefix("W/") for one in header.split(",")]
    return "*" in given or etag in given or etag.strip('"') in given


def _time(header: str | None) -> datetime | None:
    """Return the time in a header; None if it cannot be read."""
    if header is None:
        return None
    try:
        found = parsedate_to_datetime(header)
    except (ValueError, OverflowError):
        return None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def _part(headers: Mapping[str, str], size: int, etag: str) -> tuple[int, int] | None:
    """Return the requested byte range; None for all bytes, also for several ranges at once, as S3 does."""
    found = _RANGE.fullmatch(headers.get("range", "").strip())
    if found is None or found[0] == "bytes=-":
        return None
    if "if-range" in headers and headers["if-range"].strip() != etag:
        return None
    first, last = found[1], found[2]
    if not first:
        start, stop = max(0, size - int(last)), size
    else:
        start, stop = int(first), min(size, int(last) + 1 if last else size)
    if first and last and int(last) < int(first):
        return None
    if start >= size or start >= stop:
        raise Refused("InvalidRange", "the object has fewer bytes than the range asks for.")
    return start, stop


class Proxy:
    """The application for readers of the buckets of ``service``."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._buckets, self._objects = service.buckets, Objects(service)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            raise RuntimeError(f"the proxy answers HTTP, not {scope['type']}")
        request, address = _request(scope), (scope.get("client") or (None,))[0]
        path = _below(scope, request.raw_path)
        try:
            response = await self._answer(request, path, address)
        except SfumatoError as error:
            refused = refused_of(error)
            scope[REFUSAL] = refused.word
            response = _refusal(refused, request.method, path)
        response.headers.setdefault("x-amz-request-id", secrets.token_hex(8))
        await response(scope, receive, send)

    async def _answer(self, request: Request, path: bytes, address: str | None) -> Response:
        caller = await run_in_threadpool(self._caller, request, address)
        if request.method not in ("GET", "HEAD"):
            raise Refused("MethodNotAllowed", "this bucket is read only: GET and HEAD are answered.")
        if request.headers.get("x-amz-content-sha256", UNSIGNED) not in (UNSIGNED, EMPTY):
            raise Refused("InvalidRequest", "a read has no body, so it must sign an empty one.")
        try:
            name, _, key = path.decode().removeprefix("/").partition("/")
        except UnicodeDecodeError:
            raise Refused("InvalidArgument", "the name of an object is text in UTF-8.") from None
        query = dict(pair for pair in request.query if not pair[0].startswith("X-Amz-"))
        query.pop("x-id", None)
        if len(query) > 20:
            raise Refused("InvalidArgument", "the query has more than 20 parameters.")
        if name:
            bucket = await run_in_threadpool(self._buckets.bucket, caller, name, "tier")
            if not key:
                return await self._of_bucket(request, caller, bucket, query, address)
            if not query:
                return await self._object(request, caller, bucket, key, address)
        elif request.method == "GET" and not query:
            return _xml(bucket_list(await run_in_threadpool(self._buckets.buckets, caller, "tier")))
        raise Refused("NotImplemented", "of S3, only reads and listings are answered here.")

    async def _of_bucket(
        self, request: Request, caller: ApiKey, bucket: Bucket, query: dict[str, str], address: str | None
    ) -> Response:
        if request.method == "HEAD" and not query:
            return Response(headers={"x-amz-bucket-region": "us-east-1"})
        if request.method == "GET" and set(query) == {"location"}:
            return _xml(_document("LocationConstraint", ""))  # the region without a name
        page = page_of(query) if request.method == "GET" else None
        if page is None:
            raise Refused("NotImplemented", "of S3, only reads and listings are answered here.")

        def listed() -> bytes:
            level = self._buckets.level(caller, bucket, address)
            found = self._objects.listed(bucket, self._buckets.source(bucket))
            return page.xml(bucket, found, lambda one: self._objects.of(bucket, one, level))

        return _xml(await run_in_threadpool(listed))

    async def _object(
        self, request: Request, caller: ApiKey, bucket: Bucket, key: str, address: str | None
    ) -> Response:
        certificate = key.endswith(_CERTIFICATE)
        of = key.removesuffix(_CERTIFICATE)
        bucket.terms(of)  # refuses what is never released before looking whether it exists
        level = await run_in_threadpool(self._buckets.level, caller, bucket, address)
        source = await run_in_threadpool(self._buckets.source, bucket)
        found = await run_in_threadpool(self._objects.found, bucket, source, of)
        if found is None:
            raise Refused("NoSuchKey", "there is no such object.")
        one, modified = self._objects.of(bucket, found, level), found.modified or bucket.created
        etag = one.etag.replace("-1", "-2") if certificate else one.etag
        named = {
            "Content-Type": "application/json" if certificate else media_type(of),
            "x-amz-meta-sfumato-tier": f"{level:g}",
            "x-amz-meta-sfumato-certificate": quote(of.rsplit("/", 1)[-1] + _CERTIFICATE),
        }
        headers = about(etag, modified, named)
        if is_had(request.headers, etag, modified):  # known without drawing anything
            return Response(status_code=304, headers=headers)
        await self._objects.drawn(source, one, tell=caller.may("budget", bucket.dataset))
        file = one.certificate if certificate else one.file
        return await answered(file, request.method, request.headers, headers)

    def _caller(self, request: Request, address: str | None) -> ApiKey:
        """Return the signer of the request, within the quota of requests; count wrong signatures."""
        self._service.throttle.require(address)
        signed = signed_of(request)
        if signed is None:
            raise Refused("AccessDenied", "this needs a request signed by an access key of this service.")
        key, now = self._service.registry.key(signed.key_id), datetime.now(UTC)
        right = signed.matches(request, self._buckets.secret_of(signed.key_id))
        if key is None or not right or not key.is_usable(now):
            self._service.throttle.failed(address)
            raise Refused(
                "SignatureDoesNotMatch", "no valid key of this service signed this request, as it came here."
            )
        signed.require_recent(now)
        return self._service.admit(key)


def _request(scope: Scope) -> Request:
    headers: dict[str, str] = {}
    for raw_name, raw_value in scope["headers"]:
        name, value = raw_name.decode("latin-1").lower(), raw_value.decode("latin-1").strip()
        headers[name] = f"{headers[name]},{value}" if name in headers else value
    raw = scope.get("raw_path") or quote(scope["path"]).encode()
    return Request(scope["method"], raw, scope.get("query_string", b""), headers)


def _below(scope: Scope, raw_path: bytes) -> bytes:
    """Return the decoded path below the mount point."""
    path, mount = unquote_to_bytes(raw_path), scope.get("root_path", "").encode()
    return path[len(mount) :] if path == mount or path.startswith(mount + b"/") else path


def _xml(body: bytes) -> Response:
    return Response(body, media_type="application/xml")


def _refusal(refused: Refused, method: str, path: bytes) -> Response:
    body, request = error_xml(refused, path.decode("utf-8", "replace"))
    headers: dict[str, Any] = {"x-amz-request-id": request}
    if method not in ("GET", "HEAD"):
        headers["Connection"] = "close"  # a body that is not read may still be coming
    if refused.code == "MethodNotAllowed":
        headers["Allow"] = "GET, HEAD"
    if refused.seconds is not None:
        headers["Retry-After"] = str(math.ceil(refused.seconds))
    if method == "HEAD":
        return Response(status_code=refused.status, headers=headers)
    return Response(body, refused.status, headers=headers, media_type="application/xml")


class ProxyMount(Mount):
    """A mount that also answers its bare prefix, and names of every kind.

    Clients ask for the list of buckets there and sign the path as they write it: a redirect to the prefix
    with a slash would be refused for its signature. A name with a line break is for the proxy to refuse.
    """

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Return whether the request is for the proxy."""
        root = scope.get("root_path", "")
        place = f"{root}{self.path}"
        path = scope.get("path", "")
        if scope["type"] != "http" or not (path == place or path.startswith(f"{place}/")):
            return Match.NONE, {}
        return Match.FULL, {
            "path_params": dict(scope.get("path_params", {})),
            "app_root_path": scope.get("app_root_path", root),
            "root_path": place,
            "endpoint": self.app,
        }


def proxy_mount(service: Service) -> ProxyMount:
    """Return the route that answers everything at and below /s3."""
    return ProxyMount("/s3", Proxy(service))
