"""A release: a value that may leave the house, with the statement of what it promises."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sfumato.errors import BadInput
from sfumato.privacy import Statement

__all__ = ["Release"]


@dataclass(frozen=True, eq=False)
class Release:
    """``value`` with its three-column ``statement``; ``provenance`` says how and of what it was made."""

    value: Any
    statement: Statement
    provenance: Mapping[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """The statement and provenance as JSON values; the value itself travels in its own file."""
        return {"statement": self.statement.to_dict(), "provenance": dict(self.provenance)}

    @classmethod
    def from_dict(cls, value: Any, document: Mapping[str, Any]) -> Release:
        """The release of ``value`` that ``document``, written by :meth:`to_dict`, describes."""
        if not isinstance(document, Mapping) or not isinstance(document.get("provenance"), Mapping):
            raise BadInput("a release is described by an object with a statement and a provenance.")
        return cls(value, Statement.from_dict(document.get("statement", {})), dict(document["provenance"]))

    def __repr__(self) -> str:
        shape = "×".join(str(n) for n in getattr(self.value, "shape", ()))
        return f"<Release of {shape or type(self.value).__name__}: {self.statement!r}>"
