"""Resources of a service and its store of releases, with their reports and the storage quota of tenants.

The resources are settings, databases, signing keys, work folders and keyed noise. Each release has a folder
of its tenant, which holds the file, its certificate and its record. A release without a record was
interrupted and does not exist.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import secrets
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from sqlalchemy import bindparam, insert, select

import sfumato
from sfumato.errors import BadInput, RequestReused, StorageFull
from sfumato.io import sync, unsettled, write_whole
from sfumato.ledger import Ledger
from sfumato.noise import Keyed
from sfumato.privacy import Statement
from sfumato.release import Protected, ReleaseRequest
from sfumato.reports import file_digest
from sfumato.serve.registry_database import NewestFirst, rows_where
from sfumato.serve.registry_database import releases as release_rows
from sfumato.serve.settings import Settings
from sfumato.serve.tenant_registry import Registry
from sfumato.serve.uploads import WorkFolders


class Resources:
    """The databases and keys of ``settings``; missing folders are created."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.jobs, self.audits = settings.data / "jobs", settings.data / "audits"
        for place in (settings.data, settings.releases, settings.work, self.jobs, self.audits):
            place.mkdir(mode=0o700, parents=True, exist_ok=True)
            if place.stat().st_mode & 0o077:
                raise BadInput(f"the folder {place.name} of the service is open to others: chmod 700 it.")
        self.work = WorkFolders(settings.work)
        self.registry = Registry(settings.database_url)
        self.ledger = Ledger(settings.ledger_url)
        self.keys = settings.keys
        #: The public half of the key that signs certificates, as PEM.
        self.signing_key = self.keys.signing_or_new().public.pem()
        self._secret = self.keys.noise_secret()

    def close(self) -> None:
        """Close the databases and remove private files."""
        self.work.close()
        self.ledger.__exit__()
        self.registry.close()

    def noise(self, name: str, release: str) -> Keyed:
        """Return the keyed noise of ``release`` for the dataset with this ledger ``name``.

        Names of releases begin with a word for their kind. "request" is that of clients' idempotency keys, so
        no client can choose the name of another kind of release.
        """
        return Keyed(self._secret, dataset=name, version="1", release=release)

    def noise_of_request(self, name: str, request: str) -> Keyed:
        """Return the keyed noise of a client's idempotency key."""
        return self.noise(name, f"request {request}")

    def commitment(self, tenant: str, what: str, content: bytes) -> str:
        """Return a keyed digest of a tenant's content for one purpose, which reveals nothing about it."""
        return self.noise(tenant, what).commitment(content)

    def content_digest(self, tenant: str, kind: str, asked: Mapping[str, Any], files: Iterable[Path]) -> str:
        """Return a keyed digest of a request and its files, which reveals nothing about them."""
        wanted = ReleaseRequest.from_dict(asked).digest() if kind == "protect" else asked
        content = [kind, wanted, [[file.name, file_digest(file)] for file in files]]
        digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).digest()
        return self.commitment(tenant, "contents of requests", digest)


_RECORD = "release.json"
# How long a count of stored bytes is used; what this process stores meanwhile is added to it.
_COUNT_SECONDS = 10.0
_NEW_ROW = insert(release_rows)
_ROW = rows_where(release_rows, "tenant", "id")
_IDS = select(release_rows.c.id).where(release_rows.c.tenant == bindparam("tenant"))
_NEWEST = NewestFirst(release_rows)


class Paid(BaseModel):
    """The row of the ledger that paid for a release."""

    ledger: str
    number: int
    hash: str


class Release(BaseModel):
    """One release: its statement and its payment.

    If ``deleted`` is set, the file was removed at that time and everything else is kept.
    """

    id: str
    dataset: str
    name: str
    created: str
    sha256: str
    request: str | None
    deleted: str | None = None
    paid: Paid | None
    statement: dict[str, Any]

    def to_dict(self) -> dict[str, Any]:
        """Return JSON values."""
        return self.model_dump(include=set(Release.model_fields))


class StoredRelease(Release):
    """A release with its file, and the digest ``content`` of the request that made it."""

    file: Path
    content: str | None = None

    def record(self) -> bytes:
        """Return the text of its record."""
        return json.dumps(self.to_dict() | {"content": self.content}).encode()


def reused(request: str | None) -> RequestReused:
    """Return the refusal of a ``request`` id that was used before with other content."""
    return RequestReused(
        f"request {request!r} was made from other content, with other parameters or under another "
        "name; give what has changed a new request."
    )


def new_id() -> str:
    """Return a new random id of a release or job."""
    return secrets.token_hex(12)


