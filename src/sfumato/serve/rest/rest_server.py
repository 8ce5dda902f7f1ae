"""One process that answers: REST, gRPC beside it and the runner of jobs, from its start to its end."""

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

import uvicorn

from sfumato.errors import BadInput
from sfumato.serve import logs
from sfumato.serve.auth.login_throttle import Guessing
from sfumato.serve.jobs.job_runner import Runner
from sfumato.serve.metrics import Metrics
from sfumato.serve.readiness import Readiness
from sfumato.serve.rest.connections import PatientProtocol
from sfumato.serve.rest.rest_app import make_app
from sfumato.serve.service import Service
from sfumato.serve.settings import Listening, Settings

__all__ = ["Ending", "ending", "listen", "serve"]

_CONNECTIONS = 256
# Threads take turns this often: one that computes must not keep the one that answers waiting.
_TURN_SECONDS = 0.0005


class Ending:
    """How many signals told the process to end."""

    def __init__(self) -> None:
        self.signals = 0

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """Count one more."""
        self.signals += 1


@contextmanager
def ending() -> Iterator[Ending]:
    """Let SIGTERM, SIGINT and SIGHUP say that the process is to end, instead of ending it.

    What the caller chose to ignore, as nohup does, stays ignored.
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
    """A socket on ``port``, on which connections come once somebody listens.

    Where it is ``shared``, other processes of the same user may have one too, and the system gives each
    connection to one of those that listen. On a single socket for all of them the first that wakes up would
    take whatever connections there are, and the others none.
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
    """Answer on ``rest`` until told to ``end``; what is under way is finished first.

    ``ready`` is called once it does answer.
    """
    sys.setswitchinterval(_TURN_SECONDS)
    service, guessing = Service(settings), Guessing()  # one count of wrong keys, whichever way they come
    metrics, readiness = Metrics(service), Readiness(service)
    try:
        app = make_app(
            service,
            guessing=guessing,
            metrics=metrics,
            readiness=readiness,
            metrics_token=listening.metrics_token(),
        )
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
        beside = _Beside(service, listening, guessing, metrics, readiness)
        _Server(config, end, listening, readiness, beside, ready).run(sockets=[rest])
        logs.told("ended")
    finally:
        service.close()


class _Server(uvicorn.Server):
    """Uvicorn's, told to end by us, with what goes on beside it from its start to its end."""

    def __init__(
        self,
        config: uvicorn.Config,
        end: Ending,
        listening: Listening,
        readiness: Readiness,
        beside: _Beside,
        ready: Callable[[], object],
    ) -> None:
        super().__init__(config)
        self._end, self._listening, self._readiness, self._beside = end, listening, readiness, beside
        self._ready = ready

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to :func:`ending`."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start everything."""
        await self._beside.start()
        await super().startup(sockets)
        self._ready()

    async def on_tick(self, counter: int) -> bool:
        """Whether to end, asked ten times a second; a second signal does not wait for the first's end."""
        now = asyncio.get_running_loop().time()
        if self._end.signals and not self._readiness.draining:
            self._readiness.draining = True
            self._ends = now + self._listening.drain_seconds
        if self._readiness.draining:
            self.should_exit = self._end.signals > 1 or now >= self._ends
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Take nothing new anywhere, and let all that is under way end at the same time."""
        await asyncio.gather(super().shutdown(sockets), self._beside.stop())


class _Beside:
    """What goes on beside REST: the runner of jobs, and a gRPC server."""

    def __init__(
        self,
        service: Service,
        listening: Listening,
        guessing: Guessing,
        metrics: Metrics,
        readiness: Readiness,
    ) -> None:
        self._listening = listening
        self._parts = (service, guessing, metrics, readiness)
        self._runner = readiness.runner = Runner(service)
        self._grpc: Any = None

    async def start(self) -> None:
        """Answer gRPC, and work on jobs."""
        address = self._listening.grpc_address
        if address is not None:
            from sfumato.serve.grpc.grpc_server import make_server

            service, guessing, metrics, readiness = self._parts
            self._grpc = make_server(
                service,
                address,
                guessing=guessing,
                metrics=metrics,
                readiness=readiness,
                shared=self._listening.workers > 1,
                certificate=self._listening.tls_certificate,
                key=self._listening.tls_key,
            )
            await self._grpc.start()
        self._runner.start()

    async def stop(self) -> None:
        """Take nothing new, and give what is under way its time."""
        seconds = self._listening.grace_seconds
        ends = [asyncio.to_thread(self._runner.stop, seconds)]
        if self._grpc is not None:
            ends.append(self._grpc.stop(seconds))
        await asyncio.gather(*ends)
