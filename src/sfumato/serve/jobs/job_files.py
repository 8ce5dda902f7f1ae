"""The files of a job, which are private and lie in the data folder from its acceptance to its end."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterable
from pathlib import Path

from sfumato.io.atomic import sync
from sfumato.serve.auth.access_rules import is_id

__all__ = ["JobFiles"]

_ALONE_SECONDS = 3600.0


class JobFiles:
    """Folders inside ``place``, one for each time that the files of a job were brought, the newest counts.

    In it is a folder for each of the files.
    """

    def __init__(self, place: Path, work: Path) -> None:
        self._place, self._work = place, work

    def new(self, job: str) -> Path:
        """A folder for the files of ``job``, newer than those it has."""
        folder = self._place / f"{job}-{time.time_ns():020d}"
        folder.mkdir(mode=0o700)
        return folder

    def take(self, into: Path, part: str, file: Path, beside: Path | None = None) -> Path:
        """Have ``file`` in a folder of ours, also after a power cut, and ``beside``, a certificate, with it.

        What lies in the work folder is moved, all else copied.
        """
        folder = into / part
        folder.mkdir(mode=0o700)
        for one in (file, beside):
            if one is None:
                continue
            taken = folder / one.name
            if self._work in one.parents:
                os.replace(one, taken)
            else:
                shutil.copyfile(one, taken)
            sync(taken)
        for made in (folder, into, self._place):
            sync(made)
        return folder / file.name

    def find(self, job: str, part: str) -> Path | None:
        """The file of this part, if it is there."""
        newest = max(self.of(job), default=None)
        if newest is None or not (newest / part).is_dir():
            return None
        return next((one for one in (newest / part).iterdir() if not one.name.endswith(".cert.json")), None)

    def there(self, job: str) -> bool:
        """Whether the job still has files."""
        return bool(self.of(job))

    def of(self, job: str) -> list[Path]:
        """The folders of a job that there are now."""
        return list(self._place.glob(f"{job}-*"))

    def all(self) -> list[tuple[str, Path]]:
        """All folders, each with its job."""
        named = [(folder.name.partition("-")[0], folder) for folder in self._place.iterdir()]
        return [(job, folder) for job, folder in named if is_id(job)]

    def remove(self, folders: Iterable[Path]) -> None:
        """Let folders of ours be gone."""
        for folder in folders:
            shutil.rmtree(folder, ignore_errors=True)

    def is_old(self, folder: Path) -> bool:
        """Whether it is there for so long that whoever brought its files is gone."""
        try:
            return time.time() - folder.stat().st_mtime > _ALONE_SECONDS
        except FileNotFoundError:
            return False
