"""CSV files, plain or gzipped, streamed through Arrow's parser as text."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from sfumato.errors import BadInput

__all__ = ["arrow_faults", "csv_batches", "csv_header", "quoted"]

_HEAD_BYTES = 1 << 20
_PARSE_BYTES = 4 << 20  # at once; a record that is longer is refused


@contextmanager
def arrow_faults(name: str, format_name: str, sentence: Sequence[str] = ()) -> Iterator[None]:
    """Say in one sentence what Arrow found wrong with the file: ``sentence`` where one was put into it."""
    import pyarrow as pa

    try:
        yield
    except BadInput:
        raise
    except (pa.ArrowException, OSError) as error:
        if sentence:
            raise BadInput(sentence[0]) from error
        reason = (str(error).splitlines() or ["it is damaged"])[0][:200]
        reason = reason.partition(". ")[0].rstrip(".")
        raise BadInput(f"{name} cannot be read as {format_name}: {reason}.") from error


def csv_header(path: Path) -> list[str]:
    """The names in the first line; a file without a record below it is refused."""
    with arrow_faults(path.name, "CSV"), closing(_open(path)) as stream:
        head = stream.read(_HEAD_BYTES)
        complete = not stream.read(1)
    end = max(head.rfind(b"\n"), head.rfind(b"\r")) + 1
    if not complete and end == 0:
        raise BadInput(
            f"{path.name} has a first line of more than {_HEAD_BYTES >> 20} MiB, which is no header."
        )
    try:
        # Only the names have to be text; identifiers below them may be anything.
        text = io.StringIO(
            (head if complete else head[:end]).decode("utf-8-sig", "surrogateescape"), newline=""
        )
        names = next((record for record in csv.reader(text) if record), [])
        for name in names:
            name.encode()
    except UnicodeEncodeError:
        raise BadInput(f"{path.name} has column names that are not UTF-8 text.") from None
    except csv.Error as error:
        raise BadInput(f"{path.name} has a header that cannot be read as CSV: {error}.") from None
    if complete and not text.read().strip("\r\n"):
        raise BadInput(f"{path.name} has no data rows.")
    return names


def csv_batches(path: Path, header: Sequence[str], columns: Sequence[str]) -> Iterator[Any]:
    """Arrow record batches of ``columns``, as text; the other columns are never turned into values."""
    import pyarrow as pa
    import pyarrow.csv as arrow_csv

    ragged: list[str] = []

    def refuse_ragged(row: Any) -> str:
        # Arrow counts the header as row 1.
        where = "" if row.number is None else f" in data row {row.number - 1}"
        ragged.append(
            f"{path.name} has a line of another length than its header{where}: {row.expected_columns} fields "
            f"are accepted, not {row.actual_columns}."
        )
        return "error"

    with arrow_faults(path.name, "CSV"):
        stream = _open(path)
    with closing(stream):
        counted = _QuoteCounter(stream)
        with arrow_faults(path.name, "CSV", ragged):
            batches = arrow_csv.open_csv(
                pa.PythonFile(counted, mode="r"),
                # One thread, or Arrow does not know at which row it stands.
                read_options=arrow_csv.ReadOptions(use_threads=False, block_size=_PARSE_BYTES),
                parse_options=arrow_csv.ParseOptions(
                    newlines_in_values=True,
                    # In a table of one column an empty line is an empty cell.
                    ignore_empty_lines=len(header) > 1,
                    invalid_row_handler=refuse_ragged,
                ),
                convert_options=arrow_csv.ConvertOptions(
                    include_columns=list(columns),
                    column_types={name: pa.string() for name in columns},
                    strings_can_be_null=False,
                    check_utf8=False,  # a cell that is no text spells no number and no category either
                ),
            )
        with batches:
            while True:
                with arrow_faults(path.name, "CSV", ragged):
                    batch = next(batches, None)
                if batch is None:
                    break
                yield batch
        # Arrow takes all that follows a quote that is never closed for one value, and the records in it are
        # lost without a word.
        if counted.quotes % 2:
            raise BadInput(
                f"{path.name} has an odd number of double quotes, so a value is never closed; a quote inside "
                'a value is accepted as "" within quotes.'
            )


def quoted(text: str) -> str:
    """``text`` as one CSV field, in quotes only where it needs them."""
    # A space at an end might get lost, and a byte-order mark be taken for that of the file.
    if text == "" or text != text.strip(" \t\ufeff") or any(mark in text for mark in ',"\r\n'):
        return '"' + text.replace('"', '""') + '"'
    return text


def _open(path: Path) -> Any:
    import pyarrow as pa

    return pa.input_stream(str(path), compression="gzip" if path.name.lower().endswith(".gz") else None)


class _QuoteCounter:
    """A readable file that counts the double quotes passing through it."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self.quotes = 0
        self.closed = False

    def read(self, count: int = -1) -> bytes:
        data: bytes = self._stream.read(count)
        self.quotes += data.count(b'"')
        return data

    def close(self) -> None:
        self.closed = True
