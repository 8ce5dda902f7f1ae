"""Releases of files and folders: ``sf.protect``, and files whose price is set aside before they are drawn.

Open what is to be released; refuse options that do not go with it, at every door.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from sfumato.errors import BadInput
from sfumato.io import Schema, cuts_of, named, same_kind, suffix_of
from sfumato.mechanisms import Mechanism, Personalised
from sfumato.noise import Keyed
from sfumato.release.combined_statement import PARTS
from sfumato.release.engines import Engine, LocalEngine
from sfumato.release.folder import NAMED, NUMBERED, Folder, Piece, ProtectedFolder, pieces_of
from sfumato.release.locations import Located, check_output, claimed, located, refuse_existing
from sfumato.release.path import OneFile, Protected, Report, SourceFile, release, silent
from sfumato.release.payment import HeldPayment, Payment
from sfumato.release.record_files import RecordFiles
from sfumato.release.request import ReleaseRequest, kind_at, refuse_for_media, refuse_schema
from sfumato.reports import KeyRing, certificate_file

if TYPE_CHECKING:
    from sfumato.ledger import Entry, Ledger
    from sfumato.mechanisms.transforms import Transform
    from sfumato.release.checkpoint import Checkpoint
    from sfumato.release.media_files import MediaMechanisms

__all__ = ["HeldFile", "protect"]


def opener_of(
    source: Located,
    mechanism: Mechanism | MediaMechanisms | ReleaseRequest,
    *,
    array: str | None = None,
    schema: str | os.PathLike[str] | Schema | None = None,
    then: Transform | None = None,
    bounds_from_data: bool = False,
    disjoint: bool = False,
    public_names: bool = False,
) -> MediaMechanisms | RecordFiles:
    """Return what opens the files of ``source``: of media, or of records, which tables are with a schema.

    The files of a folder are media where the mechanism is one of media. A request in the place of a mechanism
    says the rest as well.
    """
    if isinstance(mechanism, ReleaseRequest):
        made = mechanism.make_mechanism(kind_at(source), source.word)
        return opener_of(source, made, **mechanism.options())
    of_media = not isinstance(mechanism, Mechanism) or mechanism.of_media
    if source.name is None and not of_media and bounds_from_data:
        raise BadInput(
            f"`bounds_from_data=True` is for one file, and {source.word} is a folder.",
            parameter="bounds_from_data",
        )
    if source.name is None and isinstance(mechanism, Personalised) and np.ndim(mechanism.epsilon) > 0:
        raise BadInput(
            f"an ε for each record is for the records of one file, and {source.word} is a folder.",
            parameter="epsilon",
        )
    if isinstance(mechanism, str):
        raise BadInput(
            f"`mechanism` was the name {mechanism!r}; give the mechanism itself, as in "
            f"sf.mechanism({mechanism!r}, epsilon=1.0).",
            parameter="mechanism",
        )
    if source.of_media or (source.name is None and of_media):
        options = {"array": array, "then": then, "bounds_from_data": bounds_from_data, "schema": schema}
        options |= {"disjoint": disjoint}
        refuse_for_media(source.word, [name for name, one in options.items() if one not in (None, False)])
        from sfumato.release.media_files import MediaMechanisms

        return MediaMechanisms.of(mechanism)
    if not isinstance(mechanism, Mechanism):
        raise BadInput(
            f"{source.word} holds records; mechanisms for media are not for them.", parameter="mechanism"
        )
    if source.name is not None and disjoint:
        raise BadInput(
            f"`disjoint` is for folders of arrays or tables, and {source.word} is one file.",
            parameter="disjoint",
        )
    if source.kind is not None and schema is not None:
        refuse_schema(source.kind, source.word)
    declared = schema if schema is None or isinstance(schema, Schema) else Schema.load(schema)
    return RecordFiles(mechanism, array, declared, then, bounds_from_data, disjoint, public_names)


_CERTIFICATE_BYTES = 1 << 24


class HeldFile:
    """The local file ``source``, released as ``asked`` to an output called ``name``, by default its own name.

    ``noise`` is that of a request which may be repeated. Opening it reads the header and refuses what cannot
    be released at all; nothing is charged yet.
    """

    def __init__(
        self,
        source: Path,
        asked: ReleaseRequest,
        *,
        name: str | None = None,
        noise: Keyed | None = None,
        report: Report = silent,
    ) -> None:
        self._name, self._report = name or source.name, report
        opener = opener_of(located(source, folder=False), asked)
        self._file = _opened(opener if noise is None else opener.keyed_by(noise), source, report)
        self._file.fits(source)

    def set_aside(self, payment: HeldPayment) -> Entry:
        """Set its price aside."""
        noise = payment.noise(self._file.mechanism.keyed)
        return payment.hold(self._file.statement, self._name, noise, self._file.declared)

    def protect(
        self,
        folder: Path,
        payment: HeldPayment,
        keys: KeyRing,
        room: Callable[[int], None] | None = None,
    ) -> Protected:
        """Release it into ``folder``: check all of it, find ``room``, commit the hold, draw the noise."""
        kind = OneFile(self._file, folder / self._name, room_for=room)
        return release(kind, payment, keys, self._report)


def protect(
    source: str | os.PathLike[str],
    output: str | os.PathLike[str],
    mechanism: Mechanism | MediaMechanisms | ReleaseRequest,
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
    or, as :class:`~sfumato.release.media_files.MediaMechanisms`, one for each kind. The files of a
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
    many files or parts; by default threads or processes of this machine do. ``room`` is told, before one file
    is paid for, how many bytes its output has at the most, and refuses by raising; a disk without so many is
    found then too. A :class:`~sfumato.release.request.ReleaseRequest` in the place of a mechanism says what
    its parameters, ``array``, ``schema``, ``then``, ``dataset``, ``request``, ``bounds_from_data``,
    ``disjoint`` and ``public_names`` are, and noise of a request is then keyed by the secret in ``keys``.
    Raises :class:`~sfumato.errors.BadInput`, leaving no output, when anything is wrong with the input.
    """
    ring, noise = KeyRing() if keys is None else keys, None
    if isinstance(mechanism, ReleaseRequest):
        mechanism.refuse_beside(
            dataset=dataset,
            request=request,
            array=array,
            schema=schema,
            then=then,
            bounds_from_data=bounds_from_data,
            disjoint=disjoint,
            public_names=public_names,
        )
        dataset, request, public_names = mechanism.dataset, mechanism.request, mechanism.public_names
        noise = None if request is None else mechanism.noise(ring)
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
    opener = opener if noise is None else opener.keyed_by(noise)
    tell = report or silent
    with given.store, target.store, _alone(target, payment):
        if given.name is not None and target.name is not None:
            if not overwrite:
                _refuse_overwriting(target, payment, ring)
            with given.store.reading(given.name) as path, target.store.writing(target.name) as place:
                kind = OneFile(_opened(opener, path, tell), place, room_for=room)
                done = release(kind, payment, ring, tell)
            return done if target.local is not None else replace(done, place=target.shown)
        engine = engine or LocalEngine()
        opener, run = _repeatable(opener, payment, target.local, engine)
        folder = Folder(
            given.store,
            target.store,
            _parts(given, opener)
            if parts
            else pieces_of(given.store, public_names=public_names, keyed=opener.keyed),
            opener.open,
            payment=payment,
            unit=opener.of_folders,
            apart=PARTS if parts else opener.apart,
            records=opener.records and not parts,
            names=None if parts else NAMED if public_names else NUMBERED,
            keyed=opener.keyed,
            reproducible=opener.reproducible,
            engine=engine,
            checkpoint=run,
            keys=ring,
        )
        return folder.result(release(folder, payment, ring, tell))


