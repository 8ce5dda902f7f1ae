"""Downloads and uploads of objects: read in one version, written so that they appear whole or not at all."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import IO, Any

from sfumato.errors import BadInput
from sfumato.io.atomic import atomic_output, writing
from sfumato.io.retry import Fault, Interrupted, Patience, StartOver, code_of

__all__ = ["version_of"]

#: Bytes of one part of a large object; S3 wants at least 5 MiB, and takes 10,000 parts.
PART = 16 << 20
MOST_PARTS = 10_000
#: How often an upload is begun that somebody else ends, one who uploads the same object.
BEGINNINGS = 4

Report = Callable[[str, float], None]


def upload(
    filesystem: Any,
    path: str,
    url: str,
    file: IO[bytes],
    size: int,
    *,
    patience: Patience,
    report: Report | None = None,
    part: int = PART,
) -> None:
    """Let the ``size`` bytes of ``file`` appear at ``path``, in the place of what was there.

    A small object is one request. A large one goes to S3 in parts, of which a failed one is sent again;
    whatever ends the upload early, an interrupt of the keyboard too, aborts it, and the parts are gone. Files
    of this machine appear by renaming. Elsewhere the filesystem is asked to commit at the end only.
    """
    told = report or (lambda stage, share: None)
    part = max(part, -(-size // MOST_PARTS))
    if "file" in _protocols(filesystem):
        _to_disk(Path(path), file)
    elif size <= part or "memory" in _protocols(filesystem):
        data = _exactly(file, size)
        patience.through(lambda: filesystem.pipe_file(path, data), url, "written")
    elif "s3" in _protocols(filesystem):
        for _ in range(BEGINNINGS):
            with suppress(StartOver):
                _in_parts(filesystem, path, url, file, size, part, patience, told)
                break
        else:
            raise Fault(f"{url} cannot be written: others end its upload time and again; let one write it.")
    else:
        patience.through(lambda: _committed(filesystem, path, file, size, part, told), url, "written")
    told("writing", 1.0)


def _protocols(filesystem: Any) -> tuple[str, ...]:
    names = filesystem.protocol
    return (names,) if isinstance(names, str) else tuple(names)


def _exactly(file: IO[bytes], count: int) -> bytes:
    data = file.read(count)
    if len(data) != count:
        raise BadInput("a local file became shorter while it was being uploaded; start again.")
    return data


def _to_disk(path: Path, file: IO[bytes]) -> None:
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_output(path) as output, writing(path):
        shutil.copyfileobj(file, output, 1 << 20)


def _committed(filesystem: Any, path: str, file: IO[bytes], size: int, part: int, told: Report) -> None:
    file.seek(0)
    output = filesystem.open(path, "wb", block_size=part, autocommit=False)
    try:
        for start in range(0, size, part):
            output.write(_exactly(file, min(part, size - start)))
            told("writing", start / size)
        output.close()
        output.commit()
    except BaseException:
        with suppress(Exception):
            output.discard()
        # Otherwise it would send what it still holds when it is forgotten.
        with suppress(Exception):
            output.closed = True
        raise


def _in_parts(
    filesystem: Any,
    path: str,
    url: str,
    file: IO[bytes],
    size: int,
    part: int,
    patience: Patience,
    told: Report,
) -> None:
    bucket, key, _ = filesystem.split_path(path)
    place = {"Bucket": bucket, "Key": key}
    answer = patience.through(lambda: _begun(filesystem, bucket, key), url, "written")
    place["UploadId"] = answer["UploadId"]
    try:
        if answer.get("ResponseMetadata", {}).get("RetryAttempts"):
            _sweep(filesystem, bucket, key, keep=answer["UploadId"])
        file.seek(0)
        tags = []
        for number, start in enumerate(range(0, size, part), 1):
            body = _exactly(file, min(part, size - start))
            send = _sending(filesystem, place, number, body)
            tags.append(patience.through(send, url, "written"))
            told("writing", start / size)
        _complete(filesystem, path, url, place, tags, patience)
    except BaseException:
        with suppress(Exception):
            patience.through(lambda: filesystem.call_s3("abort_multipart_upload", **place), url, "written")
        raise


def _begun(filesystem: Any, bucket: str, key: str) -> dict[str, Any]:
    try:
        answer: dict[str, Any] = filesystem.call_s3("create_multipart_upload", Bucket=bucket, Key=key)
    except BaseException:
        _sweep(filesystem, bucket, key, keep="")
        raise
    return answer


def _sending(filesystem: Any, place: dict[str, str], number: int, body: bytes) -> Callable[[], str]:
    def send() -> str:
        try:
            answer = filesystem.call_s3("upload_part", PartNumber=number, Body=body, **place)
        except FileNotFoundError as error:
            if code_of(error) == "NoSuchUpload":
                raise StartOver from None
            raise
        return str(answer["ETag"])

    return send


def _complete(
    filesystem: Any, path: str, url: str, place: dict[str, str], tags: list[str], patience: Patience
) -> None:
    parts = [{"PartNumber": number, "ETag": tag} for number, tag in enumerate(tags, 1)]

    def complete() -> None:
        try:
            filesystem.call_s3("complete_multipart_upload", MultipartUpload={"Parts": parts}, **place)
        except FileNotFoundError as error:
            if code_of(error) != "NoSuchUpload":
                raise
            # The answer to an earlier attempt was lost: the object may stand there complete.
            if _tag(filesystem, path) != _tag_of_parts(tags):
                raise StartOver from None

    patience.through(complete, url, "written")


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


def _sweep(filesystem: Any, bucket: str, key: str, *, keep: str) -> None:
    """Abort uploads of exactly this key that have no part yet: the answer to their creation was lost.

    A process that has just begun to upload the same key may lose its upload, and begins again.
    """
    with suppress(Exception):
        found = filesystem.call_s3("list_multipart_uploads", Bucket=bucket, Prefix=key).get("Uploads", [])
        for one in found:
            place = {"Bucket": bucket, "Key": key, "UploadId": one["UploadId"]}
            if one["Key"] != key or one["UploadId"] == keep:
                continue
            if not filesystem.call_s3("list_parts", **place).get("Parts"):
                filesystem.call_s3("abort_multipart_upload", **place)


#: Bytes asked for at once; this much of an object is in memory.
BLOCK = 8 << 20


def blocks(
    filesystem: Any, path: str, url: str, size: int, version: str, *, patience: Patience, block: int = BLOCK
) -> Iterator[bytes]:
    """Yield the bytes of an object of ``size`` bytes, listed as ``version``, in blocks.

    A block that came only in part is asked for again. An object that has another size or version before the
    first block or after the last is refused, and so is one that ends before its announced length; where the
    filesystem can (S3), each request says which version it wants.
    """

    def ask() -> dict[str, Any]:
        info: dict[str, Any] = patience.through(lambda: filesystem.info(path), url, "read")
        return info

    file = patience.through(
        lambda: filesystem.open(path, "rb", block_size=block, cache_type="none"), url, "read"
    )
    try:
        told = getattr(file, "details", None)  # where the file has asked already
        _check_same(told if isinstance(told, dict) else ask(), url, size, version)
        for start in range(0, size, block):
            wanted = min(block, size - start)
            yield patience.through(lambda at=start, n=wanted: _part(file, url, at, n), url, "read")  # type: ignore[misc]
        _check_same(ask(), url, size, version)
    finally:
        with suppress(Exception):
            file.close()


def _part(file: Any, url: str, start: int, count: int) -> bytes:
    try:
        file.seek(start)
        data: bytes = file.read(count)
    except Exception as error:
        if type(error).__name__ == "FileExpired" or code_of(error) in ("PreconditionFailed", "412"):
            raise _changed(url) from None
        if type(error).__name__ == "FlexibleChecksumError":
            raise Interrupted("it is half-written or truncated: its bytes do not have its checksum") from None
        raise
    if len(data) != count:
        raise Interrupted(
            f"it is half-written or truncated: it ends before the {start + count:,} bytes announced"
        )
    return data


def _check_same(info: dict[str, Any], url: str, size: int, version: str) -> None:
    if int(info.get("size") or 0) != size or version_of(info) != version:
        raise _changed(url)


def _changed(url: str) -> Fault:
    return Fault(
        f"{url} cannot be read: it has changed since it was listed; start again once nobody writes it."
    )


def version_of(info: dict[str, Any]) -> str:
    """What the filesystem tells an object's versions apart by, as text: its tag, or when it was written.

    Empty where it tells nothing; then only lengths can be compared.
    """
    for name in ("ETag", "etag", "content_md5", "md5Hash", "generation", "checksum"):
        if info.get(name):
            return str(info[name]).strip('"')
    times = []
    for name in ("mtime", "LastModified", "last_modified", "updated", "modified", "created"):
        told = info.get(name)
        if told:
            times.append(repr(told.timestamp()) if isinstance(told, datetime) else str(told))
            break
    if times and info.get("ino"):
        times.append(str(info["ino"]))  # a file replaced within one tick of the clock
    return "-".join(times)
