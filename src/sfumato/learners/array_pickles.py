"""Pickles of NumPy arrays, read without running anything that they name.

A pickle is a small program that may call whatever it names. Here it can name what arrays are made of and
nothing else, and gets stand-ins for that, which only hold what they are given. Arrays are then made from
plain bytes by code of this file, so that neither ``__reduce__`` nor NumPy's own ``__setstate__`` is trusted.
"""

from __future__ import annotations

import io
import math
import pickle
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput

__all__ = ["read_arrays"]

_NUMBERS = frozenset({"b1", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8"})
_ORDERS = frozenset({"<", ">", "|"})


class _Refused(Exception):
    """Why a pickle is not read, in words that follow "it"."""


class _Kind:
    """What stands for ``numpy.dtype``: the kind of numbers, and the order of their bytes."""

    def __init__(self, code: Any, *_: Any) -> None:
        self._code, self._order = code, "|"

    def __setstate__(self, state: Any) -> None:
        self._order = state[1]

    def made(self) -> np.dtype[Any]:
        """The kind, if it is one of plain numbers."""
        if self._code not in _NUMBERS or self._order not in _ORDERS:
            raise _Refused("holds an array of something else than plain numbers")
        found: np.dtype[Any] = np.dtype(self._order + self._code)
        return found


class _Array:
    """What stands for an array: its state, untouched until all of the pickle is read."""

    def __init__(self, *_: Any) -> None:
        self._state: Any = None

    def __setstate__(self, state: Any) -> None:
        self._state = state

    def made(self) -> NDArray[Any]:
        """The array, if shape, kind and bytes fit each other; it owns its memory."""
        _, shape, kind, columns_first, content = self._state
        if not isinstance(kind, _Kind) or not isinstance(content, bytes) or not isinstance(shape, tuple):
            raise _Refused("holds an array that is not plain")
        numbers = kind.made()
        if any(type(side) is not int or side < 0 for side in shape):
            raise _Refused("holds an array with a side that is no length")
        if math.prod(shape) * numbers.itemsize != len(content):
            raise _Refused("holds an array whose bytes do not fit its shape")
        order: Any = "F" if columns_first else "C"
        return np.frombuffer(content, numbers).reshape(shape, order=order).copy()


# What a pickle of arrays names; the class of the array is only ever an argument.
_STAND_INS: dict[tuple[str, str], Any] = {
    ("numpy.core.multiarray", "_reconstruct"): _Array,
    ("numpy._core.multiarray", "_reconstruct"): _Array,
    ("numpy", "ndarray"): object(),
    ("numpy", "dtype"): _Kind,
}


class _Reader(pickle.Unpickler):
    """An unpickler that knows the names of ``_STAND_INS`` and no others."""

    def find_class(self, module: str, name: str, /) -> Any:
        if (module, name) not in _STAND_INS:
            raise _Refused(f"names {module}.{name}")
        return _STAND_INS[module, name]


def read_arrays(content: bytes, where: str) -> Any:
    """What the pickle ``content`` holds: arrays of plain numbers, dict, list, str, int, float, nothing else.

    Protocols 3 and 4 of pickle are read. Anything else in it is refused with BadInput, which calls it
    ``where``, and nothing that the pickle names is imported or called.
    """
    try:
        return _plain(_Reader(io.BytesIO(content)).load(), set())
    except _Refused as wrong:
        reason = str(wrong)
    except Exception as wrong:  # a damaged pickle raises nearly anything
        reason = f"is damaged ({type(wrong).__name__})"
    raise BadInput(
        f"{where} is not read, since it {reason}: a pickle of nothing but NumPy arrays, dict, list, str, int "
        "and float is needed."
    )


def _plain(value: Any, seen: set[int]) -> Any:
    """``value`` with arrays in place of their stand-ins.

    Each dict and list may stand in one place only: else a few bytes could hold themselves, or grow without
    end when they are walked through.
    """
    if isinstance(value, _Array):
        return value.made()
    if type(value) in (str, int, float):
        return value
    if type(value) not in (dict, list):
        raise _Refused(f"holds something of type {type(value).__name__.lstrip('_')}")
    if id(value) in seen:
        raise _Refused(f"holds one {type(value).__name__} in two places")
    seen.add(id(value))
    if isinstance(value, list):
        return [_plain(each, seen) for each in value]
    if any(type(key) is not str for key in value):
        raise _Refused("holds a dict whose keys are no names")
    return {key: _plain(each, seen) for key, each in value.items()}
