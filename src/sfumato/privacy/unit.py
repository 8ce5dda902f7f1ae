"""What may change between two neighbouring inputs, and how.

A number ε means nothing until it says *whose* change it bounds. A ``Unit`` names the thing that may
change; ``Neighbours`` names the kind of change.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from enum import StrEnum

from sfumato.errors import BadInput

__all__ = ["RECORD", "Neighbours", "Unit"]

_PLAIN = ("record", "tensor", "component", "frame", "clip", "channel", "item", "client")
_SIZED = {
    "region": "the side in pixels of a square of an image",
    "pixels": "how many pixels, anywhere in an image",
    "window": "a stretch of time in milliseconds",
}
_ACCEPTED = (
    "record, tensor, component, region(m), pixels(m), window(ms), frame, clip, channel, item or client"
)
# A colon, because a shell wants quotes around parentheses.
_SPELLING = re.compile(r"\s*([a-z]+)\s*(?:\(\s*([^()]*?)\s*\)\s*|:\s*([^()]*?)\s*)?", re.IGNORECASE)


class Neighbours(StrEnum):
    """How two neighbouring inputs differ in one unit.

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
        if self.name in _PLAIN:
            if self.size is not None:
                raise BadInput(
                    f"`unit` {self.name!r} was given the size {self.size!r}: "
                    f"it takes none, write '{self.name}'.",
                    parameter="unit",
                )
            return
        if self.name not in _SIZED:
            raise BadInput(f"`unit` {self.name!r} is not known: accepted are {_ACCEPTED}.", parameter="unit")
        whole = self.name != "window"
        number = isinstance(self.size, int | float) and not isinstance(self.size, bool)
        if self.size is None or not number or not math.isfinite(self.size) or self.size <= 0:
            raise BadInput(
                f"`unit` {self.name!r} was given the size {self.size!r}: "
                f"it takes a positive {'whole ' if whole else ''}number ({_SIZED[self.name]}).",
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
        """Read ``"record"``, ``"region(8)"`` or ``"region:8"``; a ``Unit`` passes through."""
        if isinstance(text, Unit):
            return text
        match = _SPELLING.fullmatch(text) if isinstance(text, str) else None
        if match is None:
            raise BadInput(f"`unit` {text!r} is not known: accepted are {_ACCEPTED}.", parameter="unit")
        name, inside = match.group(1).lower(), match.group(2) if match.group(3) is None else match.group(3)
        if inside is None:
            return cls(name)
        try:
            return cls(name, float(inside))
        except ValueError as error:
            if isinstance(error, BadInput):
                raise
            raise BadInput(
                f"`unit` {text!r} has the size {inside!r}, which is not a number: accepted are {_ACCEPTED}.",
                parameter="unit",
            ) from None

    def __str__(self) -> str:
        if self.size is None:
            return self.name
        # An integral number of milliseconds reads better without its ".0"; repr keeps the rest exact.
        size = int(self.size) if self.size == int(self.size) and self.size < 1e15 else self.size
        return f"{self.name}({size!r})"


RECORD = Unit("record")
