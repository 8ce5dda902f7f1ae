"""Random streams of AES-256 in counter mode, exact uniform choices from them, and threads that draw.

Streams are keyed by the operating system, by a secret, or by a seed. A :class:`Randomness` hands out
:class:`Stream` objects, one for each block of work, so that threads never share a generator and a keyed or
seeded run does not depend on how many threads ran. NumPy and AES release the interpreter lock.
"""

from __future__ import annotations

import hashlib
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

from sfumato.errors import BadInput

__all__ = [
    "THREADS",
    "NoisedSums",
    "Randomness",
    "Secure",
    "Seeded",
    "Stream",
    "coins",
    "each_block",
    "inner_threads",
    "processors",
    "random_permutation",
    "uniform_integers",
]

_KEY_BYTES = 32
_ZEROS = bytes(1 << 18)


class Stream:
    """An endless stream of 64-bit words: the AES-256-CTR key stream of one 32-byte key.

    A stream made without a key takes one from the operating system, and takes a new one
    when it finds itself in a forked child, so that parent and child never share noise.

    A stream may also be the streams of several units side by side (see ``keyed``): each then gives an
    equal share of what is drawn, unit after unit, so that draws of all units take one pass.
    """

    #: How many units draw from this stream, each from words of its own.
    units: int = 1

    def __init__(self, key: bytes | None = None) -> None:
        self._from_system = key is None
        self._start(os.urandom(_KEY_BYTES) if key is None else key)

    def _start(self, key: bytes) -> None:
        self._encryptor = Cipher(algorithms.AES256(key), modes.CTR(bytes(16))).encryptor()
        self._process = os.getpid()

    def words(self, count: int, into: NDArray[np.uint64] | None = None) -> NDArray[np.uint64]:
        """Return the next ``count`` words; written into ``into`` where given, which holds two words more."""
        if self._from_system and self._process != os.getpid():
            self._start(os.urandom(_KEY_BYTES))
        # update_into wants one cipher block of room beyond what it writes.
        buffer = np.empty(count + 2, dtype=np.uint64) if into is None else into
        view, done, total = buffer.data.cast("B"), 0, 8 * count
        while done < total:
            size = min(total - done, len(_ZEROS))
            zeros = _ZEROS if size == len(_ZEROS) else memoryview(_ZEROS)[:size]
            done += self._encryptor.update_into(zeros, view[done:])
        return buffer[:count]

    def rungs(self, rungs: int, count: int, into: NDArray[np.uint64] | None = None) -> NDArray[np.uint64]:
        """Return words of shape (rungs, count): each unit's words, rung by rung, beside the next unit's."""
        return self.words(rungs * count, into).reshape(rungs, count)

    def again(self, where: NDArray[np.intp], count: int) -> NDArray[np.uint64]:
        """Return one further word for each of the positions ``where``, in order, of ``count`` draws."""
        return self.words(where.size)

    def owner(self, position: int, count: int) -> Stream:
        """Return the stream of the unit that the draw at ``position`` of ``count`` belongs to."""
        return self

    def each(self) -> list[Stream]:
        """Return the stream of each unit."""
        return [self]

    def integer(self, bits: int) -> int:
        """Return a uniform integer of ``bits`` bits; ``bits`` is a multiple of 64."""
        if bits % 64 or bits < 64:
            raise BadInput(f"{bits} random bits were asked for: a multiple of 64 is drawn.")
        return int.from_bytes(self.words(bits // 64).tobytes(), "little")


class Randomness(ABC):
    """Source of noise; :meth:`stream` gives the stream for one labelled block of work."""

    reproducible: bool = False

    @abstractmethod
    def stream(self, label: bytes) -> Stream:
        """Return a stream for the block of work named ``label``."""


class Secure(Randomness):
    """The operating system's randomness, expanded by AES-CTR. Every stream has a key of its own."""

    def stream(self, label: bytes) -> Stream:
        """Return a stream under a fresh key; the label plays no part."""
        return Stream()

    def __repr__(self) -> str:
        return "Secure()"


class Seeded(Randomness):
    """Reproducible noise for experiments. Anyone who knows the seed can remove the noise.

    A release drawn from it says so in its statement and is never signed. The same seed and the
    same call give the same noise, also across releases: that is its use and its danger.
    """

    reproducible = True

    def __init__(self, seed: int) -> None:
        if isinstance(seed, bool) or not isinstance(seed, int | np.integer):
            raise BadInput(f"a seed must be a whole number, not {seed!r}.")
        self.seed = int(seed)

    def stream(self, label: bytes) -> Stream:
        """Return the stream of this seed and ``label``."""
        return Stream(hashlib.sha256(b"sfumato seeded\0%d\0" % self.seed + label).digest())

    def __repr__(self) -> str:
        return f"Seeded({self.seed})"


def uniform_integers(stream: Stream, bound: int, count: int) -> NDArray[np.int64]:
    """Return ``count`` integers, exactly uniform on 0 … bound−1; words that would favour some are redrawn."""
    largest = np.uint64((1 << 64) // bound * bound - 1)
    words = stream.words(count)
    favoured = np.flatnonzero(words > largest)
    while favoured.size:
        words[favoured] = stream.again(favoured, count)
        favoured = favoured[words[favoured] > largest]
    return (words % np.uint64(bound)).astype(np.int64)


def coins(stream: Stream, threshold: int, count: int) -> NDArray[np.bool_]:
    """Return ``count`` coins, True with probability exactly ``threshold``/2⁶⁴, 0 ≤ threshold < 2⁶⁴."""
    return stream.words(count) < np.uint64(threshold)


def random_permutation(stream: Stream, count: int) -> NDArray[np.intp]:
    """Return a uniform permutation of 0 … count−1: the order of distinct random words."""
    words = stream.words(count)
    while np.unique(words).size < count:
        words = stream.words(count)
    return np.argsort(words)


#: Computes one sum with noise; everything random in it comes from the randomness that it is given.
Draw = Callable[[Randomness], NDArray[Any]]


class NoisedSums:
    """Draws the noised sums of one run, in order; ``count`` is the number of the next one.

    A run that learns, publishes or federates reads private records through such sums alone. A subclass that
    keeps them may return a sum that was drawn before in place of drawing it
    (:mod:`sfumato.release.checkpoint`): streams are named by the number of the step, so that a step that is
    not drawn again shifts no other.

    ``state`` is what a run that goes on from there made of the sums before ``count``; None where it begins
    with the first.
    """

    state: bytes | None = None

    def __init__(self, randomness: Randomness) -> None:
        self._randomness, self.count = randomness, 0

    def stream(self, label: bytes) -> Stream:
        """Return a stream for what is drawn once in a run and reads no record: first weights, an order."""
        return self._randomness.stream(b"run " + label)

    def __call__(self, draw: Draw) -> NDArray[Any]:
        """Return the next sum, which ``draw`` computes with the randomness of its step alone."""
        number, self.count = self.count, self.count + 1
        return self._sum(number, lambda: draw(_Step(self._randomness, number)))

    def save(self, state: Callable[[], bytes]) -> None:
        """Let ``state()``, a function of the sums so far and of public choices, be kept in their place."""

    def _sum(self, number: int, drawn: Callable[[], NDArray[Any]]) -> NDArray[Any]:
        return drawn()


class _Step(Randomness):
    """The randomness of step ``number``."""

    def __init__(self, whole: Randomness, number: int) -> None:
        self._whole, self._name, self.reproducible = whole, b"step %d " % number, whole.reproducible

    def stream(self, label: bytes) -> Stream:
        """Return the stream of ``label`` in this step."""
        return self._whole.stream(self._name + label)


#: The environment variable that says how many processors to use, where that is fewer than there are.
THREADS = "SFUMATO_THREADS"


def processors() -> int:
    """Return how many processors this process may use."""
    told = os.environ.get(THREADS, "")
    if told.isdigit() and int(told) > 0:
        return int(told)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def inner_threads(most: int | None) -> Iterator[None]:
    """Let linear algebra use at most so many threads in the block, where others work beside it already.

    That holds for the whole process. None leaves it as it is.
    """
    if most is None:
        yield
        return
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    with threadpool_limits(most):
        yield


def each_block(work: Callable[[int], None], blocks: int, threads: int | None = None) -> None:
    """Call ``work(0)`` … ``work(blocks − 1)``, on ``threads`` threads (default: all processors).

    The first error is raised, after which no further block is started.
    """
    count = min(processors() if threads is None else threads, blocks)
    if count <= 1:
        for block in range(blocks):
            work(block)
        return
    with ThreadPoolExecutor(count) as pool:
        futures = [pool.submit(work, block) for block in range(blocks)]
        try:
            for future in futures:
                future.result()
        except BaseException:
            for future in futures:
                future.cancel()
            raise
