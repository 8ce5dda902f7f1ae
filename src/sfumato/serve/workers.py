"""Start a service: one process, or a parent that supervises several workers.

Each worker has its own socket on the REST and gRPC ports, and the system distributes the connections among
them; the parent keeps both ports reserved. A worker that dies is replaced. Workers end when their parent
dies. Run as a module, this is a worker.
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from sfumato.errors import SfumatoError, spell
from sfumato.release import newest_certificates, require_newest
from sfumato.serve import logs
from sfumato.serve.metrics import FOLDER_VARIABLE, forget_worker
from sfumato.serve.rest.rest_server import Ending, ending, listen, serve
from sfumato.serve.service import Service
from sfumato.serve.settings import Listening, Settings

__all__ = ["run"]

# A worker that dies sooner than this is started again only after as long, so that a service that cannot start
# does not keep a machine busy.
_SOON_SECONDS = 1.0
# What a worker may take beyond its grace.
_LAST_SECONDS = 10.0
# Which of its files a worker writes to once it answers.
_READY_VARIABLE = "SFUMATO_READY_FILE"


def run(settings: Settings, listening: Listening, *, accept_lost_spends: bool = False) -> None:
    """Serve until a signal arrives, then finish what is running.

    A ledger that lacks the spends of stored releases is refused unless ``accept_lost_spends``.
    """
    with ExitStack() as stack:
        end = stack.enter_context(ending())
        service = Service(settings)  # what is wrong with the settings is said before anybody listens
        try:
            if not accept_lost_spends:
                require_newest(newest_certificates(settings.data), settings.keys, service.ledger)
            service.release_store.index_all()
        finally:
            service.close()
        listening.metrics_token()
        listening.require_tls()
        ports = [port for port in (listening.port, listening.grpc_port) if port is not None]
        rest, *others = (listen(listening, port, shared=False) for port in ports)
        for one in (rest, *others):
            stack.enter_context(one)
        logs.start(listening.log_file)
        scheme = "http" if listening.tls_certificate is None else "https"
        also = "" if listening.grpc_address is None else f" and for gRPC on {listening.grpc_address}"
        listens = f"Sfumato listens on {scheme}://{listening.address}/v1{also}; Ctrl-C ends it."
        if listening.workers == 1:
            for one in others:
                one.close()  # it was free
            serve(settings, listening, rest, end, lambda: _say(listens))
        else:
            for one in (rest, *others):
                one.close()
            # Never listened on: others find the ports taken while we live, and our workers may share them.
            for port in ports:
                stack.enter_context(listen(listening, port, shared=True))
            _Parent(settings, listening, end).run(lambda: _say(listens))
    _say("Sfumato has ended; jobs that did not end in time are taken up or settled by the next process.")


class _Parent:
    """Supervises worker processes."""

    def __init__(self, settings: Settings, listening: Listening, end: Ending) -> None:
        self._listening, self._end = listening, end
        # Of this machine, not of the data: what processes here did, in files that they map into memory.
        self._folder = Path(tempfile.mkdtemp(prefix="sfumato-metrics-"))
        self._environment = {
            **os.environ,
            **settings.environment(),
            **listening.environment(),
            FOLDER_VARIABLE: str(self._folder),
        }
        # Workers write to it once they answer.
        self._ready, self._tell = os.pipe()
        self._environment[_READY_VARIABLE] = str(self._tell)
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
        # A group of its own, so that Ctrl-C reaches the parent alone, which tells each worker once.
        worker = subprocess.Popen(
            [sys.executable, "-m", "sfumato.serve.workers"],
            stdin=subprocess.PIPE,
            env=self._environment,
            pass_fds=(self._tell,),
            process_group=0,
        )
        self._workers[worker] = time.monotonic()
        logs.told("worker started", worker=worker.pid)

    def _replace(self, worker: subprocess.Popen[bytes]) -> None:
        began = self._workers.pop(worker)
        self._gone(worker)
        logs.told("worker died", level="error", worker=worker.pid, status=worker.returncode)
        if time.monotonic() - began < _SOON_SECONDS:
            time.sleep(_SOON_SECONDS)

    def _stop(self) -> None:
        """Tell all workers to end, again for each further signal, and wait until they have."""
        ends = (
            time.monotonic() + self._listening.drain_seconds + self._listening.grace_seconds + _LAST_SECONDS
        )
        passed = 0
        while self._workers:
            wanted = max(1, self._end.signals)
            for worker in list(self._workers):
                if worker.poll() is not None:
                    self._workers.pop(worker)
                    self._gone(worker)
                elif time.monotonic() > ends:
                    logs.told("worker does not end", level="error", worker=worker.pid)
                    worker.kill()
                elif passed < wanted:
                    worker.send_signal(signal.SIGTERM)
            passed = wanted
            time.sleep(0.05)

    def _gone(self, worker: subprocess.Popen[bytes]) -> None:
        if worker.stdin is not None:
            worker.stdin.close()
        forget_worker(self._folder, worker.pid)


def _say(sentence: str) -> None:
    print(sentence, file=sys.stderr, flush=True)


def _work() -> None:
    """Run a worker, configured by the environment, for as long as its parent lives."""
    os.umask(0o077)
    settings, listening = Settings.of_environment(), Listening.of_environment()
    logs.start(listening.log_file)
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
        logs.told("worker cannot start", level="error", error=error)
        _say(f"sfumato: {spell(error, 'command line')}")
        sys.exit(error.exit_code)
