"""Run a program that ends with the process that started it: ``child_process.py PID COMMAND…``.

On Linux the kernel sends SIGTERM to the program when its parent, PID, has ended; this survives the exec.
Elsewhere nothing is sent. Only the standard library is imported, which takes milliseconds.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main(parent: int, command: list[str]) -> int:
    """Become ``command``; return 1 if ``parent`` has ended already, or its end would not be signalled."""
    if sys.platform == "linux" and ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0):
        return 1
    if os.getppid() != parent:
        return 1
    os.execvp(command[0], command)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2:]))
