"""One column of a table, as Arrow holds it, turned into numbers or codes; bad cells are refused by row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.io.schema import Column

__all__ = ["Place", "codes_of", "numbers_of"]

_SHOWN_CATEGORIES = 10
_SPELLED_BOOLEANS = {"false": 0, "0": 0, "no": 0, "true": 1, "1": 1, "yes": 1}


@dataclass(frozen=True)
class Place:
    """Where a run of cells comes from, so that a refusal can say it."""

    file: str
    column: Column
    first_row: int  # of the data, counted from 1

    def refuse(self, index: int, cells: Any, accepted: str) -> NoReturn:
        """Refuse the cell at ``index`` of the run by its place: what it holds is private."""
        cell = cells[index]
        blank = not cell.is_valid or (hasattr(cell, "as_buffer") and cell.as_buffer().size == 0)
        held = "is empty" if blank else "is not as declared"
        row = self.first_row + index
        raise BadInput(f"{self.file}: column {self.column.name!r} {held} in data row {row}; {accepted}.")

    def refuse_type(self, kind: object, accepted: str) -> NoReturn:
        """Refuse the whole column for the type it has in the file."""
        raise BadInput(f"{self.file}: column {self.column.name!r} has type {kind}; {accepted}.")


def numbers_of(cells: Any, place: Place) -> NDArray[np.float64]:
    """Finite float64 values of an Arrow array of numbers, or of text that spells numbers."""
    import pyarrow as pa

    accepted = "a finite number is accepted"
    cells = _plain(cells)
    kind = cells.type
    if pa.types.is_string(kind):
        _refuse_nulls(cells, place, accepted)
        numbers = _parsed(cells, place, accepted)
    elif pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        _refuse_nulls(cells, place, accepted)
        numbers = cells.cast(pa.float64(), safe=False)  # integers beyond 2^53 are rounded
    else:
        place.refuse_type(kind, "numbers are accepted in a numeric column")
    values = np.array(numbers.to_numpy(zero_copy_only=False), dtype=np.float64)
    wrong = np.flatnonzero(~np.isfinite(values))
    if wrong.size:
        place.refuse(int(wrong[0]), cells, accepted)
    return values


def codes_of(cells: Any, place: Place) -> NDArray[np.int64]:
    """Index into the column's categories of each cell of an Arrow array of text, integers or booleans."""
    import pyarrow as pa
    import pyarrow.compute as pc

    column = place.column
    if isinstance(column.categories[0], bool):
        spelled = {text: column.categories.index(bool(value)) for text, value in _SPELLED_BOOLEANS.items()}
        accepted = "true, false, yes, no, 1 and 0 are accepted"
    else:
        spelled = {text: code for code, text in enumerate(column.spellings())}
        shown = ", ".join(repr(value) for value in column.categories[:_SHOWN_CATEGORIES])
        more = len(column.categories) - _SHOWN_CATEGORIES
        accepted = f"the declared categories are {shown}" + (f" and {more} more" if more > 0 else "")
    cells = _plain(cells)
    kind = cells.type
    if not any(
        test(kind)
        for test in (pa.types.is_string, pa.types.is_integer, pa.types.is_boolean, pa.types.is_floating)
    ):
        place.refuse_type(kind, f"text, integers or booleans are accepted in a {column.kind} column")
    _refuse_nulls(cells, place, accepted)
    text = cells.cast(pa.string())  # 1.0 becomes "1", True becomes "true"
    if isinstance(column.categories[0], bool):
        text = pc.ascii_lower(text)
    found = pc.index_in(text, value_set=pa.array(list(spelled), pa.string()))
    positions = np.asarray(found.fill_null(-1).to_numpy(zero_copy_only=False))
    unknown = np.flatnonzero(positions < 0)
    if unknown.size:
        place.refuse(int(unknown[0]), cells, accepted)
    codes: NDArray[np.int64] = np.array(list(spelled.values()), dtype=np.int64)[positions]
    return codes


def _plain(cells: Any) -> Any:
    """Text in one of Arrow's four forms (dictionary, large, view, plain) as plain text; all else as it is."""
    import pyarrow as pa

    if pa.types.is_dictionary(cells.type):
        cells = cells.dictionary_decode()
    if pa.types.is_large_string(cells.type) or pa.types.is_string_view(cells.type):
        cells = cells.cast(pa.string())
    return cells


def _refuse_nulls(cells: Any, place: Place, accepted: str) -> None:
    if cells.null_count:
        place.refuse(int(np.flatnonzero(cells.is_null().to_numpy(zero_copy_only=False))[0]), cells, accepted)


def _parsed(cells: Any, place: Place, accepted: str) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        return cells.cast(pa.float64())
    except pa.ArrowInvalid:
        pass
    trimmed = pc.ascii_trim_whitespace(cells)
    try:
        return trimmed.cast(pa.float64())
    except pa.ArrowInvalid:
        pass
    # Some cell between low and high is the first that spells no number; halve until it stands alone.
    low, high = 0, len(trimmed)
    while high - low > 1:
        middle = (low + high) // 2
        try:
            trimmed[low:middle].cast(pa.float64())
            low = middle
        except pa.ArrowInvalid:
            high = middle
    place.refuse(low, cells, accepted)
