"""Objects and prefixes on any storage that fsspec knows: ``s3://bucket/folder``, ``gs://…``, ``file:///…``.

A failed request is repeated while there is hope, with growing waits; then, or at once where there is none,
one sentence names the URL and what to do. No message and no URL here holds credentials.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sfumato.errors import BadInput
from sfumato.io.atomic import writing
from sfumato.io.remote_download import blocks, version_of
from sfumato.io.remote_filesystem import filesystem_for
from sfumato.io.remote_upload import upload
from sfumato.io.retry import Patience
from sfumato.io.storage_errors import Fault, no_bucket
from sfumato.io.storage_urls import checked_name, checked_url, is_remote, scheme_of, shown

__all__ = ["Patience", "Remote", "RemoteObject", "is_remote"]

Report = Callable[[str, float], None]


class Remote:
    """An object, or the prefix of many, at ``url``; the storage is asked once something is needed of it.

    Equal if the URLs are. Pickles as its URL alone: each process opens connections of its own, and waits with
    the usual ``patience``.
    """

    def __init__(self, url: str, *, patience: Patience | None = None) -> None:
        self.url = checked_url(url)
        self._patience = patience or Patience()

    @property
    def name(self) -> str:
        """The last part of the URL; of a whole bucket its name."""
        return self.url.partition("://")[2].rpartition("/")[2]

    def child(self, name: str) -> Remote:
        """What stands below this prefix, and never elsewhere, under ``name``: ``a.png``, ``day/a.png``."""
        below = self.url if self.url.endswith("/") else f"{self.url}/"
        return Remote(below + checked_name(name, where=self.url), patience=self._patience)

    def is_prefix(self) -> bool:
        """Whether objects stand below this URL, or it is a bucket or a folder."""
        info = self._info()
        if info is None or info.get("type") == "directory":
            return info is not None
        # On S3 an object may stand at the very URL that others stand below.
        return bool(self._through(lambda fs, path: fs.isdir(path), "read"))

    def is_object(self) -> bool:
        """Whether an object stands at exactly this URL."""
        info = self._info()
        return info is not None and info.get("type") != "directory"

    def exists(self) -> bool:
        """Whether there is an object or a prefix; a bucket that is not there is refused instead."""
        return self._info() is not None

    def found(self) -> RemoteObject:
        """The object at this URL as it is now."""
        info = self._info()
        if info is None or info.get("type") == "directory":
            what = "no such object; look at its name" if info is None else "a folder, not an object"
            raise Fault(f"{self.url} cannot be read: there is {what}.", missing=info is None)
        return RemoteObject(self, self.name, int(info["size"]), version_of(info))

    def objects(self) -> list[RemoteObject]:
        """All objects below this prefix, at any depth, by name; none is a prefix with nothing below it.

        Hidden ones, of which a part of the name begins with a dot, and markers of empty folders are left out.
        A name that could lead out of a folder it is copied to refuses the whole list.
        """
        found = self._through(lambda fs, path: (path, fs.find(path, detail=True)), "listed")
        root, entries = found[0].rstrip("/") + "/", found[1]
        if not entries:
            self._info()  # some filesystems list nothing where they could not even ask
        listed = []
        for path, info in entries.items():
            name = path[len(root) :]
            if not path.startswith(root) or name.endswith("/") or not name:
                continue
            parts = name.split("/")
            if ".." not in parts and "." not in parts and any(part.startswith(".") for part in parts):
                continue
            child = self.child(name)
            if info.get("islink"):  # the listing tells of the link, and reading follows it
                info = child._info() or {}
            if info.get("type") == "file":
                listed.append(RemoteObject(child, name, int(info["size"]), version_of(info)))
        return sorted(listed, key=lambda one: one.name)

    def fetch(self, into: Path, report: Report | None = None) -> None:
        """Bring the object to the local file ``into``; see :meth:`RemoteObject.fetch`."""
        self.found().fetch(into, report)

    def put(self, local: Path, report: Report | None = None) -> None:
        """Let the bytes of a local file appear here as an object, whole or not at all.

        They are streamed; large ones go in parts. On any failure nothing appears and an older object stays,
        unless the storage completed the object and only its last answer was lost.
        """
        try:
            file = open(local, "rb")  # noqa: SIM115
        except OSError as error:
            raise BadInput(f"{Path(local).name} cannot be read: {error.strerror or error}.") from error
        with file:
            self._upload(file, os.fstat(file.fileno()).st_size, report)

    def write(self, data: bytes) -> None:
        """Let ``data`` appear here as an object, whole or not at all."""
        self._upload(io.BytesIO(data), len(data), None)

    def read(self, limit: int) -> bytes:
        """The bytes of the object, which is refused if they are more than ``limit``."""
        return self.found().read(limit)

    def remove(self) -> None:
        """Remove the object; one that is not there stays so."""
        try:
            self._through(lambda fs, path: fs.rm_file(path), "removed")
        except Fault as fault:
            if not fault.missing:
                raise

    def _upload(self, file: Any, size: int, report: Report | None) -> None:
        if self._is_bucket() and scheme_of(self.url) != "memory":
            raise BadInput(f"{self.url} cannot be written: it names a bucket and no object in it.")
        filesystem, path = self._filesystem()
        upload(filesystem, path, self.url, file, size, patience=self._patience, report=report)

    def _filesystem(self) -> tuple[Any, str]:
        filesystem = filesystem_for(scheme_of(self.url))
        return filesystem, str(filesystem._strip_protocol(self.url))

    def _through(self, action: Callable[[Any, str], Any], doing: str) -> Any:
        filesystem, path = self._filesystem()
        return self._patience.through(lambda: action(filesystem, path), self.url, doing)

    def _info(self) -> dict[str, Any] | None:
        """What the storage tells of this URL, or None where nothing is there."""
        try:
            info: dict[str, Any] = self._through(lambda fs, path: fs.info(path), "read")
        except Fault as fault:
            if not fault.missing:
                raise
            if scheme_of(self.url) in ("s3", "s3a") and self._is_bucket():
                raise no_bucket(self.url, "read") from None
            return None
        return info

    def _is_bucket(self) -> bool:
        return "/" not in self.url.partition("://")[2]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Remote) and self.url == other.url

    def __hash__(self) -> int:
        return hash(self.url)

    def __reduce__(self) -> tuple[type[Remote], tuple[str]]:
        return Remote, (self.url,)

    def __repr__(self) -> str:
        return f"Remote({shown(self.url)!r})"

    __str__ = __repr__


@dataclass(frozen=True)
class RemoteObject:
    """An object as it was listed: its ``name`` below the prefix, its ``size`` in bytes and its ``version``.

    The version is the storage's own mark (an ETag, a time of change), as text.
    """

    remote: Remote
    name: str
    size: int
    version: str

    @property
    def url(self) -> str:
        """Where it stands."""
        return self.remote.url

    def fetch(self, into: Path, report: Report | None = None) -> None:
        """Stream the object to the local file ``into``, which only its owner may read.

        Refused, with nothing left at ``into``: an object that has changed since it was listed or while it was
        read, and one that ends before its announced length.
        """
        into = Path(into)
        with writing(into):
            descriptor = os.open(into, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
        try:
            with open(descriptor, "wb", buffering=0) as file:
                with writing(into):
                    os.fchmod(descriptor, 0o600)
                done = 0
                for block in self._blocks():
                    with writing(into):
                        _write_all(file, block)
                    done += len(block)
                    if report is not None and done < self.size:
                        report("fetching", done / self.size)
        except BaseException:
            into.unlink(missing_ok=True)
            raise
        if report is not None:
            report("fetching", 1.0)

    def read(self, limit: int) -> bytes:
        """The bytes of the object, which is refused if they are more than ``limit``."""
        if self.size > limit:
            raise BadInput(f"{self.url} has {self.size:,} bytes, and at most {limit:,} are read here.")
        return b"".join(self._blocks())

    def _blocks(self) -> Any:
        filesystem, path = self.remote._filesystem()
        return blocks(filesystem, path, self.url, self.size, self.version, patience=self.remote._patience)


def _write_all(file: Any, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[file.write(view) :]
