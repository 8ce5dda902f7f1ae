"""Run a service: one process with REST, gRPC and the job runner, or a parent with several workers.

Each worker has its own socket on the REST and gRPC ports, and the system distributes the connections among
them; the parent keeps both ports reserved. A worker that dies is replaced. Workers end when their parent
dies. Run as a module, this is a worker.

Servers limit connections, so a client that opens all of them and then sends nothing would shut out everybody
else. Therefore the head of a request must arrive in time, and an answer must be read. Bodies have their own
limits (``rest_requests``), which know how much arrived.
"""

from __future__ import annotations

import asyncio
import gc
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import h11
import uvicorn
from pydantic import TypeAdapter
from uvicorn.protocols.http.h11_impl import H11Protocol

from sfumato.errors import BadInput, SfumatoError, spell
from sfumato.noise import inner_threads
from sfumato.release import require_newest
from sfumato.serve.jobs.job_runner import Runner
from sfumato.serve.monitoring import FOLDER_VARIABLE, forget_worker, log, start_logging
from sfumato.serve.rest.rest_app import make_app
from sfumato.serve.service import Service
from sfumato.serve.settings import Listening, Settings

__all__ = ["run"]

#: How long the head of a request may take, and the rest of a body that was refused already.
HEAD_SECONDS = 10.0
# How long a client may leave 64 KiB of its answer unread.
_UNREAD_SECONDS = 30.0

