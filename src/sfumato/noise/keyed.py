"""Keyed noise: the same release asked for twice returns the same bytes and costs nothing more.

The noise of a unit is a function of a secret and of everything that may change the release: dataset,
snapshot version, release id, mechanism with all its parameters, the unit's index, and its clipped, gridded
content. The guarantee is computational: it rests on the secret, and is void if the secret leaks.

**The streams of units, version 2.** The 65,536 units from a multiple of 65,536 on share three AES-256 keys
K₁, K₂ and K₃, which HMAC-SHA-256 derives from the secret, all names, the mechanism, the number of columns d
and that multiple. A unit with row r among them and content m₁ … m_d has the tag

    T = E(K₂, E(K₁, 1 ‖ m₁) ⊕ … ⊕ E(K₁, d ‖ m_d)),

and its noise is AES-256 in counter mode under K₃ from the block t ‖ r ‖ 0 on, where t is the first 80 bits of
T, r has 16 bits and the counter 32. At most 2³² blocks are drawn for one unit; more is refused. All blocks of
all units are independent of each other, so many units are drawn in one pass.

**Theorem.** (1) No two units of one release ever share a block of noise. Within 65,536 units the input blocks
of E(K₃, ·), a permutation, differ in r, or for one unit in the counter; beyond them the keys differ. (2) Two
contents m ≠ m′ at one index, under one secret and the same names, share noise with a probability of at most
2⁻⁸⁰ + 2⁻¹²⁶, if AES is a random permutation under each key: the sums differ in the images of one to d
distinct blocks under K₁, so they are equal with a probability of at most 2/(2¹²⁸ − 2d) ≤ 2⁻¹²⁶; if they
differ, so do their images under K₂, and 80 bits of two distinct images agree with a probability below 2⁻⁸⁰.
(3) By (1), the noise of a release is what AES-256 gives for distinct inputs under keys of HMAC-SHA-256: it is
told apart from independent uniform words with an advantage of at most those against HMAC and AES and, for q
blocks under one key, q²/2¹²⁹, the distance of a random permutation from a random function.
(1) and (3) hold whatever the content is: neither rests on (2).
"""

from __future__ import annotations

import hashlib
import hmac
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import product
from typing import Any, ClassVar

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.noise.randomness import Randomness, Stream

__all__ = ["Keyed", "Units", "ask_for_keys", "secret_to_send", "secrets_stay", "secrets_travel"]

Words = NDArray[np.uint64]

# How many units share keys; the row of a unit among them takes 16 bits of a block.
_SHARING = 1 << 16
# Whole numbers up to here are floats too.
_WHOLE = 2.0**53
_COUNTER_BITS = np.uint64(32)
_ROW_MASK = np.uint64((1 << 48) - 1)
# What one unit may draw, in words of half a block.
_MOST_WORDS = 1 << 33
# How many words of a unit are made ready at most before they are drawn.
_MOST_AHEAD = 64
# How many blocks of content are encrypted at once.
_CONTENT_BLOCKS = 1 << 14

# The first name of keys whose secret is gone when its run has ended.
_ONE_RUN = b"one run"

# Whether what is pickled goes to workers of one's own, who need the secret to draw the noise.
_TRAVELS: ContextVar[bool] = ContextVar("sfumato_secrets_travel", default=False)
# Where what is pickled goes to workers that ask for keys: the noise that they ask of, by number.
_STAYS: ContextVar[list[Keyed] | None] = ContextVar("sfumato_secrets_stay", default=None)
#: The names that lead from a secret to one key.
KeyPath = tuple[bytes, ...]
# How a worker asks for keys; told by :func:`ask_for_keys`.
_ask: Callable[[int, list[KeyPath]], list[bytes]] | None = None


@contextmanager
def secrets_travel() -> Iterator[None]:
    """Let this thread pickle keyed noise with its secret while the block lasts, for its own workers."""
    token = _TRAVELS.set(True)
    try:
        yield
    finally:
        _TRAVELS.reset(token)


