"""The files of a job, which are private and lie in the data folder from its acceptance to its end."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

from sfumato.io.atomic import sync
from sfumato.serve.access import is_id

__all__ = ["JobFiles"]

_ALONE_SECONDS = 3600.0


class JobFiles:
    """Folders inside ``place``, one a job, with a folder for each of its files."""

    def __init__(self, place: Path, work: Path) -> None:
        self._place, self._work = place, work

    def take(self, job: str, part: str, file: Path, beside: Path | None = None) -> Path:
        """Have ``file`` for the job, also after a power cut; ``beside``, a certificate, is kept beside it.

        What lies in the work folder is moved, all else copied.
        """
        folder = self._place / job / part
        folder.parent.mkdir(mode=0o700, exist_ok=True)
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
        for made in (folder, folder.parent, self._place):
            sync(made)
        return folder / file.name

    def find(self, job: str, part: str) -> Path | None:
        """The file of this part, if it is there."""
        folder = self._place / job / part
        if not folder.is_dir():
            return None
        return next((one for one in folder.iterdir() if not one.name.endswith(".cert.json")), None)

    def there(self, job: str) -> bool:
        """Whether the job still has files."""
        return (self._place / job).is_dir()

    def remove(self, job: str) -> None:
        """Let the files of a job be gone."""
        shutil.rmtree(self._place / job, ignore_errors=True)

    def of_jobs(self) -> list[str]:
        """The jobs that have files."""
        return [folder.name for folder in self._place.iterdir() if is_id(folder.name)]

    def is_old(self, job: str) -> bool:
        """Whether its files are there for so long that whoever brought them is gone."""
        try:
            return time.time() - (self._place / job).stat().st_mtime > _ALONE_SECONDS
        except FileNotFoundError:
            return False
