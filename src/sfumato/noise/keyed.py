"""Keyed noise: the same release asked for twice returns the same bytes and costs nothing more.

The noise of a unit is the AES-CTR stream under a key derived by HMAC-SHA-256 from a secret and from
everything that may change the release: dataset, snapshot version, release id, mechanism with all its
parameters, the unit's index, and a digest of its clipped, gridded content. So different content never
shares noise, and neither do two units of equal content. The guarantee is then computational: it rests
on the secret, and is void if the secret leaks.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.noise.bits import Randomness, Stream

__all__ = ["Keyed", "secret_to_send", "secrets_travel"]

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

    def unit_streams(
        self, mechanism: Mapping[str, object], first: int, cells: NDArray[np.float64]
    ) -> list[Stream]:
        """One stream for each row of ``cells``, the gridded content of the units from ``first`` on.

        ``mechanism`` holds the mechanism's name, version and every parameter, as JSON values.
        """
        if not len(cells):
            return []  # no content, which nothing later has to equal
        context = json.dumps(mechanism, sort_keys=True).encode()
        rows = np.ascontiguousarray(cells, dtype="<i8")
        digests = [hashlib.sha256(row.tobytes()).digest() for row in rows]
        self._refuse_other_content(context, first, b"".join(digests))
        return [
            Stream(self._key(b"unit", context, (first + i).to_bytes(8, "little"), digest))
            for i, digest in enumerate(digests)
        ]

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
