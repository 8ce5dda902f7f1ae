"""Folders: many files as one release, each drawn by itself, paid for together, with a signed manifest last.

A file that cannot be released is left out and named with its reason; the others go on. The reason depends on
the content of the file, so it is for whoever runs the release and stands in no output; the manifest says how
many files were left out.

If a budget pays, and in a folder of records, everything is read and checked first, so that bad input costs
nothing; the spend is durable before the first piece is drawn. An interrupted run leaves whole files and no
manifest, and says how many: they belong to no release. The manifest and its certificate, which is that of all
files, appear when all files are on the disk. The output holds nothing but the files of its run: what the same
run left when it was interrupted may stand there, and nothing else.

**A paid run that is interrupted is resumed** by the same command. Each piece has keyed noise of its own,
under the secret of the request or a seed that is on the disk before anything is paid, and all names are drawn
from it. A private log beside the output (see :mod:`~sfumato.release.checkpoint`) has the digest of each piece
that was written. A piece that stands with that digest is not drawn again; any other one is drawn from its
noise, byte for byte as before. So is one that was drawn twice because a worker was lost.
"""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import secrets
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Sized
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.errors import BadInput, SfumatoError
from sfumato.io import (
    LocalStore,
    Store,
    file_to_read,
    named,
    released_suffix,
    require_room,
    unsettled,
    write_whole,
    writing,
)
from sfumato.noise import Keyed
from sfumato.privacy import TEXT_WIDTH, Guarantee, Statement, printable
from sfumato.release.combined_statement import PARTS, check_charge, combine_statements, note_for_each_file
from sfumato.release.engines import Done, Engine, LocalEngine, Outcome, outcome, refusal
from sfumato.release.manifest import Listed, Stated, manifest_bytes, refuse_other_run, some, unlisted
from sfumato.release.path import (
    PRIVATE,
    Certify,
    Content,
    Kind,
    Payment,
    Protected,
    Report,
    Spending,
    silent,
    terms_of,
)
from sfumato.release.record_files import Files, SourceFile
from sfumato.reports import MANIFEST, KeyRing, certificate_file, file_digest, verify

if TYPE_CHECKING:
    from sfumato.release.checkpoint import Checkpoint

#: Notes of a statement about the names of released files.
NAMED = "the files have the names of their sources, which the owner declares public"
NUMBERED = "the files are numbered in an order that tells nothing; no name of a source travels"

