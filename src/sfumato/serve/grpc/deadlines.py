"""Deadlines of our own, for clients that set none."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from sfumato.serve.request_files import TooSlow

__all__ = ["within"]


@asynccontextmanager
async def within(seconds: float, sentence: str) -> AsyncIterator[None]:
    """Refuse with ``sentence`` what goes on in the block for longer than ``seconds``."""
    scope = asyncio.timeout(seconds)
    try:
        async with scope:
            yield
    except TimeoutError:
        if not scope.expired():
            raise
        raise TooSlow(sentence) from None
