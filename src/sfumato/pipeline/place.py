"""Where an output may stand."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from sfumato.errors import BadInput
from sfumato.report import certificate_file

__all__ = ["check_output"]


def check_output(output: Path, inputs: Sequence[str | os.PathLike[str]]) -> None:
    """Refuse a place where no output can be written, and one where it would overwrite one of ``inputs``.

    Said before the work rather than after it. The same file by another name, through a link, is refused too.
    """
    folder = output.parent
    if not folder.is_dir():
        fault = "is not a folder" if folder.exists() else "does not exist"
        raise BadInput(f"{output.name} cannot be written: the folder {folder} {fault}.")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise BadInput(f"{output.name} cannot be written: you may not write into the folder {folder}.")
    for place in (output, certificate_file(output)):
        for given in inputs:
            if place.exists() and os.path.exists(given) and os.path.samefile(given, place):
                raise BadInput(f"{place.name} would overwrite the input {given}; choose another output.")
        if place.exists() and not place.is_file():
            raise BadInput(f"{place.name} exists and is not a regular file, so nothing can take its place.")
