"""Declaration of a mechanism's parameters, read from the annotations of its ``__init__``.

``Annotated[float, Parameter(wire="trust")]`` gives a parameter a **wire name**. Wire names, not Python names,
enter keyed noise and ledger commitments. A renamed parameter keeps its wire name, so every release
made before keeps its bytes and its price.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import get_type_hints

__all__ = ["Parameter", "parameters_of"]


@dataclass(frozen=True)
class Parameter:
    """What is declared of a parameter beyond its type and default.

    ``wire`` is its wire name, by default its Python name. A parameter that was ``added`` after releases had
    been made enters keyed noise and commitments only where it is not at its default.
    """

    wire: str | None = None
    added: bool = False


@cache
def parameters_of(kind: type) -> Mapping[str, Parameter]:
    """Return the declaration of every parameter of ``kind``, by Python name, each with its wire name."""
    hints = get_type_hints(kind.__init__, include_extras=True)  # type: ignore[misc]
    found: dict[str, Parameter] = {}
    for name in inspect.signature(kind).parameters:
        metadata = getattr(hints.get(name), "__metadata__", ())
        given = next((item for item in metadata if isinstance(item, Parameter)), Parameter())
        found[name] = Parameter(given.wire or name, given.added)
    if len({declared.wire for declared in found.values()}) < len(found):
        raise TypeError(f"two parameters of {kind.__name__} have one wire name.")
    return found
