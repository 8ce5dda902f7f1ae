"""Where a release comes from or goes to, as people write it: a file, a folder, an object, a prefix."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from sfumato.errors import BadInput
from sfumato.io import MEDIA, kind_of
from sfumato.io.formats import Kind
from sfumato.io.storage_urls import is_remote
from sfumato.io.stores import LocalStore, RemoteStore, Store
from sfumato.reports import certificate_file

__all__ = ["Located", "at_hand", "located"]


@dataclass(frozen=True)
class Located:
    """The file ``name`` of ``store``, or all of its files where that is None; ``word`` is its last name."""

    store: Store
    name: str | None
    shown: str

    @property
    def word(self) -> str:
        """Its last name, for sentences."""
        return self.shown.rstrip("/").rsplit("/", 1)[-1] or self.shown

    @property
    def kind(self) -> Kind | None:
        """What one file is, told from its name; None of a folder."""
        return None if self.name is None else kind_of(self.name)

    @property
    def of_media(self) -> bool:
        """Whether it is one file of media."""
        return self.kind in MEDIA

    @property
    def local(self) -> Path | None:
        """The path of a local file or folder."""
        if not isinstance(self.store, LocalStore):
            return None
        return self.store.folder if self.name is None else self.store.folder / self.name


def located(place: str | os.PathLike[str], *, folder: bool | None = None) -> Located:
    """What ``place`` means, a path or a URL.

    A path is a folder where it is one; a URL, whose store may know no folders, where its name has no suffix
    of a file that can be released. ``folder`` says it where that cannot be told yet; otherwise a path that
    leads nowhere is refused, unless it is named like a file, of which its reader will say so.
    """
    text = os.fspath(place)
    if is_remote(text):
        whole = _is_prefix(text) if folder is None else folder
        base, _, name = text.rstrip("/").rpartition("/")
        return Located(RemoteStore(text), None, text) if whole else Located(RemoteStore(base), name, text)
    path = Path(text)
    if folder is None and _is_prefix(text) and not path.exists():
        raise BadInput(f"{path.name or path} does not exist.")
    whole = path.is_dir() if folder is None else folder
    if whole:
        return Located(LocalStore(path), None, text)
    return Located(LocalStore(path.parent), path.name, text)


@contextmanager
def at_hand(place: str | os.PathLike[str]) -> Iterator[Path]:
    """What stands at ``place`` as a path, with what stands beside a file; a copy of what is far away.

    Of a file in an object store its certificate is brought along, of a prefix all of its files.
    """
    found = located(place)
    if found.local is not None:
        yield found.local
        return
    with tempfile.TemporaryDirectory(prefix="sfumato-") as folder, found.store as store:
        copy = Path(folder, found.word)
        names = store.names() if found.name is None else [found.name, certificate_file(Path(found.name)).name]
        for name in names:
            target = copy / name if found.name is None else copy.with_name(name)
            target.parent.mkdir(parents=True, exist_ok=True)
            with store.reading(name) as path:
                shutil.move(path, target)
        yield copy


def _is_prefix(text: str) -> bool:
    if not text.endswith("/"):
        with suppress(BadInput):
            kind_of(text)
            return False
    return True
