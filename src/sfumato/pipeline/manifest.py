"""The manifest of a released folder: the names and digests of its files, written last and certified."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from sfumato.errors import BadInput
from sfumato.ledger import Ledger
from sfumato.report import Check, KeyRing, Verification, file_digest, verify

__all__ = ["MANIFEST", "manifest_of", "verify_folder"]

MANIFEST = "manifest.json"


def manifest_of(folder: Path, files: Sequence[Path]) -> bytes:
    """The bytes of the manifest of ``files``, which stand under ``folder``."""
    listed = {file.relative_to(folder).as_posix(): file_digest(file) for file in files}
    return (json.dumps({"files": listed}, indent=2) + "\n").encode()


def verify_folder(folder: Path, keys: KeyRing, ledger: Ledger | None = None) -> Verification:
    """Check the manifest in ``folder`` against its certificate, and every file against the manifest."""
    found = verify(folder / MANIFEST, keys, ledger)
    try:
        listed = json.loads((folder / MANIFEST).read_text("utf-8"))["files"]
        altered = [
            name
            for name, digest in listed.items()
            if not (folder / name).is_file() or file_digest(folder / name) != digest
        ]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise BadInput(f"{MANIFEST} in {folder.name} is no manifest of released files.") from None
    if altered:
        shown = ", ".join(altered[:5]) + (f" and {len(altered) - 5} more" if len(altered) > 5 else "")
        check = Check("file", "fails", f"missing or altered since they were certified: {shown}")
    else:
        check = Check("file", "holds", f"so are those of the {len(listed)} files that it lists")
    return replace(found, checks=(*found.checks, check))