@contextmanager
def secrets_stay(kept: list[Keyed]) -> Iterator[None]:
    """While the block lasts, this thread pickles keyed noise without its secret, for workers that ask.

    What is pickled becomes noise that asks for the keys of its units (:func:`ask_for_keys`), by its number in
    ``kept``, and never knows the secret: :meth:`Keyed.derived` of that number answers.
    """
    token = _STAYS.set(kept)
    try:
        yield
    finally:
        _STAYS.reset(token)


def ask_for_keys(ask: Callable[[int, list[KeyPath]], list[bytes]]) -> None:
    """Let keyed noise that was pickled without its secret ask ``ask`` for keys, in all of this process."""
    global _ask
    _ask = ask


def secret_to_send(secret: bytes, what: str) -> bytes:
    """Return ``secret`` if what is pickled now goes to one's own workers; otherwise refuse."""
    if not _TRAVELS.get():
        raise BadInput(
            f"{what} is not pickled, since whoever reads the pickle would have it: take it out first, and "
            "give it again where the pickle is read."
        )
    return secret


class Keyed(Randomness):
    """Noise from a secret of at least 32 bytes, for one release of one snapshot of one dataset.

    ``version`` is public and names the snapshot; it must change when the data does. Other content in the
    place of what this object was given before, under the same mechanism, is refused: it would show which
    units changed. What other processes released is for the ledger to remember.
    """

    #: Changes whenever the same names and content would give other noise; whoever pays once for a release
    #: that may be drawn again commits to it.
    streams: ClassVar[int] = 2

    def __init__(self, secret: bytes, *, dataset: str, version: str, release: str) -> None:
        if not isinstance(secret, bytes) or len(secret) < 32:
            raise BadInput("a keyed stream needs a secret of at least 32 random bytes.")
        for word, value in (("dataset", dataset), ("version", version), ("release", release)):
            if not isinstance(value, str) or not value:
                raise BadInput(f"a keyed stream needs a {word} name, not {value!r}.")
        self._secret = secret
        self.dataset, self.version, self.release = dataset, version, release
        self._parts: tuple[bytes, ...] = ()
        self._seen: dict[bytes, bytes] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        if (kept := _STAYS.get()) is not None:
            kept.append(self)
            return _Asking, (len(kept) - 1, self.dataset, self.version, self.release, self._parts)
        secret = secret_to_send(self._secret, "the secret of keyed noise")
        return _of_parts, (secret, self.dataset, self.version, self.release, self._parts)

    def __copy__(self) -> Keyed:
        made = _of_parts(self._secret, self.dataset, self.version, self.release, self._parts)
        made._seen = dict(self._seen)
        return made

    def __deepcopy__(self, memo: dict[int, Any]) -> Keyed:
        return self.__copy__()

    def stream(self, label: bytes) -> Stream:
        """Return the stream of ``label``; it does not depend on content, so it is for public choices only."""
        return Stream(self._keys((b"label", label))[0])

    def unit_streams(self, mechanism: Mapping[str, object], first: int, cells: NDArray[Any]) -> Units:
        """Return the streams of the rows of ``cells``, the gridded content of the units from ``first`` on.

        ``mechanism`` holds the mechanism's name, version and every parameter, as JSON values.
        """
        if cells.dtype.kind not in "iub" and not np.array_equal(
            cells, np.rint(np.clip(cells, -_WHOLE, _WHOLE))
        ):
            raise ValueError(
                "keyed noise follows whole numbers of the grid, within ±2⁵³: others are cut off."
            )
        rows = np.ascontiguousarray(cells, dtype="<i8").view(np.uint64)
        count, columns = rows.shape
        context = json.dumps(mechanism, sort_keys=True).encode()
        tags, starts = np.empty((count, 2), dtype=np.uint64), np.empty((count, 2), dtype=np.uint64)
        ciphers = []
        at = 0
        while at < count:
            group, row = divmod(first + at, _SHARING)
            to = min(count, at + _SHARING - row)
            version, numbers = b"units %d" % self.streams, (columns, group)
            names = (version, context, *(number.to_bytes(8, "little") for number in numbers))
            keys = self._keys(*((*names, use) for use in (b"content", b"tag", b"noise")))
            content, tag, noise = map(_Blocks, keys)
            tags[at:to] = tag.encrypt(_content_sums(content, rows[at:to]))
            # In big-endian order, as a counter is: t is the first 80 bits of the tag.
            starts[at:to] = tags[at:to].view(">u8")
            places = np.arange(row, row + to - at, dtype=np.uint64)
            starts[at:to, 1] &= ~_ROW_MASK
            starts[at:to, 1] |= places << _COUNTER_BITS
            ciphers.append((at, to, noise))
            at = to
        if count:  # no content is nothing that anything later has to equal
            self._refuse_other_content(context, first, hashlib.sha256(tags.data).digest())
        return Units(ciphers, starts, np.zeros(count, dtype=np.int64))

    def part(self, name: str) -> Keyed:
        """Return noise for the part ``name`` of this release, such as one of many files; parts share none."""
        if not name:
            raise BadInput("a part of a release needs a name.")
        made = object.__new__(type(self))
        made.__dict__ |= self.__dict__ | {"_parts": (*self._parts, b"part", name.encode()), "_seen": {}}
        return made

    def of_one_run(self) -> Keyed:
        """Return noise from the same secret for a run that removes the secret at its end.

        Until then it lies where the originals do, for the same eyes: statements need not speak of it.
        """
        made = self.part("run")
        made._parts = (_ONE_RUN, *made._parts)
        return made

    @property
    def lasts(self) -> bool:
        """Whether the secret stays when the release was made."""
        return self._parts[:1] != (_ONE_RUN,)

    def beside(self, parts: Sequence[Keyed]) -> Keyed:
        """Noise for one unit of each of ``parts``, drawn in one pass: unit i is unit 0 of ``parts[i]``."""
        return _Beside(parts)

    def commitment(self, digest: bytes) -> str:
        """Return ``digest`` keyed by the secret: equal for equal digests, and it tells nothing else."""
        return self._keys((b"commitment", digest))[0].hex()

    def keep_to(self, terms: bytes, content: bytes) -> None:
        """Refuse a release under ``terms`` of another ``content`` than before; draws nothing.

        For whoever pays first and draws then: when it is drawn, a refusal would come too late.
        """
        self._refuse_other_content(b"terms" + terms, 0, content)

    def _refuse_other_content(self, context: bytes, first: int, digests: bytes) -> None:
        place, content = self._keys((b"place", context, first.to_bytes(8, "little")), (b"content", digests))
        if self._seen.setdefault(place, content) != content:
            raise BadInput(
                f"release {self.release!r} of {self.dataset!r} was made from other content; give changed "
                "data a new version and a new release id."
            )

    def _keys(self, *paths: KeyPath) -> list[bytes]:
        """Return the keys at ``paths`` of this part of the release."""
        return self.derived([(*self._parts, *path) for path in paths])

    def derived(self, paths: list[KeyPath]) -> list[bytes]:
        """Derive a key from the secret and all names of each path; lengths count, so no two paths collide."""
        names = tuple(name.encode() for name in (self.dataset, self.version, self.release))
        found = []
        for path in paths:
            message = b"".join(
                len(part).to_bytes(8, "little") + part for part in (b"sfumato 1", *names, *path)
            )
            found.append(hmac.digest(self._secret, message, hashlib.sha256))
        return found

    def __repr__(self) -> str:
        return f"Keyed(dataset={self.dataset!r}, version={self.version!r}, release={self.release!r})"


