"""What a job is told while it is worked on, and what it tells: how far it is, and whether to go on."""

from __future__ import annotations

import math
import time

from sfumato.serve.request_files import TooSlow

__all__ = ["Cancelled", "Lost", "PutBack", "Watch"]


class _Stopped(Exception):
    """The work is not to go on. No error of the work: nothing that handles those handles this."""


class Cancelled(_Stopped):
    """A client has cancelled the job."""


class Lost(_Stopped):
    """Somebody else has the job in hand."""


class PutBack(_Stopped):
    """The process ends, and the job has not begun to draw: it goes back to the queue."""


class Watch:
    """One job in the hands of a worker: ``seconds`` is its lease, which a keeper puts off.

    It may take ``longest`` seconds.
    """

    def __init__(self, seconds: float, longest: float = math.inf) -> None:
        self._longest, self._begun = longest, time.monotonic()
        self.stage: str | None = None
        self.share: float | None = None
        self.cancelled = self.lost = self.ending = False
        #: Whether the hold may have been committed; never back to False.
        self.committed = False
        self._seconds = seconds
        self.kept()

    def kept(self) -> None:
        """The lease was put off just now."""
        self._until = time.monotonic() + self._seconds

    def report(self, stage: str, share: float | None) -> None:
        """Take note of how far the work is, and stop it if it is not to go on.

        Nothing is written here: a keeper writes what it finds every few seconds.
        """
        self.stage, self.share = stage, share
        self.check()

    def check(self) -> None:
        """Stop the work if it is not to go on."""
        if self.lost or time.monotonic() > self._until:
            raise Lost
        if self.cancelled:
            raise Cancelled
        if self.ending and not self.committed:
            raise PutBack
        if time.monotonic() - self._begun > self._longest:
            raise TooSlow(f"the job took longer than {self._longest:.0f} seconds, the most that it may.")
