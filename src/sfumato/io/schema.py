"""The schema of a table: what each column holds, declared by its owner and never read off the data.

A declaration in which a name stands twice is refused: readers of JSON disagree about which of the two counts.
"""

from __future__ import annotations

import difflib
import json
import math
import os
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from sfumato.errors import BadInput
from sfumato.io.formats import file_to_read

__all__ = ["Schema", "single_names"]

_SHOWN = 80


def single_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the object of these ``pairs``, for ``json.loads(…, object_pairs_hook=single_names)``."""
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            said = repr(name if len(name) <= _SHOWN else name[: _SHOWN - 3] + "...")
            raise BadInput(f"the name {said} stands twice in one object; once is accepted.")
        found[name] = value
    return found


ColumnKind = Literal["numeric", "categorical", "boolean", "identifier"]
Category = str | int | bool

_KEYS: dict[str, tuple[str, ...]] = {
    "numeric": ("bounds", "weight", "clamp"),
    "categorical": ("categories", "weight"),
    "boolean": ("weight",),
    "identifier": (),
}


@dataclass(frozen=True)
class Column:
    """One column. Its fields are checked on construction.

    ``bounds`` belongs to numeric columns, ``categories`` to categorical ones (all strings, all integers or
    all booleans) and to boolean ones, where it is always ``(False, True)``. ``weight`` is the column's share
    of the budget relative to the others. ``clamp`` asks for released numbers to be put back inside the
    bounds, which is post-processing. Identifiers are dropped.
    """

    name: str
    kind: ColumnKind
    bounds: tuple[float, float] | None = None
    categories: tuple[Category, ...] = ()
    weight: float = 1.0
    clamp: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name or not _encodable(self.name):
            raise BadInput(f"a column is named {self.name!r}; a text that is not empty is accepted.")
        if self.kind not in get_args(ColumnKind):
            accepted = ", ".join(get_args(ColumnKind))
            raise BadInput(f"column {self.name!r} has kind {self.kind!r}; one of {accepted} is accepted.")
        if self.kind == "boolean":
            object.__setattr__(self, "categories", (False, True))
        if self.kind == "numeric":
            object.__setattr__(self, "bounds", self._checked_bounds())
        elif self.bounds is not None:
            raise BadInput(f"column {self.name!r} is {self.kind} and takes no bounds.")
        if self.kind == "categorical":
            object.__setattr__(self, "categories", self._checked_categories())
        elif self.kind != "boolean" and self.categories:
            raise BadInput(f"column {self.name!r} is {self.kind} and takes no categories.")
        weight = _finite(self.weight)
        if weight is None or weight <= 0:
            raise BadInput(f"column {self.name!r} has weight {self.weight!r}; a positive number is accepted.")
        object.__setattr__(self, "weight", weight)
        if not isinstance(self.clamp, bool):
            raise BadInput(f"column {self.name!r} has clamp {self.clamp!r}; true or false is accepted.")

    @classmethod
    def from_dict(cls, name: str, entry: object) -> Column:
        """Return the column that a schema file describes by ``entry``; an unknown key is refused."""
        if not isinstance(entry, Mapping):
            raise BadInput(f"column {name!r} is {entry!r}; a table with at least its kind is accepted.")
        kind = entry.get("kind")
        if not isinstance(kind, str) or kind not in _KEYS:
            given = f"has kind {kind!r}" if "kind" in entry else "has no kind"
            raise BadInput(f"column {name!r} {given}; one of {', '.join(_KEYS)} is accepted.")
        for key in entry:
            if key != "kind" and key not in _KEYS[kind]:
                accepted = ", ".join(("kind", *_KEYS[kind]))
                raise BadInput(f"column {name!r} is {kind} and has the key {key!r}; it accepts {accepted}.")
        return cls(name=name, **entry)

    def to_dict(self) -> dict[str, Any]:
        """Return the entry that :meth:`from_dict` reads, without what is at its default."""
        entry: dict[str, Any] = {"kind": self.kind}
        if self.bounds is not None:
            entry["bounds"] = list(self.bounds)
        if self.kind == "categorical":
            entry["categories"] = list(self.categories)
        if self.weight != 1:
            entry["weight"] = self.weight
        if self.clamp:
            entry["clamp"] = True
        return entry

    def spellings(self) -> tuple[str, ...]:
        """Return the categories as a text file spells them."""
        return tuple(
            str(value).lower() if isinstance(value, bool) else str(value) for value in self.categories
        )

    def _checked_bounds(self) -> tuple[float, float]:
        given = self.bounds
        if isinstance(given, (list, tuple)) and len(given) == 2:
            low, high = _finite(given[0]), _finite(given[1])
            # The width must be a number too, because sensitivities are made of it.
            if low is not None and high is not None and low < high and math.isfinite(high - low):
                return low, high
        problem = "has no bounds" if given is None else f"has bounds {given!r}"
        raise BadInput(
            f"column {self.name!r} {problem}; two finite numbers [low, high] with low < high are accepted."
        )

    def _checked_categories(self) -> tuple[Category, ...]:
        given = self.categories
        accepted = (
            "a list of at least two different values, all strings, all integers or all booleans, is accepted"
        )
        if not isinstance(given, (list, tuple)) or len(given) < 2:
            raise BadInput(f"column {self.name!r} has categories {given!r}; {accepted}.")
        kinds = {type(value) for value in given}
        if len(kinds) != 1 or not kinds <= {str, int, bool}:
            names = " and ".join(sorted(kind.__name__ for kind in kinds))
            raise BadInput(f"column {self.name!r} has categories of type {names}; {accepted}.")
        value, count = Counter(given).most_common(1)[0]
        if count > 1:
            raise BadInput(f"column {self.name!r} has the category {value!r} {count} times; {accepted}.")
        for value in given:
            if isinstance(value, int) and not -(2**63) <= value < 2**63:
                raise BadInput(f"column {self.name!r} has a category beyond 64 bits; {accepted}.")
            if isinstance(value, str) and not _encodable(value):
                raise BadInput(f"column {self.name!r} has a category {value!r} that no text file can hold.")
        return tuple(given)


@dataclass(frozen=True)
class Schema:
    """The columns of a table in the order of the schema file; at least one is not an identifier."""

    columns: tuple[Column, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", tuple(self.columns))
        name, count = _most_common([column.name for column in self.columns])
        if count > 1:
            raise BadInput(f"the schema declares column {name!r} {count} times; once is accepted.")
        if not self.released:
            raise BadInput(
                "the schema leaves nothing to release; a numeric, categorical or boolean column is needed."
            )

    @property
    def numeric(self) -> tuple[Column, ...]:
        """Numeric columns."""
        return self._of("numeric")

    @property
    def coded(self) -> tuple[Column, ...]:
        """Columns held as codes: the categorical ones, then the boolean ones."""
        return self._of("categorical") + self._of("boolean")

    @property
    def identifiers(self) -> tuple[Column, ...]:
        """Columns that are dropped."""
        return self._of("identifier")

    @property
    def released(self) -> tuple[Column, ...]:
        """Every column but the identifiers."""
        return tuple(column for column in self.columns if column.kind != "identifier")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Schema:
        """Read a ``.toml`` or ``.json`` schema file."""
        path = file_to_read(path)
        try:
            if path.suffix.lower() == ".toml":
                with path.open("rb") as file:
                    content = tomllib.load(file)
            elif path.suffix.lower() == ".json":
                content = json.loads(path.read_text("utf-8"), object_pairs_hook=single_names)
            else:
                raise BadInput("the schema must be a .toml or .json file.")
            return cls.from_dict(content)
        except BadInput as error:
            raise error.at(path.name) from None
        except (ValueError, RecursionError, OSError) as error:  # of syntax, of nesting, of encoding
            reason = str(error).splitlines()[0].rstrip(".") if str(error) else "it cannot be parsed"
            raise BadInput(f"{path.name} is not valid {path.suffix[1:].upper()}: {reason}.") from None

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Schema:
        """Return the schema ``{"columns": {name: {"kind": …, …}, …}}``."""
        columns = content.get("columns") if isinstance(content, Mapping) else None
        if not isinstance(columns, Mapping) or len(content) != 1:
            raise BadInput('a schema is accepted as one table "columns" with an entry for each column.')
        return cls(tuple(Column.from_dict(name, entry) for name, entry in columns.items()))

    def to_dict(self) -> dict[str, Any]:
        """Return what :meth:`from_dict` reads."""
        return {"columns": {column.name: column.to_dict() for column in self.columns}}

    def check_against(self, names: Sequence[str]) -> None:
        """Refuse a table whose columns are not exactly the declared ones, in any order."""
        name, count = _most_common(names)
        if count > 1:
            raise BadInput(f"the table has {count} columns named {name!r}; different names are accepted.")
        declared, held = {column.name: None for column in self.columns}, set(names)
        for name in declared:
            if name not in held:
                near = difflib.get_close_matches(name, names, n=1, cutoff=0.0)
                hint = f"; its nearest column is {near[0]!r}" if near else ""
                raise BadInput(f"the schema declares column {name!r}, which the table does not have{hint}.")
        for name in names:
            if name not in declared:
                raise BadInput(
                    f"the table has a column {name!r} that the schema does not declare; declare it, with "
                    'kind = "identifier" to drop it.'
                )

    def _of(self, kind: ColumnKind) -> tuple[Column, ...]:
        return tuple(column for column in self.columns if column.kind == kind)


def _most_common(names: Sequence[str]) -> tuple[str, int]:
    return Counter(names).most_common(1)[0] if names else ("", 0)


def _encodable(text: str) -> bool:
    # JSON can spell half of a surrogate pair, which UTF-8 cannot.
    return not any("\ud800" <= character <= "\udfff" for character in text)


def _finite(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None
