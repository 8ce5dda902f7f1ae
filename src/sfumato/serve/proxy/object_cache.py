"""Objects that the proxy has drawn and keeps, as what they are: releases, by their certificates."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sfumato.reports import Certificate
from sfumato.reports.envelope import VerificationFailed
from sfumato.serve.auth.callers import Caller
from sfumato.serve.proxy.bucket_declarations import Bucket
from sfumato.serve.proxy.buckets import Buckets
from sfumato.serve.service import Service

__all__ = ["KeptObject", "kept_objects"]

_CERTIFICATE = ".cert.json"


@dataclass(frozen=True)
class KeptObject:
    """One tier of one version of an object: its name with its bucket, what it states, and what paid for it.

    ``entry`` is the number of the ledger's entry, which tiers that are nested share.
    """

    name: str
    sha256: str
    statement: Mapping[str, Any]
    created: str
    entry: int


def kept_objects(
    service: Service, caller: Caller, dataset: str, *, most: int
) -> tuple[list[KeptObject], int]:
    """The newest ``most`` that are kept of buckets of ``dataset`` which the caller may read, newest first.

    Also how many there are in all. One without a certificate of ours is none.
    """
    buckets = Buckets.of(service)
    there = [
        (modified, place, bucket)
        for bucket in buckets.buckets(caller)
        if bucket.dataset == dataset
        for modified, place in _certificates(buckets.folder(bucket))
    ]
    there.sort(key=lambda one: (one[0], one[1].name), reverse=True)
    trusted = service.keys.trusted()
    found = []
    for modified, place, bucket in there[:most]:
        with suppress(VerificationFailed, FileNotFoundError):
            found.append(_object(Certificate.read(place.read_bytes(), trusted), bucket, modified))
    return found, len(there)


def _certificates(folder: Path) -> Iterator[tuple[float, Path]]:
    """When each certificate in ``folder`` was written, and where it is; its object is there too."""
    with suppress(FileNotFoundError):
        for entry in os.scandir(folder):
            place = Path(entry.path)
            if entry.name.endswith(_CERTIFICATE) and not entry.name.startswith("."):
                with suppress(FileNotFoundError):
                    place.with_name(entry.name.removesuffix(_CERTIFICATE)).stat()
                    yield entry.stat().st_mtime, place


def _object(certificate: Certificate, bucket: Bucket, modified: float) -> KeptObject:
    return KeptObject(
        name=f"{bucket.name}/{certificate.file_name}",
        sha256=certificate.sha256,
        statement=certificate.statement.to_dict(),
        created=datetime.fromtimestamp(modified, UTC).isoformat(),
        entry=int((certificate.ledger or {})["number"]),
    )
