"""Arithmetic of any precision that no other thread can disturb.

mpmath's own functions share one working precision among all threads: a thread that leaves ``workprec``
would cut the digits of another in the middle of its computation, and an interval that must hold the
true value could miss it. So each thread computes in a context of its own.
"""

from __future__ import annotations

import threading
from typing import Any

__all__ = ["precise"]

_own = threading.local()


def precise() -> Any:
    """An mpmath context that belongs to the calling thread, to be used under its ``workprec``."""
    if not hasattr(_own, "context"):
        import mpmath  # for one draw in thousands, and slow to load

        _own.context = mpmath.MPContext()
    return _own.context
