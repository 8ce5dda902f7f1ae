"""Places for calls: those without a key have a few of their own, and never one of those with a key."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from sfumato.serve.registry_errors import Busy

__all__ = ["Places"]

_WITH_KEYS = ""


class Places:
    """At most ``calls`` with keys at once, and beside them ``open_calls`` of each method that needs none."""

    def __init__(self, calls: int, open_calls: int) -> None:
        self._calls, self._open_calls = calls, open_calls
        self._taken: Counter[str] = Counter()

    @contextmanager
    def with_key(self) -> Iterator[None]:
        """A place among the calls with keys, during the block."""
        with self._place(_WITH_KEYS, self._calls):
            yield

    @contextmanager
    def open(self, method: str) -> Iterator[None]:
        """A place among the calls of ``method``, which needs no key, during the block."""
        with self._place(method, self._open_calls):
            yield

    @contextmanager
    def _place(self, kind: str, most: int) -> Iterator[None]:
        if self._taken[kind] >= most:
            raise Busy(f"{most:,} such calls are under way, which is the most at once; ask again.")
        self._taken[kind] += 1
        try:
            yield
        finally:
            self._taken[kind] -= 1