_CONNECTIONS = 256
# How often the interpreter switches threads: one that computes must not delay the one that answers.
_SWITCH_SECONDS = 0.0005


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
    handled = [number for number in numbers if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, made) for number in handled}
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
    sys.setswitchinterval(_SWITCH_SECONDS)
    service = Service(settings)
    try:
        config = uvicorn.Config(
            make_app(service, metrics_token=listening.metrics_token()),
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
        # Everything so far lasts as long as the process: garbage collections that look through it would stop
        # everything for a tenth of a second, again and again.
        gc.collect()
        gc.freeze()
        with inner_threads(1):  # requests and jobs run in parallel
            _Server(config, service, listening, end, ready).run(sockets=[rest])
        log("ended")
    finally:
        service.close()


class _Server(uvicorn.Server):
    """A uvicorn server that ends by our signal, and runs gRPC and the job runner beside REST."""

    def __init__(
        self,
        config: uvicorn.Config,
        service: Service,
        listening: Listening,
        end: Ending,
        ready: Callable[[], object],
    ) -> None:
        super().__init__(config)
        self._service, self._listening, self._end, self._ready = service, listening, end, ready
        self._runner = service.readiness.runner = Runner(service)
        self._grpc: Any = None

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to :func:`ending`."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start everything."""
        listening = self._listening
        if listening.grpc_address is not None:
            from sfumato.serve.grpc.grpc_server import make_server

            self._grpc = make_server(
                self._service,
                listening.grpc_address,
                shared=listening.workers > 1,
                certificate=listening.tls_certificate,
                key=listening.tls_key,
            )
            await self._grpc.start()
        self._runner.start()
        await super().startup(sockets)
        self._service.metrics.mark_up()
        self._ready()

    async def on_tick(self, counter: int) -> bool:
        """Return whether to end, ten times a second; a second signal ends at once."""
        now, readiness = asyncio.get_running_loop().time(), self._service.readiness
        if self._end.signals and not readiness.draining:
            readiness.draining = True
            self._ends = now + self._listening.drain_seconds
        if readiness.draining:
            self.should_exit = self._end.signals > 1 or now >= self._ends
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Refuse new work everywhere, and let everything that is running end at the same time."""
        seconds = self._listening.grace_seconds
        ends = [super().shutdown(sockets), asyncio.to_thread(self._runner.stop, seconds)]
        if self._grpc is not None:
            ends.append(self._grpc.stop(seconds))
        await asyncio.gather(*ends)


# A worker that dies sooner than this is started again only after as long, so that a service that cannot start
# does not keep a machine busy.
_SOON_SECONDS = 1.0
# How long a worker may take beyond its grace.
_LAST_SECONDS = 10.0
# Variables by which a worker gets its settings, and the descriptor that it writes to once it answers.
_SETTINGS_VARIABLE, _READY_VARIABLE = "SFUMATO_WORKER_SETTINGS", "SFUMATO_WORKER_READY"
_SETTINGS = TypeAdapter(tuple[Settings, Listening])


def run(settings: Settings, listening: Listening, *, accept_lost_spends: bool = False) -> None:
    """Serve until a signal arrives, then finish what is running.

    A ledger that lacks the spends of stored releases is refused unless ``accept_lost_spends``.
    """
    with ExitStack() as stack:
        end = stack.enter_context(ending())
        service = Service(settings)  # refuses wrong settings before anything listens
        try:
            if not accept_lost_spends:
                require_newest(settings.data, settings.keys, service.ledger)
            service.release_store.index_all()
        finally:
            service.close()
        listening.metrics_token()
        listening.require_tls()
        ports = [port for port in (listening.port, listening.grpc_port) if port is not None]
        rest, *others = (stack.enter_context(listen(listening, port, shared=False)) for port in ports)
        start_logging(listening.log_file)
        scheme = "http" if listening.tls_certificate is None else "https"
        also = "" if listening.grpc_address is None else f" and for gRPC on {listening.grpc_address}"
        listens = f"Sfumato listens on {scheme}://{listening.address}/v1{also}; Ctrl-C ends it."
        for one in others if listening.workers == 1 else (rest, *others):
            one.close()  # it was free
        if listening.workers == 1:
            serve(settings, listening, rest, end, lambda: _say(listens))
        else:
            # Never listened on: others find the ports taken as long as this process lives, and the workers
            # may share them.
            for port in ports:
                stack.enter_context(listen(listening, port, shared=True))
            _Parent(settings, listening, end).run(lambda: _say(listens))
    _say("Sfumato has ended; jobs that did not end in time are taken up or settled by the next process.")


class _Parent:
    """Supervises worker processes."""

    def __init__(self, settings: Settings, listening: Listening, end: Ending) -> None:
        self._listening, self._end = listening, end
        # Counts of the processes of this machine, in files that they map into memory.
        self._folder = Path(tempfile.mkdtemp(prefix="sfumato-metrics-"))
        self._ready, self._tell = os.pipe()
        self._environment = {
            **os.environ,
            FOLDER_VARIABLE: str(self._folder),
            _SETTINGS_VARIABLE: _SETTINGS.dump_json((settings, listening)).decode(),
            _READY_VARIABLE: str(self._tell),
        }
        self._workers: dict[subprocess.Popen[bytes], float] = {}

    def run(self, ready: Callable[[], object]) -> None:
        """Keep workers running until told to end, then wait for them.

        ``ready`` is called once, when the first worker answers.
        """
        waiting = True
        try:
            while not self._end.signals:
                for worker in [one for one in self._workers if one.poll() is not None]:
                    self._replace(worker)
                while len(self._workers) < self._listening.workers and not self._end.signals:
                    self._start()
                if waiting and select.select([self._ready], [], [], 0.1)[0]:
                    waiting = False
                    ready()
                elif not waiting:
                    time.sleep(0.1)
        finally:
            self._stop()
            os.close(self._ready)
            os.close(self._tell)
            shutil.rmtree(self._folder, ignore_errors=True)

    def _start(self) -> None:
        # Its standard input is a pipe whose other end only we hold: it ends when we do, however that happens.
        # A group of its own, so that Ctrl-C reaches the parent only, which tells each worker once.
        worker = subprocess.Popen(
            [sys.executable, "-m", "sfumato.serve.server"],
            stdin=subprocess.PIPE,
            env=self._environment,
            pass_fds=(self._tell,),
            process_group=0,
        )
        self._workers[worker] = time.monotonic()
        log("worker started", worker=worker.pid)

    def _replace(self, worker: subprocess.Popen[bytes]) -> None:
        began = self._forget(worker)
        log("worker died", level="error", worker=worker.pid, status=worker.returncode)
        if time.monotonic() - began < _SOON_SECONDS:
            time.sleep(_SOON_SECONDS)

    def _stop(self) -> None:
        """Tell all workers to end, again for each further signal, and wait until they have."""
        listening = self._listening
        ends = time.monotonic() + listening.drain_seconds + listening.grace_seconds + _LAST_SECONDS
        sent = 0
        while self._workers:
            wanted = max(1, self._end.signals)
            for worker in list(self._workers):
                if worker.poll() is not None:
                    self._forget(worker)
                elif time.monotonic() > ends:
                    log("worker does not end", level="error", worker=worker.pid)
                    worker.kill()
                elif sent < wanted:
                    worker.send_signal(signal.SIGTERM)
            sent = wanted
            time.sleep(0.05)

    def _forget(self, worker: subprocess.Popen[bytes]) -> float:
        """Forget an ended worker and return when it began."""
        if worker.stdin is not None:
            worker.stdin.close()
        forget_worker(self._folder, worker.pid)
        return self._workers.pop(worker)


def _say(sentence: str) -> None:
    print(sentence, file=sys.stderr, flush=True)


def _work() -> None:
    """Run a worker, configured by the environment, for as long as its parent lives."""
    os.umask(0o077)
    settings, listening = _SETTINGS.validate_json(os.environ[_SETTINGS_VARIABLE])
    start_logging(listening.log_file)
    with ending() as end:
        threading.Thread(target=_follow_parent, args=(end,), daemon=True).start()
        with listen(listening, listening.port, shared=True) as rest:
            serve(settings, listening, rest, end, _tell_parent)


def _tell_parent() -> None:
    tell = int(os.environ[_READY_VARIABLE])
    os.write(tell, b".")
    os.close(tell)


def _follow_parent(end: Ending) -> None:
    while os.read(0, 1):
        pass
    if not end.signals:
        os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    try:
        _work()
    except SfumatoError as error:
        log("worker cannot start", level="error", error=error)
        _say(f"sfumato: {spell(error, 'command line')}")
        sys.exit(error.exit_code)
