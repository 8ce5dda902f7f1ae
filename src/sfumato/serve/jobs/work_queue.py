"""Small work takes turns in a process.

Threads that compute at the same time fight for the interpreter, and each release then takes half as long
again. So whoever works on a small file waits for who has the turn, but not long: where that takes its time,
as a small file that unpacks to a large picture does, the next goes on beside it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["Turns"]

_SMALL_BYTES = 1 << 20
_PATIENCE_SECONDS = 0.25


class Turns:
    """One turn, for the threads of a process."""

    def __init__(self) -> None:
        self._turn = threading.Lock()

    @contextmanager
    def taken(self, file: Path) -> Iterator[None]:
        """Work on ``file`` within the block: where it is small, once the turn is free or the patience over.

        Of several that wait, any may be next.
        """
        small = file.stat().st_size <= _SMALL_BYTES
        held = small and self._turn.acquire(timeout=_PATIENCE_SECONDS)
        try:
            yield
        finally:
            if held:
                self._turn.release()
