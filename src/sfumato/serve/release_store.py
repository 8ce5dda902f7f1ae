"""Resources of a service and its store of releases, with their reports and the storage quota of tenants.

The resources are settings, databases, signing keys, work folders and keyed noise. Each release has a folder
of its tenant, which holds the file, its certificate and its record. A release without a record was
interrupted and does not exist.
"""

from __future__ import annotations

import errno
import json
import os
import secrets
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import sfumato
from sfumato.errors import BadInput, RequestReused, StorageFull
from sfumato.io import sync, unsettled, write_whole
from sfumato.ledger import Ledger
from sfumato.noise import Keyed
from sfumato.privacy import Statement
from sfumato.release import Protected
from sfumato.reports import file_digest
from sfumato.serve.authentication import Caller, NotFound, is_id, require
from sfumato.serve.jobs.job_store import JobFiles
from sfumato.serve.request_files import WorkFolders
from sfumato.serve.settings import Settings
from sfumato.serve.tenant_registry import Registry


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
        return Keyed(self._secret, dataset=tenant, version="1", release=what).commitment(content)


_RECORD = "release.json"

# What was counted is believed for so long; what this process lets be kept meanwhile is added to it.
_SECONDS = 10.0


def reused(request: str | None) -> RequestReused:
    """Return the refusal of a ``request`` id that was used before with other content."""
    return RequestReused(
        f"request {request!r} was made from other content, with other parameters or under another "
        "name; give what has changed a new request."
    )


def new_id() -> str:
    """Return a new random id of a release or job."""
    return secrets.token_hex(12)


@dataclass(frozen=True)
class Release:
    """One release of a tenant: its file, its statement and its payment.

    If ``deleted`` is set, the file was removed at that time and everything else is kept.
    """

    id: str
    dataset: str
    name: str
    created: str
    sha256: str
    statement: Mapping[str, Any]
    paid: Mapping[str, Any] | None
    request: str | None
    file: Path
    content: str | None = None
    deleted: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return JSON values, without the file's location and the digest ``content`` of its source."""
        return {
            "id": self.id,
            "dataset": self.dataset,
            "name": self.name,
            "created": self.created,
            "sha256": self.sha256,
            "request": self.request,
            "deleted": self.deleted,
            "paid": None if self.paid is None else dict(self.paid),
            "statement": dict(self.statement),
        }


class Releases:
    """The releases in the folders of a service."""

    def __init__(self, resources: Resources) -> None:
        self._resources = resources
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
        self,
        tenant: str,
        id_: str,
        dataset: str,
        request: str | None,
        done: Protected,
        content: str | None = None,
    ) -> Release:
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
        made = Release(
            id=id_,
            dataset=dataset,
            name=done.output.name,
            created=datetime.now(UTC).isoformat(),
            sha256=file_digest(done.output),
            statement=done.statement.to_dict(),
            paid=done.paid,
            request=request,
            file=folder / done.output.name,
            content=content,
        )
        (drawn / _RECORD).write_text(json.dumps(made.to_dict() | {"content": content}), "utf-8")
        for place in (done.output, done.certificate_file, drawn / _RECORD, drawn):
            sync(place)
        # The index first: an entry that leads nowhere is passed over, a release without one is not listed. It
        # does not wait for the disk; what a power cut took from it is noted again at the next start.
        self._resources.registry.releases.add(tenant, id_, dataset, made.created)
        while not _appeared(drawn, folder):
            before = self.read_same(tenant, id_, request, content)
            if before is not None:
                return before  # somebody was faster
            self._put_away(folder)  # left by somebody who was killed while discarding it
        sync(folder.parent)
        return made

    def note_all(self) -> int:
        """Add every stored release that the index lacks, and return how many there were.

        A power cut may have lost the newest rows, and a restored registry lacks those made since its backup.
        """
        index, count = self._resources.registry.releases, 0
        for tenant in (one.id for one in self._resources.registry.tenants()):
            noted, place = index.ids(tenant), self._place / tenant
            for id_ in os.listdir(place) if place.is_dir() else ():
                found = None if id_ in noted else self.read(tenant, id_)
                if found is not None:
                    index.add(tenant, id_, found.dataset, found.created)
                    count += 1
        return count

    def delete(self, caller: Caller, id_: str) -> Release:
        """Delete the file of a release; its certificate and record are kept. Repeated calls change nothing.

        The record is written first. If the process is killed in between, the file is no longer served, and is
        removed when the release is deleted again.
        """
        found = self.one(caller, id_)
        require(caller, "protect", found.dataset)
        if found.deleted is None:
            found = replace(found, deleted=datetime.now(UTC).isoformat())
            record = json.dumps(found.to_dict() | {"content": found.content})
            write_whole(self.folder(caller.tenant, id_) / _RECORD, record.encode())
        found.file.unlink(missing_ok=True)
        sync(found.file.parent)
        return found

    def discard(self, tenant: str, id_: str) -> None:
        """Remove the folder ``id_`` with everything in it."""
        with self._resources.work.folder() as work, suppress(FileNotFoundError):
            os.rename(self.folder(tenant, id_), work / "discarded")

    def _put_away(self, folder: Path) -> None:
        """Remove a ``folder`` without a record; keep it if it has become complete meanwhile."""
        with self._resources.work.folder() as work, suppress(FileNotFoundError):
            away = work / "left"
            os.rename(folder, away)
            if (away / _RECORD).exists():
                _appeared(away, folder)

    def read(self, tenant: str, id_: str) -> Release | None:
        """Return the release stored under this id; None if it was interrupted."""
        folder = self.folder(tenant, id_)
        try:
            kept = json.loads((folder / _RECORD).read_bytes())
        except FileNotFoundError:
            return None
        return Release(file=folder / kept["name"], **kept)

    def read_same(self, tenant: str, id_: str, request: str | None, content: str | None) -> Release | None:
        """Return the release of ``request``; raise if it was made from other ``content``.

        Records that older versions wrote of jobs do not say from what they were made.
        """
        found = self.read(tenant, id_)
        if found is not None and found.content not in (None, content):
            raise reused(request)
        if found is not None and found.deleted is not None:
            raise RequestReused(f"what was released under request {request!r} was deleted; give a new one.")
        return found

    def one(self, caller: Caller, id_: str) -> Release:
        """Return a release that the caller may see."""
        found = self.read(caller.tenant, id_) if is_id(id_) else None
        if found is None or not caller.may("read", found.dataset):
            raise NotFound(f"there is no release {id_[:40]!r}.")
        return found

    def page(self, caller: Caller, limit: int, cursor: str | None) -> list[Release]:
        """Return at most ``limit`` releases that the caller may see, newest first, after id ``cursor``."""
        require(caller, "read", None)
        page: list[Release] = []
        for row in self._resources.registry.releases.newest(caller.tenant, cursor):
            if not caller.may("read", row.dataset):
                continue
            found = self.read(caller.tenant, row.id)
            if found is not None:
                page.append(found)
            if len(page) == limit:
                break
        return page


