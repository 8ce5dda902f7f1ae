"""A folder of pictures, sounds and videos: each file by itself, paid for once, with a signed manifest last.

A file that cannot be released is left out and named with its reason; the others go on. What was wrong with
a file depends on its content, so it is told to whoever runs the release and stands in no output.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sized
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any

from sfumato.errors import BadInput, SfumatoError
from sfumato.io.atomic import write_whole
from sfumato.noise import each_block
from sfumato.pipeline.manifest import MANIFEST, manifest_of
from sfumato.pipeline.media import Paid, pay_for, write_release
from sfumato.pipeline.media_file import MediaFile
from sfumato.pipeline.payment import Payment
from sfumato.pipeline.protected import Protected, Report
from sfumato.pipeline.together import check_charge, together
from sfumato.privacy import Statement, Unit
from sfumato.report import SigningKey

__all__ = ["ProtectedFolder", "count_of", "media_in", "open_folder", "protect_folder", "refuse_nothing"]


@dataclass(frozen=True)
class ProtectedFolder:
    """What ``protect`` made of a folder: the released files, those left out with the reason, the manifest."""

    output: Path
    released: tuple[Protected, ...]
    skipped: tuple[tuple[str, str], ...]
    manifest: Protected

    @property
    def statement(self) -> Statement:
        """What all released files together state."""
        return self.manifest.statement

    def to_dict(self) -> dict[str, Any]:
        """As JSON values, for machines."""
        whole = self.manifest.to_dict()
        return whole | {
            "output": str(self.output),
            "manifest": str(self.manifest.output),
            "released": [
                {"file": str(done.output.relative_to(self.output)), "what": done.what}
                for done in self.released
            ],
            "skipped": [{"file": name, "why": why} for name, why in self.skipped],
        }


def media_in(folder: Path) -> list[Path]:
    """The files under ``folder``, relative to it and in order; not the hidden ones."""
    found = []
    for place, folders, names in os.walk(folder, onerror=_refuse_shut):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        found += [Path(place, name).relative_to(folder) for name in sorted(names) if name[0] != "."]
    if not found:
        raise BadInput(f"the folder {folder.name or folder} holds no files.")
    return found


def open_folder(
    folder: Path, opener: Callable[[Path, str], MediaFile], output: Path | None = None
) -> tuple[dict[Path, MediaFile], dict[Path, str]]:
    """The files of media under ``folder``, and the others with the reason; by name, relative to it.

    A file whose release would not fit its place under ``output`` is one of the others.
    """
    files: dict[Path, MediaFile] = {}
    skipped: dict[Path, str] = {}
    for name in media_in(folder):
        try:
            if (folder / name).is_symlink():
                raise BadInput(f"{name.name} is a link, which is not followed.")
            file = opener(folder / name, name.as_posix())
            if output is not None:
                file.fits(output / name)
        except SfumatoError as error:
            skipped[name] = str(error)
        else:
            files[name] = file
    return files, skipped


def protect_folder(
    folder: Path,
    output: Path,
    opener: Callable[[Path, str], MediaFile],
    *,
    unit: Unit | None = None,
    payment: Payment,
    signer: SigningKey | None,
    report: Report,
) -> ProtectedFolder:
    """Release every file of media under ``folder`` at the same place under ``output``, which is made.

    ``opener`` makes a :class:`MediaFile` of a path and its name in the folder. ``unit`` is the headline.
    """
    _check_places(folder, output)
    files, skipped = open_folder(folder, opener, output)
    names = sorted([*files, *skipped])
    if payment.ledger is not None:
        # What is paid for is known to be readable: bad input never spends budget.
        _each(files, skipped, lambda name, file: file.check(_silent), "checking", report)
    refuse_nothing(folder, files, skipped)
    statements = [file.statement for file in files.values()]
    if payment.ledger is not None and payment.ledger.names():
        check_charge([name.name for name in files], statements, payment)
    stated = together(statements, unit)
    notes, paid = pay_for(list(files.values()), stated, payment, f"{output.name}, {count_of(files)}")
    made: dict[Path, Protected] = {}

    def release(name: Path, file: MediaFile) -> None:
        target = output / name
        target.parent.mkdir(parents=True, exist_ok=True)
        made[name] = write_release(
            file,
            target,
            notes=notes,
            dataset=payment.dataset,
            paid=paid,
            keep=lambda sealed: sealed,
            signer=signer,
            report=_silent,
        )

    output.mkdir(parents=True, exist_ok=True)
    _each(files, skipped, release, "drawing", report)
    refuse_nothing(folder, made, skipped)
    released = tuple(made[name] for name in names if name in made)
    stated = together([one.statement for one in released], unit)
    manifest = _write_manifest(output, released, stated, payment, paid, signer)
    return ProtectedFolder(
        output, released, tuple((str(name), skipped[name]) for name in names if name in skipped), manifest
    )


def _each(
    files: dict[Path, MediaFile],
    skipped: dict[Path, str],
    work: Callable[[Path, MediaFile], None],
    stage: str,
    report: Report,
) -> None:
    """``work`` on every file, on all processors; what is refused goes from ``files`` to ``skipped``."""
    names, lock, done = list(files), Lock(), 0

    def one(index: int) -> None:
        nonlocal done
        name = names[index]
        try:
            work(name, files[name])
        except SfumatoError as error:
            skipped[name] = str(error)
        with lock:
            done += 1
            report(stage, done / len(names))

    each_block(one, len(names))
    for name in skipped:
        files.pop(name, None)


def _write_manifest(
    output: Path,
    released: tuple[Protected, ...],
    statement: Statement,
    payment: Payment,
    paid: Paid,
    signer: SigningKey | None,
) -> Protected:
    done = Protected(
        output / MANIFEST,
        statement,
        len(released),
        max(one.columns for one in released),
        (),
        payment.dataset,
        paid,
        what=count_of(released),
    )
    first = done.certificate_file, lambda written: payment.keep(paid, done.certified(written, signer))
    write_whole(done.output, manifest_of(output, [one.output for one in released]), first=first)
    return done


def count_of(files: Sized) -> str:
    """How many they are, for people."""
    return "1 file" if len(files) == 1 else f"{len(files):,} files"


def refuse_nothing(folder: Path, files: Mapping[Path, Any], skipped: Mapping[Path, str]) -> None:
    """Refuse a ``folder`` without ``files`` that can be released; one of those ``skipped`` says why."""
    if files:
        return
    name, why = next(iter(skipped.items()))
    others = f" ({len(skipped) - 1} more were refused too)" if len(skipped) > 1 else ""
    raise BadInput(f"nothing in {folder.name or folder} can be released: {name}: {why.rstrip('.')}{others}.")


def _refuse_shut(error: OSError) -> None:
    raise BadInput(f"the folder {Path(error.filename).name} cannot be read: {error.strerror}.")


def _check_places(folder: Path, output: Path) -> None:
    inside, outside = output.resolve(), folder.resolve()
    if inside == outside or inside.is_relative_to(outside) or outside.is_relative_to(inside):
        raise BadInput(
            f"the output {output} and the folder {folder} lie in one another; choose another output."
        )
    if output.exists() and not output.is_dir():
        raise BadInput(f"{output} exists and is not a folder, so the files of {folder.name} cannot go there.")


def _silent(stage: str, share: float | None) -> None:
    """Progress within one of many files, which nobody is told."""
