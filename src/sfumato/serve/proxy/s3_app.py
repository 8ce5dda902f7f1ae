"""S3, as far as readers need it: buckets, listings, and objects of the reader's tier.

Path style only, below whatever prefix the application is mounted at, which is part of what clients sign.
Everything that is not a read is refused, in S3's own words.
"""

from __future__ import annotations

import math
import secrets
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote, unquote_to_bytes

from starlette.concurrency import run_in_threadpool
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from sfumato.errors import SfumatoError
from sfumato.serve.auth.authentication import TooManyGuesses
from sfumato.serve.auth.callers import Caller
from sfumato.serve.auth.login_throttle import Guessing
from sfumato.serve.logs import note
from sfumato.serve.proxy.bucket_declarations import Bucket
from sfumato.serve.proxy.buckets import Buckets
from sfumato.serve.proxy.protected_objects import Objects
from sfumato.serve.proxy.s3_authentication import Request, signed_of
from sfumato.serve.proxy.s3_errors import Refused, error_xml, refused_of, word_of
from sfumato.serve.proxy.s3_listing import bucket_list, location, page_of
from sfumato.serve.proxy.s3_objects import about, answered, is_had, media_type
from sfumato.serve.proxy.s3_signatures import EMPTY, UNSIGNED
from sfumato.serve.refusal_codes import REFUSAL
from sfumato.serve.service import Service

__all__ = ["make_proxy"]

_CERTIFICATE = ".cert.json"


def make_proxy(service: Service, guessing: Guessing) -> ASGIApp:
    """What readers of the buckets of ``service`` ask; ``guessing`` counts wrong signatures."""
    return _Proxy(service, guessing)


class _Proxy:
    def __init__(self, service: Service, guessing: Guessing) -> None:
        self._service, self._guessing = service, guessing
        self._buckets, self._objects = Buckets.of(service), Objects(service)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            raise RuntimeError(f"the proxy answers HTTP, not {scope['type']}")
        request, address = _request(scope), (scope.get("client") or (None,))[0]
        path = _below(scope, request.raw_path)
        try:
            response = await self._answer(request, path, address)
        except SfumatoError as error:
            scope[REFUSAL] = word_of(error)
            response = _refusal(refused_of(error), request.method, path)
        response.headers.setdefault("x-amz-request-id", secrets.token_hex(8))
        await response(scope, receive, send)

    async def _answer(self, request: Request, path: bytes, address: str | None) -> Response:
        caller = await run_in_threadpool(self._caller, request, address)
        if request.method not in ("GET", "HEAD"):
            raise Refused("MethodNotAllowed", "this bucket is only read: GET and HEAD are answered.")
        if request.headers.get("x-amz-content-sha256", UNSIGNED) not in (UNSIGNED, EMPTY):
            raise Refused("InvalidRequest", "a read has no body, so it signs none.")
        name, key = _names(path)
        asked = dict(pair for pair in request.query if not pair[0].startswith("X-Amz-"))
        asked.pop("x-id", None)
        if len(asked) > 20:
            raise Refused("InvalidArgument", "too much is asked at once.")
        if not name:
            if asked or request.method != "GET":
                raise _not_there()
            return _xml(bucket_list(await run_in_threadpool(self._buckets.buckets, caller, "tier")))
        bucket = await run_in_threadpool(self._buckets.bucket, caller, name, "tier")
        if not key:
            return await self._of_bucket(request, caller, bucket, asked, address)
        if asked:
            raise _not_there()
        return await self._object(request, caller, bucket, key, address)

    async def _of_bucket(
        self, request: Request, caller: Caller, bucket: Bucket, asked: dict[str, str], address: str | None
    ) -> Response:
        if request.method == "HEAD" and not asked:
            return Response(headers={"x-amz-bucket-region": "us-east-1"})
        if request.method == "GET" and set(asked) == {"location"}:
            return _xml(location())
        page = page_of(asked) if request.method == "GET" else None
        if page is None:
            raise _not_there()

        def listed() -> bytes:
            level = self._buckets.level(caller, bucket, address)
            found = self._objects.listed(bucket, self._buckets.source(bucket))
            return page.xml(bucket, found, lambda one: self._objects.of(bucket, one, level))

        return _xml(await run_in_threadpool(listed))

    async def _object(
        self, request: Request, caller: Caller, bucket: Bucket, key: str, address: str | None
    ) -> Response:
        certificate = key.endswith(_CERTIFICATE)
        of = key.removesuffix(_CERTIFICATE)
        bucket.terms(of)  # what is not released is refused before anybody looks whether it is there
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
        told = about(etag, modified, named)
        if is_had(request.headers, etag, modified):  # known without drawing anything
            return Response(status_code=304, headers=told)
        await self._objects.drawn(source, one, tell=caller.may("budget", bucket.dataset))
        file = one.certificate if certificate else one.file
        return await answered(file, request.method, request.headers, told)

    def _caller(self, request: Request, address: str | None) -> Caller:
        """Who signed the request, within the quota of requests; wrong signatures are counted."""
        wait = self._guessing.wait(address)
        if wait > 0.0:
            raise TooManyGuesses(
                "too many wrong keys came from this address; wait, and look at the key.", wait
            )
        signed = signed_of(request)
        if signed is None:
            raise Refused("AccessDenied", "this needs a request signed by an access key of this service.")
        key, now = self._buckets.store.key(signed.key_id), datetime.now(UTC)
        right = signed.matches(request, self._buckets.secret_of(signed.key_id))
        if key is None or not right or not key.usable(now):
            self._guessing.failed(address)
            raise Refused(
                "SignatureDoesNotMatch", "no valid key of this service signed this request, as it came here."
            )
        signed.require_recent(now)
        note(tenant=key.tenant, key=key.id)
        self._service.registry.charge(key.tenant)
        return key.caller()


