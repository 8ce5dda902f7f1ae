"""Many files as one release: each by itself, paid for together, with a signed manifest last.

A file that cannot be released is left out and named with its reason; the others go on. What was wrong with
a file depends on its content, so it is told to whoever runs the release and stands in no output; the manifest
says how many were left out.

Where a budget pays, and in a folder of records, everything is read and checked before, so that bad input
costs nothing; the spend is durable before the first piece is drawn. A run that is cut off leaves whole files
with their certificates and no manifest, and says how many; the manifest appears when all files are on the
disk. The output holds nothing but the files of its run: what a request left when it was cut off may stand
there, and nothing else.
"""

from __future__ import annotations

import hashlib
import secrets
from collections import Counter
from collections.abc import Mapping, Sequence, Sized
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Any

import numpy as np

from sfumato.errors import BadInput
from sfumato.io.atomic import require_room, write_whole
from sfumato.io.stores import LocalStore, Store
from sfumato.noise import Keyed
from sfumato.privacy import Guarantee, Statement, Unit
from sfumato.release.batch_pieces import Bytes, Draw, Drawn, Examine, Examined, Opener, Piece, known_suffix
from sfumato.release.combined_statement import PARTS, check_charge, in_each, together
from sfumato.release.engine_interface import Engine, LocalEngine
from sfumato.release.manifest import MANIFEST, manifest_bytes, refuse_other_run
from sfumato.release.payment import Content, Payment
from sfumato.release.protected_file import Protected, Report
from sfumato.release.single_file import Paid
from sfumato.release.unlisted_files import refuse_foreign, telling_what_stays
from sfumato.reports import SigningKey

__all__ = ["ProtectedFolder", "count_of", "new_run", "protect_folder", "refuse_nothing"]


@dataclass(frozen=True)
class ProtectedFolder:
    """What ``protect`` made of many files: those released, those left out with the reason, the manifest.

    ``output`` is the place for people. The sources of files and the names of those left out are for the owner
    alone, and stand in no output.
    """

    output: str
    released: tuple[Drawn, ...]
    skipped: tuple[tuple[str, str], ...]
    manifest: Protected

    @property
    def statement(self) -> Statement:
        """What all released files together state."""
        return self.manifest.statement

    def to_dict(self) -> dict[str, Any]:
        """As JSON values, for machines."""
        whole = self.manifest.to_dict()
        return whole | {
            "output": self.output,
            "manifest": whole["output"],
            "released": [
                {"file": done.name, "source": done.source, "what": done.what} for done in self.released
            ],
            "skipped": [{"file": name, "why": why} for name, why in self.skipped],
        }


def new_run(noise: Keyed | None) -> str:
    """A name for a run: the same for each repetition of one request, and otherwise one of its own."""
    if noise is None:
        return secrets.token_hex(16)
    return noise.commitment(hashlib.sha256(b"run").digest())[:32]


def protect_folder(
    store: Store,
    output: Store,
    pieces: Sequence[Piece],
    opener: Opener,
    *,
    unit: Unit | None = None,
    apart: str | None = None,
    records: bool = True,
    names: str | None = None,
    keyed: Keyed | None = None,
    engine: Engine | None = None,
    payment: Payment,
    signer: SigningKey | None,
    report: Report,
) -> ProtectedFolder:
    """Release ``pieces`` of ``store`` under their names in ``output``, of which ``names`` says what they are.

    ``opener`` makes a file that can be released of a path and its name; it can be pickled where ``engine``
    has workers elsewhere. ``unit`` is the headline; ``apart`` says why no unit is in two files, without
    which their costs add up (see :mod:`sfumato.release.combined_statement`). ``records`` says that each is a
    file of records. Two files of equal content are refused: of records by their values, of media, whose units
    are taken to be in one file alone, by their bytes. ``keyed`` is the noise of a request.
    """
    engine = engine or LocalEngine()
    noise = payment.noise(keyed)
    run = new_run(noise)
    if apart != PARTS:
        _check_places(store, output)
    listed = refuse_other_run(output, run)
    refuse_foreign(output, [] if noise is None else [*listed, *(piece.name for piece in pieces)])
    skipped: dict[Piece, str] = {}
    examined: dict[Piece, Examined] = {}
    notes: tuple[str, ...] = () if names is None else (names,)
    of_all: tuple[str, ...] = ()
    paid: Paid = None
    if payment.lacks_budget:
        payment.require_budget(_promised(store, pieces, opener, unit, apart))
    if not records and apart != PARTS:
        pieces, skipped = _refuse_equal_bytes(store, pieces, engine, report)
        refuse_nothing(store, pieces, skipped)
    if payment.payer is not None or records:
        # What is paid for is known to be readable: bad input never spends budget.
        keep = engine.one_process and isinstance(store, LocalStore)
        work = Examine(store, opener, noise is not None or records, keep)
        checked = engine.each(work, pieces, "checking", report)
        examined = checked.results
        skipped |= checked.refused
        pieces = [piece for piece in pieces if piece in examined]
        refuse_nothing(store, pieces, skipped)
        if records:
            _refuse_copies({piece: examined[piece].digest for piece in pieces}, "records")
        if isinstance(output, LocalStore):
            require_room(output.folder, sum(examined[piece].most_bytes for piece in pieces))
        stated = together([examined[piece].statement for piece in pieces], unit, apart=apart)
        added, paid = _pay(pieces, examined, stated, payment, noise, output, apart)
        if records and len(pieces) > 1:
            of_all = (in_each(stated, apart),)
        notes += added
    opened = {piece: found.file for piece, found in examined.items() if found.file is not None}
    draw = Draw(store, output, opener, (*of_all, *notes), payment.dataset, paid, signer, opened)
    expected = [piece.name for piece in pieces]
    with telling_what_stays(output, expected, exact=engine.one_process):
        drawn = engine.each(draw, pieces, "drawing", report)
        skipped |= drawn.refused
        refuse_nothing(store, drawn.results, skipped)
        released = tuple(sorted(drawn.results.values(), key=lambda one: PurePosixPath(one.name)))
        stated = together([one.statement for one in released], unit, apart=apart)
        stated = replace(stated, notes=(*stated.notes, *notes))
        if not examined:
            stated.forewarn()
        output.settle()
        manifest = _write_manifest(output, released, len(skipped), stated, payment, paid, signer, run)
    left = sorted(skipped, key=lambda piece: PurePosixPath(piece.told))
    return ProtectedFolder(
        output.shown, released, tuple((piece.told, skipped[piece]) for piece in left), manifest
    )


