"""The pages of a column of a Parquet file as their own headers tell of them; nothing is unpacked.

What the end of a file says of its pages is not what a reader goes by: it makes room for each page by the
header before it. Headers are in the compact protocol of Thrift, of which only what is needed here is read.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from mmap import mmap
from typing import Any

__all__ = ["Damaged", "Page", "pages"]

# Of each kind of page: where its header holds what there is of the kind, and there the encoding.
_DATA, _DICTIONARY, _DATA_V2 = 0, 2, 3
_KINDS = {_DATA: (5, 2), _DICTIONARY: (7, 2), _DATA_V2: (8, 4)}
_MOST_FIELDS, _DEEPEST = 64, 4


class Damaged(Exception):
    """A header that cannot be read."""


@dataclass(frozen=True)
class Page:
    """A page: ``content`` of the file is packed and becomes ``size`` bytes, ``values`` in an ``encoding``."""

    dictionary: bool
    size: int
    values: int
    encoding: int
    content: slice


def pages(file: mmap, start: int, length: int, values: int) -> Iterator[Page]:
    """The pages of the column of ``length`` bytes at ``start``, until they hold its ``values``."""
    at, end, found = start, min(start + length, len(file)), 0
    while at < end and found < values:
        header = _Header(file, at, end)
        fields = header.struct()
        at = header.at + _count(fields, 3)
        if at > end:
            raise Damaged
        if _count(fields, 1) in _KINDS:
            page = _page(fields, slice(header.at, at))
            yield page
            found += 0 if page.dictionary else page.values


def _page(fields: dict[int, Any], content: slice) -> Page:
    kind = _count(fields, 1)
    place, encoding = _KINDS[kind]
    of_its_kind = fields.get(place)
    if not isinstance(of_its_kind, dict):
        raise Damaged
    return Page(
        dictionary=kind == _DICTIONARY,
        size=_count(fields, 2),
        values=_count(of_its_kind, 1),
        encoding=_count(of_its_kind, encoding),
        content=content,
    )


def _count(fields: dict[int, Any], number: int) -> int:
    found = fields.get(number)
    if not isinstance(found, int) or not 0 <= found < 1 << 31:
        raise Damaged
    return found


class _Header:
    """A header at ``at``, as the numbers of its fields with what they hold.

    Only what every reader understands alike is taken: no field twice, and none of a kind that headers lack.
    """

    def __init__(self, file: mmap, at: int, end: int) -> None:
        self._file, self.at, self._end = file, at, end
        self._fields = 0

    def struct(self, depth: int = 0) -> dict[int, Any]:
        """The 32-bit integers and the structs among the fields; nothing where others are."""
        fields: dict[int, Any] = {}
        number = 0
        while (head := self._byte()) != 0:
            number = number + (head >> 4) if head >> 4 else self._integer()
            self._fields += 1
            if number in fields or not 0 < number < 1 << 15 or self._fields > _MOST_FIELDS:
                raise Damaged
            fields[number] = self._field(head & 15, depth)
        return fields

    def _field(self, kind: int, depth: int) -> int | dict[int, Any] | None:
        match kind:
            case 1 | 2:  # true and false are told by the kind alone
                return None
            case 4 | 6:
                self._varint()
                return None
            case 5:
                return self._integer()
            case 8:
                self._step(self._varint())
                return None
            case 12 if depth < _DEEPEST:
                return self.struct(depth + 1)
        raise Damaged

    def _step(self, length: int) -> None:
        self.at += length
        if self.at > self._end:
            raise Damaged

    def _byte(self) -> int:
        self._step(1)
        return self._file[self.at - 1]

    def _varint(self) -> int:
        found = 0
        for shift in range(0, 70, 7):
            byte = self._byte()
            found |= (byte & 127) << shift
            if byte < 128:
                return found
        raise Damaged

    def _integer(self) -> int:
        found = self._varint()
        return (found >> 1) ^ -(found & 1)
