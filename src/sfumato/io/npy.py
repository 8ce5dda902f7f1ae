"""The header of a ``.npy`` stream: read from untrusted bytes, checked, and written."""

from __future__ import annotations

import io
import math
import struct
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from threading import Lock
from typing import Any

import numpy as np
from numpy.lib import format as npy_format

from sfumato.errors import BadInput

__all__ = ["MAGIC", "Layout", "check_array", "npy_header", "read_layout"]

MAGIC = b"\x93NUMPY"
_MAX_HEADER_BYTES = 10_000  # NumPy's own limit: beyond it, parsing a header can exhaust the interpreter
_MAX_DIMENSIONS = 64
_MAX_ROW_BYTES = 1 << 30
_TRIES = 20
_PARSING = Lock()
_LENGTH_FIELD = {(1, 0): "<H", (2, 0): "<I", (3, 0): "<I"}


@dataclass(frozen=True)
class Layout:
    """What the header of a stream says about the bytes that follow it."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]  # in the byte order of the file
    fortran: bool  # and the order makes a difference: more than one axis is longer than 1
    header_bytes: int

    @property
    def row_bytes(self) -> int:
        """Bytes of one entry along the first axis."""
        return math.prod(self.shape[1:]) * self.dtype.itemsize

    @property
    def data_bytes(self) -> int:
        """Bytes that follow the header."""
        return self.shape[0] * self.row_bytes


def read_layout(stream: io.BufferedIOBase, label: str) -> Layout:
    """Read the header at the start of ``stream`` and leave it at the first byte of data.

    Never reads more than a header may hold, and never unpickles. ``label`` names the array in refusals.
    """
    prefix = _exactly(stream, 8, label)
    if prefix[:6] != MAGIC:
        raise BadInput(f"{label} is not a NumPy array: a .npy stream was expected.")
    version = (prefix[6], prefix[7])
    if version not in _LENGTH_FIELD:
        raise BadInput(
            f"{label} has version {version[0]}.{version[1]} of the .npy format; 1.0, 2.0, 3.0 are accepted."
        )
    field = _exactly(stream, struct.calcsize(_LENGTH_FIELD[version]), label)
    (length,) = struct.unpack(_LENGTH_FIELD[version], field)
    if length > _MAX_HEADER_BYTES:
        raise BadInput(f"{label} has a header of {length} bytes; up to {_MAX_HEADER_BYTES} are accepted.")
    text = io.BytesIO(field + _exactly(stream, length, label))
    # Versions 2 and 3 differ in how field names are encoded, and arrays with fields are refused below.
    read = npy_format.read_array_header_1_0 if version == (1, 0) else npy_format.read_array_header_2_0
    try:
        shape, fortran, dtype = _parsed(read, text)
    except Exception as error:
        # A header is a Python literal: a broken one fails in the tokenizer, the parser or the constructor of
        # dtypes, each with exceptions of its own.
        raise BadInput(f"{label} has a NumPy header that cannot be parsed.") from error
    check_array(shape, dtype, label)
    return Layout(
        shape=tuple(int(length) for length in shape),
        dtype=dtype,
        fortran=bool(fortran) and sum(length > 1 for length in shape) > 1,
        header_bytes=len(prefix) + text.getbuffer().nbytes,
    )


def _parsed(read: Callable[..., Any], text: io.BytesIO) -> Any:
    """What ``read`` finds in a header, also while other threads parse something.

    Python 3.11 counts how deep its parser is in one place for all threads, and ends with a SystemError where
    two of them were in it: ours take turns, and after what others did it is tried again.
    """
    for _ in range(_TRIES):
        with _PARSING, suppress(SystemError):
            return read(text, max_header_size=_MAX_HEADER_BYTES)
        text.seek(0)
    return read(text, max_header_size=_MAX_HEADER_BYTES)


def check_array(shape: tuple[int, ...], dtype: np.dtype[Any], label: str) -> None:
    """Refuse everything but real numbers, in arrays with at least one row and one column."""
    accepted = "integers, booleans and floats of 16, 32 or 64 bits are accepted"
    if dtype.hasobject:
        raise BadInput(f"{label} holds pickled Python objects, which are never loaded; {accepted}.")
    if dtype.names is not None or dtype.subdtype is not None:
        raise BadInput(f"{label} is a structured array; save each field as an array of its own.")
    if dtype.kind not in "biuf" or dtype.itemsize > 8:
        raise BadInput(f"{label} has dtype {dtype.name}; {accepted}.")
    if len(shape) == 0:
        raise BadInput(f"{label} is a single number; an array with one row per record is accepted.")
    if len(shape) > _MAX_DIMENSIONS:
        raise BadInput(f"{label} has {len(shape)} dimensions; up to {_MAX_DIMENSIONS} are accepted.")
    if any(length < 0 for length in shape):
        raise BadInput(f"{label} has a negative length in its shape.")
    if shape[0] == 0:
        raise BadInput(f"{label} has no rows.")
    if 0 in shape:
        raise BadInput(f"{label} has no columns.")
    if math.prod(shape) * dtype.itemsize > np.iinfo(np.int64).max:
        raise BadInput(f"{label} has a shape that no file could hold.")
    if math.prod(shape[1:]) * dtype.itemsize > _MAX_ROW_BYTES:
        raise BadInput(f"{label} has rows of more than {_MAX_ROW_BYTES >> 30} GiB, which are not accepted.")


def npy_header(shape: tuple[int, ...], dtype: np.dtype[Any]) -> bytes:
    """Magic and header (format 1.0) of a C-ordered array."""
    head = io.BytesIO()
    description = {"descr": npy_format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
    npy_format.write_array_header_1_0(head, description)
    return head.getvalue()


def _exactly(stream: io.BufferedIOBase, count: int, label: str) -> bytes:
    data = stream.read(count)
    if len(data) != count:
        raise BadInput(f"{label} is truncated: it ends inside its header.")
    return data
