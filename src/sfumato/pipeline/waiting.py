"""How long the server of a federated run waits."""

from __future__ import annotations

from dataclasses import dataclass

from sfumato.errors import BadInput

__all__ = ["Waiting"]


@dataclass(frozen=True)
class Waiting:
    """Seconds: ``patience`` for clients to appear, ``timeout`` for those of a round to answer.

    A client that takes ``straggle`` times as long as the first one to answer is left out too.
    """

    patience: float = 120.0
    timeout: float = 600.0
    straggle: float = 20.0

    def __post_init__(self) -> None:
        for name, least in (("patience", 0.0), ("timeout", 0.0), ("straggle", 1.0)):
            if not getattr(self, name) > least:
                raise BadInput(f"{name} was {getattr(self, name)!r}: a number above {least:g} is needed.")
