"""Files that requests bring, alone as their whole body or as parts of a form; and how both are described."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from fastapi import Request

from sfumato.errors import BadInput
from sfumato.serve.rest.bodies import received
from sfumato.serve.rest.multipart import Form, form_of, is_form
from sfumato.serve.service import Service, file_name

__all__ = ["BINARY", "body_of", "form_body", "upload"]

_FILE: Mapping[str, Any] = {"type": "string", "contentMediaType": "application/octet-stream"}
#: A file as a whole body, for the OpenAPI document.
BINARY: Mapping[str, Any] = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}


@asynccontextmanager
async def upload(
    request: Request, service: Service, named: str | None, words: Mapping[str, str | None]
) -> AsyncIterator[Form]:
    """The file that ``request`` brings, as the part ``file``, and its ``words``.

    As a whole body it needs to be ``named``, and words are those of the query. In a form both may be parts
    instead. All of it is gone when the block ends.
    """
    given = {name: value for name, value in words.items() if value is not None}
    with service.folder() as folder:
        limit = service.settings.body_bytes
        if is_form(request):
            names = {} if named is None else {"file": named}
            form = await form_of(request, folder, limit, files=("file",), words=tuple(words), names=names)
            if "file" not in form.files:
                raise BadInput("the form has no part file, which is the file to work on.")
            for name in given.keys() & form.words.keys():
                raise BadInput(f"{name} is in the query and in the form; once is enough.")
            form.words |= given
            yield form
            return
        if named is None:
            raise BadInput("the file needs a name, as in ?name=X.npz; its suffix says what it is.")
        place = folder / file_name(named)
        await received(request, place, limit)
        yield Form({"file": place}, given)


def body_of(**words: Mapping[str, Any]) -> dict[str, Any]:
    """The description of a body that is a file, or a form with a file and ``words``."""
    form = form_body({"file": True}, words)["requestBody"]["content"]
    return {"requestBody": {"content": dict(BINARY) | form, "required": True}}


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
