"""Temporary folders that are removed even where the process that needs them is killed.

Beside the process stands another one, which does nothing but wait for the end of its standard input. The
system ends that whatever becomes of the first process, and then the folder is removed. This file is also the
program of the second process, which is there in milliseconds: it needs nothing but the standard library.
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

# Whoever still writes into the folder of a process that was killed is given this many times a pause to end.
_TURNS, _PAUSE = 300, 0.1


@contextmanager
def private_folder(prefix: str) -> Iterator[Path]:
    """A folder of mode 0700 that is gone after the block, and soon after a kill of this process in it."""
    with TemporaryDirectory(prefix=prefix) as place, gone_afterwards(Path(place)):
        yield Path(place)


@contextmanager
def gone_afterwards(place: Path) -> Iterator[None]:
    """The folder ``place`` is gone after the block, and soon after a kill of this process in it."""
    command = [sys.executable, "-I", "-S", __file__, str(place)]
    # A session of its own: what ends this process and all of its kind leaves that one to do its work.
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
