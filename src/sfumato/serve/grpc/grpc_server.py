"""The server: our service beside reflection and health, on one address, until it is stopped."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc  # type: ignore[import-untyped]
from grpc_health.v1 import health, health_pb2, health_pb2_grpc  # type: ignore[import-untyped]
from grpc_reflection.v1alpha import reflection  # type: ignore[import-untyped]

from sfumato.errors import BadInput
from sfumato.serve.auth.login_throttle import Guessing
from sfumato.serve.grpc.call_guard import Guard
from sfumato.serve.grpc.concurrency_limits import Places
from sfumato.serve.grpc.health import NAME, Health
from sfumato.serve.grpc.servicer import Servicer
from sfumato.serve.grpc.sfumato_pb2 import DESCRIPTOR
from sfumato.serve.grpc.sfumato_pb2_grpc import add_SfumatoServicer_to_server
from sfumato.serve.metrics import Metrics
from sfumato.serve.readiness import Readiness
from sfumato.serve.service import Service

__all__ = ["Server", "make_server"]

# What certificates are verified with is for everybody; all else that is ours needs a key.
_KEYED = frozenset(
    f"/{NAME}/{method}"
    for method in DESCRIPTOR.services_by_name["Sfumato"].methods_by_name
    if method != "GetSigningKey"
)


class Server:
    """A server on ``port``, which answers from :meth:`start` to :meth:`stop`."""

    def __init__(self, server: Any, health: Health, threads: ThreadPoolExecutor, port: int) -> None:
        self._server, self._health, self._threads, self.port = server, health, threads, port

    async def start(self) -> None:
        """Answer from now on."""
        await self._health.set(NAME, health_pb2.HealthCheckResponse.SERVING)
        await self._server.start()

    async def stop(self, seconds: float = 30.0) -> None:
        """Take no more calls, give those under way so many ``seconds``, and let what is worked on end."""
        await self._health.enter_graceful_shutdown()
        await self._server.stop(seconds)
        await asyncio.to_thread(self._threads.shutdown, cancel_futures=True)


def make_server(
    service: Service,
    address: str,
    *,
    guessing: Guessing | None = None,
    metrics: Metrics | None = None,
    readiness: Readiness | None = None,
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
    """A server of ``service`` on ``address``, as in 127.0.0.1:8766; port 0 is any that is free.

    Made in the event loop that it then runs in. ``guessing`` counts wrong keys, ``metrics`` calls, and
    ``readiness`` is asked, together with another server where they are its too. With ``shared``, other
    processes may answer on the same address; with ``certificate`` and ``key``, files of PEM, it answers over
    TLS alone. A message has at most ``message_bytes``, so a file comes in chunks of less, and the whole
    within ``upload_seconds``; a call lasts at most ``call_seconds``. Of more than so many ``calls`` at once
    the rest are refused. Calls that need no key are not among them: of each method there are at most
    ``open_calls`` at once, for ``open_seconds``. A connection without calls is closed after
    ``idle_seconds``, and one that does not begin to speak HTTP/2, or TLS, after ``hello_seconds``.
    """
    options = [
        ("grpc.max_receive_message_length", message_bytes),
        # Unless asked for: else two services could share a port and each answer half the calls.
        ("grpc.so_reuseport", int(shared)),
        ("grpc.max_connection_idle_ms", round(1000 * idle_seconds)),
        ("grpc.server_handshake_timeout_ms", round(1000 * hello_seconds)),
    ]
    pool = ThreadPoolExecutor(threads, thread_name_prefix="sfumato-grpc")
    own = Servicer(service, guessing or Guessing(), pool, upload_seconds)
    guard = Guard(
        _KEYED,
        own.asking,
        Places(calls, open_calls),
        metrics or Metrics(service),
        seconds=call_seconds,
        open_seconds=open_seconds,
    )
    made = grpc.aio.server(interceptors=[guard], options=options)
    add_SfumatoServicer_to_server(own, made)  # type: ignore[no-untyped-call]
    healthy = Health(readiness or Readiness(service))
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
