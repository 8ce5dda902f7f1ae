"""Lists as S3 gives them: buckets, and the objects of one in pages.

Only what can be released is listed. The size of an object that nobody asked for yet is not known, since it is
not drawn yet, and is given as 0; a listing draws nothing and spends nothing. S3's two versions of a list are
one here: version 1 goes on after a marker, which is a name, and version 2 after a token.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import quote
from xml.sax.saxutils import escape

from sfumato.serve.proxy.bucket_declarations import Bucket
from sfumato.serve.proxy.object_sources import Found
from sfumato.serve.proxy.protected_objects import ObjectTier
from sfumato.serve.proxy.s3_errors import Refused

__all__ = ["Page", "bucket_list", "location", "page_of"]

_HEAD = '<?xml version="1.0" encoding="UTF-8"?>\n'
_SPACE = 'xmlns="http://s3.amazonaws.com/doc/2006-03-01/"'
_MOST = 1000
_BOTH = frozenset({"prefix", "delimiter", "max-keys", "encoding-type"})
# What may be asked of a list, by its list-type: the first version has none.
_ASKED: Mapping[str | None, frozenset[str]] = {
    None: _BOTH | {"marker"},
    "2": _BOTH | {"list-type", "continuation-token", "start-after", "fetch-owner"},
}


def bucket_list(buckets: Sequence[Bucket]) -> bytes:
    """All buckets that the reader may read."""
    each = "".join(
        f"<Bucket><Name>{bucket.name}</Name><CreationDate>{stamp(bucket.created)}</CreationDate></Bucket>"
        for bucket in buckets
    )
    owner = "<Owner><ID>sfumato</ID><DisplayName>sfumato</DisplayName></Owner>"
    text = f"<ListAllMyBucketsResult {_SPACE}>{owner}<Buckets>{each}</Buckets></ListAllMyBucketsResult>"
    return (_HEAD + text).encode()


def location() -> bytes:
    """The region of every bucket: the one that has no name."""
    return f"{_HEAD}<LocationConstraint {_SPACE}/>".encode()


@dataclass(frozen=True)
class Page:
    """What is asked of a list of objects, checked; ``second`` of version 2.

    ``goes_on`` is whether ``after`` is where another page may have ended, and not a place that was chosen.
    """

    prefix: str
    delimiter: str
    most: int
    after: str
    goes_on: bool
    encoded: bool
    second: bool
    token: str | None
    start_after: str

    def xml(self, bucket: Bucket, found: Sequence[Found], tier: Callable[[Found], ObjectTier]) -> bytes:
        """The page: objects and, where a delimiter is given, what they have in common up to it."""
        entries: list[str] = []
        shown, last, more = 0, "", False
        for one in found:
            if not one.shown.startswith(self.prefix) or one.shown.encode() <= self.after.encode():
                continue
            rest = one.shown[len(self.prefix) :]
            end = rest.find(self.delimiter) if self.delimiter else -1
            common = "" if end < 0 else self.prefix + rest[: end + len(self.delimiter)]
            # A page may have ended with what several keys have in common, some of which come after it.
            if common and common in (last, self.after if self.goes_on else None):
                continue
            if shown == self.most:
                more = True
                break
            if common:
                entries.append(f"<CommonPrefixes><Prefix>{self._text(common)}</Prefix></CommonPrefixes>")
            else:
                entries.append(self._object(bucket, tier(one)))
            shown, last = shown + 1, common or one.shown
        return self._whole(bucket, entries, shown, last if more and self.most else None)

    def _object(self, bucket: Bucket, one: ObjectTier) -> str:
        return (
            f"<Contents><Key>{self._text(one.found.shown)}</Key>"
            f"<LastModified>{stamp(one.found.modified or bucket.created)}</LastModified>"
            f"<ETag>{escape(one.etag)}</ETag><Size>{one.size or 0}</Size>"
            "<StorageClass>STANDARD</StorageClass></Contents>"
        )

    def _whole(self, bucket: Bucket, entries: list[str], shown: int, last: str | None) -> bytes:
        told = [
            f"<Name>{bucket.name}</Name>",
            f"<Prefix>{self._text(self.prefix)}</Prefix>",
            f"<Delimiter>{self._text(self.delimiter)}</Delimiter>" if self.delimiter else "",
            "<EncodingType>url</EncodingType>" if self.encoded else "",
            f"<MaxKeys>{self.most}</MaxKeys>",
            f"<IsTruncated>{'false' if last is None else 'true'}</IsTruncated>",
            *(self._of_second(shown, last) if self.second else self._of_first(last)),
        ]
        text = f"<ListBucketResult {_SPACE}>{''.join(told)}{''.join(entries)}</ListBucketResult>"
        return (_HEAD + text).encode("utf-8", "replace")

    def _of_first(self, last: str | None) -> list[str]:
        following = "" if last is None else f"<NextMarker>{self._text(last)}</NextMarker>"
        return [f"<Marker>{self._text(self.after)}</Marker>", following]

    def _of_second(self, shown: int, last: str | None) -> list[str]:
        return [
            f"<KeyCount>{shown}</KeyCount>",
            f"<StartAfter>{self._text(self.start_after)}</StartAfter>" if self.start_after else "",
            f"<ContinuationToken>{escape(self.token)}</ContinuationToken>" if self.token else "",
            "" if last is None else f"<NextContinuationToken>{_token(last)}</NextContinuationToken>",
        ]

    def _text(self, text: str) -> str:
        return quote(text, safe="/") if self.encoded else escape(text)


def page_of(query: Mapping[str, str]) -> Page | None:
    """The page that a query asks for; None of one that asks for something else than a list."""
    kind = query.get("list-type")
    if kind not in _ASKED or not set(query) <= _ASKED[kind]:
        return None
    most, coding = query.get("max-keys", str(_MOST)), query.get("encoding-type", "")
    if not (most.isascii() and most.isdigit() and len(most) <= 10):
        raise Refused("InvalidArgument", "max-keys must be a whole number.")
    if coding not in ("", "url"):
        raise Refused("InvalidArgument", "encoding-type is url, or left out.")
    token, start, marker = (query.get(one) for one in ("continuation-token", "start-after", "marker"))
    texts = (query.get("prefix", ""), query.get("delimiter", ""), start or "", marker or "")
    if any(len(one) > 1024 or not one.isprintable() for one in texts):
        raise Refused(
            "InvalidArgument",
            "prefix, delimiter, marker and start-after are at most 1,024 printable characters.",
        )
    return Page(
        prefix=texts[0],
        delimiter=texts[1],
        most=min(int(most), _MOST),
        after=(start or marker or "") if token is None else _untoken(token),
        goes_on=bool(token or marker),
        encoded=coding == "url",
        second=kind == "2",
        token=token,
        start_after=start or "",
    )


def stamp(time: datetime) -> str:
    """``time`` as S3 writes it in XML."""
    return time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z")


def _token(last: str) -> str:
    return base64.urlsafe_b64encode(last.encode("utf-8", "surrogateescape")).decode()


def _untoken(token: str) -> str:
    try:
        return base64.b64decode(token.encode("ascii"), b"-_", validate=True).decode()
    except (binascii.Error, ValueError):
        raise Refused("InvalidArgument", "this continuation-token is none of ours.") from None
