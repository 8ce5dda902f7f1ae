"""The gRPC server: our service with reflection and health, concurrency limits, and errors as statuses.

Every call is guarded. Malformed messages and errors of all kinds are answered by a status, and counted. The
status has a code, one sentence, and in its trailing metadata ``sfumato-refusal``, the refusal code that REST
calls the type of a problem, and ``retry-delay``, whole seconds, if waiting helps.

Calls without a key have a few places of their own and never take one of a call with a key. Health reports the
process as alive if it answers, and our service as ready if it could make a release.
"""

from __future__ import annotations

import asyncio
import inspect
import math
import secrets
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import grpc  # type: ignore[import-untyped]
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from grpc_health.v1 import health, health_pb2, health_pb2_grpc  # type: ignore[import-untyped]
from grpc_reflection.v1alpha import reflection  # type: ignore[import-untyped]

from sfumato.errors import BadInput
from sfumato.serve.authentication import ApiKey
from sfumato.serve.grpc.servicer import CALLER, SERVICE, Servicer, finished, within
from sfumato.serve.grpc.sfumato_pb2_grpc import add_SfumatoServicer_to_server
from sfumato.serve.monitoring import Metrics, Readiness, log, log_fields
from sfumato.serve.refusals import Busy, refusal_of
from sfumato.serve.service import Service

__all__ = ["make_server"]

_WITH_KEYS = ""

# Statuses travel in headers, of which clients take 8 KiB.
_LONGEST = 1000
_TOO_LONG = "the call lasted longer than this service allows; ask again."
_MESSAGE_SECONDS = 10.0
_MALFORMED = object()
#: Of the service, as reflection and health know it.
NAME: str = SERVICE.full_name
# What certificates are verified with is for everybody; all else that is ours needs a key.
_KEYED = frozenset(f"/{NAME}/{method}" for method in SERVICE.methods_by_name if method != "GetSigningKey")


class Places:
    """Limits calls with keys to ``calls`` at once, and each method that needs none to ``open_calls``."""

    def __init__(self, calls: int, open_calls: int) -> None:
        self._calls, self._open_calls = calls, open_calls
        self._taken: Counter[str] = Counter()

    @contextmanager
    def with_key(self) -> Iterator[None]:
        """Hold a place for a call with a key during the block."""
        with self._place(_WITH_KEYS, self._calls):
            yield

    @contextmanager
    def open(self, method: str) -> Iterator[None]:
        """Hold a place for a call of ``method``, which needs no key, during the block."""
        with self._place(method, self._open_calls):
            yield

    @contextmanager
    def _place(self, kind: str, most: int) -> Iterator[None]:
        if self._taken[kind] >= most:
            raise Busy(f"{most:,} such calls are under way, which is the most at once; ask again.")
        self._taken[kind] += 1
        try:
            yield
        finally:
            self._taken[kind] -= 1


