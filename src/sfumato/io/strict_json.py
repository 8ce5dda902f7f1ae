"""Objects of JSON in which each name stands once: of two, readers disagree about which counts."""

from __future__ import annotations

from typing import Any

from sfumato.errors import BadInput

__all__ = ["single_names"]

_SHOWN = 80


def single_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The object of these ``pairs``, for ``json.loads(…, object_pairs_hook=single_names)``."""
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            said = repr(name if len(name) <= _SHOWN else name[: _SHOWN - 3] + "...")
            raise BadInput(f"the name {said} stands twice in one object; once is accepted.")
        found[name] = value
    return found