def _of_parts(secret: bytes, dataset: str, version: str, release: str, parts: tuple[bytes, ...]) -> Keyed:
    """Return the noise of ``parts`` of a release, which remembers no content yet."""
    made = Keyed(secret, dataset=dataset, version=version, release=release)
    made._parts = parts
    return made


class _Asking(Keyed):
    """Keyed noise in a process that does not know the secret: keys are asked for, of noise ``number``."""

    def __init__(self, number: int, dataset: str, version: str, release: str, parts: KeyPath) -> None:
        self._number, self._parts, self._seen = number, parts, {}
        self.dataset, self.version, self.release = dataset, version, release

    def derived(self, paths: list[KeyPath]) -> list[bytes]:
        """Keys as :meth:`Keyed.derived` makes them, where the secret is."""
        if _ask is None:
            raise BadInput("this keyed noise asks for its keys, and nobody was named who answers.")
        return _ask(self._number, paths)

    def __copy__(self) -> Keyed:
        made = _Asking(self._number, self.dataset, self.version, self.release, self._parts)
        made._seen = dict(self._seen)
        return made


class _Beside(Keyed):
    """The noise of several parts, one unit of each; see :meth:`Keyed.beside`."""

    def __init__(self, parts: Sequence[Keyed]) -> None:
        self._beside = parts
        self.dataset, self.version, self.release = parts[0].dataset, parts[0].version, parts[0].release

    def unit_streams(self, mechanism: Mapping[str, object], first: int, cells: NDArray[Any]) -> Units:
        """Return the streams of the rows of ``cells``, each the first unit of its own part."""
        units = [
            self._beside[first + at].unit_streams(mechanism, 0, cells[at : at + 1])
            for at in range(len(cells))
        ]
        ciphers = [(at, at + 1, one._ciphers[0][2]) for at, one in enumerate(units)]
        starts = np.concatenate([one._starts for one in units])
        return Units(ciphers, starts, np.zeros(len(units), dtype=np.int64))

    def derived(self, paths: list[KeyPath]) -> list[bytes]:
        """Refused: noise of several parts is for their units alone."""
        raise BadInput("the noise of several parts has streams of units alone.")


