"""One server process: REST, gRPC and the job runner, from start to shutdown, with connection timeouts.

Servers limit connections, so a client that opens all of them and then sends nothing would shut out everybody
else. Therefore the head of a request must arrive in time, and an answer must be read. Bodies have their own
limits (``rest_requests``), which know how much arrived.
"""

from __future__ import annotations

import asyncio
import gc
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from sfumato.errors import BadInput
from sfumato.noise import inner_threads
from sfumato.serve import logs
from sfumato.serve.jobs.job_runner import Runner
from sfumato.serve.metrics import Readiness
from sfumato.serve.rest.rest_app import make_app
from sfumato.serve.service import Service
from sfumato.serve.settings import Listening, Settings

#: How long the head of a request may take, and the rest of a body that was refused already.
HEAD_SECONDS = 10.0
# How long a client may leave 64 KiB of its answer unread.
_UNREAD_SECONDS = 30.0

_CONNECTIONS = 256
# Threads take turns this often: one that computes must not keep the one that answers waiting.
_TURN_SECONDS = 0.0005


class PatientProtocol(H11Protocol):
    """Uvicorn's HTTP/1.1 by h11, which is strict about where a request ends, with time limits."""

    def __init__(self, *arguments: Any, **words: Any) -> None:
        super().__init__(*arguments, **words)
        self._head: asyncio.TimerHandle | None = None
        self._unread: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Start waiting for the head of the first request."""
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        """Handle received bytes."""
        super().data_received(data)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timers."""
        for timer in (self._head, self._unread):
            if timer is not None:
                timer.cancel()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """Start waiting for a client that reads more slowly than it is answered."""
        super().pause_writing()
        if self._unread is None:
            self._unread = self.loop.call_later(_UNREAD_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        """Stop waiting, because the client has read."""
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None
        super().resume_writing()

    def _watch(self) -> None:
        """Set a timer for the end of the head; an application reads bodies with limits of its own."""
        theirs = self.conn.their_state
        answered = self.cycle is not None and self.cycle.response_complete
        expected = theirs is h11.IDLE or (theirs is h11.SEND_BODY and answered)
        if expected and self._head is None:
            self._head = self.loop.call_later(HEAD_SECONDS, self.transport.abort)
        elif not expected and self._head is not None:
            self._head.cancel()
            self._head = None


class Ending:
    """Counts the signals that told the process to end."""

    def __init__(self) -> None:
        self.signals = 0

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """Count one more."""
        self.signals += 1


@contextmanager
def ending() -> Iterator[Ending]:
    """Count SIGTERM, SIGINT and SIGHUP instead of ending the process.

    Signals that the caller ignores, as nohup does, stay ignored.
    """
    made = Ending()
    if threading.current_thread() is not threading.main_thread():
        yield made
        return
    numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    minded = [number for number in numbers if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, made) for number in minded}
    try:
        yield made
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def listen(listening: Listening, port: int, *, shared: bool) -> socket.socket:
    """Return a socket bound to ``port``, not listening yet.

    If it is ``shared``, other processes of the same user may bind the port too, and the system gives each
    connection to one of those that listen. On a single socket for all of them, the first that wakes up would
    take every waiting connection.
    """
    made = socket.socket(socket.AF_INET6 if ":" in listening.host else socket.AF_INET)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if shared:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    try:
        made.bind((listening.host, port))
    except (OSError, UnicodeError):
        made.close()
        what = "REST" if port == listening.port else "gRPC"
        raise BadInput(f"{what} cannot listen on {listening.address_of(port)}: is the port taken?") from None
    return made


def serve(
    settings: Settings, listening: Listening, rest: socket.socket, end: Ending, ready: Callable[[], object]
) -> None:
    """Answer on ``rest`` until ``end`` says so, then finish what is running.

    ``ready`` is called once the server answers.
    """
    sys.setswitchinterval(_TURN_SECONDS)
    service = Service(settings)
    try:
        app = make_app(service, metrics_token=listening.metrics_token())
        config = uvicorn.Config(
            app,
            http=PatientProtocol,
            ws="none",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=round(listening.grace_seconds),
            limit_concurrency=_CONNECTIONS,
            h11_max_incomplete_event_size=64 << 10,
            ssl_certfile=listening.tls_certificate,
            ssl_keyfile=listening.tls_key,
        )
        # What was made so far lasts as long as the process: looking through it for what could be thrown away
        # would stop everything for a tenth of a second, again and again.
        gc.collect()
        gc.freeze()

        def answers() -> None:
            service.metrics.mark_up()
            ready()

        beside = _Beside(service, listening)
        with inner_threads(1):  # requests and jobs are worked on beside each other
            _Server(config, end, listening, service.readiness, beside, answers).run(sockets=[rest])
        logs.told("ended")
    finally:
        service.close()


class _Server(uvicorn.Server):
    """A uvicorn server that ends by our signal, and starts and stops what runs beside it."""

    def __init__(
        self,
        config: uvicorn.Config,
        end: Ending,
        listening: Listening,
        readiness: Readiness,
        beside: _Beside,
        answers: Callable[[], object],
    ) -> None:
        super().__init__(config)
        self._end, self._listening, self._readiness, self._beside = end, listening, readiness, beside
        self._answers = answers

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to :func:`ending`."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start everything."""
        await self._beside.start()
        await super().startup(sockets)
        self._answers()

    async def on_tick(self, counter: int) -> bool:
        """Return whether to end, ten times a second; a second signal ends at once."""
        now = asyncio.get_running_loop().time()
        if self._end.signals and not self._readiness.draining:
            self._readiness.draining = True
            self._ends = now + self._listening.drain_seconds
        if self._readiness.draining:
            self.should_exit = self._end.signals > 1 or now >= self._ends
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Refuse new work everywhere, and let everything that is running end at the same time."""
        await asyncio.gather(super().shutdown(sockets), self._beside.stop())


class _Beside:
    """The job runner and a gRPC server, which run beside REST."""

    def __init__(self, service: Service, listening: Listening) -> None:
        self._service, self._listening = service, listening
        self._runner = service.readiness.runner = Runner(service)
        self._grpc: Any = None

    async def start(self) -> None:
        """Start gRPC and the job runner."""
        address = self._listening.grpc_address
        if address is not None:
            from sfumato.serve.grpc.grpc_server import make_server

            self._grpc = make_server(
                self._service,
                address,
                shared=self._listening.workers > 1,
                certificate=self._listening.tls_certificate,
                key=self._listening.tls_key,
            )
            await self._grpc.start()
        self._runner.start()

    async def stop(self) -> None:
        """Refuse new work, and give what is running its time."""
        seconds = self._listening.grace_seconds
        ends = [asyncio.to_thread(self._runner.stop, seconds)]
        if self._grpc is not None:
            ends.append(self._grpc.stop(seconds))
        await asyncio.gather(*ends)
