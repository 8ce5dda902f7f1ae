"""Protected objects: drawn once, kept, and given to every reader of their tier.

An object version is paid for before anything is drawn, under a key that is the same for every reader; its
noise is keyed by the bucket, the object's key and its version. So whatever happens between paying and
storing, the next request gets the same bytes, and pays nothing. Names of stored files are keyed digests: they
reveal neither their object nor, across tenants, whether two are equal.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import anyio

from sfumato.errors import BadInput, RequestReused
from sfumato.io import Fault, named, released_suffix, suffix_of
from sfumato.noise import Keyed
from sfumato.release import OneFile, Payment, release
from sfumato.reports import Certificate, VerificationFailed, certificate_file
from sfumato.serve.authentication import ApiKey, ledger_name
from sfumato.serve.proxy.buckets import Bucket, Found, Source
from sfumato.serve.proxy.s3_protocol import Refused
from sfumato.serve.refusals import TooLarge
from sfumato.serve.service import Service
from sfumato.serve.uploads import require_memory, require_unpacked

_CERTIFICATE = ".cert.json"
# How many are drawn at the same time, how many of them of one tenant, so that none takes all, and how long
# others wait for one that is being drawn.
_AT_ONCE, _OF_ONE_TENANT = 3, 2
_PATIENCE_SECONDS = 600.0
# How many times the largest object one may be once it is unpacked.
_UNPACKED = 4
_DAY = 86_400.0
# What a certificate says of the name of its object.
_PUBLIC_NAME = "the object has the name of its source, which the owner declares public"
_MADE_UP_NAME = "the name of the object was made up; that of its source does not travel"


@dataclass(frozen=True)
class KeptObject:
    """One tier of one version of an object: its name with its bucket, its statement and its payment.

    ``entry`` is the number of the ledger's entry, which nested tiers share.
    """

    name: str
    sha256: str
    statement: Mapping[str, Any]
    created: str
    entry: int


def kept_objects(
    service: Service, caller: ApiKey, dataset: str, *, most: int
) -> tuple[list[KeptObject], int]:
    """Return the newest ``most`` drawn objects of readable buckets of ``dataset``, newest first.

    Also return how many there are in all. An object without a certificate of ours does not count.
    """
    buckets = service.buckets
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
            certificate = Certificate.read(place.read_bytes(), trusted)
            kept = KeptObject(
                name=f"{bucket.name}/{certificate.file_name}",
                sha256=certificate.sha256,
                statement=certificate.statement.to_dict(),
                created=datetime.fromtimestamp(modified, UTC).isoformat(),
                entry=int((certificate.ledger or {})["number"]),
            )
            found.append(kept)
    return found, len(there)


def _certificates(folder: Path) -> Iterator[tuple[float, Path]]:
    """Return each certificate in ``folder`` whose object exists, with the time at which it was written."""
    with suppress(FileNotFoundError):
        for entry in os.scandir(folder):
            place = Path(entry.path)
            if entry.name.endswith(_CERTIFICATE) and not entry.name.startswith("."):
                with suppress(FileNotFoundError):
                    place.with_name(entry.name.removesuffix(_CERTIFICATE)).stat()
                    yield entry.stat().st_mtime, place


@dataclass(frozen=True)
class ObjectTier:
    """One tier of one version of an object, with its place on disk."""

    bucket: Bucket
    found: Found
    level: float
    version_digest: str
    digest: str
    file: Path

    @property
    def etag(self) -> str:
        """Return the tag of its bytes; not an MD5 of them, which its dash tells clients that compare."""
        return f'"{self.digest[:32]}-1"'

    @property
    def certificate(self) -> Path:
        """Return the place of its certificate."""
        return certificate_file(self.file)

    @property
    def size(self) -> int | None:
        """Return its size in bytes; None before it is drawn, when nobody can know."""
        try:
            return self.file.stat().st_size
        except FileNotFoundError:
            return None


class Objects:
    """The protected objects of ``service``."""

    def __init__(self, service: Service) -> None:
        self._service, self._buckets = service, service.buckets
        self._limiter = anyio.CapacityLimiter(_AT_ONCE)
        self._of_tenants = defaultdict[str, anyio.CapacityLimiter](
            lambda: anyio.CapacityLimiter(_OF_ONE_TENANT)
        )
        # The keys of objects of buckets whose names are private, by the names that readers see.
        self._keys: dict[str, dict[str, str]] = {}

    def of(self, bucket: Bucket, found: Found, level: float) -> ObjectTier:
        """Return the tier ``level`` of an object as it is in the source now; nothing is drawn."""
        version = [found.key, found.version, found.size]
        digest = self._digest(bucket, [*version, level])
        file = self._buckets.folder(bucket) / f"{digest}{_suffix(found)}"
        return ObjectTier(bucket, found, level, self._digest(bucket, version), digest, file)

    def listed(self, bucket: Bucket, source: Source) -> list[Found]:
        """Return what the bucket releases, in the order of the names that readers see."""
        found = [self._named(bucket, one) for one in source.listed() if bucket.releases(one.key)]
        return sorted(found, key=lambda one: one.shown.encode())

    def found(self, bucket: Bucket, source: Source, shown: str) -> Found | None:
        """Return the object that readers see as ``shown``, or None.

        A made-up name reveals nothing of the key, so the key is looked up in the listing once.
        """
        if bucket.public_names:
            return source.found(shown)
        if shown not in self._keys.get(bucket.id, {}):
            self._keys[bucket.id] = {one.shown: one.key for one in self.listed(bucket, source)}
        key = self._keys[bucket.id].get(shown)
        one = None if key is None else source.found(key)
        return None if one is None else self._named(bucket, one)

    def _named(self, bucket: Bucket, found: Found) -> Found:
        """Return ``found`` under the name that readers see."""
        if bucket.public_names:
            return found
        made_up = self._digest(bucket, ["name", found.key])[:32]
        return replace(found, shown=f"{made_up}{_suffix(found)}")

    def _digest(self, bucket: Bucket, values: list[Any]) -> str:
        name = ledger_name(bucket.tenant, bucket.dataset)
        noise = self._service.resources.noise(name, f"s3 {bucket.id}")
        return noise.commitment(json.dumps(values).encode())

    async def drawn(self, source: Source, one: ObjectTier, *, tell: bool) -> None:
        """Return when ``one`` is stored; the first request pays and draws, others wait for it.

        Why an object cannot be released is told to its owner only (``tell``).
        """
        if one.size is not None:
            return
        if one.found.size > self._service.settings.body_bytes:
            raise Refused("EntityTooLarge", "the object is larger than this service releases.")
        one.file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # A few locks for all objects, so that their number does not grow.
        async with _alone(one.file.parent / f"lock-{one.version_digest[:2]}"):
            if one.size is not None:
                return
            try:
                async with self._of_tenants[one.bucket.tenant]:
                    await anyio.to_thread.run_sync(self._draw, source, one, limiter=self._limiter)
            except BadInput as error:
                if tell or isinstance(error, Fault):
                    raise
                # A sentence about a file may say what is in it, such as in which row a value is missing.
                raise Refused(
                    "AccessDenied", "this object cannot be released as it is; its owner is told why."
                ) from None

    def _draw(self, source: Source, one: ObjectTier) -> None:
        bucket, service = one.bucket, self._service
        last, shown = (name.rsplit("/", 1)[-1] for name in (one.found.key, one.found.shown))
        name = ledger_name(bucket.tenant, bucket.dataset)
        service.registry.charge(bucket.tenant, requests=0, bytes=one.found.size)
        with service.body(f"object{suffix_of(last)}") as path:
            source.fetch(one.found, path)
            try:
                require_unpacked(path, _UNPACKED * service.settings.body_bytes)
            except TooLarge:
                raise Refused("EntityTooLarge", "the object is too large once it is unpacked.") from None
            with named(path, last), named(one.file, last):
                terms = bucket.terms(last)
                mechanism = terms.mechanism(one.level, bucket.tiers.levels)
                require_memory(path, mechanism, terms.array, service.settings.memory_bytes)
                opened = terms.opened(path, one.level, bucket.tiers.levels, partial(self._noise, one))
                key = f"s3 {one.version_digest}" + ("" if opened.nested else f" tier {one.level!r}")
                kind = OneFile(
                    opened.file,
                    one.file,
                    room_for=partial(service.storage.require, bucket.tenant),
                    name=f"{bucket.name}/{shown}",
                    shown=shown,
                    price=opened.charged,
                    declared=opened.declared,
                    keyed=self._noise(one, None),
                    notes=(_PUBLIC_NAME if bucket.public_names else _MADE_UP_NAME,),
                )
                _sweep(one.file.parent)
                try:
                    release(kind, Payment(name, service.ledger, key), service.keys)
                except RequestReused:
                    raise BadInput(
                        "this version of the object was released from other content or by another version of "
                        "the mechanism; put the object again."
                    ) from None

    def _noise(self, one: ObjectTier, level: float | None) -> Keyed:
        """Return the noise of all tiers of an object version, or of one that is not nested."""
        name = ledger_name(one.bucket.tenant, one.bucket.dataset)
        tier = "" if level is None else f" tier {level!r}"
        return self._service.resources.noise(name, f"s3 {one.bucket.id} {one.version_digest}{tier}")


def _suffix(found: Found) -> str:
    return released_suffix(found.key.rsplit("/", 1)[-1])


def _sweep(folder: Path) -> None:
    """Remove half-written files of killed processes after a day."""
    for entry in os.scandir(folder):
        with suppress(FileNotFoundError):
            if entry.name.startswith(".") and entry.stat().st_mtime < time.time() - _DAY:
                os.unlink(entry)


@asynccontextmanager
async def _alone(lock: Path) -> AsyncIterator[None]:
    """Admit one at a time, in all processes; the system releases the lock when a process ends."""
    descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    pause, end = 0.01, anyio.current_time() + _PATIENCE_SECONDS
    try:
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if anyio.current_time() > end:
                    raise Refused("SlowDown", "the object is still being drawn; retry.", 5.0) from None
                await anyio.sleep(pause)
                pause = min(0.2, pause * 1.5)
        yield
    finally:
        os.close(descriptor)
