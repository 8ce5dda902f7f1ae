"""Trying again: with growing, jittered waits, for what passes; never for what does not."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from sfumato.io.storage_errors import StartOver, fault_of

__all__ = ["Patience"]

T = TypeVar("T")
_jitter = secrets.SystemRandom()


@dataclass(frozen=True, kw_only=True)
class Patience:
    """How long a fault that may pass is waited out.

    The wait before attempt ``n + 1`` is between half and the whole of ``first * 2**(n - 1)`` seconds, at most
    ``longest``; no attempt begins after ``attempts`` of them or ``total`` seconds after the first began.
    """

    attempts: int = 8
    first: float = 0.2
    longest: float = 6.0
    total: float = 30.0

    def wait(self, attempt: int) -> float:
        """Seconds to wait after ``attempt`` (the first is 1) has failed."""
        return min(self.longest, self.first * 2.0 ** (attempt - 1)) * _jitter.uniform(0.5, 1.0)

    def through(self, action: Callable[[], T], url: str, doing: str) -> T:
        """What ``action`` answers, at last; or the fault, at once if it will not pass.

        ``StartOver`` goes through to whoever can begin again.
        """
        began = time.monotonic()
        for attempt in range(1, self.attempts + 1):
            try:
                return action()
            except StartOver:
                raise
            except Exception as error:
                fault = fault_of(error, url, doing)
            wait = self.wait(attempt)
            if not fault.passing or attempt == self.attempts or time.monotonic() + wait - began > self.total:
                break
            time.sleep(wait)
        # The cause may quote credentials, which a traceback would print. And what was waited for in vain will
        # not pass for an action around this one either.
        fault.passing = False
        raise fault from None
