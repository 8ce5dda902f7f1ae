"""Sources that stream and sinks that appear whole or not at all: NumPy arrays, and tables under a schema."""

from __future__ import annotations

from sfumato.io.arrays import ArraySink, ArraySource, array_names, open_array
from sfumato.io.atomic import AtomicFile, atomic_output
from sfumato.io.formats import MEDIA, file_to_read, kind_of, same_kind
from sfumato.io.schema import Column, Schema
from sfumato.io.tables import TableBlock, TableSink, TableSource

__all__ = [
    "MEDIA",
    "ArraySink",
    "ArraySource",
    "AtomicFile",
    "Column",
    "Schema",
    "TableBlock",
    "TableSink",
    "TableSource",
    "array_names",
    "atomic_output",
    "file_to_read",
    "kind_of",
    "open_array",
    "same_kind",
]
