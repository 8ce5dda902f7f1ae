"""Temporary folders that are removed even where the process that needs them is killed.

A second process waits for the end of its standard input, which the system closes whatever becomes of the
first process, and then removes the folder. This file is also the program of the second process, which starts
in milliseconds because it needs nothing but the standard library.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

__all__ = ["private_folder"]

# Processes that still write into the folder are given this many pauses, in seconds, to end.
_TURNS, _PAUSE = 300, 0.1


@contextmanager
def private_folder(prefix: str) -> Iterator[Path]:
    """Yield a new folder of mode 0700 that is removed after the block, also if this process is killed."""
    with TemporaryDirectory(prefix=prefix) as place, gone_afterwards(Path(place)):
        yield Path(place)


@contextmanager
def gone_afterwards(place: Path) -> Iterator[None]:
    """Remove the folder ``place`` soon after the block, also if this process is killed in it."""
    command = [sys.executable, "-I", "-S", __file__, str(place)]
    # A session of its own: a signal to this process group does not reach it.
    silent = subprocess.DEVNULL
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=silent, stderr=silent, start_new_session=True
    ):
        yield


def _sweep(place: str) -> None:
    """Wait until nobody holds the other end of the standard input, and remove ``place``."""
    for name in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(name, signal.SIG_IGN)
    sys.stdin.buffer.read()
    for _ in range(_TURNS):
        shutil.rmtree(place, ignore_errors=True)
        if not os.path.lexists(place):
            return
        time.sleep(_PAUSE)


if __name__ == "__main__":
    _sweep(sys.argv[1])
