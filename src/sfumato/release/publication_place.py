"""Where a publication may stand, and where what is private about it may not."""

from __future__ import annotations

import os
import re
from pathlib import Path

from sfumato.errors import BadInput
from sfumato.io.atomic import atomic_output
from sfumato.io.image_datasets import is_archive
from sfumato.noise import Randomness
from sfumato.release.output_lock import check_output
from sfumato.reports import certificate_file

__all__ = [
    "PRIVATE",
    "check_apart",
    "check_new_folder",
    "check_page",
    "check_places",
    "drawn_coins",
    "keep_coins",
]

#: The mode of files that show or describe private records.
PRIVATE = 0o600

_SEED_BITS = 128
_SEED = re.compile(rb"([0-9a-f]{32})\n?")


def check_places(source: Path, output: Path, page: Path | None, checkpoint: Path | None) -> None:
    """Refuse places where nothing can be written, or where one thing would stand in another.

    The report and the checkpoint are private: neither may stand inside the output.
    """
    check_apart(source, output)
    if is_archive(output):
        check_output(output, [source])
    else:
        check_new_folder(output)
    inside, given = output.resolve(), source.resolve()
    if page is not None:
        check_page(source, output, page)
    if checkpoint is not None:
        if checkpoint.is_dir():
            raise BadInput(f"`checkpoint` {checkpoint} is a folder: name a file.", parameter="checkpoint")
        for private in (checkpoint, _coins_of(checkpoint)):
            _private("checkpoint", private, inside, given)
            if page is not None and page.resolve() == private.resolve():
                raise BadInput(
                    f"`report` {page} and `checkpoint` {checkpoint} would be one file; name two.",
                    parameter="report",
                )


def check_apart(source: Path, output: Path) -> None:
    """Refuse an output that is the input, or of which one would stand in the other."""
    inside, given = output.resolve(), source.resolve()
    if inside == given or inside.is_relative_to(given) or given.is_relative_to(inside):
        raise BadInput(f"the output {output} and {source} lie in one another; choose another output.")


def check_new_folder(output: Path) -> None:
    """Refuse a place where no folder can appear: where something stands, or nobody may write."""
    if output.exists() and (not output.is_dir() or any(output.iterdir())):
        fault = "holds files already" if output.is_dir() else "exists and is not a folder"
        raise BadInput(f"{output} {fault}; choose another output, or remove it first.")
    check_output(output.with_name(output.name + ".folder"), [])


def check_page(source: Path, output: Path, page: Path) -> None:
    """Refuse a report that is no HTML file, or would stand in the input or the output."""
    if page.suffix != ".html":
        raise BadInput(f"`report` {page.name} must name an .html file.", parameter="report")
    _private("report", page, output.resolve(), source.resolve())


def drawn_coins(randomness: Randomness, checkpoint: Path | None) -> int:
    """What the choice of the records that are left out is drawn from; nothing is written.

    It is what was kept beside a ``checkpoint``, if anything was: a fit that goes on must go on with the same
    records.
    """
    if checkpoint is not None and os.path.lexists(kept := _coins_of(checkpoint)):
        wrong = f"{kept.name} does not hold the coins of a fit; remove it together with {checkpoint.name}."
        try:
            if not kept.is_file():  # opening a pipe would wait for ever
                raise BadInput(wrong)
            with kept.open("rb") as file:
                found = _SEED.fullmatch(file.read(64))
        except OSError as error:
            raise BadInput(f"{kept.name} cannot be read: {error.strerror or error}.") from None
        if found is None:
            raise BadInput(wrong)
        return int(found[1], 16)
    return randomness.stream(b"publication canaries").integer(_SEED_BITS)


def keep_coins(seed: int, checkpoint: Path) -> None:
    """Keep ``seed`` beside ``checkpoint``, for its owner alone."""
    with atomic_output(_coins_of(checkpoint), mode=PRIVATE) as file:
        file.write(f"{seed:032x}\n".encode("ascii"))


def _coins_of(checkpoint: Path) -> Path:
    return checkpoint.with_name(checkpoint.name + ".coins")


def _private(parameter: str, path: Path, output: Path, source: Path) -> None:
    place = path.resolve()
    if place in (output, certificate_file(output)) or place.is_relative_to(output):
        raise BadInput(
            f"`{parameter}` {path} is private, and would be published with {output.name}.",
            parameter=parameter,
        )
    if place == source or place.is_relative_to(source):
        raise BadInput(
            f"`{parameter}` {path} would stand in the input {source.name}; choose another place.",
            parameter=parameter,
        )
    check_output(path, [])