class _Blocks:
    """AES-256 of single blocks under one key."""

    def __init__(self, key: bytes) -> None:
        self._encryptor = Cipher(algorithms.AES256(key), modes.ECB()).encryptor()

    def encrypt(self, blocks: Words, into: Words | None = None) -> Words:
        """Return the images of ``blocks`` (…, 2), pairs of words, in ``into``, which has two words more."""
        # update_into wants one cipher block of room beyond what it writes.
        room = np.empty(blocks.size + 2, dtype=np.uint64) if into is None else into
        if blocks.size:
            self._encryptor.update_into(blocks.data.cast("B"), room.data.cast("B"))
        return room[: blocks.size].reshape(blocks.shape)


def _content_sums(cipher: _Blocks, rows: Words) -> Words:
    """Return ⊕ⱼ E(j ‖ mⱼ) for each row m of ``rows`` (n, d): shape (n, 2)."""
    count, columns = rows.shape
    sums = np.zeros((count, 2), dtype=np.uint64)
    height = min(count, _CONTENT_BLOCKS)
    width = max(1, _CONTENT_BLOCKS // height)
    places = np.arange(1, columns + 1, dtype=np.uint64)[:, None]
    for top, left in product(range(0, count, height), range(0, columns, width)):
        part = rows[top : top + height, left : left + width].T
        blocks = np.empty((*part.shape, 2), dtype=np.uint64)
        blocks[:, :, 0] = places[left : left + width]
        blocks[:, :, 1] = part
        sums[top : top + height] ^= np.bitwise_xor.reduce(cipher.encrypt(blocks), axis=0)
    return sums


class Units(Stream):
    """The streams of consecutive units side by side, each with words of its own; see the module.

    ``ciphers`` are (first row, row after the last, cipher) of the rows that share keys, ``starts`` the first
    counter block of each unit, in two words, and ``drawn`` how many words each has given. A part shares
    ``drawn`` with the whole: what one of them draws, the other does not draw again.
    """

    def __init__(
        self, ciphers: list[tuple[int, int, _Blocks]], starts: Words, drawn: NDArray[np.int64]
    ) -> None:
        self._ciphers, self._starts, self._drawn = ciphers, starts, drawn
        self.units = len(drawn)
        # Words of all units from one on, which may be drawn next.
        self._ahead: tuple[int, Words] = (0, np.empty((self.units, 0), dtype=np.uint64))

    def part(self, start: int, stop: int) -> Units:
        """Return the streams of units ``start`` to ``stop`` − 1 of these."""
        ciphers = [
            (max(low - start, 0), min(high, stop) - start, cipher)
            for low, high, cipher in self._ciphers
            if low < stop and high > start
        ]
        return Units(ciphers, self._starts[start:stop], self._drawn[start:stop])

    def each(self) -> list[Stream]:
        """Return the stream of each unit."""
        return [self.part(unit, unit + 1) for unit in range(self.units)]

    def words(self, count: int, into: Words | None = None) -> Words:
        """Return the next ``count`` words, an equal share of each unit, unit after unit."""
        return self._next(count).reshape(-1)

    def rungs(self, rungs: int, count: int, into: Words | None = None) -> Words:
        """Return words of shape (rungs, count): each unit's words, rung by rung, beside the next unit's."""
        drawn = self._next(rungs * count).reshape(self.units, rungs, -1)
        return np.ascontiguousarray(drawn.transpose(1, 0, 2)).reshape(rungs, count)

    def again(self, where: NDArray[np.intp], count: int) -> Words:
        """Return one further word for each of the positions ``where``, in order, of ``count`` draws."""
        owners = where // (count // self.units)
        words = self._drawn[owners] + np.arange(owners.size) - np.searchsorted(owners, owners)
        self._drawn += np.bincount(owners, minlength=self.units)
        pairs = self._encrypted(self._starts[owners], words[:, None] >> 1, owners)
        return np.asarray(np.take_along_axis(pairs, words[:, None] & 1, axis=1)[:, 0])

    def owner(self, position: int, count: int) -> Stream:
        """Return the stream of the unit that the draw at ``position`` of ``count`` belongs to."""
        unit = position // (count // self.units)
        return self.part(unit, unit + 1)

    def _next(self, count: int) -> Words:
        """Return the next words of all units, as rows: (units, count / units)."""
        share, rest = divmod(count, self.units)
        assert not rest, "all units draw equally many words"
        low, high = int(self._drawn.min()), int(self._drawn.max())
        at, ahead = self._ahead
        if low < at or high + share > at + ahead.shape[1]:
            # Whoever draws a word at a time draws more: as many again are made ready, within limits.
            at, width = low & ~1, max(share, min(low, _MOST_AHEAD, _MOST_WORDS - high))
            counters = np.arange(at // 2, (high + width + 1) // 2)
            ahead = self._encrypted(self._starts, np.broadcast_to(counters, (self.units, counters.size)))
            self._ahead = at, ahead
        if low == high:
            words = ahead[:, low - at : low - at + share].copy()
        else:
            words = np.take_along_axis(ahead, (self._drawn - at)[:, None] + np.arange(share), axis=1)
        self._drawn += share
        return words

    def _encrypted(
        self, starts: Words, counters: NDArray[np.int64], owners: NDArray[np.intp] | None = None
    ) -> Words:
        """Return the noise of blocks ``counters`` (n, b) of ``owners`` (default: all): words (n, 2b)."""
        if counters.size and 2 * int(counters.max()) >= _MOST_WORDS:
            raise BadInput(f"a unit draws at most {_MOST_WORDS:,} words of keyed noise.")
        blocks = np.empty((*counters.shape, 2), dtype=np.uint64)
        blocks[:, :, 0] = starts[:, :1]
        np.add(starts[:, 1:], counters.view(np.uint64), out=blocks[:, :, 1])
        if sys.byteorder == "little":
            blocks.byteswap(inplace=True)
        out = np.empty(2 * counters.size + 2, dtype=np.uint64)
        for low, high, cipher in self._ciphers:
            if owners is not None:
                low, high = np.searchsorted(owners, [low, high])
            cipher.encrypt(blocks[low:high], out[2 * counters.shape[1] * low :])
        return out[:-2].reshape(len(blocks), -1)
