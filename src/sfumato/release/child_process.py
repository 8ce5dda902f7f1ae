"""A program that ends with the process that started it: ``child_process.py PID COMMAND…`` becomes COMMAND.

On Linux the system is asked to tell the program by SIGTERM when its parent, PID, has ended; that lasts beyond
the exec. Elsewhere nothing is asked. It needs nothing but the standard library, and takes milliseconds.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main(parent: int, command: list[str]) -> int:
    """Become ``command``; 1 where ``parent`` has ended already, or the system would not tell of its end."""
    if sys.platform == "linux" and ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0):
        return 1
    if os.getppid() != parent:
        return 1
    os.execvp(command[0], command)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2:]))
