"""How long the server of a federated run waits."""

from __future__ import annotations

import math
from dataclasses import dataclass

from sfumato.errors import BadInput

__all__ = ["Waiting"]


@dataclass(frozen=True)
class Waiting:
    """Seconds: ``patience`` for clients to appear, ``timeout`` for those of a round to answer.

    A client that takes ``straggle`` times as long as the first one to answer is left out too, though never
    before a tenth of the timeout has gone by since then.
    """

    patience: float = 120.0
    timeout: float = 600.0
    straggle: float = 20.0

    def __post_init__(self) -> None:
        for name, said, least in (
            ("patience", "patience", 0.0),
            ("timeout", "--wait", 0.0),
            ("straggle", "straggle", 1.0),
        ):
            if not least < (given := getattr(self, name)) < math.inf:
                raise BadInput(f"{said} was {given!r}: a finite number above {least:g} is needed.")