class Releases:
    """The releases in the folders of a service, and their index by time of creation in the registry.

    A power cut may lose the newest rows of the index; they are added again when a service starts.
    """

    def __init__(self, resources: Resources) -> None:
        self._resources, self._database = resources, resources.registry.database
        self._place = resources.settings.releases
        # Tenants whose folders are known to be on the disk.
        self._settled: set[str] = set()

    def id_of_request(self, tenant: str, dataset: str, request: str) -> str:
        """Return the id for a tenant's idempotency key, the same for every repetition."""
        key = f"{dataset}\0{request}".encode()
        return self._resources.commitment(tenant, "folders of requests", key)[:24]

    def folder(self, tenant: str, id_: str) -> Path:
        """Return the folder of the release with this id, whether it exists or not."""
        return self._place / tenant / id_

    @contextmanager
    def drawing(self) -> Iterator[Path]:
        """Yield a private folder in which to draw one release for :meth:`keep`, which waits for the disk."""
        with self._resources.work.folder() as work, unsettled():
            folder = work / "release"
            folder.mkdir(mode=0o700)
            yield folder

    def keep(
        self, tenant: str, id_: str, dataset: str, request: str | None, done: Protected, content: str | None
    ) -> StoredRelease:
        """Publish the folder in which a release was drawn as the release's own folder.

        It appears whole and is on disk. An existing release is left as it is: for the same request its bytes
        are equal, and it may be in use. If its ``content`` differs, the call is refused.
        """
        before = self.read_same(tenant, id_, request, content)
        if before is not None:
            return before
        folder, drawn = self.folder(tenant, id_), done.output.parent
        folder.parent.mkdir(mode=0o700, exist_ok=True)
        if tenant not in self._settled:
            sync(self._place)
            self._settled.add(tenant)
        made = StoredRelease(
            id=id_,
            dataset=dataset,
            name=done.output.name,
            created=datetime.now(UTC).isoformat(),
            sha256=file_digest(done.output),
            statement=done.statement.to_dict(),
            paid=None if done.paid is None else Paid(**done.paid),
            request=request,
            file=folder / done.output.name,
            content=content,
        )
        (drawn / _RECORD).write_bytes(made.record())
        for place in (done.output, done.certificate_file, drawn / _RECORD, drawn):
            sync(place)
        # The index first: a row whose folder is missing is ignored, a release without a row is not listed.
        self._add_row(tenant, made)
        while not _renamed(drawn, folder):
            before = self.read_same(tenant, id_, request, content)
            if before is not None:
                return before  # another process was faster
            self._remove_incomplete(folder)  # left by a process that was killed while discarding it
        sync(folder.parent)
        return made

    def _add_row(self, tenant: str, release: Release) -> None:
        """Add a release to the index, without waiting for the disk; a repeated call changes nothing."""
        row = {"tenant": tenant, "id": release.id, "dataset": release.dataset, "created": release.created}
        with self._database.counting() as transaction:
            if transaction.first(_ROW, {"tenant": tenant, "id": release.id}) is None:
                transaction.run(_NEW_ROW, row)

    def index_all(self) -> int:
        """Add every stored release that the index lacks, and return how many there were.

        A power cut may have lost the newest rows, and a restored registry lacks those made since its backup.
        """
        count = 0
        for tenant in (one.id for one in self._resources.registry.tenants()):
            with self._database.reading() as transaction:
                indexed = {row.id for row in transaction.all(_IDS, {"tenant": tenant})}
            place = self._place / tenant
            for id_ in os.listdir(place) if place.is_dir() else ():
                found = None if id_ in indexed else self.read(tenant, id_)
                if found is not None:
                    self._add_row(tenant, found)
                    count += 1
        return count

    def delete(self, tenant: str, release: StoredRelease) -> StoredRelease:
        """Delete the file of a release; its certificate and record are kept. Repeated calls change nothing.

        The record is written first. If the process is killed in between, the file is no longer served, and is
        removed when the release is deleted again.
        """
        if release.deleted is None:
            release = release.model_copy(update={"deleted": datetime.now(UTC).isoformat()})
            write_whole(self.folder(tenant, release.id) / _RECORD, release.record())
        release.file.unlink(missing_ok=True)
        sync(release.file.parent)
        return release

    def discard(self, tenant: str, id_: str) -> None:
        """Remove the folder ``id_`` with everything in it."""
        with self._resources.work.folder() as work, suppress(FileNotFoundError):
            os.rename(self.folder(tenant, id_), work / "discarded")

    def _remove_incomplete(self, folder: Path) -> None:
        """Remove a ``folder`` without a record; keep it if it has become complete meanwhile."""
        with self._resources.work.folder() as work, suppress(FileNotFoundError):
            away = work / "left"
            os.rename(folder, away)
            if (away / _RECORD).exists():
                _renamed(away, folder)

    def read(self, tenant: str, id_: str) -> StoredRelease | None:
        """Return the release stored under this id; None if it was interrupted."""
        folder = self.folder(tenant, id_)
        try:
            kept = json.loads((folder / _RECORD).read_bytes())
        except FileNotFoundError:
            return None
        return StoredRelease(file=folder / kept["name"], **kept)

    def read_same(
        self, tenant: str, id_: str, request: str | None, content: str | None
    ) -> StoredRelease | None:
        """Return the release of ``request``; raise if it was made from other ``content``.

        Records that older versions wrote of jobs do not contain the content.
        """
        found = self.read(tenant, id_)
        if found is not None and found.content not in (None, content):
            raise reused(request)
        if found is not None and found.deleted is not None:
            raise RequestReused(f"what was released under request {request!r} was deleted; give a new one.")
        return found

    def newest(self, tenant: str, after: str | None = None) -> Iterator[Any]:
        """Return the rows of the tenant's releases, newest first, starting ``after`` the one with this id."""
        return _NEWEST.rows(self._database, tenant, after)


