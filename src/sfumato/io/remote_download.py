"""An object read block by block, whole and in one version, or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from typing import Any

from sfumato.io.retry import Patience
from sfumato.io.storage_errors import Fault, Interrupted, code_of

__all__ = ["blocks", "version_of"]

#: Bytes asked for at once; this much of an object is in memory.
BLOCK = 8 << 20


def blocks(
    filesystem: Any, path: str, url: str, size: int, version: str, *, patience: Patience, block: int = BLOCK
) -> Iterator[bytes]:
    """The bytes of an object of ``size`` bytes, listed as ``version``, in blocks.

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
