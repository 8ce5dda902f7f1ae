"""Objects and prefixes on any storage that fsspec knows: ``s3://bucket/folder``, ``gs://…``, ``file:///…``.

There is one filesystem for each kind of URL and process. Endpoints and credentials come from where everybody
looks for them (``AWS_ENDPOINT_URL``, ``AWS_ACCESS_KEY_ID``, ``~/.aws``, fsspec's own configuration); there is
no configuration of ours. A failed request is repeated with growing waits while the fault may pass; then, or
at once where it will not, one sentence names the URL and what to do. No message and no URL here holds
credentials, and no name leads out of the place that it is put in.
"""

from __future__ import annotations

import io
import os
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sfumato.errors import BadInput
from sfumato.io.atomic import writing
from sfumato.io.object_transfer import blocks, upload, version_of
from sfumato.io.retry import Fault, Patience, no_bucket

__all__ = [
    "Remote",
    "RemoteObject",
    "checked_name",
    "checked_url",
    "filesystem_for",
    "scheme_of",
]

Report = Callable[[str, float], None]

_lock = threading.Lock()
_kept: dict[tuple[int, str, int], Any] = {}

#: What botocore gets unless the user says otherwise. A request is repeated once inside; with the timeouts an
#: endpoint that does not answer is known in some seconds. All further patience is ours.
_S3 = {"connect_timeout": 3, "read_timeout": 15}
_S3_ATTEMPTS = {"mode": "standard", "total_max_attempts": 2}


def filesystem_for(scheme: str) -> Any:
    """Return filesystem of ``scheme``, made anew in each process and whenever the environment names another.

    Connections and event loops do not survive a fork, so that a child never uses what its parent opened.
    """
    global _lock
    settings = tuple(sorted((name, value) for name, value in os.environ.items() if _tells(name)))
    key = (os.getpid(), scheme, hash(settings))
    with _lock:
        if key not in _kept:
            _kept[key] = _made(scheme)
        return _kept[key]


def _after_fork() -> None:
    # The lock may have been held by a thread that does not exist here, and what the parent opened is closed
    # by the parent: the child keeps it untouched rather than letting it end in a loop that does not run.
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_after_fork)


def _tells(name: str) -> bool:
    return name.startswith(("AWS_", "FSSPEC_", "GOOGLE_", "AZURE_")) or name.lower().endswith("_proxy")


def _made(scheme: str) -> Any:
    try:
        import fsspec
    except ImportError:
        raise BadInput(f"{scheme}:// needs fsspec: pip install 'sfumato[storage]'.") from None
    try:
        kind = fsspec.get_filesystem_class(scheme)
    except ImportError as error:
        if scheme in ("s3", "s3a"):
            raise BadInput(f"{scheme}:// needs s3fs: pip install 'sfumato[storage]'.") from None
        raise BadInput(f"{scheme}:// needs a package that is not installed: {_line(error)}.") from None
    except ValueError:
        raise BadInput(
            f"{scheme}:// is no kind of storage that is known here; s3://, gs://, file:// and whatever else"
            " fsspec knows are accepted."
        ) from None
    options = {"config_kwargs": _s3_config()} if scheme in ("s3", "s3a") else {}
    try:
        # A listing that is remembered would hide that an object has changed.
        made = kind(skip_instance_cache=True, use_listings_cache=False, **options)
    except Exception as error:
        raise BadInput(
            f"{scheme}:// cannot be used as it is configured here ({type(error).__name__});"
            " look at its settings in the environment."
        ) from None
    if scheme in ("s3", "s3a"):
        made.retries = 1  # s3fs would repeat what botocore has repeated already
    return made


def _s3_config() -> dict[str, Any]:
    """Return timeouts and attempts, where neither fsspec's nor AWS's configuration says anything of them."""
    import botocore.session
    from fsspec.config import conf

    said: dict[str, Any] = dict(conf.get("s3", {}).get("config_kwargs", {}))
    config: dict[str, Any] = {**_S3, **said}
    if "retries" not in said and not {"AWS_MAX_ATTEMPTS", "AWS_RETRY_MODE"} & set(os.environ):
        try:
            profile = set(botocore.session.Session().get_scoped_config())
        except Exception:  # a broken ~/.aws/config: the first request says so
            profile = set()
        if not {"max_attempts", "retry_mode"} & profile:
            config["retries"] = dict(_S3_ATTEMPTS)
    return config


def _line(error: ImportError) -> str:
    return " ".join(str(error).split()).rstrip(".")


# Two letters at least: C:// is a drive.
SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


def scheme_of(url: str) -> str:
    """Return the scheme of a URL in small letters: ``s3`` of ``s3://bucket``."""
    found = SCHEME.match(url)
    if found is None:
        raise BadInput(f"{shown(url)} is not a URL; one like s3://bucket/folder is accepted.")
    return found[1].lower()


def checked_url(url: str) -> str:
    """Return ``url`` without slashes at its end; anything that may hold a secret or climb out is refused.

    A URL goes into messages, manifests and other processes, so that it must not carry credentials: neither
    before an ``@`` nor in a query. A refusal of such a URL does not repeat it.
    """
    scheme, rest = scheme_of(url), url.partition("://")[2].rstrip("/")
    place, _, path = rest.partition("/")
    if "@" in place:
        raise BadInput(
            f"a URL of {scheme}:// holds credentials before an @; leave them out, and set them in the"
            " environment (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY) or in ~/.aws/credentials."
        )
    if "?" in rest and "=" in rest.partition("?")[2]:
        raise BadInput(
            f"a URL of {scheme}:// has a query after a ?, where signatures and tokens stand; give the URL"
            " without it, and credentials in the environment."
        )
    if scheme in ("file", "local") and (place or not path):
        raise BadInput(f"{shown(url)} does not name an absolute path; write {scheme}:///folder/name.")
    if not rest and scheme != "memory":
        raise BadInput(f"{shown(url)} names no bucket; one like {scheme}://bucket/folder is accepted.")
    for part in (place, path):
        if part:
            checked_name(part, where=f"{scheme}://")
    return f"{scheme}://{rest}"


def checked_name(name: str, *, where: str) -> str:
    """``name``, of one part or of several between slashes, if it stays below the place it is joined to.

    Refused are ``.`` and ``..``, backslashes, control characters and empty parts, also a slash at either end.
    """
    parts = name.split("/")
    if "" in parts:
        wrong = "has an empty part"
    elif "." in parts or ".." in parts:
        wrong = "has a part . or .., which could lead elsewhere"
    elif "\\" in name:
        wrong = "has a backslash"
    elif _CONTROL.search(name):
        wrong = "has a control character"
    else:
        return name
    raise BadInput(f"the name {shown(name)} in {where} {wrong}; rename the object.")


def shown(text: str) -> str:
    """Return ``text`` for a message: what a terminal would obey rather than show is spelled out."""
    return _CONTROL.sub(lambda found: ascii(found[0])[1:-1], text) or "''"


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

    def is_object(self) -> bool:
        """Return whether an object stands at exactly this URL."""
        info = self._info()
        return info is not None and info.get("type") != "directory"

    def exists(self) -> bool:
        """Return whether there is an object or a prefix; a bucket that is not there is refused instead."""
        return self._info() is not None

    def found(self) -> RemoteObject:
        """Return the object at this URL as it is now."""
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
        """Return the bytes of the object, which is refused if they are more than ``limit``."""
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
        """Return what the storage tells of this URL, or None where nothing is there."""
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
        """Return the bytes of the object, which is refused if they are more than ``limit``."""
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
