"""Releases of files and folders: ``sf.protect``, and files whose price is set aside before they are drawn."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from contextlib import AbstractContextManager, closing, nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.errors import BadInput
from sfumato.io import MEDIA, Schema, cuts_of, named, same_kind, suffix_of
from sfumato.mechanisms import Mechanism, Personalised
from sfumato.noise import Keyed
from sfumato.release.engines import Engine, LocalEngine
from sfumato.release.folder import Folder, Piece, ProtectedFolder, pieces_of
from sfumato.release.path import (
    HeldPayment,
    Payment,
    Protected,
    Report,
    check_output,
    claimed,
    refuse_existing,
    release,
    silent,
)
from sfumato.release.record_files import Files, OneFile, RecordFiles
from sfumato.release.request import (
    Located,
    ReleaseRequest,
    located,
    refuse_for_media,
    refuse_schema,
)
from sfumato.reports import KeyRing, certificate_file

if TYPE_CHECKING:
    from sfumato.ledger import Entry, Ledger
    from sfumato.mechanisms.transforms import Transform
    from sfumato.release.checkpoint import Checkpoint
    from sfumato.release.media_files import MediaMechanisms

__all__ = ["HeldFile", "protect"]

_CERTIFICATE_BYTES = 1 << 24


def opener_of(
    source: Located,
    mechanism: Mechanism | MediaMechanisms | ReleaseRequest,
    *,
    schema: str | os.PathLike[str] | Schema | None = None,
    **options: Any,
) -> Files:
    """Return what opens the files of ``source``: of media, or of records, which tables are with a ``schema``.

    The files of a folder are media if the mechanism is one of media. ``options`` are fields of
    :class:`~sfumato.release.record_files.RecordFiles`. A request in the place of a mechanism says all of
    them.
    """
    if isinstance(mechanism, ReleaseRequest):
        made = mechanism.make_mechanism(source.holds, source.word)
        return opener_of(source, made, **mechanism.options())
    if isinstance(mechanism, str):
        raise BadInput(
            f"`mechanism` was the name {mechanism!r}; give the mechanism itself, as in "
            f"sf.mechanism({mechanism!r}, epsilon=1.0).",
            parameter="mechanism",
        )
    of_media, folder = not isinstance(mechanism, Mechanism) or mechanism.of_media, source.name is None
    if source.kind in MEDIA or (folder and of_media):
        given = {name for name, one in {**options, "schema": schema}.items() if one not in (None, False)}
        refuse_for_media(source.word, sorted(given - {"public_names"}))
        from sfumato.release.media_files import MediaMechanisms

        return MediaMechanisms.of(mechanism)
    if not isinstance(mechanism, Mechanism):
        raise BadInput(
            f"{source.word} holds records; mechanisms for media are not for them.", parameter="mechanism"
        )
    if folder and options.get("bounds_from_data"):
        raise BadInput(
            f"`bounds_from_data=True` is for one file, and {source.word} is a folder.",
            parameter="bounds_from_data",
        )
    if folder and isinstance(mechanism, Personalised) and np.ndim(mechanism.epsilon) > 0:
        raise BadInput(
            f"an ε for each record is for the records of one file, and {source.word} is a folder.",
            parameter="epsilon",
        )
    if not folder and options.get("disjoint"):
        raise BadInput(
            f"`disjoint` is for folders of arrays or tables, and {source.word} is one file.",
            parameter="disjoint",
        )
    if source.kind is not None and schema is not None:
        refuse_schema(source.kind, source.word)
    declared = schema if schema is None or isinstance(schema, Schema) else Schema.load(schema)
    return RecordFiles(mechanism, schema=declared, **options)


class HeldFile:
    """The local file ``source``, released as ``wanted`` to an output ``name``, by default its own name.

    ``noise`` is that of a request which may be repeated. Opening it reads the header and refuses what cannot
    be released at all; nothing is charged yet.
    """

    def __init__(
        self,
        source: Path,
        wanted: ReleaseRequest,
        *,
        name: str | None = None,
        noise: Keyed | None = None,
        report: Report = silent,
    ) -> None:
        self._name, self._report = name or source.name, report
        opener = opener_of(located(source, folder=False), wanted)
        self._file = (opener if noise is None else opener.keyed_by(noise)).open(source, report=report)
        self._file.fits(Path(self._name))

    def set_aside(self, payment: HeldPayment) -> Entry:
        """Set its price aside."""
        return payment.hold(OneFile(self._file, Path(self._name)))

    def protect(
        self,
        folder: Path,
        payment: Payment | HeldPayment,
        keys: KeyRing,
        room: Callable[[int], None] | None = None,
    ) -> Protected:
        """Release it into ``folder``: check all of it, find ``room``, pay, draw the noise."""
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
    applied to the release. Images, audio, videos, and folders of them, go through a mechanism for media or,
    as :class:`~sfumato.release.media_files.MediaMechanisms`, one for each kind. The files of a folder are one
    release; one file of records whose ``output`` ends in a slash is cut into parts there.

    The ε of a mechanism is that of each file. A record may be in every file of a folder of arrays or tables,
    so their costs add up, unless ``disjoint`` declares that none is in two; equal files are refused. Names of
    files in a folder and of arrays in an archive are not released, unless ``public_names`` declares them
    public: released files are numbered, and the result has their sources, for the owner.

    ``dataset`` is charged in ``ledger`` before anything is drawn, and refused if it has no budget there; with
    ``uncharged`` the certificate names it and nothing is charged. The same ``request`` is charged once, and
    needs keyed noise. The certificate is signed with the key in ``keys`` (default: in the home folder, made
    if there is none), unless the noise can be repeated. ``bounds_from_data`` takes the lowest and highest
    value of an array for its bounds, after which nothing is proven. An existing output is refused, unless it
    may be overwritten (``overwrite``) or is that of the same request. ``engine`` works on many files or
    parts; by default threads or processes of this machine do. ``room`` is called with the largest size of the
    output in bytes, before one file is paid for, and refuses by raising; a disk without so much room is
    refused too.

    A :class:`~sfumato.release.request.ReleaseRequest` in the place of a mechanism says what its parameters,
    ``array``, ``schema``, ``then``, ``dataset``, ``request``, ``bounds_from_data``, ``disjoint`` and
    ``public_names`` are; the noise of a request is then keyed by the secret in ``keys``. Raises
    :class:`~sfumato.errors.BadInput`, leaving no output, if anything is wrong with the input.
    """
    options: dict[str, Any] = {
        "array": array,
        "schema": schema,
        "then": then,
        "bounds_from_data": bounds_from_data,
        "disjoint": disjoint,
        "public_names": public_names,
    }
    ring, noise, tell = keys or KeyRing(), None, report or silent
    if isinstance(mechanism, ReleaseRequest):
        mechanism.refuse_beside(dataset=dataset, request=request, **options)
        dataset, request, public_names = mechanism.dataset, mechanism.request, mechanism.public_names
        noise = None if request is None else mechanism.noise(ring)
    given = located(source)
    parts = given.name is not None and os.fspath(output).endswith("/")
    target = located(output, folder=given.name is None or parts)
    _check_target(given, target, schema, engine)
    payment = Payment(dataset, ledger, request, uncharged)
    opener = opener_of(given, mechanism, **options)
    opener = opener if noise is None else opener.keyed_by(noise)
    with given.store, target.store, _alone(target, payment):
        if given.name is not None and target.name is not None:
            if not overwrite:
                _refuse_overwriting(target, payment, ring)
            with given.store.reading(given.name) as path, target.store.writing(target.name) as place:
                kind = OneFile(opener.open(path, report=tell), place, room_for=room)
                done = release(kind, payment, ring, tell)
            return done if target.local is not None else replace(done, place=target.shown)
        with closing(LocalEngine()) if engine is None else nullcontext(engine) as working:
            opener, run = _repeatable(opener, payment, target.local, working)
            pieces = _parts(given, opener) if parts else pieces_of(given.store, public_names, opener.keyed)
            folder = Folder(
                given.store,
                target.store,
                pieces,
                opener,
                payment=payment,
                parts=parts,
                public_names=public_names,
                engine=working,
                checkpoint=run,
                keys=ring,
            )
            return folder.result(release(folder, payment, ring, tell))


