"""Uploads of REST requests: whole bodies, form parts, or records as JSON, and their OpenAPI schemas.

Records sent as JSON in place of a file are released and returned as JSON.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, TypeVar

import numpy as np
from fastapi import Header, Query, Request
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from sfumato.errors import BadInput
from sfumato.io import Schema, kind_of, open_array, single_names
from sfumato.release import ReleaseRequest
from sfumato.serve.authentication import ApiKey
from sfumato.serve.refusals import TooLarge
from sfumato.serve.release_store import Release, StoredRelease
from sfumato.serve.rest.rest_requests import Parts, announced, is_form, malformed, media_type, received, whole
from sfumato.serve.service import Description, Service, checked
from sfumato.serve.uploads import MOST_WORDS, direct_limit, file_name, for_jobs, private_file

#: What such a body may have: values take far more memory than their digits. Larger ones are files.
MOST_BYTES = 2 << 20
_MOST_VALUES, _MOST_COLUMNS, _MOST_AXES = 200_000, 1_000, 8
# What is answered: digits of a number with what stands around them, and all bytes.
_NUMBER, _MOST_ANSWER = 25, 16 << 20
# The types of the values of a column.
_COLUMNS = ({str}, {bool}, {int}, {float}, {int, float})
_NO_ARRAY = (
    "the array must be a list for each record, all of as many numbers, or of as many such lists; none is "
    f"empty, and they are at most {_MOST_AXES} deep."
)

_Made = TypeVar("_Made")
# What is kept in memory until it is worked on.
_SMALL = 1 << 20
_FILE: Mapping[str, Any] = {"type": "string", "contentMediaType": "application/octet-stream"}
#: A file as a whole body, for the OpenAPI document.
BINARY: Mapping[str, Any] = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
#: The part of a form that says how to release a file.
DESCRIPTION: dict[str, Any] = {"$ref": "#/components/schemas/Description"}
#: The name of a file that is the whole body.
Named = Annotated[
    str | None,
    Query(
        alias="name",
        description="The file's name; its suffix says what it is. A file in a form has its own.",
        max_length=200,
    ),
]
#: What is asked for, where the file is the whole body.
Asked = Annotated[
    str | None,
    Query(description="How to release it: JSON as the schema Description says.", max_length=MOST_WORDS),
]
#: A request that may be repeated.
Key = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        description="A request that may be repeated: charged once, the same bytes.",
        min_length=1,
        max_length=128,
    ),
]


class Rows(BaseModel):
    """Records to release, either as an ``array`` of rows of numbers or as a ``table`` by columns."""

    model_config = ConfigDict(extra="forbid")

    asked: Description = Field(default_factory=lambda: Description.model_validate({}))
    array: list[Any] | None = Field(
        None, description="One list for each record, all of as many numbers, or of as many such lists."
    )
    table: dict[str, list[Any]] | None = Field(
        None, description="Columns of as many values each: numbers, words, or true and false."
    )


class ReleasedRows(BaseModel):
    """Released records, in the form in which they came, and their statement.

    An array of more than 16 MiB is left out: ``…/releases/R/content`` has its file.
    """

    release: Release
    array: list[Any] | None = None
    table: dict[str, list[Any]] | None = None


def are_rows(request: Request, named: str | None) -> bool:
    """Return whether the body of ``request`` is records as JSON, and not a file, which would be ``named``."""
    return named is None and media_type(request) == "application/json"


def rows_file(content: bytes, folder: Path) -> tuple[Path, Description]:
    """Write the records of a JSON body to a file in ``folder``; return it with how to release it.

    Raise if the released table could be more than 16 MiB of JSON.
    """
    rows = checked("the body", Rows, content)
    json.loads(content, object_pairs_hook=single_names)  # of two columns of one name one would be lost
    if len(rows.asked.model_dump_json()) > MOST_WORDS:
        raise BadInput(f"asked has more than {MOST_WORDS:,} characters, the most that is taken.")
    if (rows.array is None) == (rows.table is None):
        raise BadInput("the body has records either as an array or as a table.")
    if rows.array is not None:
        values = _numbers(rows.array)
        with private_file(folder / "rows.npz") as file:
            np.savez_compressed(file, X=values)
        return folder / "rows.npz", rows.asked
    assert rows.table is not None
    import pyarrow.parquet as pq

    table = _columns(rows.table)
    _require_small(table.num_rows, rows.asked.request().declared())
    with private_file(folder / "rows.parquet") as file:
        pq.write_table(table, file)
    return folder / "rows.parquet", rows.asked


def released_rows(done: StoredRelease) -> ReleasedRows:
    """Return the records of a release of such a file."""
    shown = Release(**done.to_dict())
    if kind_of(done.file) == "array":
        source = open_array(done.file)
        if math.prod(source.shape) * _NUMBER > _MOST_ANSWER:
            return ReleasedRows(release=shown)
        return ReleasedRows(release=shown, array=np.concatenate(list(source.blocks())).tolist())
    import pyarrow.parquet as pq

    return ReleasedRows(release=shown, table=pq.read_table(done.file).to_pydict())


def _numbers(values: list[Any]) -> NDArray[np.float64]:
    shape: list[int] = []
    level: list[Any] = [values]
    while all(isinstance(one, list) for one in level):
        shape.append(len(level[0]))
        if len(shape) > _MOST_AXES or shape[-1] == 0 or any(len(one) != shape[-1] for one in level):
            raise BadInput(_NO_ARRAY)
        level = list(chain.from_iterable(level))
        _require_few(len(level))
    if len(shape) < 2 or not all(type(one) in (int, float) for one in level):
        raise BadInput(_NO_ARRAY)
    try:
        found = np.array(level, dtype=np.float64)
    except OverflowError:
        found = np.array([math.inf])
    if not np.isfinite(found).all():
        raise BadInput("a number of the array is not finite, or larger than a number may be.")
    return found.reshape(shape)


def _columns(columns: dict[str, list[Any]]) -> Any:
    import pyarrow as pa

    if not columns or len({len(column) for column in columns.values()}) != 1:
        raise BadInput("the table must have columns, all of as many values.")
    if len(columns) > _MOST_COLUMNS:
        raise BadInput(
            f"the table has more than {_MOST_COLUMNS:,} columns; send a file, which may have more."
        )
    _require_few(sum(map(len, columns.values())))
    for index, column in enumerate(columns.values()):
        if {type(value) for value in column} not in _COLUMNS:
            raise BadInput(f"column {index + 1} of the table must be numbers, or words, or true and false.")
    try:
        return pa.table(columns)
    except (pa.ArrowException, OverflowError, UnicodeEncodeError):
        raise BadInput("the table has a number that is too large, or a word that is no text.") from None


def _require_few(values: int) -> None:
    if values > _MOST_VALUES:
        raise TooLarge(
            f"records as JSON have at most {_MOST_VALUES:,} values; send a file, which may have more."
        )


def _require_small(rows: int, schema: Schema | None) -> None:
    """Raise if a table has words so long that the answer could exceed its limit."""
    columns = () if schema is None else schema.released
    longest = sum(max(_NUMBER, *map(len, map(json.dumps, one.spellings())), 0) for one in columns)
    if rows * longest > _MOST_ANSWER:
        raise TooLarge(
            f"what is released could be more than {_MOST_ANSWER:,} bytes of JSON; send a file, which may be."
        )


@dataclass
class Form:
    """An uploaded form: files by part name, words, and whether records replaced the file."""

    files: dict[str, Path] = field(default_factory=dict)
    words: dict[str, str] = field(default_factory=dict)
    rows: bool = False


async def form_of(
    request: Request,
    folder: Path,
    limit: int,
    *,
    files: Collection[str],
    words: Collection[str],
    names: Mapping[str, str] | None = None,
) -> Form:
    """Return the form in the body of ``request``, with these parts, each at most once, files in ``folder``.

    A file keeps the client's name, or the one that ``names`` has for its part. Refused are parts of other
    names, empty files, more than ``limit`` bytes, and words longer than 100,000 bytes.
    """
    parts = _Asked(folder, limit, files, words, names or {})
    await parts.read(request)
    for part, file in parts.form.files.items():
        if file.stat().st_size == 0:
            raise BadInput(f"the part {part} is empty; it must be a file.")
    return parts.form


class _Asked(Parts):
    most_word = MOST_WORDS

    def __init__(
        self,
        folder: Path,
        limit: int,
        files: Collection[str],
        words: Collection[str],
        names: Mapping[str, str],
    ) -> None:
        super().__init__(limit)
        self.form = Form()
        self._folder, self._files, self._words, self._names = folder, files, words, names

    def place(self, part: str, called: str | None) -> Path | None:
        if part not in self._files and part not in self._words:
            raise malformed(f"its parts are {', '.join((*self._files, *self._words))}")
        if part in self.form.files or part in self.form.words:
            raise malformed(f"there are two parts {part}")
        if part not in self._files:
            return None
        self.form.files[part] = self._folder / part / file_name(self._names.get(part, called or ""))
        return self.form.files[part]

    def word(self, part: str, called: str | None, text: bytes) -> None:
        try:
            self.form.words[part] = text.decode()
        except UnicodeDecodeError:
            raise BadInput(f"the part {part} is no text in UTF-8.") from None


async def uploaded(
    request: Request,
    service: Service,
    asking: ApiKey,
    named: str | None,
    words: Mapping[str, str | None],
    work: Callable[[Form], _Made],
    *,
    late: str | None = None,
) -> _Made:
    """Run ``work`` in a thread on the file (the part ``file``) and the words of ``request``.

    Return its result.

    A file that is the whole body must be ``named``, and ``words`` are those of the query. In a form both may
    be parts instead, and if ``asked`` is among the words, records may come as JSON. Everything uploaded is
    removed when the work is done. With ``late``, as in :meth:`Direct.done`, the request has the time and size
    limits of a synchronous one.
    """
    given = {name: value for name, value in words.items() if value is not None}
    with ExitStack() as brought:
        limit = service.settings.body_bytes if late is None else direct_limit(service.settings)
        if "asked" in words and are_rows(request, named):
            doing = await _records(request, service, asking, given, work, limit)
        else:
            with for_jobs(limit, service.settings):
                doing = await _brought(request, service, named, given, words, work, brought, limit)
        return await service.direct.done(asking.tenant, doing, brought.pop_all(), late=late)


async def _brought(
    request: Request,
    service: Service,
    named: str | None,
    given: dict[str, str],
    words: Collection[str],
    work: Callable[[Form], _Made],
    brought: ExitStack,
    limit: int,
) -> Callable[[], _Made]:
    """Return ``work`` bound to what ``request`` brings, which ``brought`` removes."""
    if is_form(request):
        folder = brought.enter_context(service.folder())
        names = {} if named is None else {"file": named}
        form = await form_of(request, folder, limit, files=("file",), words=tuple(words), names=names)
        if "file" not in form.files:
            raise BadInput("the form has no part file, which is the file to work on.")
        for name in given.keys() & form.words.keys():
            raise BadInput(f"`{name}` is in the query and in the form; once is enough.", parameter=name)
        form.words |= given
        return partial(work, form)
    if named is None:
        raise BadInput("the file needs a name, as in ?name=X.npz; its suffix says what it is.")
    name = file_name(named)
    if announced(request) <= _SMALL:
        return partial(_placed, await whole(request, limit), service, name, given, work)
    folder = brought.enter_context(service.folder())
    await received(request, folder / name, limit)
    return partial(work, Form({"file": folder / name}, given))


async def _records(
    request: Request,
    service: Service,
    asking: ApiKey,
    given: Collection[str],
    work: Callable[[Form], _Made],
    limit: int,
) -> Callable[[], _Made]:
    """Return ``work`` bound to the records that the body of ``request`` holds as JSON."""
    for name in given:
        raise BadInput(
            f"`{name}` belongs into the body, beside the records, and not into the query.", parameter=name
        )
    most = min(limit, MOST_BYTES)
    try:
        content = await whole(request, most)
    except TooLarge:
        raise TooLarge(
            f"records as JSON have at most {most:,} bytes; send a file, which may have more."
        ) from None
    return partial(_rows, content, service, asking, work)


def described(sent: Form) -> ReleaseRequest:
    """Return the release request in the words of a form."""
    return checked("asked", Description, sent.words.get("asked", "{}")).request()


def _placed(
    content: bytes, service: Service, name: str, words: dict[str, str], work: Callable[[Form], _Made]
) -> _Made:
    """Write ``content`` to a file and run ``work`` on it, in the same thread."""
    with service.body(name) as place:
        with private_file(place) as file:
            file.write(content)
        return work(Form({"file": place}, words))


def _rows(content: bytes, service: Service, asking: ApiKey, work: Callable[[Form], _Made]) -> _Made:
    """Run ``work`` on records, and count the bytes of the body beyond those of the records' file."""
    with service.folder() as folder:
        uncounted = len(content)
        try:
            place, asked = rows_file(content, folder)
            uncounted = max(0, uncounted - place.stat().st_size)
        finally:
            service.registry.charge(asking.tenant, requests=0, bytes=uncounted)
        return work(Form({"file": place}, {"asked": asked.model_dump_json()}, rows=True))


def body_of(**words: Mapping[str, Any]) -> dict[str, Any]:
    """Return the OpenAPI schema of a body: a file, a form with a file and ``words``, or records."""
    content = dict(BINARY) | form_body({"file": True}, words)["requestBody"]["content"]
    if "asked" in words:
        content["application/json"] = {"schema": {"$ref": "#/components/schemas/Rows"}}
    return {"requestBody": {"content": content, "required": True}}


def form_body(files: Mapping[str, bool], words: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the OpenAPI schema of a form; ``files`` says which files are required."""
    schema = {
        "type": "object",
        "properties": {name: dict(_FILE) for name in files}
        | {name: dict(one) for name, one in words.items()},
        "required": [name for name, needed in files.items() if needed],
        "additionalProperties": False,
    }
    encoding = {name: {"contentType": "application/json"} for name, one in words.items() if "$ref" in one}
    content: dict[str, Any] = {"schema": schema} | ({"encoding": encoding} if encoding else {})
    return {"requestBody": {"content": {"multipart/form-data": content}, "required": True}}
