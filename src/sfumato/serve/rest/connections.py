"""Connections that nobody holds for nothing: a head must come in time, an answer must be read.

Servers count connections, and who opens as many as are allowed and then says nothing shuts out everybody
else. Bodies have their own limits (``bounded_bodies``), which know how much came.
"""

from __future__ import annotations

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

__all__ = ["HEAD_SECONDS", "PatientProtocol"]

#: How long the head of a request may take, and the rest of a body that was refused already.
HEAD_SECONDS = 10.0
# How long a client may leave 64 KiB of its answer unread.
_UNREAD_SECONDS = 30.0


class PatientProtocol(H11Protocol):
    """HTTP/1.1 as uvicorn speaks it by h11, which is strict about where a request ends, with time limits."""

    def __init__(self, *arguments: Any, **words: Any) -> None:
        super().__init__(*arguments, **words)
        self._head: asyncio.TimerHandle | None = None
        self._unread: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """A client is there; the head of its first request is expected."""
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        """Bytes came."""
        super().data_received(data)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """The client is gone."""
        for timer in (self._head, self._unread):
            if timer is not None:
                timer.cancel()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """The client does not read as fast as it is answered."""
        super().pause_writing()
        if self._unread is None:
            self._unread = self.loop.call_later(_UNREAD_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        """It has read."""
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None
        super().resume_writing()

    def _watch(self) -> None:
        """Expect the end of what is coming, unless it is a body that an application reads."""
        theirs = self.conn.their_state
        answered = self.cycle is not None and self.cycle.response_complete
        expected = theirs is h11.IDLE or (theirs is h11.SEND_BODY and answered)
        if expected and self._head is None:
            self._head = self.loop.call_later(HEAD_SECONDS, self.transport.abort)
        elif not expected and self._head is not None:
            self._head.cancel()
            self._head = None