def _appeared(drawn: Path, folder: Path) -> bool:
    """Rename ``drawn`` to ``folder``; return False if that already holds something."""
    try:
        os.rename(drawn, folder)
    except OSError as error:
        if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
            raise
        return False
    return True


def release_page(release: Release, ledger: Ledger, name: str) -> bytes:
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
    tenant may exceed its quota by what other processes stored within seconds.
    """

    def __init__(self, resources: Resources, files: JobFiles) -> None:
        self._resources, self._files = resources, files
        self._guard = threading.Lock()
        self._counted: dict[str, tuple[float, int]] = {}

    def most(self, tenant: str) -> int:
        """Return how many bytes ``tenant`` may store: its quota or, without one, the limit of the service."""
        own = self._resources.registry.quotas(tenant).bytes_kept
        return self._resources.settings.tenant_bytes if own is None else own

    def require(self, tenant: str, size: int) -> None:
        """Raise :class:`~sfumato.errors.StorageFull` if ``size`` more bytes exceed the tenant's limit."""
        most = self.most(tenant)
        with self._guard:
            at, kept = self._counted.get(tenant, (0.0, 0))
            # Time enough has passed, or it was counted what is gone by now.
            if time.monotonic() - at > _SECONDS or kept + size > most:
                at, kept = time.monotonic(), self.kept(tenant)
            if kept + size <= most:
                self._counted[tenant] = (at, kept + size)
                return
            self._counted.pop(tenant, None)
        raise StorageFull(
            f"the tenant keeps {kept:,} bytes here and may keep {most:,}; {size:,} more do not fit: delete "
            "releases, or ask for a larger quota."
        )

    def forget(self, tenant: str) -> None:
        """Drop the cached count, because something was deleted."""
        with self._guard:
            self._counted.pop(tenant, None)

    def kept(self, tenant: str) -> int:
        """Return how many bytes ``tenant`` stores now."""
        data, jobs = self._resources.settings.data, self._resources.registry.jobs
        places = [self._resources.settings.releases / tenant, self._resources.audits / tenant]
        places.append(data / "proxy" / tenant)
        for id_, folder in self._files.all():
            record = jobs.get(id_)
            if record is not None and record.tenant == tenant:
                places.append(folder)
        return sum(_size(place) for place in places)


def _size(folder: Path) -> int:
    """Return the bytes of all files below ``folder``, ignoring files that disappear meanwhile."""
    found, waiting = 0, [os.fspath(folder)]
    while waiting:
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
                    else:
                        found += entry.stat(follow_symlinks=False).st_size
        except (FileNotFoundError, NotADirectoryError):
            continue
    return found