def _pay(
    pieces: Sequence[Piece],
    examined: Mapping[Piece, Examined],
    stated: Statement,
    payment: Payment,
    noise: Keyed | None,
    output: Store,
    apart: str | None,
) -> tuple[tuple[str, ...], Paid]:
    """Spend what all pieces, which state ``stated``, cost; what every statement has to add, and the row."""
    if payment.payer is not None:
        ordered = sorted(pieces, key=lambda piece: PurePosixPath(piece.told))
        check_charge([one.told for one in ordered], [examined[one].statement for one in ordered], payment)
    content = Content()
    if noise is not None:
        # With their names, which key the noise: the same content under another name would be drawn anew.
        digests = b"".join(piece.committed(examined[piece].digest or b"") for piece in pieces)
        content.add(np.frombuffer(digests, np.uint8).reshape(len(pieces), -1))
    purpose = f"{output.shown.rstrip('/').rsplit('/', 1)[-1]}, {count_of(pieces)}"
    stated.forewarn()
    added = [examined[piece].statement for piece in pieces] if apart is None else []
    told, paid = payment.pay(stated, purpose, content, noise, added=added)
    return told.notes[len(stated.notes) :], paid


def _promised(
    store: Store, pieces: Sequence[Piece], opener: Opener, unit: Unit | None, apart: str | None
) -> Guarantee | None:
    """What the first of ``pieces`` that can be opened promises, as a folder says it; None where none can."""
    for piece in pieces:
        with suppress(BadInput), piece.at(store) as path:
            return together([piece.opened(opener, path).statement], unit, apart=apart).proven
    return None


def _refuse_copies(digests: Mapping[Piece, bytes | None], what: str) -> None:
    """Refuse two files with equal ``digests`` of their content: a copy gives the same away once more."""
    holders: dict[bytes | None, str] = {}
    for piece in sorted(digests, key=lambda piece: piece.source):
        other = holders.setdefault(digests[piece], piece.source)
        if other != piece.source:
            raise BadInput(
                f"{piece.source} holds the same {what} as {other}, which would be released twice; leave one "
                "of them out of the folder."
            )


def _refuse_equal_bytes(
    store: Store, pieces: Sequence[Piece], engine: Engine, report: Report
) -> tuple[Sequence[Piece], dict[Piece, str]]:
    """Refuse two media files of the same bytes; only files of the same size are read for this.

    The pieces that are left, and those that could not be read, with the reason.
    """
    sizes = {piece: store.size(piece.source) for piece in pieces if known_suffix(piece.source)}
    often = Counter(sizes.values())
    alike = [piece for piece, size in sizes.items() if size and often[size] > 1]
    if not alike:
        return pieces, {}
    compared = engine.each(Bytes(store), alike, "comparing", report)
    _refuse_copies(compared.results, "bytes")
    return [piece for piece in pieces if piece not in compared.refused], dict(compared.refused)


def _write_manifest(
    output: Store,
    released: tuple[Drawn, ...],
    skipped: int,
    statement: Statement,
    payment: Payment,
    paid: Paid,
    signer: SigningKey | None,
    run: str,
) -> Protected:
    listed = manifest_bytes({one.name: one.sha256 for one in released}, run, skipped)
    with output.writing(MANIFEST) as target:
        done = Protected(
            target,
            statement,
            len(released),
            max(one.columns for one in released),
            (),
            payment.dataset,
            paid,
            what=count_of(released),
            place=f"{output.shown.rstrip('/')}/{MANIFEST}",
        )
        first = done.certificate_file, lambda written: payment.keep(paid, done.certified(written, signer))
        write_whole(target, listed, first=first)
    return done


def count_of(files: Sized) -> str:
    """How many they are, for people."""
    return "1 file" if len(files) == 1 else f"{len(files):,} files"


def refuse_nothing(store: Store, files: Sized, skipped: Mapping[Piece, str]) -> None:
    """Refuse a ``store`` without ``files`` that can be released; one of those ``skipped`` says why."""
    if files:
        return
    piece, why = min(skipped.items(), key=lambda each: each[0].told)
    others = f" ({len(skipped) - 1} more were refused too)" if len(skipped) > 1 else ""
    name = store.shown.rstrip("/").rsplit("/", 1)[-1]
    raise BadInput(f"nothing in {name} can be released: {piece.told}: {why.rstrip('.')}{others}.")


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
