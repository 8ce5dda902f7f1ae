"""Where objects of a bucket come from: a prefix of storage that the operator allows to the tenant.

Allowed are prefixes for each tenant by its name, ``clinic=s3://bucket/folder``; a source is one of them or
stands below it. Schemes that fetch from any host, such as http, are never accepted: a source is not a way to
reach what only the service can reach.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sfumato.errors import BadInput
from sfumato.io.object_store import Patience, Remote, RemoteObject
from sfumato.io.remote_download import version_of
from sfumato.io.remote_filesystem import filesystem_for
from sfumato.io.storage_errors import Fault
from sfumato.io.storage_urls import checked_name, checked_url, scheme_of

__all__ = ["Found", "Source", "allowed_source", "prefixes_of"]

_SCHEMES = ("s3", "gs", "file")
# Of S3's own keys, in bytes.
_LONGEST = 1024
# A reader waits for the answer, so there is less patience than for a batch.
_PATIENCE = Patience(attempts=4, total=10.0)


def allowed_source(url: str, tenant: str, allowed: Iterable[str], data: Path) -> str:
    """``url``, if the operator allows it to the tenant named ``tenant``; never the service's own folder."""
    checked = checked_url(url)
    if scheme_of(checked) not in _SCHEMES:
        raise BadInput(f"a source is a URL of {', '.join(_SCHEMES)}, such as s3://bucket/folder.")
    if scheme_of(checked) == "file":
        place = _on_disk(checked)
        checked = f"file://{place}"
        own = data.resolve()
        if place == own or own in place.parents or place in own.parents:
            raise BadInput("a source cannot be the folder of the service, nor in it, nor around it.")
    if any(_is_below(checked, prefix) for prefix in prefixes_of(tenant, allowed)):
        return checked
    raise BadInput(
        "this source is not allowed to this tenant; the operator of the service allows prefixes, such as "
        "TENANT=s3://bucket/folder.",
        parameter="source",
    )


def prefixes_of(tenant: str, allowed: Iterable[str]) -> list[str]:
    """The prefixes that the operator allows to the tenant named ``tenant``."""
    entries = [entry.partition("=") for entry in allowed]
    return [prefix for name, equals, prefix in entries if equals and name == tenant]


def _is_below(url: str, prefix: str) -> bool:
    with suppress(BadInput):
        known = checked_url(prefix)
        if scheme_of(known) == "file":
            known = f"file://{_on_disk(known)}"
        return url == known or url.startswith(f"{known}/")
    return False


def _on_disk(url: str) -> Path:
    """The path of a file:// URL without links."""
    return Path(url.partition("://")[2]).resolve()


@dataclass(frozen=True)
class Found:
    """An object as its storage has it now: its ``key`` below the source, its version, and when it was put.

    ``shown`` is what readers know it by; the same as its key where that is public.
    """

    key: str
    size: int
    version: str
    modified: datetime | None
    shown: str


class Source:
    """The objects below ``url``; keys are names that cannot lead elsewhere."""

    def __init__(self, url: str) -> None:
        self.url = checked_url(url)
        self._remote = Remote(self.url, patience=_PATIENCE)

    def found(self, key: str) -> Found | None:
        """The object ``key`` as it is now; None where there is none, or only something that is none."""
        if not _is_plain(key):
            return None
        filesystem, root = self._filesystem()
        path = f"{root}/{key}"
        try:
            info = _PATIENCE.through(lambda: filesystem.info(path), self.url, "read")
        except Fault as fault:
            if not fault.missing:
                raise
            return None
        return self._of(key, path, info)

    def listed(self) -> list[Found]:
        """All objects, by key; those whose names could lead elsewhere are left out."""
        filesystem, root = self._filesystem()
        entries = _PATIENCE.through(lambda: filesystem.find(root, detail=True), self.url, "listed")
        found = []
        for path, info in entries.items():
            key = path[len(root) + 1 :]
            one = self._of(key, path, info) if path.startswith(f"{root}/") and _is_plain(key) else None
            if one is not None:
                found.append(one)
        return sorted(found, key=lambda one: one.key.encode())

    def fetch(self, found: Found, into: Path) -> None:
        """Bring the object, in this version and no other, to the new file ``into``."""
        remote = self._remote.child(found.key)
        RemoteObject(remote, remote.name, found.size, found.version).fetch(into)

    def _filesystem(self) -> tuple[Any, str]:
        filesystem = filesystem_for(scheme_of(self.url))
        return filesystem, str(filesystem._strip_protocol(self.url)).rstrip("/")

    def _of(self, key: str, path: str, info: dict[str, Any]) -> Found | None:
        if info.get("type") != "file" or info.get("islink") or int(info.get("size") or 0) < 1:
            return None
        if scheme_of(self.url) == "file" and os.path.realpath(path) != path:
            return None  # a link on the way may lead out of the source
        version = version_of(info)
        if not version:
            raise Fault(f"{self.url} cannot be read: its storage does not tell versions apart.")
        return Found(key, int(info["size"]), version, _modified(info), shown=key)


def _is_plain(key: str) -> bool:
    """Whether ``key`` cannot lead out of the place that it is joined to, and names nothing hidden."""
    try:
        checked_name(key, where="a bucket")
    except BadInput:
        return False
    return len(key.encode("utf-8", "replace")) <= _LONGEST and not any(
        part[0] == "." for part in key.split("/")
    )


def _modified(info: dict[str, Any]) -> datetime | None:
    for name in ("LastModified", "last_modified", "updated", "mtime"):
        told = info.get(name)
        if isinstance(told, datetime):
            return told.astimezone(UTC)
        if isinstance(told, int | float) and not isinstance(told, bool):
            return datetime.fromtimestamp(told, UTC)
    return None
