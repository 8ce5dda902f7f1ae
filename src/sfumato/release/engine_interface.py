"""Engines do the same work on many pieces: here on the threads of one process, elsewhere on a cluster."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from threading import Lock
from typing import TYPE_CHECKING, Generic, TypeVar

from sfumato.errors import SfumatoError, StorageFailed
from sfumato.noise import each_block

if TYPE_CHECKING:
    from sfumato.release.protected_file import Report

__all__ = ["Done", "Engine", "LocalEngine"]

Piece = TypeVar("Piece")
Result = TypeVar("Result")


class Done(Generic[Piece, Result]):
    """What became of pieces: ``results`` of some and, in a sentence, why others were ``refused``."""

    def __init__(self) -> None:
        self.results: dict[Piece, Result] = {}
        self.refused: dict[Piece, str] = {}


class Engine(ABC):
    """Calls work on pieces; whatever runs them, each piece gives one result or one refusal.

    Work may be done twice on a piece whose worker was lost, so it must give the same bytes each time:
    ``retries`` says whether that can happen. ``one_process`` says that results need not travel.
    """

    retries: bool
    one_process: bool

    @abstractmethod
    def each(
        self, work: Callable[[Piece], Result], pieces: Sequence[Piece], stage: str, report: Report
    ) -> Done[Piece, Result]:
        """``work`` on every piece; what raises an error of ours is refused.

        Anything else ends it, and so does a disk that is full or broken.
        """


class LocalEngine(Engine):
    """Threads of this process, as many as there are processors unless ``workers`` says how many."""

    retries, one_process = False, True

    def __init__(self, workers: int | None = None) -> None:
        self.workers = workers

    def each(
        self, work: Callable[[Piece], Result], pieces: Sequence[Piece], stage: str, report: Report
    ) -> Done[Piece, Result]:
        """``work`` on every piece, told by ``report`` as the pieces are done."""
        done: Done[Piece, Result] = Done()
        lock, count = Lock(), 0

        def one(index: int) -> None:
            nonlocal count
            piece = pieces[index]
            try:
                result = work(piece)
            except StorageFailed:
                raise  # it is no fault of the piece, and the others would fail too
            except SfumatoError as error:
                done.refused[piece] = str(error)
            else:
                done.results[piece] = result
            with lock:
                count += 1
                report(stage, count / len(pieces))

        each_block(one, len(pieces), self.workers)
        return done