# The last statements of this process, by their ids: each, the first that equals it, and its bytes.
_STATEMENTS: dict[int, tuple[Statement, Statement, bytes]] = {}
_MOST_STATEMENTS = 64
_statements_lock = Lock()


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
        """Yield where the file of ``store`` can be read; one that has several parts is fetched once for all.

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
    def shown(self) -> str:
        """Its name for the owner: the source, or the part of one."""
        return self.source if self.part is None else self.name

    def committed(self, digest: bytes) -> bytes:
        """Return one digest of which piece it is and of its content, whose own is ``digest``."""
        part = None if self.part is None else [self.part.start, self.part.stop]
        return hashlib.sha256(json.dumps([self.source, part]).encode() + digest).digest()

    def opened(self, opener: Files, path: Path) -> SourceFile:
        """Return the file at ``path`` or, if it was cut, this part of it."""
        return opener.open(path, self.source, self.part)


def pieces_of(store: Store, public_names: bool = False, keyed: Keyed | None = None) -> list[Piece]:
    """Return every file of ``store``, each a piece of its own.

    A name is data, and so is its place in the alphabet. Unless ``public_names`` declares the names public,
    the pieces are numbered, in an order that tells nothing of the names: a random one or, if the noise is
    ``keyed``, one under its secret, the same whenever the same files are released.
    """
    names = store.names()
    if public_names:
        return [Piece(_released_name(name, names), name, version=store.version(name)) for name in names]
    if keyed is None:
        secrets.SystemRandom().shuffle(names)
    else:
        names.sort(key=lambda name: keyed.commitment(hashlib.sha256(ascii(name).encode()).digest()))
    return [
        Piece(f"{number:06d}{known_suffix(name)}", name, version=store.version(name))
        for number, name in enumerate(names, start=1)
    ]


def _released_name(name: str, others: Collection[str]) -> str:
    """Return the name of the release of ``name``: the same, with a second suffix if its format differs."""
    suffix = known_suffix(name)
    if name.lower().endswith(suffix):
        return name
    if name + suffix in others:
        raise BadInput(f"{name} is released as {name + suffix}, and another file has that name; rename it.")
    return name + suffix


def known_suffix(name: str) -> str:
    """Return the suffix of the release of ``name``; an unknown format has none, and its file is refused."""
    with suppress(BadInput):
        return released_suffix(name)
    return ""


@dataclass(frozen=True)
class Examined:
    """What the release of a piece will state and, if wanted, ``file`` and the ``digest`` of its content.

    What shapes its noise is part of the digest. ``most_bytes`` bounds the size of the release.
    """

    statement: Statement
    digest: bytes | None
    what: str | None = None
    file: SourceFile | None = None
    most_bytes: int = 0


@dataclass(frozen=True)
class Bytes:
    """Digests the bytes of a piece."""

    store: Store

    def __call__(self, piece: Piece) -> str:
        """Return their SHA-256."""
        with piece.at(self.store) as path:
            return file_digest(file_to_read(path))


@dataclass(frozen=True)
class Examine:
    """Reads all of a piece, which refuses what cannot be released; draws no noise."""

    store: Store
    opener: Files
    digests: bool
    keep: bool

    def __call__(self, piece: Piece) -> Examined:
        """Return what was found."""
        content = Content() if self.digests else None
        with piece.at(self.store) as path:
            file = piece.opened(self.opener, path)
            file.fits(Path(piece.name))
            file.check(silent, content)
        # With the terms of each file: together they state only what all of them share.
        digest = None if content is None else content.digest(terms_of(file.statement, file.declared))
        kept = file if self.keep else None
        return Examined(_once(file.statement), digest, file.what, kept, file.most_bytes(Path(piece.name)))


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
    left_out: tuple[str, ...]
    what: str | None


@dataclass(frozen=True)
class Draw:
    """Draws the releases of pieces, which have been paid for, and lets each of them appear whole."""

    store: Store
    output: Store
    opener: Files
    opened: Mapping[Piece, SourceFile] = field(default_factory=dict)

    def __call__(self, piece: Piece) -> Drawn:
        """Return what has appeared."""
        with piece.at(self.store) as path:
            return self._alone(piece, self._file(piece, path))

    def several(self, pieces: Sequence[Piece]) -> list[Outcome[Piece, Drawn]]:
        """Return what has appeared of each, or why it was refused; draw images that are alike together."""
        if not isinstance(self.store, LocalStore):  # each is fetched, and gone when it is done
            return [outcome(self, piece) for piece in pieces]
        done: list[Outcome[Piece, Drawn]] = []
        batches: dict[object, list[tuple[Piece, Any]]] = {}
        for piece in pieces:
            try:
                with piece.at(self.store) as path:
                    file = self._file(piece, path)
                    kind = file.alike(Path(piece.name))
                    if kind is None:
                        done.append((piece, self._alone(piece, file), None))
                    else:
                        batches.setdefault(kind, []).append((piece, file))
            except SfumatoError as error:
                done.append(refusal(piece, error))
        for batch in batches.values():
            most = batch[0][1].mechanism.block_rows(batch[0][1].values)
            size = -(-len(batch) // -(-len(batch) // most))
            for at in range(0, len(batch), size):
                done += self._batch(batch[at : at + size])
        return done

    def _alone(self, piece: Piece, file: SourceFile) -> Drawn:
        with self._place(piece) as target:
            file.write(target, None, silent)
            return _drawn(piece, file, file_digest(target))

    def _batch(self, batch: list[tuple[Piece, Any]]) -> list[Outcome[Piece, Drawn]]:
        done: list[Outcome[Piece, Drawn]] = []
        read = []
        for piece, file in batch:
            try:
                read.append((piece, file, file.read()))
            except SfumatoError as error:
                done.append(refusal(piece, error))
        if not read:
            return done
        pieces, files, rows = zip(*read, strict=True)
        encoded = files[0].encoded(files, rows, Path(pieces[0].name).suffix.lower())
        for piece, file, data in zip(pieces, files, encoded, strict=True):
            try:
                with self._place(piece) as target:
                    write_whole(target, data)
            except SfumatoError as error:
                done.append(refusal(piece, error))
            else:
                done.append((piece, _drawn(piece, file, hashlib.sha256(data).hexdigest()), None))
        return done

    def _file(self, piece: Piece, path: Path) -> SourceFile:
        file = self.opened.get(piece) or piece.opened(self.opener, path)
        file.fits(Path(piece.name))
        return file

    @contextmanager
    def _place(self, piece: Piece) -> Iterator[Path]:
        # The run waits for the disk once, before it says that all pieces are there.
        with unsettled(), self.output.writing(piece.name) as target:
            if target.is_symlink():
                raise BadInput(f"a link stands at {target.name} in the output, and is not followed.")
            yield target


def _drawn(piece: Piece, file: SourceFile, digest: str) -> Drawn:
    """Return the facts of a ``piece`` that was drawn; only then it is known how many rows a CSV had."""
    facts = file.rows or 0, file.values, file.left_out, file.what
    return Drawn(piece.name, piece.source, digest, _once(file.statement), *facts)


def _once(statement: Statement) -> Statement:
    """Return one object for all equal statements: thousands of pieces of one kind send and read it once."""
    with _statements_lock:
        known = _STATEMENTS.get(id(statement))
        if known is None:
            if len(_STATEMENTS) >= _MOST_STATEMENTS:
                _STATEMENTS.clear()
            content = pickle.dumps(statement)
            same = next((one for _, one, held in _STATEMENTS.values() if held == content), statement)
            known = _STATEMENTS[id(statement)] = statement, same, content
        return known[1]


class _Log(Done[Piece, Drawn]):
    """What became of pieces; those that were drawn are written to the private file ``place``."""

    def __init__(self, place: Path) -> None:
        super().__init__()
        self._place = place

    def add(self, found: Collection[Outcome[Piece, Drawn]]) -> None:
        """Add the outcomes of some pieces."""
        super().add(found)
        drawn = [[o.name, o.sha256, o.rows, o.columns, o.left_out] for _, o, _ in found if o is not None]
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        with writing(self._place), os.fdopen(os.open(self._place, flags, PRIVATE), "ab") as file:
            file.write("".join(f"{json.dumps(one)}\n" for one in drawn).encode())

    def read(self) -> dict[str, Listed]:
        """Return the pieces that were written; a torn line is skipped."""
        found: dict[str, Listed] = {}
        with suppress(FileNotFoundError):
            for line in self._place.read_text().splitlines():
                with suppress(ValueError):
                    name, digest, rows, columns, left_out = json.loads(line)
                    found[name] = Listed(digest, rows, columns, tuple(left_out))
        return found


def refuse_foreign(output: Store, own: Collection[str]) -> None:
    """Refuse an ``output`` with files other than those called ``own``, their certificates and the manifest.

    They would stand among the files of a release to which they do not belong. ``own`` are the files that
    this run may have left before it was cut off: those of a request, which gives the same bytes again.
    """
    foreign = unlisted(output.held(), own)
    if foreign:
        raise BadInput(
            f"{output.shown} holds files that are not of this run, {some(foreign)}; choose another output, "
            "or remove them first."
        )


@contextmanager
def note_unfinished_files(
    output: Store, names: Iterable[str], *, exact: bool, resumed: bool = False
) -> Iterator[None]:
    """Add a note to a signal that stops the block: how many of ``names`` stand without a manifest.

    There is no note if none does, or if the manifest of the run stands already. ``exact`` says that nobody
    goes on writing, ``resumed`` that the same command goes on with them.
    """
    try:
        yield
    except Exception:
        raise
    except BaseException as stop:
        try:
            held = set(output.held())
        except SfumatoError:
            stop.add_note(f"what stands in {output.shown} without a manifest belongs to no release")
            raise stop from None
        count = len(held.intersection(names))
        if count and MANIFEST not in held:
            one = count == 1
            files = f"{count:,} {'file' if one else 'files'}" + ("" if exact else " or more")
            stand, belong = ("stands", "belongs") if one and exact else ("stand", "belong")
            until = " until the same command has resumed the run" if resumed else ""
            stop.add_note(
                f"{files} {stand} in {output.shown} without a manifest and {belong} to no release{until}"
            )
        raise


@dataclass(frozen=True)
class ProtectedFolder:
    """What ``protect`` made of many files: those released, those left out with the reason, the manifest.

    ``output`` is the place for people. The sources of files and the names of those left out are for the owner
    alone, and stand in no output. ``resumed`` files stood there before and were not drawn again.
    """

    output: str
    released: tuple[Drawn, ...]
    skipped: tuple[tuple[str, str], ...]
    manifest: Protected
    resumed: int = 0

    @property
    def statement(self) -> Statement:
        """Return what all released files together state."""
        return self.manifest.statement

    def __str__(self) -> str:
        return self.text()

    def text(self, width: int = TEXT_WIDTH) -> str:
        """Return the result for people, its statement in lines of at most ``width`` characters."""
        lines = [
            self.statement.table(width),
            "",
            f"Released: {printable(self.output)} ({count_of(self.released)})",
            f"Manifest: {printable(self.manifest.shown)}, whose certificate is that of all files",
        ]
        if self.resumed:
            lines.append(f"Resumed: {count_of(range(self.resumed))} stood there, paid for before")
        sources = {one.source for one in self.released}
        if len(sources) == len(self.released) and sources != {one.name for one in self.released}:
            lines.append("Names: numbered; `released` tells which file is of which source")
        return "\n".join([*lines, *list_skipped("Skipped", self.skipped)])

    def to_dict(self) -> dict[str, Any]:
        """Return JSON values."""
        whole = self.manifest.to_dict() | ({"resumed": self.resumed} if self.resumed else {})
        return whole | {
            "output": self.output,
            "manifest": whole["output"],
            "released": [
                {"file": done.name, "source": done.source, "what": done.what} for done in self.released
            ],
            "skipped": [{"file": name, "why": why} for name, why in self.skipped],
        }


class Folder(Kind[Spending]):
    """``pieces`` of ``source``, released under their names in ``target``; its output is the manifest of them.

    ``opener`` opens them; it can be pickled if ``engine`` has workers elsewhere. Two files of equal content
    are refused: of records by their values, of media, whose units are taken to be in one file alone, by their
    bytes. ``parts`` says that the pieces are parts of one file; ``public_names`` that the names of files are
    declared public. The noise of ``opener`` is keyed by a request, or by the run that ``checkpoint`` keeps.
    ``keys`` are those whose certificate of a manifest is trusted, so that its files are not drawn again.
    """

    def __init__(
        self,
        source: Store,
        target: Store,
        pieces: Sequence[Piece],
        opener: Files,
        *,
        payment: Payment,
        parts: bool = False,
        public_names: bool = False,
        engine: Engine | None = None,
        checkpoint: Checkpoint | None = None,
        keys: KeyRing | None = None,
    ) -> None:
        self._source, self._target, self._pieces, self._opener = source, target, pieces, opener
        self._payment, self._engine = payment, engine or LocalEngine()
        # Why no unit is in two files, without which their costs add up; and whether files may share records.
        self._apart, self._records = PARTS if parts else opener.apart, opener.records and not parts
        self._notes: tuple[str, ...] = () if parts else (NAMED if public_names else NUMBERED,)
        self.output = target.folder / MANIFEST if isinstance(target, LocalStore) else Path(MANIFEST)
        self.keyed = payment.noise(opener.keyed) if checkpoint is None else opener.keyed
        self.reproducible, self.checkpoint = opener.reproducible, checkpoint
        self._keys = keys or KeyRing()
        self._skipped: dict[Piece, str] = {}
        self._examined: dict[Piece, Examined] = {}
        self._drawn: tuple[Drawn, ...] = ()
        self._resumed = 0
        # The name of the run: the same for each repetition of one request, and otherwise one of its own.
        self._run = secrets.token_hex(16)
        if self.keyed is not None:
            self._run = self.keyed.commitment(hashlib.sha256(b"run").digest())[:32]
        if not parts:
            _check_places(source, target)
        self._listed = refuse_other_run(target, self._run)
        goes_on = payment.request is not None or (checkpoint is not None and checkpoint.found)
        refuse_foreign(target, [*self._listed, *(piece.name for piece in pieces)] if goes_on else [])

    def promised(self) -> Guarantee | None:
        """Return what the first piece that can be opened promises, as a folder says it; None if none can."""
        for piece in self._pieces:
            with suppress(BadInput), piece.at(self._source) as path:
                return self._together([piece.opened(self._opener, path).statement]).proven
        return None

    def _together(self, statements: Iterable[Statement]) -> Statement:
        return combine_statements(statements, self._opener.headline, apart=self._apart)

    def check(self, content: Content, report: Report) -> None:
        """Read everything if a budget pays, and in a folder of records; refuse two equal files.

        Media that nobody pays for are read once, when they are drawn, and refused then.
        """
        if not self._opener.records:
            self._refuse_equal_bytes(report)
        if self._payment.payer is None and not self._records:
            return
        keep = self._engine.in_memory(len(self._pieces)) and isinstance(self._source, LocalStore)
        work = Examine(self._source, self._opener, self.keyed is not None or self._records, keep)
        checked = self._engine.each(work, self._pieces, "checking", report)
        self._examined = checked.results
        self._leave_out(checked.refused)
        found = [self._examined[piece] for piece in self._pieces]
        if self._records:
            _refuse_copies({piece: self._examined[piece].digest for piece in self._pieces}, "records")
        self.price = self._together(one.statement for one in found)
        self.added = [one.statement for one in found] if self._apart is None else []
        self.name = f"{self._target.shown.rstrip('/').rsplit('/', 1)[-1]}, {count_of(found)}"
        if self._payment.payer is not None:
            ordered = sorted(self._pieces, key=lambda piece: PurePosixPath(piece.shown))
            statements = [self._examined[one].statement for one in ordered]
            check_charge([one.shown for one in ordered], statements, self._payment)
        if self.keyed is not None:
            # With their names, which key the noise: the same content under another name would be drawn anew.
            digests = b"".join(piece.committed(self._examined[piece].digest or b"") for piece in self._pieces)
            content.add(np.frombuffer(digests, np.uint8).reshape(len(found), -1))

    def _refuse_equal_bytes(self, report: Report) -> None:
        """Refuse two media files of the same bytes; only files of equal size are read for this."""
        sizes = {
            piece: self._source.size(piece.source) for piece in self._pieces if known_suffix(piece.source)
        }
        often = Counter(sizes.values())
        alike = [piece for piece, size in sizes.items() if size and often[size] > 1]
        if alike:
            compared = self._engine.each(Bytes(self._source), alike, "comparing", report)
            _refuse_copies(compared.results, "bytes")
            self._leave_out(compared.refused)

    def _leave_out(self, refused: Mapping[Piece, str]) -> None:
        """Go on without the pieces that are ``refused``; one is needed."""
        self._skipped |= refused
        self._pieces = [piece for piece in self._pieces if piece not in refused]
        require_files(self._source, self._pieces, self._skipped)

    def forewarn(self) -> None:
        """Warn of what will be stated, if it is known before anything is drawn."""
        if self._examined:
            self.price.forewarn()

    @contextmanager
    def room(self) -> Iterator[None]:
        """Require room on the disk; note on a signal that stops the run what stays there."""
        if isinstance(self._target, LocalStore):
            require_room(self._target.folder, sum(one.most_bytes for one in self._examined.values()))
        names = [piece.name for piece in self._pieces]
        exact, resumed = not self._engine.retries, self.checkpoint is not None
        with note_unfinished_files(self._target, names, exact=exact, resumed=resumed):
            yield

    def draw(self, pay: Spending, report: Report) -> None:
        """Pay, then draw each piece that does not stand already, and let it appear."""
        self._notes += pay()
        opened = {piece: one.file for piece, one in self._examined.items() if one.file is not None}
        work = Draw(self._source, self._target, self._opener, opened)
        done: Done[Piece, Drawn] = Done()
        if self.checkpoint is not None:
            done = log = _Log(self.checkpoint.folder / "pieces")
            done.results |= self._standing(log.read(), report)
            if self._resumed and pay.row is not None:
                row = f"row {pay.row['number']} of {self._payment.dataset}"
                report(f"resuming the run that {row} paid for: {count_of(done.results)} stand", None)
        missing = [piece for piece in self._pieces if piece not in done.results]
        if missing:
            self._engine.each(work, missing, "drawing", report, done)
        self._leave_out(done.refused)
        self._drawn = tuple(sorted(done.results.values(), key=lambda one: PurePosixPath(one.name)))
        stated = self._together(one.statement for one in self._drawn)
        self._statement = replace(stated, notes=(*stated.notes, *self._notes))
        if not self._examined:
            self._statement.forewarn()
        self._target.settle()

    def _standing(self, noted: Mapping[str, Listed], report: Report) -> dict[Piece, Drawn]:
        """Return the pieces that stand as ``noted``, or as a certified manifest of this run lists them."""
        known = dict(noted)
        if self._listed and verify(self.output, self._keys, self._payment.ledger).holds:
            known |= self._listed
        there = [Piece(piece.name, piece.name) for piece in self._pieces if piece.name in known]
        if not there:
            return {}
        read = self._engine.each(Bytes(self._target), there, "comparing", report).results
        held = {one.name for one, digest in read.items() if digest == known[one.name].sha256}
        found = {}
        for piece in self._pieces:
            if piece.name in held:
                listed, seen = known[piece.name], self._examined[piece]
                facts = listed.rows, listed.columns, listed.left_out, seen.what
                found[piece] = Drawn(piece.name, piece.source, listed.sha256, seen.statement, *facts)
        self._resumed = len(found)
        return found

    def write(self, certify: Certify, report: Report) -> None:
        """Let the manifest appear, which lists the pieces and what is stated of each."""
        digests = {one.name: one.sha256 for one in self._drawn}
        listed = manifest_bytes(digests, self._run, len(self._skipped), self._stated())
        with self._target.writing(MANIFEST) as self.output:
            write_whole(self.output, listed, first=(certificate_file(self.output), certify))

    def _stated(self) -> dict[Stated, list[str]]:
        """Return what is stated of each file, and the files of which it is."""
        notes = self._notes
        if self._records and len(self._examined) > 1:
            notes = (note_for_each_file(self.price, self._apart), *notes)
        found: dict[Stated, list[str]] = {}
        known: dict[tuple[object, ...], list[str]] = {}  # by objects: to compare statements takes long
        for one in self._drawn:
            alike = id(one.statement), one.rows, one.columns, one.left_out
            if alike not in known:
                own = replace(one.statement, notes=(*one.statement.notes, *notes))
                known[alike] = found.setdefault(Stated(own, one.rows, one.columns, one.left_out), [])
            known[alike].append(one.name)
        return found

    def released(self) -> Protected:
        """Return the manifest, which states what all pieces state together."""
        return Protected(
            self.output,
            self._statement,
            len(self._drawn),
            max(one.columns for one in self._drawn),
            (),
            what=count_of(self._drawn),
            place=f"{self._target.shown.rstrip('/')}/{MANIFEST}",
        )

    def result(self, manifest: Protected) -> ProtectedFolder:
        """Return what was released, left out and certified by ``manifest``."""
        left = sorted(self._skipped, key=lambda piece: PurePosixPath(piece.shown))
        skipped = tuple((piece.shown, self._skipped[piece]) for piece in left)
        return ProtectedFolder(self._target.shown, self._drawn, skipped, manifest, self._resumed)


def _refuse_copies(digests: Mapping[Piece, Any], what: str) -> None:
    """Refuse two files with equal ``digests``: a copy would release the same content once more."""
    holders: dict[Any, str] = {}
    for piece in sorted(digests, key=lambda piece: piece.source):
        other = holders.setdefault(digests[piece], piece.source)
        if other != piece.source:
            raise BadInput(
                f"{piece.source} holds the same {what} as {other}, which would be released twice; leave one "
                "of them out of the folder."
            )


def count_of(files: Sized) -> str:
    """Return how many they are, for people."""
    return "1 file" if len(files) == 1 else f"{len(files):,} files"


def list_skipped(word: str, skipped: Sequence[tuple[str, str]]) -> list[str]:
    """Return lines that name the files that are left out, each with the reason."""
    if not skipped:
        return []
    named = [f"  {printable(file)}: {printable(why)}" for file, why in skipped]
    return [f"{word}: {count_of(skipped)}", *named]


def require_files(store: Store, files: Sized, skipped: Mapping[Piece, str]) -> None:
    """Refuse a ``store`` without ``files`` that can be released; one of those ``skipped`` says why."""
    if files:
        return
    piece, why = min(skipped.items(), key=lambda each: each[0].shown)
    others = f" ({len(skipped) - 1} more were refused too)" if len(skipped) > 1 else ""
    name = store.shown.rstrip("/").rsplit("/", 1)[-1]
    raise BadInput(f"nothing in {name} can be released: {piece.shown}: {why.rstrip('.')}{others}.")


def _check_places(store: Store, output: Store) -> None:
    inside, outside = output.place(), store.place()
    if inside.is_relative_to(outside) or outside.is_relative_to(inside):
        raise BadInput(
            f"the output {output.shown} and the folder {store.shown} lie in one another; choose another "
            "output."
        )
    if isinstance(output, LocalStore) and output.folder.exists() and not output.folder.is_dir():
        name = outside.name
        raise BadInput(f"{output.shown} exists and is not a folder, so the files of {name} cannot go there.")
