"""How long the server of a federated run waits."""

from __future__ import annotations

import math
from dataclasses import dataclass

from sfumato.errors import BadInput

__all__ = ["Waiting"]


@dataclass(frozen=True)
class Waiting:
    """Seconds: ``patience`` for clients to appear, ``timeout`` for each client to answer in a round.

    Both are public, and the same for all: when one client answers leaves the others the time that they have.
    """

    patience: float = 120.0
    timeout: float = 600.0

    def __post_init__(self) -> None:
        for name in ("patience", "timeout"):
            if not 0.0 < (given := getattr(self, name)) < math.inf:
                raise BadInput(f"`{name}` was {given!r}", parameter=name, accepted="a finite number above 0")
