"""A Flower grid that waits for every client by itself, up to one public deadline.

Flower's own HTTP grid reads all replies in one thread: while it reads a long one, time runs out for the
others, and one that cannot be read raises an exception in the place of all. Here a thread of its own asks for
the reply of each client, so that what one of them sends, or when, decides about no other one: a reply counts
if it was read completely by the deadline, and one that cannot be read is no reply.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from logging import WARNING
from threading import Condition, Thread
from typing import TYPE_CHECKING, Any

from flwr.app import Message
from flwr.supercore import log

if TYPE_CHECKING:
    from flwr.serverapp import Grid

__all__ = ["DeadlineGrid"]

# Seconds until a client is looked for again: a tenth of the time that has gone by, within these bounds.
_SOONEST, _LATEST = 0.05, 1.0


class DeadlineGrid:
    """``grid`` with another way to wait; everything else is the grid's own.

    Without a timeout, and over a grid that ``keeps_deadlines`` by itself, replies are those of the grid.
    """

    def __init__(self, grid: Grid) -> None:
        self._grid = grid

    def __getattr__(self, name: str) -> Any:
        return getattr(self._grid, name)

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> Iterable[Message]:
        """Return the replies that were read within ``timeout`` seconds, at most one to each message."""
        if timeout is None or getattr(self._grid, "keeps_deadlines", False):
            return self._grid.send_and_receive(messages, timeout=timeout)
        asked = list(messages)
        sent = list(self._grid.push_messages(asked)) if asked else []
        until, done = time.monotonic() + timeout, _Done()
        for message, identifier in zip(asked, sent, strict=True):
            waiting = (message.metadata.dst_node_id, identifier, until, done)
            Thread(target=self._wait, args=waiting, daemon=True).start()
        return done.replies(len(asked), until)

    def _wait(self, node: int, identifier: str, until: float, done: _Done) -> None:
        """Ask for the reply of ``node`` until there is one, or time is over."""
        begun, found = time.monotonic(), None
        try:
            # A message that the SuperLink did not take, since the node is gone, has no identifier.
            while identifier and found is None and (now := time.monotonic()) < until:
                found = next(iter(self._grid.pull_messages([identifier])), None)
                if found is None:
                    pause = min(_LATEST, max(_SOONEST, (now - begun) / 10.0))
                    time.sleep(max(0.0, min(pause, until - time.monotonic())))
            # What a reply says of its sender was written by the sender.
            if found is not None and found.metadata.src_node_id != node:
                found = None
        except Exception as error:  # whatever Flower stumbles over in what came from outside
            log(WARNING, "the reply of node %s cannot be read: %s", node, type(error).__name__)
            found = None
        done.keep(found if time.monotonic() <= until else None)


class _Done:
    """What the threads of one round have found: for each client a reply, or None."""

    def __init__(self) -> None:
        self._found: list[Message | None] = []
        self._came = Condition()

    def keep(self, found: Message | None) -> None:
        with self._came:
            self._found.append(found)
            self._came.notify_all()

    def replies(self, count: int, until: float) -> list[Message]:
        """Return all replies once ``count`` clients are done, or those that are there at ``until``."""
        with self._came:
            self._came.wait_for(lambda: len(self._found) == count, max(0.0, until - time.monotonic()))
            return [reply for reply in self._found if reply is not None]