def _repeatable(
    opener: MediaMechanisms | RecordFiles, payment: Payment, output: Path | None, engine: Engine
) -> tuple[MediaMechanisms | RecordFiles, Checkpoint | None]:
    """``opener`` with keyed noise where work may be done again, and the checkpoint of a run that is paid.

    Work is done again where a worker is lost, and where a paid run is resumed. A run into an object store
    keeps no checkpoint: it is resumed under a request, which draws all of it again.
    """
    run = None
    if output is not None and payment.payer is not None:
        from sfumato.release.checkpoint import Checkpoint

        run = Checkpoint(output)
    if opener.keyed is not None or opener.reproducible or not opener.draws_noise:
        return opener, run if payment.request is not None else None
    if run is not None:
        noise = run.prepare()
        with suppress(BadInput):  # of noise that cannot be keyed
            return opener.keyed_by(noise), run
    if engine.retries:
        # Nobody keeps this secret.
        words = {"dataset": payment.dataset or "a batch", "version": "1", "release": secrets.token_hex(16)}
        opener = opener.keyed_by(Keyed(secrets.token_bytes(32), **words))
    return opener, None


def _alone(target: Located, payment: Payment) -> AbstractContextManager[None]:
    """No other run on this machine writes into ``target``; of an object store that cannot be known."""
    if target.local is None:
        return nullcontext()
    return claimed(target.local, parents=target.name is None, wait=payment.request is not None)


def _refuse_overwriting(target: Located, payment: Payment, keys: KeyRing) -> None:
    """Refuse a file that is there, unless its certificate says that it is of the same request."""
    assert target.name is not None
    if not target.store.holds(target.name):
        return
    beside = target.store.read(certificate_file(Path(target.name)).as_posix(), _CERTIFICATE_BYTES)
    if beside is None or not payment.paid_for(beside, keys):
        refuse_existing(target.word)


def _opened(opener: MediaMechanisms | RecordFiles, path: Path, report: Report) -> SourceFile:
    return opener.open(path, report=report) if isinstance(opener, RecordFiles) else opener.open(path)


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
