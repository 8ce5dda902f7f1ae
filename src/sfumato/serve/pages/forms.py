"""What a form without files brings: its fields, no more than a little, with the proof that it is ours."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qs

from starlette.requests import Request

from sfumato.errors import BadInput
from sfumato.serve.request_files import TooSlow, require_size
from sfumato.serve.rest.bounded_bodies import allow

__all__ = ["Form", "form_of"]

_MOST_BYTES = 4 << 20  # a policy of the largest size, with every character escaped
_MOST_FIELDS = 200
_SECONDS = 30.0


@dataclass(frozen=True)
class Form:
    """The ``fields`` of a form, each with its values, and where its ``files`` lie while it is answered."""

    fields: Mapping[str, Sequence[str]]
    files: Mapping[str, Path] = field(default_factory=dict)

    def text(self, name: str, default: str = "") -> str:
        """What was typed into ``name``, without spaces around it."""
        return self.fields.get(name, [default])[0].strip()

    def exact(self, name: str) -> str:
        """What a page wrote into its hidden field ``name``, with spaces around it too."""
        return self.fields.get(name, [""])[0]

    def several(self, name: str) -> list[str]:
        """Everything that was ticked under ``name``."""
        return [value for value in self.fields.get(name, []) if value]

    def number(self, name: str) -> float:
        """The number that was typed into ``name``."""
        try:
            return float(self.text(name))
        except ValueError:
            raise BadInput(f"the field `{name}` must be a number.", parameter=name) from None

    def file(self, name: str) -> Path:
        """The file that was chosen under ``name``."""
        if name not in self.files:
            raise BadInput(f"no {name} was chosen; choose one.")
        return self.files[name]

    @property
    def proof(self) -> str | None:
        """What says that the form was made for this session."""
        return self.fields.get("proof", [None])[0]


async def form_of(request: Request, most: int = _MOST_BYTES) -> Form:
    """The form in the body of ``request``, read whole: ``most`` bytes, within half a minute."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        raise BadInput("the body of a form is application/x-www-form-urlencoded.")
    allow(request, most)
    body = bytearray()

    async def read() -> None:
        async for chunk in request.stream():
            body.extend(chunk)
            require_size(len(body), most)

    try:
        await asyncio.wait_for(read(), _SECONDS)
        found = parse_qs(
            body.decode("utf-8"), keep_blank_values=True, strict_parsing=True, max_num_fields=_MOST_FIELDS
        )
    except TimeoutError:
        raise TooSlow("the form came too slowly; send it again.") from None
    except ValueError:
        raise BadInput("the form is malformed; load its page again.") from None
    return Form(found)
