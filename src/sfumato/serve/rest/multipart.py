"""Forms that routes ask for: these files and these words, each once."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from fastapi import Request

from sfumato.errors import BadInput
from sfumato.serve.request_files import MOST_WORDS
from sfumato.serve.rest.multipart_parser import Parts, malformed
from sfumato.serve.service import file_name

__all__ = ["Form", "form_of"]


@dataclass
class Form:
    """What came: files by the name of their part, and words; whether records came in place of a file."""

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
    """The form in the body of ``request``, which may have these parts, each once; files lie in ``folder``.

    A file keeps the name that the client gave it, or the one that ``names`` has for its part. Refused: parts
    of other names, empty files, more than ``limit`` bytes, and words longer than 100,000 bytes.
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