class Guard(grpc.aio.ServerInterceptor):  # type: ignore[misc]
    """Guards all services of a server, including those of other packages.

    A call to one of ``keyed`` is authenticated by ``asking`` before any message is read, and takes one of the
    ``places`` only with a valid key. Such a call may last ``seconds``, another ``open_seconds``.
    """

    def __init__(
        self,
        keyed: Collection[str],
        asking: Callable[[Any], Awaitable[ApiKey]],
        places: Places,
        metrics: Metrics,
        *,
        seconds: float,
        open_seconds: float,
    ) -> None:
        self._keyed, self._asking, self._places, self._metrics = keyed, asking, places, metrics
        self._seconds, self._open_seconds = seconds, open_seconds

    async def intercept_service(
        self, continuation: Callable[[Any], Awaitable[Any]], handler_call_details: Any
    ) -> Any:
        """Return the guarded handler of a call; None if there is no such method."""
        found = await continuation(handler_call_details)
        return None if found is None else self._guarded(found, handler_call_details.method)

    def _guarded(self, handler: Any, method: str) -> Any:
        answers = "stream" if handler.response_streaming else "unary"
        asks = "stream" if handler.request_streaming else "unary"
        inner = getattr(handler, f"{asks}_{answers}")
        read = _messages if handler.request_streaming else _message
        wrap = self._answers if inspect.isasyncgenfunction(inner) else self._answer
        # A stream also where one message is to come: gRPC itself would wait for it, and for ever.
        make = getattr(grpc, f"stream_{answers}_rpc_method_handler")
        read_raw = _tolerant(handler.request_deserializer)
        return make(wrap(inner, read, method), read_raw, handler.response_serializer)

    def _answer(self, inner: Any, read: Any, method: str) -> Any:
        async def guarded(requests: Any, context: Any) -> Any:
            async with self._watched(context, method), self._admitted(context, method):
                return await inner(await read(requests), context)

        return guarded

    def _answers(self, inner: Any, read: Any, method: str) -> Any:
        async def guarded(requests: Any, context: Any) -> AsyncIterator[Any]:
            async with self._watched(context, method), self._admitted(context, method):
                async for one in inner(await read(requests), context):
                    yield one

        return guarded

    @asynccontextmanager
    async def _admitted(self, context: Any, method: str) -> AsyncIterator[None]:
        """Hold a place for the call, and limit its duration."""
        if method in self._keyed:
            CALLER.set(await self._asking(context))
            place, seconds = self._places.with_key(), self._seconds
        else:
            place, seconds = self._places.open(method), self._open_seconds
        with place:
            async with within(seconds, _TOO_LONG):
                yield

    @asynccontextmanager
    async def _watched(self, context: Any, method: str) -> AsyncIterator[None]:
        """Answer errors of the block with a status, and count and log its outcome."""
        call, begun = secrets.token_hex(8), time.perf_counter()
        status, word = "CANCELLED", None
        with log_fields() as notes:
            try:
                yield
                status = "OK"
            except grpc.aio.AbortError:
                status = "ABORTED"
                raise
            except Exception as error:
                refused = refusal_of(error)
                if refused is not None:
                    status, word = refused.grpc, refused.code
                    trailer = [("sfumato-refusal", word)]
                    if refused.seconds is not None:
                        trailer.append(("retry-delay", str(math.ceil(refused.seconds))))
                    message = refused.message
                    if len(message) > _LONGEST:
                        message = message[: _LONGEST - 1] + "…"
                    await context.abort(grpc.StatusCode[status], message, tuple(trailer))
                log("unforeseen", level="error", request=call, error=error, **notes)
                status, word = "INTERNAL", "unforeseen"
                sentence = f"something unforeseen happened; it is in the log as request {call}."
                await context.abort(grpc.StatusCode.INTERNAL, sentence, (("sfumato-refusal", word),))
            finally:
                seconds_taken = time.perf_counter() - begun
                self._metrics.answered("grpc", method, "POST", status, seconds_taken, refusal=word)
                if status != "OK" or not method.startswith("/grpc."):
                    log(
                        "call",
                        request=call,
                        route=method,
                        status=status,
                        refusal=word,
                        ms=1000.0 * seconds_taken,
                        **notes,
                    )


def _tolerant(parse: Callable[[bytes], Any]) -> Callable[[bytes], Any]:
    """Wrap ``parse`` to return a marker for malformed messages, which gRPC would call an internal error."""

    def tolerant(raw: bytes) -> Any:
        try:
            return parse(raw)
        except DecodeError:
            return _MALFORMED

    return tolerant


async def _message(requests: Any) -> Any:
    """Return the only message of the call."""
    async with within(_MESSAGE_SECONDS, "no message came; send one with the call."):
        first = await anext(aiter(requests), _MALFORMED)
    return _well_formed(first)


async def _messages(requests: Any) -> AsyncIterator[Any]:
    return _each(requests)


async def _each(requests: Any) -> AsyncIterator[Any]:
    async for one in requests:
        yield _well_formed(one)


def _well_formed(request: Any) -> Any:
    if request is _MALFORMED:
        raise BadInput("the message is malformed: it must be of the type that the method takes.")
    return request


