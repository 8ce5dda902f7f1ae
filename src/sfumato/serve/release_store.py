"""Releases that are kept: each in a folder of its tenant, with the file, its certificate and its record."""

from __future__ import annotations

import errno
import json
import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sfumato.errors import RequestReused
from sfumato.io.atomic import sync, unsettled, write_whole
from sfumato.release import Protected
from sfumato.reports import file_digest
from sfumato.serve.auth.access_rules import NotFound, is_id, require
from sfumato.serve.auth.callers import Caller
from sfumato.serve.resources import Resources

__all__ = ["Release", "Releases", "new_id", "reused"]

_RECORD = "release.json"


def reused(request: str | None) -> RequestReused:
    """What is said of a ``request`` that comes with other content than before."""
    return RequestReused(
        f"request {request!r} was made from other content, with other parameters or under another "
        "name; give what has changed a new request."
    )


def new_id() -> str:
    """An id that no release and no job has."""
    return secrets.token_hex(12)


@dataclass(frozen=True)
class Release:
    """One release of a tenant: its file, what it states and what paid for it.

    Of one that was ``deleted``, at this time, the file is gone and everything else stays.
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
        """As JSON values; neither where it lies nor what it was made from, ``content``."""
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
    """The releases in the folders of a service. One that was cut off has no record, and is not there."""

    def __init__(self, resources: Resources) -> None:
        self._resources = resources
        self._place = resources.settings.releases
        # Tenants whose folders are known to be on the disk.
        self._settled: set[str] = set()

    def id_of_request(self, tenant: str, dataset: str, request: str) -> str:
        """The id of what a tenant asks for under an idempotency key, the same for each repetition."""
        key = f"{dataset}\0{request}".encode()
        return self._resources.commitment(tenant, "folders of requests", key)[:24]

    def folder(self, tenant: str, id_: str) -> Path:
        """Where the release of this id lies, or will."""
        return self._place / tenant / id_

    @contextmanager
    def drawing(self) -> Iterator[Path]:
        """A private folder to draw one release in, for :meth:`keep`, which waits for the disk."""
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
        """Let what was released be there: the folder that it was drawn in, alone, becomes the release's own.

        It appears whole, and is on the disk. What is there already stays as it is: of one request it is the
        same to the letter, and somebody may be reading it. Of other ``content`` it is refused.
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
        """Note in the index every release that is here and not in it; how many there were.

        A power cut may have taken the newest, and a registry that was restored lacks those made since.
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
        """Remove the file of a release; its certificate and record stay. Doing it twice changes nothing.

        The record is first: killed in between, the file that is left is nobody's any more, and goes when it
        is deleted again.
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
        """Remove whatever the folder ``id_`` holds, all of it at once."""
        with self._resources.work.folder() as work, suppress(FileNotFoundError):
            os.rename(self.folder(tenant, id_), work / "discarded")

    def _put_away(self, folder: Path) -> None:
        """Remove a ``folder`` without a record; one that has become whole meanwhile stays."""
        with self._resources.work.folder() as work, suppress(FileNotFoundError):
            away = work / "left"
            os.rename(folder, away)
            if (away / _RECORD).exists():
                _appeared(away, folder)

    def read(self, tenant: str, id_: str) -> Release | None:
        """What is kept under this id; None of a release that was cut off."""
        folder = self.folder(tenant, id_)
        try:
            kept = json.loads((folder / _RECORD).read_bytes())
        except FileNotFoundError:
            return None
        return Release(file=folder / kept["name"], **kept)

    def read_same(self, tenant: str, id_: str, request: str | None, content: str | None) -> Release | None:
        """What is kept under the id of ``request``; refused where it was made from other ``content``.

        Records that older versions wrote of jobs do not say from what they were made.
        """
        found = self.read(tenant, id_)
        if found is not None and found.content not in (None, content):
            raise reused(request)
        if found is not None and found.deleted is not None:
            raise RequestReused(f"what was released under request {request!r} was deleted; give a new one.")
        return found

    def one(self, caller: Caller, id_: str) -> Release:
        """A release that the caller may see."""
        found = self.read(caller.tenant, id_) if is_id(id_) else None
        if found is None or not caller.may("read", found.dataset):
            raise NotFound(f"there is no release {id_[:40]!r}.")
        return found

    def page(self, caller: Caller, limit: int, cursor: str | None) -> list[Release]:
        """At most ``limit`` releases that the caller may see, newest first, after that of id ``cursor``."""
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
    """Let ``drawn`` be ``folder`` from now on; False where that holds something already."""
    try:
        os.rename(drawn, folder)
    except OSError as error:
        if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
            raise
        return False
    return True
