"""Processes that a run starts beside itself, and that all end with it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from sfumato.learners.federated.flower_import import QUIET
from sfumato.release import child_process

__all__ = ["ChildProcesses"]

_GRACE = 5.0


class ChildProcesses:
    """Starts processes, whose logs stand in ``folder``; all of them end with the block.

    They are told to, and killed where that does not help. Where this process is killed itself, they are told
    by the system (see ``tied``; on Linux alone). ``own`` is added to the environment that they
    inherit; their Flower home is in the folder too, so that nothing is written to that of whoever runs them.
    What they are to know stands in files: everybody on a machine may see command lines.
    """

    def __init__(self, folder: Path, own: Mapping[str, str]) -> None:
        self.folder = folder
        self.home = folder / "home"
        self.home.mkdir(mode=0o700)
        self.environment = {**os.environ, **QUIET, "FLWR_HOME": str(self.home), **own}
        self._started: list[subprocess.Popen[bytes]] = []
        self._logs: list[IO[bytes]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # The last one first: it may depend on those before.
        started = self._started[::-1]
        for process in started:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        until = time.monotonic() + _GRACE
        for process in started:
            try:
                process.wait(max(0.0, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        for log in self._logs:
            log.close()

    def start(self, name: str, *command: str) -> subprocess.Popen[bytes]:
        """Start ``command``; what it says is written to ``name`` with ``.log`` in the folder."""
        log = (self.folder / f"{name}.log").open("wb")
        self._logs.append(log)
        # A session of its own: an interrupt from the keyboard reaches this process, which ends the others.
        process = subprocess.Popen(
            (sys.executable, "-I", "-S", child_process.__file__, str(os.getpid()), *command),
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self._started.append(process)
        return process
