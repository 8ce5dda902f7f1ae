"""Lists a page at a time, newest first: the header Link says where the next one is."""

from collections.abc import Sequence
from typing import Annotated, Any, Protocol

from fastapi import Query, Request, Response

from sfumato.serve.service import MOST_AT_ONCE

__all__ = ["PAGED", "Cursor", "Limit", "link_next"]

#: How many at most.
Limit = Annotated[int, Query(ge=1, le=MOST_AT_ONCE, description="How many at most.")]
#: After which one.
Cursor = Annotated[
    str | None, Query(pattern=r"^[0-9a-f]{24}$", description="The id of the last one of the page before.")
]
#: The header of a page, for the OpenAPI document.
PAGED: dict[int | str, dict[str, Any]] = {
    200: {
        "headers": {
            "Link": {
                "description": 'With rel="next", where the next page is; not there on the last.',
                "schema": {"type": "string"},
            }
        }
    }
}


class _Identified(Protocol):
    @property
    def id(self) -> str: ...


def link_next(request: Request, response: Response, page: Sequence[_Identified], limit: int) -> None:
    """Say where the next page is, if this one is full."""
    if len(page) == limit:
        place = f"{request.url.path}?limit={limit}&cursor={page[-1].id}"
        response.headers["Link"] = f'<{place}>; rel="next"'
