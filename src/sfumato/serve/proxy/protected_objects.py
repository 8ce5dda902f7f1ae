"""Protected objects: drawn once, kept, and given to every reader of their tier.

An object version is paid for before anything is drawn, under a key that is the same whoever asks; its noise
is keyed by the bucket, the object's key and its version. So whatever happens between paying and keeping, the
next who asks gets the same bytes, and pays nothing. Names of kept files are keyed digests: they tell neither
what object they are of nor, across tenants, whether two are equal.

Objects that the proxy has drawn and keeps, as what they are: releases, by their certificates.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
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
    service: Service, caller: ApiKey, dataset: str, *, most: int
) -> tuple[list[KeptObject], int]:
    """The newest ``most`` that are kept of buckets of ``dataset`` which the caller may read, newest first.

    Also how many there are in all. One without a certificate of ours is none.
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


# How many are drawn at the same time, how many of them of one tenant, so that none takes all, and how long
# others wait for one that somebody else draws.
_AT_ONCE, _OF_ONE_TENANT = 3, 2
_PATIENCE_SECONDS = 600.0
# How much larger than the largest object one may be once it is unpacked.
_UNPACKED = 4
_DAY = 86_400.0
# What a certificate says of the name of its object.
_NAMED = "the object has the name of its source, which the owner declares public"
_MADE_UP = "the name of the object was made up; that of its source does not travel"


@dataclass(frozen=True)
class ObjectTier:
    """One tier of one version of an object: where it is kept, and what its bytes are told apart by."""

    bucket: Bucket
    found: Found
    level: float
    version_digest: str
    digest: str
    file: Path

    @property
    def etag(self) -> str:
        """The tag of its bytes; not an MD5 of them, which its dash says to those who would compare."""
        return f'"{self.digest[:32]}-1"'

    @property
    def certificate(self) -> Path:
        """Where its certificate is kept."""
        return certificate_file(self.file)

    @property
    def size(self) -> int | None:
        """How many bytes it has; None before it is drawn, when nobody can know."""
        try:
            return self.file.stat().st_size
        except FileNotFoundError:
            return None