def _renamed(drawn: Path, folder: Path) -> bool:
    """Rename ``drawn`` to ``folder``; return False if that already holds something."""
    try:
        os.rename(drawn, folder)
    except OSError as error:
        if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
            raise
        return False
    return True


def release_report(release: Release, ledger: Ledger, name: str) -> bytes:
    """Return the HTML report of ``release``, whose dataset ``ledger`` calls ``name``."""
    from sfumato.reports import Budget, Entry, render_report

    provenance = {"file": release.name, "sha256": release.sha256, "made": release.created}
    entry = Entry(release.name, Statement.from_dict(release.statement), provenance=provenance)
    balance = replace(ledger.balance(name), dataset=release.dataset)
    return render_report(
        [entry],
        title=f"Privacy report of {release.name}",
        budget=Budget(balance, tuple(ledger.history(name))),
        reproduce=[f"sfumato verify {release.name}", f"# Sfumato {sfumato.__version__}"],
    ).encode()


class Storage:
    """Counts the bytes that tenants store: releases, files of jobs, audits and objects of the proxy.

    Request bodies do not count: they are removed with their request. Each process counts for itself, so a
    tenant may exceed its quota by what other processes stored within seconds. ``job_folders`` returns those
    of a tenant.
    """

    def __init__(self, resources: Resources, job_folders: Callable[[str], Iterable[Path]]) -> None:
        self._resources, self._job_folders = resources, job_folders
        self._lock = threading.Lock()
        self._counted: dict[str, tuple[float, int]] = {}

    def require(self, tenant: str, size: int) -> None:
        """Raise :class:`~sfumato.errors.StorageFull` if ``size`` more bytes exceed the tenant's limit.

        The limit is the tenant's quota or, without one, the limit of the service.
        """
        own = self._resources.registry.recent_quotas(tenant).bytes_kept
        most = self._resources.settings.tenant_bytes if own is None else own
        with self._lock:
            at, stored = self._counted.get(tenant, (0.0, 0))
            # Counted again after some time, and before a refusal, because something may have been deleted.
            if time.monotonic() - at > _COUNT_SECONDS or stored + size > most:
                at, stored = time.monotonic(), self.stored(tenant)
            if stored + size <= most:
                self._counted[tenant] = (at, stored + size)
                return
            self._counted.pop(tenant, None)
        raise StorageFull(
            f"the tenant stores {stored:,} bytes of at most {most:,}; {size:,} more do not fit: delete "
            "releases, or ask for a larger quota."
        )

    def forget(self, tenant: str) -> None:
        """Drop the cached count, because something was deleted."""
        with self._lock:
            self._counted.pop(tenant, None)

    def stored(self, tenant: str) -> int:
        """Return how many bytes ``tenant`` stores now."""
        settings = self._resources.settings
        places = (
            settings.releases / tenant,
            self._resources.audits / tenant,
            settings.data / "proxy" / tenant,
        )
        return sum(_size(place) for place in (*places, *self._job_folders(tenant)))


def _size(folder: Path) -> int:
    """Return the bytes of all files below ``folder``, ignoring files that disappear meanwhile."""
    found = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with suppress(FileNotFoundError):
                found += os.lstat(os.path.join(place, name)).st_size
    return found
