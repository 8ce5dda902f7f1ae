"""Forms of pages with files, which lie in a private folder until the request was answered."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from starlette.requests import Request

from sfumato.errors import BadInput
from sfumato.serve.pages.forms import Form
from sfumato.serve.request_files import direct_limit, for_jobs
from sfumato.serve.rest.multipart_parser import Parts, is_form
from sfumato.serve.service import Service, file_name

__all__ = ["upload_of"]

_MOST_PARTS = 60


async def upload_of(
    request: Request,
    service: Service,
    brought: ExitStack,
    certificates: tuple[str, ...] = (),
    *,
    direct: bool = False,
) -> Form:
    """The form in the body of ``request``; its files are there until ``brought`` is closed.

    Files of the fields ``certificates`` are JSON; all others must have names that can be released.
    Where the request waits for the work on them (``direct``) they may be less large.
    """
    if not is_form(request):
        raise BadInput("the body of a form with files is multipart/form-data.")
    folder = brought.enter_context(service.folder())
    limit = direct_limit(service.settings) if direct else service.settings.body_bytes
    parts = _Fields(folder, limit, certificates)
    with for_jobs(limit, service.settings):
        await parts.read(request)
    return Form(parts.fields, parts.files)


class _Fields(Parts):
    """Fields of any name, with one or several values; each file in a folder of its own, for names repeat."""

    most_word = 1 << 20

    def __init__(self, folder: Path, limit: int, certificates: tuple[str, ...]) -> None:
        super().__init__(limit)
        self.fields: dict[str, list[str]] = {}
        self.files: dict[str, Path] = {}
        self._folder, self._certificates, self._count = folder, certificates, 0

    def place(self, part: str, called: str | None) -> Path | None:
        self._count += 1
        if self._count > _MOST_PARTS:
            raise BadInput(f"a form has at most {_MOST_PARTS} fields.")
        if not called:
            return None
        if part in self.files:
            raise BadInput("one file at a time.")
        safe = "certificate.json" if part in self._certificates else file_name(called)
        self.files[part] = self._folder / str(self._count) / safe
        return self.files[part]

    def word(self, part: str, called: str | None, text: bytes) -> None:
        if called is None:  # an empty name says that no file was chosen
            self.fields.setdefault(part, []).append(text.decode("utf-8", "replace"))