class Objects:
    """The protected objects of ``service``."""

    def __init__(self, service: Service) -> None:
        self._service, self._buckets = service, service.buckets
        self._limiter: anyio.CapacityLimiter | None = None
        self._of_tenants: dict[str, anyio.CapacityLimiter] = {}
        # The keys of objects of buckets whose names are private, by the names that readers know.
        self._keys: dict[str, dict[str, str]] = {}

    def of(self, bucket: Bucket, found: Found, level: float) -> ObjectTier:
        """The tier ``level`` of an object as it is in the source now; nothing is drawn."""
        noise = self._service.resources.noise(ledger_name(bucket.tenant, bucket.dataset), f"s3 {bucket.id}")
        version = [found.key, found.version, found.size]
        digest = noise.commitment(json.dumps([*version, level]).encode())
        file = self._buckets.folder(bucket) / f"{digest}{released_suffix(found.key.rsplit('/', 1)[-1])}"
        whole = noise.commitment(json.dumps(version).encode())
        return ObjectTier(bucket, found, level, whole, digest, file)

    def listed(self, bucket: Bucket, source: Source) -> list[Found]:
        """What the bucket releases, in the order of the names that readers know."""
        found = [self._named(bucket, one) for one in source.listed() if bucket.releases(one.key)]
        return sorted(found, key=lambda one: one.shown.encode())

    def found(self, bucket: Bucket, source: Source, shown: str) -> Found | None:
        """The object that readers know as ``shown``; None where there is none.

        A name that was made up tells nothing of the key, so the key is looked for in the listing once.
        """
        if bucket.public_names:
            return source.found(shown)
        if shown not in self._keys.get(bucket.id, {}):
            self._keys[bucket.id] = {one.shown: one.key for one in self.listed(bucket, source)}
        key = self._keys[bucket.id].get(shown)
        one = None if key is None else source.found(key)
        return None if one is None else self._named(bucket, one)

    def _named(self, bucket: Bucket, found: Found) -> Found:
        """``found`` under the name that readers know."""
        if bucket.public_names:
            return found
        noise = self._service.resources.noise(ledger_name(bucket.tenant, bucket.dataset), f"s3 {bucket.id}")
        made_up = noise.commitment(json.dumps(["name", found.key]).encode())[:32]
        return replace(found, shown=f"{made_up}{released_suffix(found.key.rsplit('/', 1)[-1])}")

    async def drawn(self, source: Source, one: ObjectTier, *, tell: bool) -> None:
        """Return when ``one`` is kept; the first who asks pays and draws, others wait for it.

        Why an object cannot be released is its owner's business: only they are to be told (``tell``).
        """
        if one.size is not None:
            return
        if one.found.size > self._service.settings.body_bytes:
            raise Refused("EntityTooLarge", "the object is larger than this service releases.")
        one.file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # A few locks for all objects, so that they do not become more with every one.
        async with _alone(one.file.parent / f"lock-{one.version_digest[:2]}"):
            if one.size is not None:
                return
            try:
                await self._in_turn(one.bucket.tenant, partial(self._draw, source, one))
            except BadInput as error:
                if tell or isinstance(error, Fault):
                    raise
                # A sentence about a file may say what is in it, such as in which row a value is missing.
                raise Refused(
                    "AccessDenied", "this object cannot be released as it is; its owner is told why."
                ) from None

    async def _in_turn(self, tenant: str, draw: Callable[[], None]) -> None:
        if self._limiter is None:
            self._limiter = anyio.CapacityLimiter(_AT_ONCE)
        if tenant not in self._of_tenants:
            self._of_tenants[tenant] = anyio.CapacityLimiter(_OF_ONE_TENANT)
        async with self._of_tenants[tenant]:
            await anyio.to_thread.run_sync(draw, limiter=self._limiter)

    def _draw(self, source: Source, one: ObjectTier) -> None:
        bucket, service = one.bucket, self._service
        last, shown = (name.rsplit("/", 1)[-1] for name in (one.found.key, one.found.shown))
        name = ledger_name(bucket.tenant, bucket.dataset)
        service.registry.charge(bucket.tenant, requests=0, bytes=one.found.size)
        with service.body(f"object{suffix_of(last)}") as path:
            source.fetch(one.found, path)
            _require_unpacked(path, _UNPACKED * service.settings.body_bytes)
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
                    notes=(_NAMED if bucket.public_names else _MADE_UP,),
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
        """The noise of all tiers of an object version, or of one that is not nested."""
        name = ledger_name(one.bucket.tenant, one.bucket.dataset)
        tier = "" if level is None else f" tier {level!r}"
        return self._service.resources.noise(name, f"s3 {one.bucket.id} {one.version_digest}{tier}")


def _require_unpacked(path: Path, most: int) -> None:
    try:
        require_unpacked(path, most)
    except TooLarge:
        raise Refused(
            "EntityTooLarge", "the object is larger, unpacked, than this service releases."
        ) from None


def _sweep(folder: Path) -> None:
    """Remove what processes that were killed left half written, a day after that."""
    for entry in os.scandir(folder):
        with suppress(FileNotFoundError):
            if entry.name.startswith(".") and entry.stat().st_mtime < time.time() - _DAY:
                os.unlink(entry)


@asynccontextmanager
async def _alone(lock: Path) -> AsyncIterator[None]:
    """One at a time, in all processes; the system lets go when a process ends, however it ends."""
    descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    pause, end = 0.01, anyio.current_time() + _PATIENCE_SECONDS
    try:
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if anyio.current_time() > end:
                    raise Refused("SlowDown", "the object is still being drawn; ask again.", 5.0) from None
                await anyio.sleep(pause)
                pause = min(0.2, pause * 1.5)
        yield
    finally:
        os.close(descriptor)
