"""A Flower grid that does not wait for the last client as long as for the first.

Flower notices a client that died by its missing heartbeats, after a minute; until then a round would wait.
Here a round ends when every client has answered, or when the others have had ``factor`` times as long as the
first one took, or at the timeout. A first answer that came soon does not hurry the others: they have a tenth
of the timeout after it in any case, since clients of one machine take turns, and a busy one keeps some
waiting.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from flwr.app import Message

if TYPE_CHECKING:
    from flwr.serverapp import Grid

__all__ = ["Straggling"]

# How long to wait before looking again: a tenth of the time that has gone by, within these bounds.
_SOONEST, _LATEST = 0.01, 0.2
# The share of the timeout that all clients have after the first answer.
_SHARE = 0.1


class Straggling:
    """``grid`` with another way to wait; everything else is the grid's own."""

    def __init__(self, grid: Grid, factor: float) -> None:
        self._grid, self._factor = grid, factor

    def __getattr__(self, name: str) -> Any:
        return getattr(self._grid, name)

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> list[Message]:
        """The replies that came in time, in the order in which they came; all of them without a timeout."""
        begun = time.monotonic()
        until = float("inf") if timeout is None else begun + timeout
        waiting = set(self._grid.push_messages(messages))
        replies: list[Message] = []
        while waiting:
            came = list(self._grid.pull_messages(waiting))
            waiting -= {reply.metadata.reply_to_message_id for reply in came}
            now = time.monotonic()
            if came and not replies and timeout is not None:
                until = min(until, now + max(_SHARE * timeout, (self._factor - 1.0) * (now - begun)))
            replies += came
            if now > until:
                break
            if waiting:
                time.sleep(min(_LATEST, max(_SOONEST, (now - begun) / 10.0)))
        return replies
