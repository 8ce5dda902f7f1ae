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
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc  # type: ignore[import-untyped]
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from grpc_health.v1 import health, health_pb2, health_pb2_grpc  # type: ignore[import-untyped]
from grpc_reflection.v1alpha import reflection  # type: ignore[import-untyped]

from sfumato.errors import BadInput
from sfumato.serve.grpc.servicer import CALLER, Servicer, finished, within
from sfumato.serve.grpc.stub import SERVICE, add_servicer
from sfumato.serve.monitoring import Metrics, Readiness, log, log_fields
from sfumato.serve.refusals import Busy, Refusal, refusal_of
from sfumato.serve.service import Service

__all__ = ["make_server"]

# Statuses travel in headers, of which clients take 8 KiB.
_LONGEST = 1000
_MESSAGE_SECONDS = 10.0
_THREADS = 16
_MALFORMED = object()
#: The name of the service in reflection and health.
NAME: str = SERVICE.full_name
# The key that verifies certificates is for everybody; all other methods of ours need a key.
_KEYED = frozenset(f"/{NAME}/{method}" for method in SERVICE.methods_by_name if method != "GetSigningKey")


@dataclass(frozen=True)
class Limits:
    """Limits of a server.

    A message has at most ``message_bytes``, so a file arrives in smaller chunks, and must be complete within
    ``upload_seconds``. A call lasts at most ``call_seconds``. Beyond ``calls`` at once, further calls are
    refused. Calls that need no key do not count among them: each such method has at most ``open_calls`` at
    once, for ``open_seconds``. A connection without calls is closed after ``idle_seconds``, and one that does
    not begin to speak HTTP/2, or TLS, after ``hello_seconds``.
    """

    message_bytes: int = 4 << 20
    upload_seconds: float = 600.0
    call_seconds: float = 900.0
    calls: int = 256
    open_seconds: float = 30.0
    open_calls: int = 16
    idle_seconds: float = 300.0
    hello_seconds: float = 10.0


class Guard(grpc.aio.ServerInterceptor):  # type: ignore[misc]
    """Guards all services of a server, including those of other packages.

    A call that needs a key is authenticated by ``servicer`` before any message is read, and counts among the
    calls only with a valid key.
    """

    def __init__(self, servicer: Servicer, metrics: Metrics, limits: Limits) -> None:
        self._servicer, self._metrics, self._limits = servicer, metrics, limits
        self._calls: Counter[str] = Counter()

    async def intercept_service(
        self, continuation: Callable[[Any], Awaitable[Any]], handler_call_details: Any
    ) -> Any:
        """Return the guarded handler of a call; None if there is no such method."""
        handler, method = await continuation(handler_call_details), handler_call_details.method
        if handler is None:
            return None
        answers = "stream" if handler.response_streaming else "unary"
        asks = "stream" if handler.request_streaming else "unary"
        inner = getattr(handler, f"{asks}_{answers}")
        read = _messages if handler.request_streaming else _message

        async def one(requests: Any, context: Any) -> Any:
            async with self._watched(context, method), self._admitted(context, method):
                return await inner(await read(requests), context)

        async def several(requests: Any, context: Any) -> AsyncIterator[Any]:
            async with self._watched(context, method), self._admitted(context, method):
                async for answer in inner(await read(requests), context):
                    yield answer

        # A stream also where one message is to come: gRPC itself would wait for it for ever.
        make = getattr(grpc, f"stream_{answers}_rpc_method_handler")
        guarded = several if inspect.isasyncgenfunction(inner) else one
        return make(guarded, _tolerant(handler.request_deserializer), handler.response_serializer)

    @asynccontextmanager
    async def _admitted(self, context: Any, method: str) -> AsyncIterator[None]:
        """Count the call among those at the same time, and limit its duration."""
        kind, most, seconds = method, self._limits.open_calls, self._limits.open_seconds
        if method in _KEYED:
            CALLER.set(await self._servicer.authenticate(context))
            kind, most, seconds = "", self._limits.calls, self._limits.call_seconds
        with self._counted(kind, most):
            async with within(seconds, "the call lasted longer than this service allows; retry."):
                yield

    @contextmanager
    def _counted(self, kind: str, most: int) -> Iterator[None]:
        """Count a call of this ``kind`` during the block, or raise if there are ``most`` already."""
        if self._calls[kind] >= most:
            raise Busy(f"{most:,} such calls are under way, the most at the same time; retry.")
        self._calls[kind] += 1
        try:
            yield
        finally:
            self._calls[kind] -= 1

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
                if refused is None:
                    log("unforeseen", level="error", request=call, error=error, **notes)
                    message = f"an unexpected error occurred; it is in the log as request {call}."
                    refused = Refusal("unforeseen", 500, "INTERNAL", "InternalError", message, None)
                status, word, message = refused.grpc, refused.code, refused.message
                trailer = [("sfumato-refusal", word)]
                if refused.seconds is not None:
                    trailer.append(("retry-delay", str(math.ceil(refused.seconds))))
                if len(message) > _LONGEST:
                    message = message[: _LONGEST - 1] + "…"
                await context.abort(grpc.StatusCode[status], message, tuple(trailer))
            finally:
                seconds = time.perf_counter() - begun
                self._metrics.answered("grpc", method, "POST", status, seconds, refusal=word)
                if status != "OK" or not method.startswith("/grpc."):
                    found: Any = {"route": method, "status": status, "refusal": word, "ms": 1000.0 * seconds}
                    log("call", request=call, **found, **notes)


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
    async def each() -> AsyncIterator[Any]:
        async for one in requests:
            yield _well_formed(one)

    return each()


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
    limits: Limits | None = None,
) -> Server:
    """Return a server of ``service`` on ``address``, as in 127.0.0.1:8766; port 0 is any free port.

    It must be created in the event loop in which it runs. With ``shared``, other processes may answer on the
    same address. With ``certificate`` and ``key`` (PEM files) it answers over TLS only.
    """
    limits = limits or Limits()
    options = [
        ("grpc.max_receive_message_length", limits.message_bytes),
        # Without it, two services could share a port and each answer half of the calls.
        ("grpc.so_reuseport", int(shared)),
        ("grpc.max_connection_idle_ms", round(1000 * limits.idle_seconds)),
        ("grpc.server_handshake_timeout_ms", round(1000 * limits.hello_seconds)),
    ]
    threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="sfumato-grpc")
    servicer = Servicer(service, threads, limits.upload_seconds)
    made = grpc.aio.server(interceptors=[Guard(servicer, service.metrics, limits)], options=options)
    add_servicer(servicer, made)
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
    return Server(made, healthy, threads, port)
