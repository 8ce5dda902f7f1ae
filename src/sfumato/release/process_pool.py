"""Worker processes of this machine, each of which gets work once, then a few pieces at a time.

Workers are spawned, never forked: a fork of a process with threads may wait for a lock for ever. They are
programs of their own that do not import the script that starts them, so a script needs no guard around its
main part. A worker uses one processor: linear algebra and image libraries in it start no threads.

**No key enters a worker.** The secret of keyed noise stays here; a worker asks for the AES keys of the units
that it draws (:func:`sfumato.noise.ask_for_keys`). It signs nothing.

A worker ends when this process closes its end of their connection, and when this process or the thread that
started it ends in any way, also by a kill. What it was writing then is removed or, after a kill of the worker
itself, has a hidden name until the output is cleaned.
"""

from __future__ import annotations

import ctypes
import gc
import os
import pickle
import signal
import socket
import subprocess
import sys
import weakref
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from multiprocessing.connection import Connection
from threading import Lock
from typing import Any

from sfumato.errors import SfumatoError
from sfumato.noise import THREADS, Keyed, ask_for_keys, secrets_stay

_ONE_THREAD = (
    THREADS,
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENCV_FOR_THREADS_NUM",
)
# The first lines of a worker: the same places for modules as here, then the loop below.
_PROGRAM = "import sys; sys.path[:] = {path!r}; from {module} import serve; serve({descriptor}, {parent})"
_LIBRARY = ctypes.CDLL(None)
_PR_SET_PDEATHSIG = 1
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _KEPT_BYTES = -1, -3, 32 << 20
# Seconds in which a worker that is told to end may clean up.
_GRACE = 10.0


class WorkerLost(SfumatoError):
    """A worker ended before its work was done, killed from outside; what was paid before stays paid."""


class ProcessPool:
    """``count`` workers, which are started now and stay until the pool is closed or garbage-collected."""

    def __init__(self, count: int) -> None:
        self._workers = [_Worker() for _ in range(count)]
        self._close = weakref.finalize(self, _end, self._workers)

    @property
    def alive(self) -> bool:
        """Whether all workers still run."""
        return self._close.alive and all(worker.process.poll() is None for worker in self._workers)

    def close(self) -> None:
        """End all workers, and return when none of them writes any more."""
        self._close()

    def each(self, work: Sent, parts: Sequence[Sequence[Any]], take: Callable[[list[Any]], None]) -> bool:
        """Call ``take`` with the outcomes of the work on each of ``parts``; return False if it cannot.

        It cannot if a worker fails to load the work, such as a class of the script that is running; then
        nothing has been done.
        """
        with ThreadPoolExecutor(len(self._workers)) as threads:
            try:
                if not self._loaded(work, threads):
                    return False
                waiting, lock = iter(parts), Lock()
                talks = [threads.submit(worker.through, waiting, lock, take) for worker in self._workers]
                for talk in talks:
                    talk.result()
            except BaseException:
                # An error is raised when no worker writes any more.
                self.close()
                raise
        return True

    def _loaded(self, work: Sent, threads: ThreadPoolExecutor) -> bool:
        """Return whether all workers have ``work`` now; one that could not start has not."""
        try:
            return all(list(threads.map(lambda worker: worker.load(work), self._workers)))
        except WorkerLost:
            self.close()
            return False


class Sent:
    """Pickled work, and the keyed noise whose keys workers may ask for."""

    def __init__(self, work: object) -> None:
        self.noise: list[Keyed] = []
        with secrets_stay(self.noise):
            self.content = pickle.dumps(work)


def _environment() -> dict[str, str]:
    """Return the environment of a worker: that of this process without our settings, which hold secrets."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SFUMATO_")}
    return kept | dict.fromkeys(_ONE_THREAD, "1")


class _Worker:
    """One worker and this end of the connection to it."""

    def __init__(self) -> None:
        here, there = socket.socketpair()
        with there:
            program = _PROGRAM.format(
                path=sys.path, module=__name__, descriptor=there.fileno(), parent=os.getpid()
            )
            self.process = subprocess.Popen(
                [sys.executable, "-c", program],
                env=_environment(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,  # what is printed there is for results
                pass_fds=(there.fileno(),),
            )
        self.link = Connection(here.detach())
        self._noise: list[Keyed] = []

    def load(self, work: Sent) -> bool:
        """Send ``work``; return False if it cannot be loaded there."""
        self._noise = work.noise
        return bool(self._request(work.content))

    def through(
        self, waiting: Iterator[Sequence[Any]], lock: Lock, take: Callable[[list[Any]], None]
    ) -> None:
        """Hand out one of the ``waiting`` parts after the other until there is none."""
        while True:
            with lock:
                part = next(waiting, None)
            if part is None:
                return
            found = self._request(list(part))
            with lock:
                take(found)

    def _request(self, message: object) -> Any:
        """Return the worker's answer; meanwhile it may ask for keys. What it raised is raised here."""
        try:
            self.link.send(message)
            while True:
                kind, *received = self.link.recv()
                if kind != "keys":
                    break
                number, paths = received
                self.link.send(self._noise[number].derived(paths))
        except (EOFError, OSError):
            raise WorkerLost("a worker process ended before its work was done.") from None
        if kind == "raised":
            raise received[0]
        return received[0]


def _end(workers: Sequence[_Worker]) -> None:
    for worker in workers:
        worker.process.terminate()
    for worker in workers:
        with suppress(subprocess.TimeoutExpired):
            worker.process.wait(_GRACE)
        worker.process.kill()
        worker.process.wait()
        worker.link.close()


def serve(descriptor: int, parent: int) -> None:
    """Serve the connection ``descriptor`` until it ends, or the process ``parent`` does."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # it goes to all; the parent decides
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    if sys.platform == "linux":
        _LIBRARY.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != parent:
        return
    if hasattr(_LIBRARY, "mallopt"):
        # Batches of images take and free the same megabytes again and again: keep them in the process.
        for option in (_M_MMAP_THRESHOLD, _M_TRIM_THRESHOLD):
            _LIBRARY.mallopt(option, _KEPT_BYTES)
    from sfumato.release.engines import outcomes

    link = Connection(descriptor)

    def ask(number: int, paths: list[tuple[bytes, ...]]) -> list[bytes]:
        link.send(("keys", number, paths))
        found: list[bytes] = link.recv()
        return found

    ask_for_keys(ask)
    import sfumato.release.folder
    import sfumato.release.media_files  # noqa: F401 (what most work needs, before it comes)

    gc.freeze()
    work: Any = None
    with suppress(EOFError, OSError):
        while True:
            message = link.recv()
            if isinstance(message, bytes):
                work = _loaded(message)
                link.send(("done", work is not None))
                continue
            try:
                link.send(("done", outcomes(work, message)))
            except (EOFError, OSError):
                raise
            except Exception as error:
                try:
                    link.send(("raised", error))
                except (pickle.PicklingError, AttributeError, TypeError):
                    link.send(("raised", RuntimeError(repr(error))))


def _loaded(content: bytes) -> Any:
    """Return the work in ``content``; None if this process cannot load it."""
    try:
        return pickle.loads(content)
    except Exception:
        return None
