"""The one path a release takes: open, check, pay, draw, write, certify.

All of the data is checked before anything is paid, so that bad input costs nothing; what is paid is durable
before any noise is drawn. The output appears at its name when it is complete, and its certificate appears
just before it: whoever finds a release finds what it promises. A crash may waste budget or leave a
certificate without an output; it never leaves an unpaid release.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from sfumato.errors import BadInput
from sfumato.io import Schema, same_kind
from sfumato.io.file_splits import cuts_of
from sfumato.io.formats import suffix_of
from sfumato.io.stores import named
from sfumato.mechanisms import Mechanism
from sfumato.noise import Keyed
from sfumato.release.batch_pieces import NAMED, NUMBERED, Piece, pieces_of
from sfumato.release.combined_statement import PARTS
from sfumato.release.engine_interface import Engine, LocalEngine
from sfumato.release.folder import ProtectedFolder, protect_folder
from sfumato.release.locations import Located, located
from sfumato.release.output_lock import check_output, claimed, refuse_existing
from sfumato.release.payment import Payment
from sfumato.release.protected_file import Protected, Report, silent
from sfumato.release.record_files import RecordFiles
from sfumato.release.single_file import protect_file
from sfumato.release.source_opener import opener_of
from sfumato.reports import KeyRing, SigningKey, certificate_file

if TYPE_CHECKING:
    from sfumato.ledger import Ledger
    from sfumato.mechanisms.transforms import Transform
    from sfumato.release.media_mechanisms import MediaMechanisms

__all__ = ["protect"]

_CERTIFICATE_BYTES = 1 << 24


def protect(
    source: str | os.PathLike[str],
    output: str | os.PathLike[str],
    mechanism: Mechanism | MediaMechanisms,
    *,
    array: str | None = None,
    schema: str | os.PathLike[str] | Schema | None = None,
    then: Transform | None = None,
    dataset: str | None = None,
    ledger: Ledger | None = None,
    request: str | None = None,
    uncharged: bool = False,
    keys: KeyRing | None = None,
    bounds_from_data: bool = False,
    disjoint: bool = False,
    public_names: bool = False,
    overwrite: bool = False,
    engine: Engine | None = None,
    report: Report | None = None,
    room: Callable[[int], None] | None = None,
) -> Protected | ProtectedFolder:
    """Release the file or the folder ``source`` as ``output`` by ``mechanism``, streaming.

    Both are paths or URLs of object stores. Arrays (``.npy``, ``.npz``) hold records as rows; ``array`` names
    one of several in an archive. Tables (``.csv``, ``.csv.gz``, ``.parquet``) need a ``schema``. ``then`` is
    applied to the release. Pictures, sounds and videos, and folders of them, go through a mechanism for media
    or, as :class:`~sfumato.release.media_mechanisms.MediaMechanisms`, one for each kind. The files of a
    folder are one release; one file of records whose ``output`` ends in a slash is cut into parts there.
    The ε of a mechanism is that of each file. A record may be in every file of a folder of arrays or tables,
    so their costs add up, unless ``disjoint`` declares that none is in two; equal files are refused. Names of
    files in a folder and of arrays in an archive do not travel, unless ``public_names`` declares them public:
    released files are numbered, and the result tells their sources to whoever runs the release.
    ``dataset`` is charged in ``ledger``, before anything is drawn, and refused where it has no budget there;
    with ``uncharged`` the certificate names it and nothing is charged. The same ``request`` is charged once,
    and needs keyed noise. The certificate is signed with the key in ``keys`` (default: in the home folder,
    made where there is none), unless the noise can be repeated. ``bounds_from_data`` takes the lowest and
    highest value of an array for its bounds, after which nothing is proven. An output that is there is
    refused, unless it may be overwritten (``overwrite``) or is that of the same request. ``engine`` works on
    many files or parts; by default the threads of this process do. ``room`` is told, before one file is paid
    for, how many bytes its output has at the most, and refuses by raising; a disk without so many is found
    then too. Raises
    :class:`~sfumato.errors.BadInput`, leaving no output, when anything is wrong with the input.
    """
    given = located(source)
    parts = given.name is not None and os.fspath(output).endswith("/")
    target = located(output, folder=given.name is None or parts)
    if target.name is not None and given.name is not None:
        same_kind(given.name, target.name)
        if target.local is not None:
            check_output(target.local, _local_files(given, schema))
        if given.store.place(given.name) == target.store.place(target.name):
            raise BadInput(f"{target.word} would overwrite the input {given.shown}; choose another output.")
        if engine is not None and engine.retries:
            raise BadInput(
                f"one file is one piece of work, so no cluster helps with {given.word}; end the output in a "
                "slash and it is cut into parts, or leave out `engine`.",
                parameter="engine",
            )
    payment = Payment(dataset, ledger, request, uncharged)
    opener = opener_of(
        given,
        mechanism,
        array=array,
        schema=schema,
        then=then,
        bounds_from_data=bounds_from_data,
        disjoint=disjoint,
        public_names=public_names,
    )
    engine = engine or LocalEngine()
    if engine.retries and opener.keyed is None and not opener.reproducible and opener.draws_noise:
        # Work that is done again must draw the same; nobody keeps this secret.
        release = secrets.token_hex(16)
        opener = opener.keyed_by(
            Keyed(secrets.token_bytes(32), dataset=dataset or "a batch", version="1", release=release)
        )
    # Found or made now: a key that cannot be used must not be noticed after the budget was spent.
    ring = KeyRing() if keys is None else keys
    signer = None if opener.reproducible else ring.signing_or_new()
    tell = report or silent
    with given.store, target.store, _alone(target, payment):
        if given.name is not None and target.name is not None:
            if not overwrite:
                _refuse_overwriting(target, payment, ring)
            return _one(given, target, opener, payment, signer, tell, room)
        return protect_folder(
            given.store,
            target.store,
            _parts(given, opener)
            if parts
            else pieces_of(given.store, public_names=public_names, keyed=opener.keyed),
            opener.open,
            unit=opener.of_folders,
            apart=PARTS if parts else opener.apart,
            records=opener.records and not parts,
            names=None if parts else NAMED if public_names else NUMBERED,
            keyed=opener.keyed,
            engine=engine,
            payment=payment,
            signer=signer,
            report=tell,
        )


def _alone(target: Located, payment: Payment) -> AbstractContextManager[None]:
    """No other run on this machine writes into ``target``; of an object store that cannot be known."""
    if target.local is None:
        return nullcontext()
    return claimed(target.local, parents=target.name is None, wait=payment.request is not None)


def _refuse_overwriting(target: Located, payment: Payment, keys: KeyRing) -> None:
    """Refuse a file that is there, unless its certificate says that it is of the same request."""
    assert target.name is not None
    if target.store.read(target.name, 1) is None:
        return
    beside = target.store.read(certificate_file(Path(target.name)).as_posix(), _CERTIFICATE_BYTES)
    if beside is None or not payment.paid_for(beside, keys):
        refuse_existing(target.word)


def _one(
    given: Located,
    target: Located,
    opener: MediaMechanisms | RecordFiles,
    payment: Payment,
    signer: SigningKey | None,
    report: Report,
    room: Callable[[int], None] | None,
) -> Protected:
    assert given.name is not None
    assert target.name is not None
    with given.store.reading(given.name) as path, target.store.writing(target.name) as place:
        opened = opener.open(path, report=report) if isinstance(opener, RecordFiles) else opener.open(path)
        done = protect_file(opened, place, payment=payment, signer=signer, report=report, room=room)
    return done if target.local is not None else replace(done, place=target.shown)


def _parts(given: Located, opener: MediaMechanisms | RecordFiles) -> list[Piece]:
    """The parts of one file, which are named by their numbers; a file that cannot be cut is one part."""
    assert given.name is not None
    if not isinstance(opener, RecordFiles):
        raise BadInput(f"{given.word} is a {given.kind}, which is released whole: name the output's file.")
    suffix = suffix_of(given.name)
    # All parts are of one version: the cuts were made for it, and so were the digests that are paid for.
    version = given.store.version(given.name)
    path = given.store.shared(given.name, version)
    with named(path, given.name):
        cuts: list[range] | list[None] = cuts_of(path) or [None]
    return [Piece(f"part-{number:05d}{suffix}", given.name, cut, version) for number, cut in enumerate(cuts)]


def _local_files(given: Located, schema: object) -> list[str | os.PathLike[str]]:
    files: list[str | os.PathLike[str]] = [] if given.local is None else [given.local]
    return [*files, schema] if isinstance(schema, str | Path) else files
