"""Where an output may stand, and that one run at a time writes it.

A run holds a lock of the operating system (``flock``) on a hidden file beside its output from before it pays
until its output stands. A second run is refused at once, before it pays. The lock ends with the process that
holds it, however that ends, so that a file which a killed process left behind keeps nobody out.
"""

from __future__ import annotations

import fcntl
import functools
import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar, cast

from sfumato.errors import BadInput
from sfumato.io.atomic import writing
from sfumato.reports import certificate_file

__all__ = ["check_output", "claimed", "one_run_at_a_time", "refuse_existing"]

_Run = TypeVar("_Run", bound=Callable[..., Any])


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


def refuse_existing(shown: str) -> None:
    """Refuse an output that is there already."""
    raise BadInput(f"{shown} exists already; choose another output, or replace it with `overwrite=True`.")


@contextmanager
def claimed(output: Path, *, parents: bool = False, wait: bool = False) -> Iterator[None]:
    """Keep every other run out of ``output``, a file or a folder, until the block ends.

    ``parents`` makes folders that are missing above it, which go away again if they stay empty. Without a
    folder to stand in nothing is locked: whoever writes refuses it. ``wait`` until another run has ended, in
    place of being refused, is for requests, which are paid once and give the same bytes each time.
    """
    target = Path(os.path.realpath(output))
    made = [folder for folder in target.parents if parents and not folder.exists()]
    if parents:
        with writing(output):
            target.parent.mkdir(parents=True, exist_ok=True)
    if not target.parent.is_dir():
        yield
        return
    lock = target.with_name(f".sfumato-{hashlib.sha256(os.fsencode(target.name)).hexdigest()[:16]}.lock")
    descriptor = _locked(lock, output, wait)
    try:
        yield
    finally:
        with suppress(OSError):
            lock.unlink()
        os.close(descriptor)
        for folder in made:
            with suppress(OSError):
                folder.rmdir()  # refused where anything stands in it


def one_run_at_a_time(run: _Run) -> _Run:
    """Let ``run`` have its output, the second of its arguments, for itself."""

    @functools.wraps(run)
    def alone(subject: Any, output: str | os.PathLike[str], *rest: Any, **words: Any) -> Any:
        with claimed(Path(output)):
            return run(subject, output, *rest, **words)

    return cast(_Run, alone)


def _locked(lock: Path, output: Path, wait: bool) -> int:
    """A descriptor of the file ``lock``, locked; refused where another run has it."""
    while True:
        with writing(output):
            descriptor = os.open(lock, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise BadInput(
                f"another run is writing {output.name} at this moment; wait until it has ended, or choose "
                "another output."
            ) from None
        except OSError:
            return descriptor  # a file system without locks
        # Whoever had it before may have removed the file between our opening and locking it.
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(descriptor), lock.stat()):
                return descriptor
        os.close(descriptor)
