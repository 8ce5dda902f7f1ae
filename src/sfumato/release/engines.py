"""Engines that do the same work on many pieces: on threads or processes here, or on a cluster."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import closing, contextmanager
from threading import Lock
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from sfumato.errors import BadInput, SfumatoError, StorageFailed
from sfumato.mechanisms import chosen
from sfumato.noise import each_block, inner_threads, processors

if TYPE_CHECKING:
    from sfumato.release.path import Report
    from sfumato.release.process_pool import ProcessPool

__all__ = ["opened_engine"]

ENGINES = ("local", "ray")
Piece = TypeVar("Piece")
Result = TypeVar("Result")
# Most pieces that are handed out at once: enough to draw images together, few enough to share them evenly.
_CHUNK = 16
#: From so many pieces on, processes are worth the second that they take to start.
MANY = 256
#: A piece with its result or, in a sentence, why it was refused.
Outcome = tuple[Piece, Result | None, str | None]


def outcome(work: Callable[[Piece], Result], piece: Piece) -> Outcome[Piece, Result]:
    """Return what ``work`` makes of ``piece``, or why it refuses it."""
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
    """Return the outcome of ``work`` for each of ``pieces``; at once, if it has a method ``several``."""
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
        """Add the outcomes of some pieces."""
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
        """Return whether the results of work on ``count`` pieces stay in this process."""

    def each(
        self,
        work: Callable[[Piece], Result],
        pieces: Sequence[Piece],
        stage: str,
        report: Report,
        done: Done[Piece, Result] | None = None,
    ) -> Done[Piece, Result]:
        """Call ``work`` on every piece, and report the progress of ``stage``; errors of ours are refusals.

        Anything else ends it, and so does a disk that is full or broken. Outcomes are added to ``done`` as
        they are known.
        """
        into: Done[Piece, Result] = Done() if done is None else done
        count = 0

        def take(found: Collection[Outcome[Piece, Result]]) -> None:
            nonlocal count
            into.add(found)
            count += len(found)
            report(stage, count / len(pieces))

        self._run(work, pieces, take)
        return into

    @abstractmethod
    def _run(
        self, work: Callable[[Any], Any], pieces: Sequence[Any], take: Callable[[list[Any]], None]
    ) -> None:
        """Call ``take`` with the outcomes of ``work`` on all ``pieces``, some at a time, in one thread."""


class LocalEngine(Engine):
    """Threads of this process for few pieces, processes of this machine for many.

    There are as many as processors unless ``workers`` is given. Processes take a second to start, and stay
    until the engine is closed.
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
        """Return whether the work on ``count`` pieces is done in this process."""
        return self.workers == 1 or count < MANY

    def _run(
        self, work: Callable[[Any], Any], pieces: Sequence[Any], take: Callable[[list[Any]], None]
    ) -> None:
        size = max(1, min(_CHUNK, len(pieces) // (4 * self.workers)))
        parts = [pieces[at : at + size] for at in range(0, len(pieces), size)]
        if not self.in_memory(len(pieces)) and self._by_processes(work, parts, take):
            return
        lock = Lock()

        def some(index: int) -> None:
            found = outcomes(work, parts[index])
            with lock:
                take(found)

        with inner_threads(1 if self.workers > 1 and len(parts) > 1 else None):
            each_block(some, len(parts), self.workers)

    def _by_processes(
        self, work: Callable[[Any], Any], parts: Sequence[Sequence[Any]], take: Callable[[list[Any]], None]
    ) -> bool:
        """Return whether ``work`` could be sent to processes, and was done there."""
        from sfumato.release.process_pool import Sent

        try:
            sent = Sent(work)
        except Exception:  # whatever cannot be pickled
            return False
        self.prepare(MANY)
        return self._pool is not None and self._pool.each(sent, parts, take)


@contextmanager
def opened_engine(
    name: str = "local", workers: int | None = None, source: str | None = None
) -> Iterator[Engine]:
    """Yield the engine ``name`` with ``workers``, by default one for each processor.

    If ``source`` is a folder of many files, processes start now, while this one loads what it needs.
    """
    if workers is not None and workers < 1:
        raise BadInput(f"`workers` was {workers}", parameter="workers", accepted="1 or more")
    if chosen(name, ENGINES, "engine") == "local":
        with closing(LocalEngine(workers)) as local:
            if source is not None and os.path.isdir(source):
                local.prepare(len(os.listdir(source)))
            yield local
        return
    from sfumato.release.ray_engine import ray_engine

    with ray_engine(workers) as engine:
        yield engine