def _request(scope: Scope) -> Request:
    headers: dict[str, str] = {}
    for raw_name, raw_value in scope["headers"]:
        name, value = raw_name.decode("latin-1").lower(), raw_value.decode("latin-1").strip()
        headers[name] = f"{headers[name]},{value}" if name in headers else value
    raw = scope.get("raw_path") or quote(scope["path"]).encode()
    return Request(scope["method"], raw, scope.get("query_string", b""), headers)


def _below(scope: Scope, raw_path: bytes) -> bytes:
    """The path below where the application is mounted, decoded."""
    path, mount = unquote_to_bytes(raw_path), scope.get("root_path", "").encode()
    return path[len(mount) :] if path == mount or path.startswith(mount + b"/") else path


def _names(path: bytes) -> tuple[str, str]:
    """The bucket and the key that a path names."""
    try:
        text = path.decode()
    except UnicodeDecodeError:
        raise Refused("InvalidArgument", "the name of an object is text in UTF-8.") from None
    name, _, key = text.removeprefix("/").partition("/")
    return name, key


def _xml(body: bytes) -> Response:
    return Response(body, media_type="application/xml")


def _refusal(refused: Refused, method: str, path: bytes) -> Response:
    body, request = error_xml(refused, path.decode("utf-8", "replace"))
    headers: dict[str, Any] = {"x-amz-request-id": request}
    if method not in ("GET", "HEAD"):
        headers["Connection"] = "close"  # a body that nobody reads may still be coming
    if refused.code == "MethodNotAllowed":
        headers["Allow"] = "GET, HEAD"
    if refused.seconds is not None:
        headers["Retry-After"] = str(math.ceil(refused.seconds))
    if method == "HEAD":
        return Response(status_code=refused.status, headers=headers)
    return Response(body, refused.status, headers=headers, media_type="application/xml")


def _not_there() -> Refused:
    return Refused("NotImplemented", "of S3, only reads and listings are answered here.")
