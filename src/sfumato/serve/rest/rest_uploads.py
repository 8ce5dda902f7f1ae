"""Files that requests bring, as whole bodies, parts of a form or records in JSON; how these are described."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import ExitStack
from functools import partial
from typing import Annotated, Any, TypeVar

from fastapi import Header, Query, Request

from sfumato.errors import BadInput
from sfumato.serve import release_request as asked
from sfumato.serve.auth.callers import Caller
from sfumato.serve.request_files import MOST_WORDS, TooLarge, direct_limit, for_jobs, private_file
from sfumato.serve.request_models import Description, checked
from sfumato.serve.rest.bounded_bodies import announced, received, whole
from sfumato.serve.rest.json_rows import MOST_BYTES, are_rows, rows_file
from sfumato.serve.rest.multipart import Form, form_of
from sfumato.serve.rest.multipart_parser import is_form
from sfumato.serve.service import Service, file_name

__all__ = ["BINARY", "DESCRIPTION", "Asked", "Key", "Named", "body_of", "described", "form_body", "uploaded"]

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


async def uploaded(
    request: Request,
    service: Service,
    asking: Caller,
    named: str | None,
    words: Mapping[str, str | None],
    work: Callable[[Form], _Made],
    *,
    late: str | None = None,
) -> _Made:
    """What ``work`` makes, in a thread, of the file that ``request`` brings (the part ``file``) and of words.

    As a whole body the file needs to be ``named``, and ``words`` are those of the query. In a form both may
    be parts instead, and where ``asked`` is among the words, records may come as JSON. All that was brought
    is gone when the work is done. With ``late``, as in :meth:`Direct.done`, the request waits for its work no
    longer than the service says, and brings less.
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
    """The ``work`` on what ``request`` brings, which lies where ``brought`` removes it."""
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
    asking: Caller,
    given: Collection[str],
    work: Callable[[Form], _Made],
    limit: int,
) -> Callable[[], _Made]:
    """The ``work`` on records that the body of ``request`` holds as JSON."""
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


def described(sent: Form) -> asked.Asked:
    """What is asked for, with a file to release."""
    return checked("asked", Description, sent.words.get("asked", "{}")).asked()


def _placed(
    content: bytes, service: Service, name: str, words: dict[str, str], work: Callable[[Form], _Made]
) -> _Made:
    """Let ``content`` be a file, and ``work`` on it, in one and the same thread."""
    with service.body(name) as place:
        with private_file(place) as file:
            file.write(content)
        return work(Form({"file": place}, words))


def _rows(content: bytes, service: Service, asking: Caller, work: Callable[[Form], _Made]) -> _Made:
    """The same of records. The work counts the bytes of their file; what the body has beyond counts too."""
    with service.folder() as folder:
        uncounted = len(content)
        try:
            place, asked = rows_file(content, folder)
            uncounted = max(0, uncounted - place.stat().st_size)
        finally:
            service.registry.charge(asking.tenant, requests=0, bytes=uncounted)
        return work(Form({"file": place}, {"asked": asked.model_dump_json()}, rows=True))


def body_of(**words: Mapping[str, Any]) -> dict[str, Any]:
    """The description of a body: a file, a form with a file and ``words``, or records that are released."""
    content = dict(BINARY) | form_body({"file": True}, words)["requestBody"]["content"]
    if "asked" in words:
        content["application/json"] = {"schema": {"$ref": "#/components/schemas/Rows"}}
    return {"requestBody": {"content": content, "required": True}}


def form_body(files: Mapping[str, bool], words: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """The description of a form; ``files`` says which of them are needed."""
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
