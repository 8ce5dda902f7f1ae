"""Statements on the driver's own connection, inside one transaction.

SQLAlchemy keeps the connections and writes each statement, once for each kind of database; the driver runs
it. A spend is three tiny statements, and having SQLAlchemy carry them out takes longer than all the rest.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import make_dataclass
from typing import Any

from sqlalchemy import Dialect
from sqlalchemy.sql import ClauseElement

__all__ = ["Row", "Transaction"]

#: A row of a result, its columns by name.
Row = Any


class Transaction:
    """What runs statements, which must be constants: their SQL is kept for as long as the process lives."""

    _written: dict[tuple[ClauseElement, str], _Statement] = {}  # noqa: RUF012 (shared by all on purpose)

    def __init__(self, cursor: Any, dialect: Dialect) -> None:
        self._cursor = cursor
        self._dialect = dialect

    def run(self, statement: ClauseElement, values: Mapping[str, Any]) -> None:
        """Run a statement that answers nothing."""
        self._execute(statement, values)

    def first(self, statement: ClauseElement, values: Mapping[str, Any]) -> Row | None:
        """The first row of the answer, if there is one."""
        written = self._execute(statement, values)
        row = self._cursor.fetchone()
        return None if row is None else written.row(self._cursor)(*row)

    def all(self, statement: ClauseElement, values: Mapping[str, Any] | None = None) -> list[Row]:
        """Every row of the answer."""
        written = self._execute(statement, values or {})
        return [written.row(self._cursor)(*row) for row in self._cursor.fetchall()]

    def _execute(self, statement: ClauseElement, values: Mapping[str, Any]) -> _Statement:
        place = (statement, self._dialect.name)
        if place not in self._written:
            self._written[place] = _Statement(statement, self._dialect)
        written = self._written[place]
        self._cursor.execute(written.sql, written.parameters(values))
        return written


class _Statement:
    """The SQL of a statement for one kind of database."""

    def __init__(self, statement: ClauseElement, dialect: Dialect) -> None:
        compiled: Any = statement.compile(dialect=dialect)
        self.sql = str(compiled)
        self._constants = {name: value for name, value in compiled.params.items() if value is not None}
        self._order = compiled.positiontup
        self._row: Any = None

    def parameters(self, values: Mapping[str, Any]) -> Any:
        """Values as the driver wants them: by name, or in the order of the question marks."""
        named = {**self._constants, **values} if self._constants else values
        return named if self._order is None else [named[name] for name in self._order]

    def row(self, cursor: Any) -> Any:
        """What makes a row of this statement's answer."""
        if self._row is None:
            self._row = _row_type([column[0] for column in cursor.description])
        return self._row


def _row_type(names: list[str]) -> Any:
    return make_dataclass("Row", names, slots=True)
