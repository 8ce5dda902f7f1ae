"""The pieces of a batch, and the two things that are done with each: it is examined, then it is drawn.

Both are plain values that can be sent to another machine. A piece that is drawn twice, since a worker was
lost, is drawn from the same keyed noise and takes the place of itself, byte for byte.
"""

from __future__ import annotations

import hashlib
import json
import pickle
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from sfumato.errors import BadInput
from sfumato.io.atomic import unsettled
from sfumato.io.formats import file_to_read, suffix_of
from sfumato.io.stores import Store, named
from sfumato.noise import Keyed
from sfumato.privacy import Statement
from sfumato.release.payment import Content, terms_of
from sfumato.release.protected_file import silent
from sfumato.release.single_file import Paid, write_release
from sfumato.release.source_file import SourceFile, digest_of
from sfumato.reports import SigningKey, file_digest

__all__ = [
    "NAMED",
    "NUMBERED",
    "Bytes",
    "Draw",
    "Drawn",
    "Examine",
    "Examined",
    "Opener",
    "Piece",
    "known_suffix",
    "pieces_of",
]

#: What a statement says of the names of released files.
NAMED = "the files have the names of their sources, which the owner declares public"
NUMBERED = "the files are numbered in an order that tells nothing; no name of a source travels"

# The statements that this process has made last, by their own bytes.
_SAID: dict[bytes, Statement] = {}
_MOST_SAID = 64

#: Makes a file that can be released of a path, its name in the source and, if only one is meant, its part.
Opener = Callable[..., SourceFile]


@dataclass(frozen=True)
class Piece:
    """The file ``source``, or its rows or row groups ``part``, which becomes the file ``name``.

    ``version`` is what the store said of it when its files were listed.
    """

    name: str
    source: str
    part: range | None = None
    version: str | None = None

    @contextmanager
    def at(self, store: Store) -> Iterator[Path]:
        """Where the file of ``store`` can be read; one that has several parts is put there once for all.

        A link among the files of a folder is refused: it may lead out of it.
        """
        if self.part is not None:
            path = store.shared(self.source, self.version)
            with named(path, self.source):
                yield path
            return
        with store.reading(self.source, self.version) as path:
            if path.is_symlink():
                raise BadInput(f"{path.name} is a link, which is not followed.")
            yield path

    @property
    def told(self) -> str:
        """What the owner is told that it is: the source, or the part of one."""
        return self.source if self.part is None else self.name

    def committed(self, digest: bytes) -> bytes:
        """One digest of which piece it is and of its content, whose own is ``digest``."""
        part = None if self.part is None else [self.part.start, self.part.stop]
        return hashlib.sha256(json.dumps([self.source, part]).encode() + digest).digest()

    def opened(self, opener: Opener, path: Path) -> SourceFile:
        """The file at ``path`` or, where it was cut, this part of it."""
        return opener(path, self.source) if self.part is None else opener(path, self.source, self.part)


def pieces_of(store: Store, *, public_names: bool = False, keyed: Keyed | None = None) -> list[Piece]:
    """Every file of ``store``, each a piece of its own.

    A name is data, and so is its place in the alphabet. Unless ``public_names`` declares the names public,
    the pieces are called by numbers, in an order that tells nothing of the names: a random one or, where the
    noise is ``keyed``, one under its secret, the same whenever the same files are released.
    """
    names = store.names()
    if public_names:
        return [Piece(name, name, version=store.version(name)) for name in names]
    if keyed is None:
        secrets.SystemRandom().shuffle(names)
    else:
        names.sort(key=lambda name: keyed.commitment(hashlib.sha256(ascii(name).encode()).digest()))
    return [
        Piece(f"{number:06d}{known_suffix(name)}", name, version=store.version(name))
        for number, name in enumerate(names, start=1)
    ]


def known_suffix(name: str) -> str:
    """The suffix of a format that is known; any other is part of a name, and its file is refused."""
    with suppress(BadInput):
        return suffix_of(name)
    return ""


@dataclass(frozen=True)
class Examined:
    """What the release of a piece will state; where asked for, ``file``, and the ``digest`` of its content.

    What shapes its noise is part of the digest. ``most_bytes`` bounds the size of what is released.
    """

    statement: Statement
    digest: bytes | None
    file: SourceFile | None = None
    most_bytes: int = 0


@dataclass(frozen=True)
class Bytes:
    """Digests the bytes of a piece."""

    store: Store

    def __call__(self, piece: Piece) -> bytes:
        """Their SHA-256."""
        with piece.at(self.store) as path:
            return digest_of(file_to_read(path))


@dataclass(frozen=True)
class Examine:
    """Reads all of a piece, which refuses what cannot be released; draws no noise."""

    store: Store
    opener: Opener
    digests: bool
    keep: bool

    def __call__(self, piece: Piece) -> Examined:
        """What was found."""
        content = Content() if self.digests else None
        with piece.at(self.store) as path:
            file = piece.opened(self.opener, path)
            file.fits(Path(piece.name))
            file.check(silent, content)
        # With the terms of each file: together they state only what all of them share.
        digest = None if content is None else content.digest(terms_of(file.statement, file.declared))
        kept = file if self.keep else None
        return Examined(_once(file.statement), digest, kept, file.most_bytes(Path(piece.name)))


@dataclass(frozen=True)
class Drawn:
    """A released piece: ``name`` and digest are for the manifest, ``source`` is for the owner alone.

    ``statement`` is that of this piece by itself.
    """

    name: str
    source: str
    sha256: str
    statement: Statement
    rows: int
    columns: int
    what: str | None


@dataclass(frozen=True)
class Draw:
    """Draws the release of a piece, which has been paid for, and lets it appear with its certificate."""

    store: Store
    output: Store
    opener: Opener
    notes: tuple[str, ...]
    dataset: str | None
    paid: Paid
    signer: SigningKey | None
    opened: Mapping[Piece, SourceFile] = field(default_factory=dict)

    def __call__(self, piece: Piece) -> Drawn:
        """What has appeared."""
        with piece.at(self.store) as path:
            file = self.opened.get(piece) or piece.opened(self.opener, path)
            file.fits(Path(piece.name))
            # The run waits for the disk once, before it says that all pieces are there.
            with unsettled(), self.output.writing(piece.name) as target:
                if target.is_symlink():
                    raise BadInput(f"a link stands at {target.name} in the output, and is not followed.")
                done = write_release(
                    file,
                    target,
                    statement=replace(file.statement, notes=(*file.statement.notes, *self.notes)),
                    dataset=self.dataset,
                    paid=self.paid,
                    keep=lambda sealed: sealed,
                    signer=self.signer,
                    report=silent,
                )
                digest = file_digest(target)
        return Drawn(
            piece.name, piece.source, digest, _once(file.statement), done.rows, done.columns, done.what
        )


def _once(statement: Statement) -> Statement:
    """The one object for all equal statements: thousands of pieces of one kind send it and read it once."""
    if len(_SAID) >= _MOST_SAID:
        _SAID.clear()
    return _SAID.setdefault(pickle.dumps(statement), statement)