class Health(health.aio.HealthServicer):  # type: ignore[misc]
    """Reports whether our service could make a release; without a name, whether the process answers."""

    def __init__(self, readiness: Readiness) -> None:
        super().__init__()
        # Threads of their own: those of calls may all be at work.
        self._readiness, self._threads = readiness, ThreadPoolExecutor(2, "sfumato-health")

    async def Check(self, request: Any, context: Any) -> Any:
        """Return SERVING or NOT_SERVING; an unknown service is not found."""
        answer = await super().Check(request, context)
        if request.service == NAME and await finished(self._threads, self._readiness.trouble):
            return health_pb2.HealthCheckResponse(status=health_pb2.HealthCheckResponse.NOT_SERVING)
        return answer


class Server:
    """A server on ``port``, which answers from :meth:`start` to :meth:`stop`."""

    def __init__(self, server: Any, health: Health, threads: ThreadPoolExecutor, port: int) -> None:
        self._server, self._health, self._threads, self.port = server, health, threads, port

    async def start(self) -> None:
        """Start answering."""
        await self._health.set(NAME, health_pb2.HealthCheckResponse.SERVING)
        await self._server.start()

    async def stop(self, seconds: float = 30.0) -> None:
        """Refuse new calls, give running ones ``seconds``, and wait for the work to end."""
        await self._health.enter_graceful_shutdown()
        await self._server.stop(seconds)
        await asyncio.to_thread(self._threads.shutdown, cancel_futures=True)


def make_server(
    service: Service,
    address: str,
    *,
    shared: bool = False,
    certificate: Path | None = None,
    key: Path | None = None,
    message_bytes: int = 4 << 20,
    upload_seconds: float = 600.0,
    call_seconds: float = 900.0,
    threads: int = 16,
    calls: int = 256,
    open_seconds: float = 30.0,
    open_calls: int = 16,
    idle_seconds: float = 300.0,
    hello_seconds: float = 10.0,
) -> Server:
    """Return a server of ``service`` on ``address``, as in 127.0.0.1:8766; port 0 is any free port.

    It must be created in the event loop in which it runs. With ``shared``, other processes may answer on the
    same address. With ``certificate`` and ``key`` (PEM files) it answers over TLS only.

    A message has at most ``message_bytes``, so a file arrives in smaller chunks, and must be complete within
    ``upload_seconds``. A call lasts at most ``call_seconds``. Beyond ``calls`` at once, further calls are
    refused. Calls that need no key do not count among them: each such method has at most ``open_calls`` at
    once, for ``open_seconds``. A connection without calls is closed after ``idle_seconds``, and one that does
    not begin to speak HTTP/2, or TLS, after ``hello_seconds``.
    """
    options = [
        ("grpc.max_receive_message_length", message_bytes),
        # Unless asked for: else two services could share a port and each answer half the calls.
        ("grpc.so_reuseport", int(shared)),
        ("grpc.max_connection_idle_ms", round(1000 * idle_seconds)),
        ("grpc.server_handshake_timeout_ms", round(1000 * hello_seconds)),
    ]
    pool = ThreadPoolExecutor(threads, thread_name_prefix="sfumato-grpc")
    own = Servicer(service, pool, upload_seconds)
    guard = Guard(
        _KEYED,
        own.authenticate,
        Places(calls, open_calls),
        service.metrics,
        seconds=call_seconds,
        open_seconds=open_seconds,
    )
    made = grpc.aio.server(interceptors=[guard], options=options)
    add_SfumatoServicer_to_server(own, made)  # type: ignore[no-untyped-call]
    healthy = Health(service.readiness)
    health_pb2_grpc.add_HealthServicer_to_server(healthy, made)
    reflection.enable_server_reflection((NAME, health.SERVICE_NAME, reflection.SERVICE_NAME), made)
    try:
        if certificate is None or key is None:
            port = made.add_insecure_port(address)
        else:
            pair = (key.read_bytes(), certificate.read_bytes())
            port = made.add_secure_port(address, grpc.ssl_server_credentials([pair]))
    except OSError:
        raise BadInput("the certificate or the key of TLS cannot be read.") from None
    except RuntimeError:
        raise BadInput(f"gRPC cannot listen on {address}: is the port taken?") from None
    return Server(made, healthy, pool, port)
