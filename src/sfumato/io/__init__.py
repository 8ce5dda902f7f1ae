"""Sources that stream and sinks that appear whole or not at all: NumPy arrays, tables under a schema, media.

Readers and writers of media are loaded when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato.io.array_files import ArraySink, ArraySource, array_names, open_array
from sfumato.io.atomic import AtomicFile, atomic_output
from sfumato.io.formats import MEDIA, file_to_read, kind_of, same_kind
from sfumato.io.schema import Column, Schema
from sfumato.io.table_files import TableBlock, TableSink, TableSource
from sfumato.loading import when_used

if TYPE_CHECKING:
    from sfumato.io.image_files import read_picture, write_picture
    from sfumato.io.video_files import open_video

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
    "open_video",
    "read_picture",
    "same_kind",
    "write_picture",
]

__getattr__ = when_used(
    "sfumato.io",
    {"open_video": "video_files", "read_picture": "image_files", "write_picture": "image_output"},
)
