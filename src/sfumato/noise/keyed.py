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
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import product
from typing import Any, ClassVar

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.noise.randomness import Randomness, Stream

__all__ = ["Keyed", "Units", "secret_to_send", "secrets_travel"]

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

# Whether what is pickled goes to workers of one's own, who need the secret to draw the noise.
_TRAVELS: ContextVar[bool] = ContextVar("sfumato_secrets_travel", default=False)


@contextmanager
def secrets_travel() -> Iterator[None]:
    """While the block lasts, this thread pickles keyed noise with its secret, for workers of one's own."""
    token = _TRAVELS.set(True)
    try:
        yield
    finally:
        _TRAVELS.reset(token)


def secret_to_send(secret: bytes, what: str) -> bytes:
    """``secret``, if what is pickled now goes to workers of one's own; otherwise it is refused."""
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
        secret = secret_to_send(self._secret, "the secret of keyed noise")
        return _of_parts, (secret, self.dataset, self.version, self.release, self._parts)

    def __copy__(self) -> Keyed:
        made = _of_parts(self._secret, self.dataset, self.version, self.release, self._parts)
        made._seen = dict(self._seen)
        return made

    def __deepcopy__(self, memo: dict[int, Any]) -> Keyed:
        return self.__copy__()

    def stream(self, label: bytes) -> Stream:
        """The stream of ``label``; it does not depend on content, so it is for public choices only."""
        return Stream(self._key(b"label", label))

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
            content, tag, noise = (_Blocks(self._key(*names, use)) for use in (b"content", b"tag", b"noise"))
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
        """Noise for the part ``name`` of this release, such as one file of many; no two parts share any."""
        if not name:
            raise BadInput("a part of a release needs a name.")
        parts = (*self._parts, b"part", name.encode())
        return _of_parts(self._secret, self.dataset, self.version, self.release, parts)

    def commitment(self, digest: bytes) -> str:
        """``digest`` under the secret: equal for equal digests, and telling nothing else about them."""
        return self._key(b"commitment", digest).hex()

    def keep_to(self, terms: bytes, content: bytes) -> None:
        """Refuse a release under ``terms`` of another ``content`` than before; draws nothing.

        For whoever pays first and draws then: when it is drawn, a refusal would come too late.
        """
        self._refuse_other_content(b"terms" + terms, 0, content)

    def _refuse_other_content(self, context: bytes, first: int, digests: bytes) -> None:
        place = self._key(b"place", context, first.to_bytes(8, "little"))
        content = self._key(b"content", digests)
        if self._seen.setdefault(place, content) != content:
            raise BadInput(
                f"release {self.release!r} of {self.dataset!r} was made from other content; give changed "
                "data a new version and a new release id."
            )

    def _key(self, *parts: bytes) -> bytes:
        """A key from the secret and all parts; lengths are part of the input, so no two lists collide."""
        names = tuple(name.encode() for name in (self.dataset, self.version, self.release))
        parts = (*self._parts, *parts)
        message = b"".join(len(part).to_bytes(8, "little") + part for part in (b"sfumato 1", *names, *parts))
        return hmac.new(self._secret, message, hashlib.sha256).digest()

    def __repr__(self) -> str:
        return f"Keyed(dataset={self.dataset!r}, version={self.version!r}, release={self.release!r})"


def _of_parts(secret: bytes, dataset: str, version: str, release: str, parts: tuple[bytes, ...]) -> Keyed:
    """The noise of ``parts`` of a release, which remembers no content yet."""
    made = Keyed(secret, dataset=dataset, version=version, release=release)
    made._parts = parts
    return made


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
        """The next words of all units, as rows: (units, count / units)."""
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
        """The noise of blocks ``counters`` (n, b) of the units ``owners`` (default: all): words (n, 2b)."""
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
