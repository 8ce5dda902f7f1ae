"""The one path a release of a file takes: open, check, pay, draw, write, certify.

All of the data is checked before anything is paid, so that bad input costs nothing; what is paid is durable
before any noise is drawn. The output appears at its name when it is complete, and its certificate appears
just before it: whoever finds a release finds what it promises. A crash may waste budget or leave a
certificate without an output; it never leaves an unpaid release.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from sfumato.errors import BadInput
from sfumato.io import MEDIA, Schema, TableSource, kind_of, same_kind
from sfumato.ledger import Ledger
from sfumato.mechanisms import Mechanism
from sfumato.pipeline.arrays import protect_array
from sfumato.pipeline.folder import ProtectedFolder, protect_folder
from sfumato.pipeline.media import protect_media
from sfumato.pipeline.media_mechanisms import MediaMechanisms
from sfumato.pipeline.opening import open_source, refuse_options
from sfumato.pipeline.payment import Payment
from sfumato.pipeline.place import check_output
from sfumato.pipeline.protected import Protected, Report
from sfumato.pipeline.tables import protect_table
from sfumato.report import KeyRing
from sfumato.transforms import Transform

__all__ = ["protect"]


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
    keys: KeyRing | None = None,
    bounds_from_data: bool = False,
    report: Report | None = None,
) -> Protected | ProtectedFolder:
    """Release the file or the folder ``source`` as ``output`` by ``mechanism``, streaming.

    Arrays (``.npy``, ``.npz``) hold records as rows; ``array`` names one of several in an archive.
    Tables (``.csv``, ``.csv.gz``, ``.parquet``) need a ``schema``. ``then`` is applied to the release.
    Pictures, sounds and videos, and folders of them, go through a mechanism for media or, as
    :class:`~sfumato.pipeline.media_mechanisms.MediaMechanisms`, one for each kind.
    ``dataset`` is charged in ``ledger``, before anything is drawn; the same ``request`` is charged once, and
    needs keyed noise. The certificate is signed with the key in ``keys`` (default: in the home folder, made
    where there is none), unless the noise can be repeated. ``bounds_from_data`` takes the lowest and highest
    value of an array for its bounds, after which nothing is proven. Raises
    :class:`~sfumato.errors.BadInput`, leaving no output, when anything is wrong with the input.
    """
    target = Path(output)
    folder = Path(source).is_dir()
    if not folder:
        same_kind(source, output)
        check_output(target, [source] if schema is None or isinstance(schema, Schema) else [source, schema])
    payment = Payment(dataset, ledger, request)
    if folder or kind_of(source) in MEDIA:
        mechanism = MediaMechanisms.of(mechanism)
        refuse_options(source, array=array, schema=schema, then=then, bounds_from_data=bounds_from_data)
    elif isinstance(mechanism, MediaMechanisms):
        raise BadInput(f"{Path(source).name} holds records; mechanisms for media are not for them.")
    else:
        opened = open_source(source, array=array, schema=schema, then=then, bounds_from_data=bounds_from_data)
    # Found or made now: a key that cannot be used must not be noticed after the budget was spent.
    signer = None if mechanism.reproducible else (KeyRing() if keys is None else keys).signing_or_new()
    tell = report or (lambda stage, share: None)
    if isinstance(mechanism, MediaMechanisms):
        paid_by: Any = {"payment": payment, "signer": signer, "report": tell}
        if folder:
            return protect_folder(Path(source), target, mechanism.open, unit=mechanism.of_folders, **paid_by)
        return protect_media(mechanism.open(Path(source)), target, **paid_by)
    if isinstance(opened, TableSource):
        return protect_table(opened, target, mechanism, payment=payment, signer=signer, report=tell)
    return protect_array(
        opened,
        target,
        mechanism,
        then=then,
        payment=payment,
        signer=signer,
        bounds_from_data=bounds_from_data,
        report=tell,
    )
