"""What stands in an output that no manifest lists: refused before a run, named where a run was stopped."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager

from sfumato.errors import BadInput, SfumatoError
from sfumato.io.stores import Store
from sfumato.release.manifest import MANIFEST, some, unlisted

__all__ = ["refuse_foreign", "telling_what_stays"]


def refuse_foreign(output: Store, own: Collection[str]) -> None:
    """Refuse an ``output`` with files other than those called ``own``, their certificates and the manifest.

    They would stand among the files of a release to which they do not belong. ``own`` are the files that
    this run may have left before it was cut off: those of a request, which gives the same bytes again.
    """
    foreign = unlisted(output.held(), own)
    if foreign:
        raise BadInput(
            f"{output.shown} holds files that are not of this run, {some(foreign)}; choose another output, "
            "or remove them first."
        )


@contextmanager
def telling_what_stays(output: Store, names: Iterable[str], *, exact: bool) -> Iterator[None]:
    """Note on what stops the block from outside (a signal) how many of ``names`` stand without a manifest.

    No note where none does, or where the manifest of the run stands already. ``exact`` says that nobody goes
    on writing.
    """
    try:
        yield
    except Exception:
        raise
    except BaseException as stop:
        try:
            held = set(output.held())
        except SfumatoError:
            stop.add_note(f"what stands in {output.shown} without a manifest belongs to no release")
            raise stop from None
        count = len(held.intersection(names))
        if count and MANIFEST not in held:
            one = count == 1
            files = f"{count:,} {'file' if one else 'files'}" + ("" if exact else " or more")
            stand, belong = ("stands", "belongs") if one and exact else ("stand", "belong")
            stop.add_note(f"{files} {stand} in {output.shown} without a manifest and {belong} to no release")
        raise
