"""Unit of privacy and neighbouring relation: what may change between two neighbouring inputs, and how.

An ε bounds the change of a stated thing only. A ``Unit`` names that thing; ``Neighbours`` names the kind of
change. Every door accepts the units of the table here. How much of a picture or a sound a unit covers is said
by the base of their mechanisms.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, NamedTuple

from sfumato.errors import BadInput

__all__ = ["RECORD", "Neighbours", "Unit"]

UnitOf = Literal["records", "picture", "sound", "video", "file"]


class UnitKind(NamedTuple):
    """What all units of one name are: what they are a part of and, where they have a size, what that is.

    ``letter`` stands for the size in lists, ``usual`` is an example of one, and ``words`` is one unit in a
    sentence, with {0} for its size.
    """

    of: UnitOf
    size: str | None = None
    letter: str = ""
    usual: int = 0
    words: str = ""
    whole: bool = True


_KINDS = {
    "record": UnitKind("records"),
    "tensor": UnitKind("records"),
    "component": UnitKind("records"),
    "region": UnitKind(
        "picture", "the side in pixels of a square of an image", "m", 16, "any square of {0} × {0} pixels"
    ),
    "pixels": UnitKind("picture", "how many pixels, anywhere in an image", "m", 16, "any {0} pixels"),
    "window": UnitKind(
        "sound", "a stretch of time in milliseconds", "ms", 20, "any stretch of {0} ms", whole=False
    ),
    "frame": UnitKind("video"),
    "clip": UnitKind("file"),
    "channel": UnitKind("sound"),
    "item": UnitKind("file"),
    "client": UnitKind("records"),
}
# A colon, because a shell wants quotes around parentheses.
_SPELLING = re.compile(r"\s*([a-z]+)\s*(?:\(\s*([^()]*?)\s*\)\s*|:\s*([^()]*?)\s*)?", re.IGNORECASE)


class Neighbours(StrEnum):
    """The difference between two neighbouring inputs in one unit.

    ``REPLACE``: the unit takes any other allowed value. ``ZERO_OUT``: the unit is replaced by a fixed null
    value. ``ADD_REMOVE``: the unit is there in one input and absent from the other.
    """

    REPLACE = "replace"
    ZERO_OUT = "zero-out"
    ADD_REMOVE = "add/remove"

    @classmethod
    def _missing_(cls, value: object) -> Neighbours:
        raise BadInput(
            f"`neighbours` {value!r} are not known: accepted are replace, zero-out or add/remove.",
            parameter="neighbours",
        )


@dataclass(frozen=True)
class Unit:
    """The thing whose change a guarantee bounds, such as ``Unit("record")`` or ``Unit("region", 8)``.

    ``region`` and ``pixels`` carry a positive whole number, ``window`` a positive number of milliseconds;
    the other units carry no size. ``str(unit)`` is what ``Unit.parse`` reads back.
    """

    name: str
    size: float | None = None

    def __post_init__(self) -> None:
        if self.name not in _KINDS:
            raise BadInput(f"`unit` {self.name!r} is not known: {_accepted()}.", parameter="unit")
        if self.kind.size is None:
            if self.size is not None:
                raise BadInput(
                    f"`unit` {self.name!r} was given the size {self.size!r}: "
                    f"it takes none, write '{self.name}'.",
                    parameter="unit",
                )
            return
        whole = self.kind.whole
        number = isinstance(self.size, int | float) and not isinstance(self.size, bool)
        if self.size is None or not number or not math.isfinite(self.size) or self.size <= 0:
            raise BadInput(
                f"`unit` {self.name!r} was given the size {self.size!r}: "
                f"it takes a positive {'whole ' if whole else ''}number ({self.kind.size}).",
                parameter="unit",
            )
        if whole and self.size != int(self.size):
            raise BadInput(
                f"`unit` {self.name!r} was given the size {self.size!r}: it takes a whole number.",
                parameter="unit",
            )
        object.__setattr__(self, "size", int(self.size) if whole else float(self.size))

    @classmethod
    def parse(cls, text: str | Unit) -> Unit:
        """Return the unit of ``"record"``, ``"region(8)"`` or ``"region:8"``; a ``Unit`` passes through."""
        if isinstance(text, Unit):
            return text
        match = _SPELLING.fullmatch(text) if isinstance(text, str) else None
        if match is None:
            raise BadInput(f"`unit` {text!r} is not known: {_accepted()}.", parameter="unit")
        name, inside = match.group(1).lower(), match.group(2) if match.group(3) is None else match.group(3)
        if inside is None:
            return cls(name)
        try:
            return cls(name, float(inside))
        except ValueError as error:
            if isinstance(error, BadInput):
                raise
            raise BadInput(
                f"`unit` {text!r} has the size {inside!r}, which is not a number: {_accepted()}.",
                parameter="unit",
            ) from None

    @property
    def kind(self) -> UnitKind:
        """What all units of this name are."""
        return _KINDS[self.name]

    @staticmethod
    def names(*of: UnitOf) -> tuple[str, ...]:
        """Return the names of the units of records, pictures, sounds, videos or files."""
        return tuple(name for name, kind in _KINDS.items() if kind.of in of)

    @staticmethod
    def examples() -> list[str]:
        """Return one unit of each name, such as region(16)."""
        return [str(Unit(name, kind.usual or None)) for name, kind in _KINDS.items()]

    @staticmethod
    def listed(names: Iterable[str], last: str = "and", *, typed: bool = False) -> str:
        """Return units as a sentence lists them: region(m) and item, or region:16 and item as ``typed``."""
        found = []
        for name in names:
            kind = _KINDS[name]
            sized = f"{name}:{kind.usual}" if typed else f"{name}({kind.letter})"
            found.append(name if kind.size is None else sized)
        return f" {last} ".join([", ".join(found[:-1]), found[-1]])

    def __str__(self) -> str:
        if self.size is None:
            return self.name
        # An integral number of milliseconds reads better without its ".0"; repr keeps the rest exact.
        size = int(self.size) if self.size == int(self.size) and self.size < 1e15 else self.size
        return f"{self.name}({size!r})"


def _accepted() -> str:
    return f"accepted are {Unit.listed(_KINDS, 'or')}"


RECORD = Unit("record")