def _check_target(given: Located, target: Located, schema: object, engine: Engine | None) -> None:
    """Refuse a ``target`` for one file that cannot be written, or would overwrite an input."""
    if target.name is None or given.name is None:
        return
    if target.local is not None and target.local.is_dir() and not target.local.suffix:
        named = target.local / given.word
        raise BadInput(
            f"`output` {target.shown} is a folder: name the file in it, as in {named}.", parameter="output"
        )
    same_kind(given.name, target.name)
    if target.local is not None:
        inputs = [file for file in (given.local, schema) if isinstance(file, str | Path)]
        check_output(target.local, inputs)
    if given.store.place(given.name) == target.store.place(target.name):
        raise BadInput(f"{target.word} would overwrite the input {given.shown}; choose another output.")
    if engine is not None and engine.retries:
        raise BadInput(
            f"one file is one piece of work, so no cluster helps with {given.word}; end the output in a "
            "slash and it is cut into parts, or leave out `engine`.",
            parameter="engine",
        )


def _repeatable(
    opener: Files, payment: Payment, output: Path | None, engine: Engine
) -> tuple[Files, Checkpoint | None]:
    """Return ``opener`` with keyed noise if work may be done again, and the checkpoint of a paid run.

    Work is done again if a worker is lost, and if a paid run is resumed. A run into an object store keeps no
    checkpoint: it is resumed under a request, which draws all of it again.
    """
    run = None
    if output is not None and payment.payer is not None:
        from sfumato.release.checkpoint import Checkpoint

        run = Checkpoint(output)
    if opener.keyed is not None or opener.reproducible or not opener.drawing:
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
    """Keep other runs on this machine out of ``target``; in an object store that is not possible."""
    if target.local is None:
        return nullcontext()
    return claimed(target.local, parents=target.name is None, wait=payment.request is not None)


def _refuse_overwriting(target: Located, payment: Payment, keys: KeyRing) -> None:
    """Refuse to overwrite a file, unless its certificate says that it is of the same request."""
    assert target.name is not None
    if not target.store.holds(target.name):
        return
    beside = target.store.read(certificate_file(Path(target.name)).as_posix(), _CERTIFICATE_BYTES)
    if beside is None or not payment.paid_for(beside, keys):
        refuse_existing(target.word)


def _parts(given: Located, opener: Files) -> list[Piece]:
    """Return the parts of one file, named by their numbers; a file that cannot be cut is one part."""
    assert given.name is not None
    if not opener.records:
        raise BadInput(f"{given.word} is a {given.kind}, which is released whole: name the output's file.")
    suffix = suffix_of(given.name)
    # All parts are of one version: the cuts were made for it, and so were the digests that are paid for.
    version = given.store.version(given.name)
    path = given.store.shared(given.name, version)
    with named(path, given.name):
        cuts: list[range] | list[None] = cuts_of(path) or [None]
    return [Piece(f"part-{number:05d}{suffix}", given.name, cut, version) for number, cut in enumerate(cuts)]
