"""The engines by the names people type.

Engines do the same work on many pieces: on threads or processes of this machine, or on a cluster.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from threading import Lock
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from sfumato.errors import BadInput, SfumatoError, StorageFailed
from sfumato.mechanisms import chosen
from sfumato.noise import each_block, inner_threads, processors

if TYPE_CHECKING:
    from sfumato.release.path import Report
    from sfumato.release.process_pool import ProcessPool

__all__ = ["opened_engine"]

Piece = TypeVar("Piece")
Result = TypeVar("Result")
# Most pieces that are handed out at once: enough to draw pictures together, few enough to share them evenly.
_CHUNK = 16
#: From so many pieces on, processes are worth the second that they take to start.
MANY = 256


#: A piece with its result or, in a sentence, why it was refused.
Outcome = tuple[Piece, Result | None, str | None]


def outcome(work: Callable[[Piece], Result], piece: Piece) -> Outcome[Piece, Result]:
    """``work`` on ``piece``; what raises an error of ours is refused."""
    try:
        return piece, work(piece), None
    except SfumatoError as error:
        return refusal(piece, error)


def refusal(piece: Piece, error: SfumatoError) -> Outcome[Piece, Any]:
    """Return why ``piece`` is refused; a disk that failed is no fault of it, and ends all work."""
    if isinstance(error, StorageFailed):
        raise error
    return piece, None, str(error)


def outcomes(work: Callable[[Piece], Result], pieces: Sequence[Piece]) -> list[Outcome[Piece, Result]]:
    """``work`` on each of ``pieces``; at once, where it has a way to do ``several``."""
    several = getattr(work, "several", None)
    if several is not None:
        return list(several(pieces))
    return [outcome(work, piece) for piece in pieces]


class Done(Generic[Piece, Result]):
    """What became of pieces: ``results`` of some and, in a sentence, why others were ``refused``."""

    def __init__(self) -> None:
        self.results: dict[Piece, Result] = {}
        self.refused: dict[Piece, str] = {}

    def add(self, found: Collection[Outcome[Piece, Result]]) -> None:
        """Take up what became of some pieces."""
        for piece, result, refused in found:
            if refused is None:
                self.results[piece] = cast("Result", result)
            else:
                self.refused[piece] = refused


class Engine(ABC):
    """Calls work on pieces; whatever runs them, each piece gives one result or one refusal.

    Work may be done twice on a piece whose worker was lost, so it must give the same bytes each time:
    ``retries`` says whether that can happen, and that nobody knows when the last worker has stopped.
    """

    retries: bool

    @abstractmethod
    def in_memory(self, count: int) -> bool:
        """Whether the results of work on ``count`` pieces need not travel."""

    @abstractmethod
    def each(
        self,
        work: Callable[[Piece], Result],
        pieces: Sequence[Piece],
        stage: str,
        report: Report,
        done: Done[Piece, Result] | None = None,
    ) -> Done[Piece, Result]:
        """``work`` on every piece; what raises an error of ours is refused.

        Anything else ends it, and so does a disk that is full or broken. What becomes of pieces is added to
        ``done`` as it is known.
        """


class LocalEngine(Engine):
    """Threads of this process for few pieces, processes of this machine for many.

    There are as many as processors unless ``workers`` says how many. Processes take a second to start, and
    stay until the engine is closed.
    """

    retries = False

    def __init__(self, workers: int | None = None) -> None:
        self.workers = workers or processors()
        self._pool: ProcessPool | None = None

    def prepare(self, count: int) -> None:
        """Start processes, if so many pieces are to come that they help."""
        if not self.in_memory(count) and (self._pool is None or not self._pool.alive):
            from sfumato.release.process_pool import ProcessPool

            self._pool = ProcessPool(self.workers)

    def close(self) -> None:
        """End the processes, if there are any."""
        if self._pool is not None:
            self._pool.close()

    def in_memory(self, count: int) -> bool:
        """Whether the work on ``count`` pieces is done in this process."""
        return self.workers == 1 or count < MANY

    def each(
        self,
        work: Callable[[Piece], Result],
        pieces: Sequence[Piece],
        stage: str,
        report: Report,
        done: Done[Piece, Result] | None = None,
    ) -> Done[Piece, Result]:
        """``work`` on every piece, told by ``report`` as the pieces are done."""
        into: Done[Piece, Result] = Done() if done is None else done
        count, size = 0, max(1, min(_CHUNK, len(pieces) // (4 * self.workers)))
        parts = [pieces[at : at + size] for at in range(0, len(pieces), size)]

        def take(found: list[Outcome[Piece, Result]]) -> None:
            nonlocal count
            into.add(found)
            count += len(found)
            report(stage, count / len(pieces))

        if not self.in_memory(len(pieces)) and self._by_processes(work, parts, take):
            return into
        lock = Lock()

        def some(index: int) -> None:
            found = outcomes(work, parts[index])
            with lock:
                take(found)

        with inner_threads(1 if self.workers > 1 and len(parts) > 1 else None):
            each_block(some, len(parts), self.workers)
        return into

    def _by_processes(
        self,
        work: Callable[[Piece], Result],
        parts: Sequence[Sequence[Piece]],
        take: Callable[[list[Outcome[Piece, Result]]], None],
    ) -> bool:
        """Whether ``work`` could be sent to processes, and was done there."""
        from sfumato.release.process_pool import Sent

        try:
            sent = Sent(work)
        except Exception:  # whatever has no form in which it could travel
            return False
        self.prepare(MANY)
        return self._pool is not None and self._pool.each(sent, parts, take)


ENGINES = ("local", "ray")


@contextmanager
def opened_engine(
    name: str = "local", workers: int | None = None, source: str | None = None
) -> Iterator[Engine]:
    """The engine ``name`` with ``workers``, or as many as there are processors, while the block lasts.

    Where ``source`` is a folder of many files, processes start now, while this one loads what it needs.
    """
    if workers is not None and workers < 1:
        raise BadInput(f"`workers` was {workers}", parameter="workers", accepted="1 or more")
    if chosen(name, ENGINES, "engine") == "local":
        local = LocalEngine(workers)
        try:
            if source is not None and os.path.isdir(source):
                local.prepare(len(os.listdir(source)))
            yield local
        finally:
            local.close()
        return
    from sfumato.release.ray_engine import ray_engine

    with ray_engine(workers) as engine:
        yield engine
