"""Objects and prefixes on any storage that fsspec knows: ``s3://bucket/folder``, ``gs://…``, ``file:///…``.

Endpoints and credentials come from where everybody looks for them (``AWS_ENDPOINT_URL``,
``AWS_ACCESS_KEY_ID``, ``~/.aws``, fsspec's own configuration). Failed requests are retried (see ``retry``).
An object is read in the one version that was listed, and written so that it appears whole or not at all. No
message and no URL holds credentials, and no name leads out of the place that it is put in.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache, partial
from pathlib import Path
from typing import IO, Any

from sfumato.errors import BadInput
from sfumato.io.atomic import atomic_output, writing
from sfumato.io.retry import Fault, Interrupted, RetryPolicy, StartOver, code_of, no_bucket

__all__ = ["Remote", "RemoteObject"]

#: What botocore gets unless the user says otherwise. A request is repeated once inside; with the timeouts an
#: endpoint that does not answer is known in some seconds. All further retries are ours.
_S3 = {"connect_timeout": 3, "read_timeout": 15}
_S3_ATTEMPTS = {"mode": "standard", "total_max_attempts": 2}
_SETTINGS = ("AWS_", "FSSPEC_", "GOOGLE_", "AZURE_")
#: Bytes asked for at once; this much of an object is in memory.
_BLOCK = 8 << 20
#: Bytes of one part of a large object; S3 wants at least 5 MiB, and takes 10,000 parts.
_PART = 16 << 20
_MOST_PARTS = 10_000
#: How often an upload is begun that somebody else ends, one who uploads the same object.
_BEGINNINGS = 4
# Two letters at least: C:// is a drive.
SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


def _filesystem_for(scheme: str) -> Any:
    """Return the filesystem of ``scheme``, made anew in each process and whenever its settings change.

    Connections and event loops do not survive a fork, so that a child never uses what its parent opened.
    """
    settings = sorted(
        (name, value)
        for name, value in os.environ.items()
        if name.startswith(_SETTINGS) or name.lower().endswith("_proxy")
    )
    return _made(scheme, os.getpid(), hash(tuple(settings)))


@cache
def _made(scheme: str, process: int, settings: int) -> Any:
    try:
        import fsspec
    except ImportError:
        raise BadInput(f"{scheme}:// needs fsspec: pip install 'sfumato[storage]'.") from None
    is_s3 = scheme in ("s3", "s3a")
    try:
        kind = fsspec.get_filesystem_class(scheme)
    except ImportError as error:
        if is_s3:
            raise BadInput(f"{scheme}:// needs s3fs: pip install 'sfumato[storage]'.") from None
        reason = " ".join(str(error).split()).rstrip(".")
        raise BadInput(f"{scheme}:// needs a package that is not installed: {reason}.") from None
    except ValueError:
        raise BadInput(
            f"{scheme}:// is no kind of storage that is known here; s3://, gs://, file:// and whatever else"
            " fsspec knows are accepted."
        ) from None
    options = {"config_kwargs": _s3_config()} if is_s3 else {}
    try:
        # A listing that is remembered would hide that an object has changed.
        made = kind(skip_instance_cache=True, use_listings_cache=False, **options)
    except Exception as error:
        raise BadInput(
            f"{scheme}:// cannot be used as it is configured here ({type(error).__name__});"
            " look at its settings in the environment."
        ) from None
    if is_s3:
        made.retries = 1  # s3fs would repeat what botocore has repeated already
    return made


def _s3_config() -> dict[str, Any]:
    """Return timeouts and attempts, where neither fsspec's nor AWS's configuration sets them."""
    import botocore.session
    from fsspec.config import conf

    configured: dict[str, Any] = dict(conf.get("s3", {}).get("config_kwargs", {}))
    config: dict[str, Any] = {**_S3, **configured}
    if "retries" not in configured and not {"AWS_MAX_ATTEMPTS", "AWS_RETRY_MODE"} & set(os.environ):
        try:
            profile = set(botocore.session.Session().get_scoped_config())
        except Exception:  # a broken ~/.aws/config: the first request says so
            profile = set()
        if not {"max_attempts", "retry_mode"} & profile:
            config["retries"] = dict(_S3_ATTEMPTS)
    return config


def _checked_url(url: str) -> str:
    """Return ``url`` without slashes at its end; refuse one that may hold a secret or leave its bucket.

    A URL goes into messages, manifests and other processes, so that it must not carry credentials: neither
    before an ``@`` nor in a query. A refusal of such a URL does not repeat it.
    """
    found = SCHEME.match(url)
    if found is None:
        raise BadInput(f"{_printable(url)} is not a URL; one like s3://bucket/folder is accepted.")
    scheme, rest = found[1].lower(), url[found.end() :].rstrip("/")
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
        raise BadInput(f"{_printable(url)} does not name an absolute path; write {scheme}:///folder/name.")
    if not rest and scheme != "memory":
        raise BadInput(f"{_printable(url)} names no bucket; one like {scheme}://bucket/folder is accepted.")
    for part in (place, path):
        if part:
            _check_name(part, where=f"{scheme}://")
    return f"{scheme}://{rest}"


def _check_name(name: str, *, where: str) -> None:
    """Refuse ``name``, of one part or several between slashes, where it could leave the place ``where``."""
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
        return
    raise BadInput(f"the name {_printable(name)} in {where} {wrong}; rename the object.")


def _printable(text: str) -> str:
    """Return ``text`` for a message, with control characters escaped."""
    return _CONTROL.sub(lambda found: ascii(found[0])[1:-1], text) or "''"


@dataclass(frozen=True)
class Remote:
    """An object, or a prefix of objects, at ``url``; the storage is asked once something is needed of it.

    It holds no connection, so that it pickles: each process opens connections of its own.
    """

    url: str
    retry: RetryPolicy = field(default_factory=RetryPolicy)

    def __post_init__(self) -> None:
        object.__setattr__(self, "url", _checked_url(self.url))

    @property
    def scheme(self) -> str:
        """The kind of storage: ``s3`` of ``s3://bucket/folder``."""
        return self.url.partition("://")[0]

    @property
    def name(self) -> str:
        """The last part of the URL; of a whole bucket its name."""
        return self.url.partition("://")[2].rpartition("/")[2]

    def child(self, name: str) -> Remote:
        """Return what stands under ``name`` (``a.png``, ``day/a.png``) below this prefix, never elsewhere."""
        _check_name(name, where=self.url)
        below = self.url if self.url.endswith("/") else f"{self.url}/"
        return Remote(below + name, self.retry)

    def info(self) -> dict[str, Any] | None:
        """Return what the storage tells of this URL, or None if nothing is there."""
        try:
            info: dict[str, Any] = self.retried(lambda filesystem, path: filesystem.info(path), "read")
        except Fault as fault:
            if not fault.missing:
                raise
            if self.scheme in ("s3", "s3a") and self._is_bucket():
                raise no_bucket(self.url, "read") from None
            return None
        return info

    def entries(self) -> dict[str, dict[str, Any]]:
        """Return what the storage tells of everything below this prefix, at any depth, by name."""
        path, found = self.retried(lambda fs, path: (path, fs.find(path, detail=True)), "listed")
        root = path.rstrip("/") + "/"
        if not found:
            self.info()  # some filesystems list nothing where they could not even ask
        return {path[len(root) :]: info for path, info in found.items() if path.startswith(root)}

    def objects(self) -> list[RemoteObject]:
        """Return all objects below this prefix, at any depth, by name.

        Hidden ones, of which a part of the name begins with a dot, and markers of empty folders are left out.
        A name that could lead out of a folder it is copied to refuses the whole list.
        """
        listed = []
        for name, info in self.entries().items():
            if not name or name.endswith("/"):
                continue
            parts = name.split("/")
            if ".." not in parts and "." not in parts and any(part.startswith(".") for part in parts):
                continue
            child = self.child(name)
            if info.get("islink"):  # the listing tells of the link, and reading follows it
                info = child.info() or {}
            if info.get("type") == "file":
                listed.append(RemoteObject.listed(child, name, info))
        return sorted(listed, key=lambda one: one.name)

    def object(self) -> RemoteObject:
        """Return the object at this URL as it is now."""
        info = self.info()
        if info is None or info.get("type") == "directory":
            what = "no such object; look at its name" if info is None else "a folder, not an object"
            raise Fault(f"{self.url} cannot be read: there is {what}.", missing=True)
        return RemoteObject.listed(self, self.name, info)

    def find(self) -> RemoteObject | None:
        """Return the object at this URL as it is now, if there is one."""
        try:
            return self.object()
        except Fault as fault:
            if fault.missing:
                return None
            raise

    def put(self, local: Path) -> None:
        """Let the bytes of a local file appear here as an object, whole or not at all.

        A small object is one request. A large one goes to S3 in parts, of which a failed one is sent again.
        Files of this machine appear by renaming; other filesystems are asked to commit at the end. On any
        failure, an interrupt of the keyboard too, nothing appears and an older object stays, unless the
        storage completed the object and only its last answer was lost.
        """
        if self._is_bucket() and self.scheme != "memory":
            raise BadInput(f"{self.url} cannot be written: it names a bucket and no object in it.")
        try:
            file = open(local, "rb")  # noqa: SIM115
        except OSError as error:
            raise BadInput(f"{Path(local).name} cannot be read: {error.strerror or error}.") from error
        with file:
            self._upload(file, os.fstat(file.fileno()).st_size)

    def retried(self, action: Callable[[Any, str], Any], doing: str) -> Any:
        """Return what ``action`` returns for the filesystem and the path; see :meth:`RetryPolicy.call`."""
        filesystem = _filesystem_for(self.scheme)
        path = str(filesystem._strip_protocol(self.url))
        return self.retry.call(lambda: action(filesystem, path), self.url, doing)

    def _upload(self, file: IO[bytes], size: int) -> None:
        filesystem = _filesystem_for(self.scheme)
        protocols = filesystem.protocol
        protocols = (protocols,) if isinstance(protocols, str) else protocols
        part = max(_PART, -(-size // _MOST_PARTS))
        if "file" in protocols:
            _copy_to_disk(file, Path(filesystem._strip_protocol(self.url)))
        elif size <= part or "memory" in protocols:
            data = _exactly(file, size)
            self.retried(lambda filesystem, path: filesystem.pipe_file(path, data), "written")
        elif "s3" not in protocols:
            self.retried(lambda filesystem, path: _commit(filesystem, path, file, size, part), "written")
        else:
            for _ in range(_BEGINNINGS):
                with suppress(StartOver):
                    _MultipartUpload(self).send(file, size, part)
                    return
            raise Fault(
                f"{self.url} cannot be written: others end its upload time and again; let one write it."
            )

    def _is_bucket(self) -> bool:
        return "/" not in self.url.partition("://")[2]


def _copy_to_disk(file: IO[bytes], path: Path) -> None:
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_output(path) as output, writing(path):
        shutil.copyfileobj(file, output, 1 << 20)


def _exactly(file: IO[bytes], count: int) -> bytes:
    data = file.read(count)
    if len(data) != count:
        raise BadInput("a local file became shorter while it was being uploaded; start again.")
    return data


def _commit(filesystem: Any, path: str, file: IO[bytes], size: int, part: int) -> None:
    """Write by a file of fsspec, which commits at the end."""
    file.seek(0)
    output = filesystem.open(path, "wb", block_size=part, autocommit=False)
    try:
        for start in range(0, size, part):
            output.write(_exactly(file, min(part, size - start)))
        output.close()
        output.commit()
    except BaseException:
        with suppress(Exception):
            output.discard()
        # Otherwise it would send what it still holds when it is forgotten.
        with suppress(Exception):
            output.closed = True
        raise


class _MultipartUpload:
    """One upload of an object to S3 in parts; whatever ends it early aborts it, and its parts are gone."""

    def __init__(self, remote: Remote) -> None:
        self._remote = remote
        self._place: dict[str, str] = {}

    def send(self, file: IO[bytes], size: int, part: int) -> None:
        """Send all parts; StartOver where somebody else ended the upload."""
        answer = self._remote.retried(self._begin, "written")
        self._place["UploadId"] = answer["UploadId"]
        try:
            if answer.get("ResponseMetadata", {}).get("RetryAttempts"):
                self._remote.retried(lambda filesystem, path: self._sweep(filesystem), "written")
            file.seek(0)
            tags = []
            for number, start in enumerate(range(0, size, part), 1):
                body = _exactly(file, min(part, size - start))
                tags.append(self._send_part(number, body))
            self._complete(tags)
        except BaseException:
            with suppress(Exception):
                self._remote.retried(
                    lambda filesystem, path: filesystem.call_s3("abort_multipart_upload", **self._place),
                    "written",
                )
            raise

    def _begin(self, filesystem: Any, path: str) -> dict[str, Any]:
        bucket, key, _ = filesystem.split_path(path)
        self._place = {"Bucket": bucket, "Key": key}
        try:
            answer: dict[str, Any] = filesystem.call_s3("create_multipart_upload", **self._place)
        except BaseException:
            self._sweep(filesystem)
            raise
        return answer

    def _send_part(self, number: int, body: bytes) -> str:
        def send(filesystem: Any, path: str) -> str:
            try:
                answer = filesystem.call_s3("upload_part", PartNumber=number, Body=body, **self._place)
            except FileNotFoundError as error:
                if code_of(error) == "NoSuchUpload":
                    raise StartOver from None
                raise
            return str(answer["ETag"])

        return str(self._remote.retried(send, "written"))

    def _complete(self, tags: list[str]) -> None:
        parts = {"Parts": [{"PartNumber": number, "ETag": tag} for number, tag in enumerate(tags, 1)]}

        def complete(filesystem: Any, path: str) -> None:
            try:
                filesystem.call_s3("complete_multipart_upload", MultipartUpload=parts, **self._place)
            except FileNotFoundError as error:
                if code_of(error) != "NoSuchUpload":
                    raise
                # The answer to an earlier attempt was lost: the object may stand there complete.
                if _tag(filesystem, path) != _tag_of_parts(tags):
                    raise StartOver from None

        self._remote.retried(complete, "written")

    def _sweep(self, filesystem: Any) -> None:
        """Abort other uploads of this key that have no part yet: the answer to their creation was lost.

        A process that has just begun to upload the same key may lose its upload, and begins again.
        """
        bucket, key = self._place["Bucket"], self._place["Key"]
        with suppress(Exception):
            found = filesystem.call_s3("list_multipart_uploads", Bucket=bucket, Prefix=key).get("Uploads", [])
            for one in found:
                other = {"Bucket": bucket, "Key": key, "UploadId": one["UploadId"]}
                if one["Key"] != key or other == self._place:
                    continue
                if not filesystem.call_s3("list_parts", **other).get("Parts"):
                    filesystem.call_s3("abort_multipart_upload", **other)


def _tag(filesystem: Any, path: str) -> str:
    try:
        return str(filesystem.info(path).get("ETag", "")).strip('"')
    except FileNotFoundError:
        return "there is none"


def _tag_of_parts(tags: list[str]) -> str:
    """Return the tag that S3 gives an object of these parts."""
    try:
        digests = b"".join(bytes.fromhex(tag.strip('"')) for tag in tags)
    except ValueError:  # some encryptions have tags of their own making
        return ""
    return f"{hashlib.md5(digests, usedforsecurity=False).hexdigest()}-{len(tags)}"


@dataclass(frozen=True)
class RemoteObject:
    """An object as it was listed: its ``name`` below the prefix, its ``size`` in bytes and its ``version``.

    The version is the storage's own mark (an ETag, a time of change), as text.
    """

    remote: Remote
    name: str
    size: int
    version: str

    @classmethod
    def listed(cls, remote: Remote, name: str, info: dict[str, Any]) -> RemoteObject:
        """Return the object that the storage tells of by ``info``."""
        return cls(remote, name, int(info["size"]), _version_of(info))

    def fetch(self, into: Path) -> None:
        """Stream the object to the local file ``into``, which only its owner may read.

        On any refusal nothing is left at ``into``.
        """
        with writing(into):
            descriptor = os.open(into, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
            try:
                with open(descriptor, "wb") as file:
                    os.fchmod(descriptor, 0o600)
                    for block in self.blocks():
                        file.write(block)
            except BaseException:
                into.unlink(missing_ok=True)
                raise

    def read(self, limit: int) -> bytes:
        """Return the bytes of the object, which is refused if they are more than ``limit``."""
        if self.size > limit:
            raise BadInput(f"{self.remote.url} has {self.size:,} bytes, and at most {limit:,} are read here.")
        return b"".join(self.blocks())

    def blocks(self) -> Iterator[bytes]:
        """Yield the bytes of the object in blocks, of which one that came only in part is asked for again.

        An object that has another size or version before the first block or after the last is refused, and
        so is one that ends before its announced length; where the filesystem can (S3), each request says
        which version it wants.
        """
        file = self.remote.retried(
            lambda filesystem, path: filesystem.open(path, "rb", block_size=_BLOCK, cache_type="none"), "read"
        )
        try:
            told = getattr(file, "details", None)  # where the file has asked already
            self._check_same(told if isinstance(told, dict) else self._info())
            for start in range(0, self.size, _BLOCK):
                part = partial(self._part, file, start, min(_BLOCK, self.size - start))
                yield self.remote.retry.call(part, self.remote.url, "read")
            self._check_same(self._info())
        finally:
            with suppress(Exception):
                file.close()

    def _info(self) -> dict[str, Any]:
        info: dict[str, Any] = self.remote.retried(lambda filesystem, path: filesystem.info(path), "read")
        return info

    def _part(self, file: Any, start: int, count: int) -> bytes:
        try:
            file.seek(start)
            data: bytes = file.read(count)
        except Exception as error:
            if type(error).__name__ == "FileExpired" or code_of(error) in ("PreconditionFailed", "412"):
                raise self._changed() from None
            if type(error).__name__ == "FlexibleChecksumError":
                raise Interrupted(
                    "it is half-written or truncated: its bytes do not have its checksum"
                ) from None
            raise
        if len(data) != count:
            raise Interrupted(
                f"it is half-written or truncated: it ends before the {start + count:,} bytes announced"
            )
        return data

    def _check_same(self, info: dict[str, Any]) -> None:
        if int(info.get("size") or 0) != self.size or _version_of(info) != self.version:
            raise self._changed()

    def _changed(self) -> Fault:
        return Fault(
            f"{self.remote.url} cannot be read: it has changed since it was listed; start again once nobody "
            "writes it."
        )


def _version_of(info: dict[str, Any]) -> str:
    """Return what tells an object's versions apart, as text: its tag, or when it was written.

    Empty where the filesystem tells nothing; then only lengths can be compared.
    """
    for name in ("ETag", "etag", "content_md5", "md5Hash", "generation", "checksum"):
        if info.get(name):
            return str(info[name]).strip('"')
    for name in ("mtime", "LastModified", "last_modified", "updated", "modified", "created"):
        if told := info.get(name):
            time = repr(told.timestamp()) if isinstance(told, datetime) else str(told)
            # The inode tells apart a file that was replaced within one tick of the clock.
            return f"{time}-{info['ino']}" if info.get("ino") else time
    return ""
