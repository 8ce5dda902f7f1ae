"""Checkpoints of training: whole or not there, and of no use to another model or another dataset.

A checkpoint holds private information: weights that were trained on the private pictures, and a digest of
them. It belongs beside the private data and is never part of a release. Its file can be read by its owner
only (mode 0600). It holds tensors and plain values, and is read without running anything that is in it.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.mechanisms.parameters import shown

__all__ = ["Checkpoint", "fingerprint"]

# Raised whenever what is inside changes its meaning.
FORMAT = 1


def fingerprint(pictures: NDArray[np.float32], labels: NDArray[np.int64]) -> str:
    """A digest of a dataset: the same pictures and labels in the same order, and no others, have it."""
    digest = hashlib.sha256(repr((pictures.shape, labels.shape)).encode())
    digest.update(np.ascontiguousarray(pictures).data)
    digest.update(np.ascontiguousarray(labels).data)
    return digest.hexdigest()


@dataclass(frozen=True)
class Checkpoint:
    """A file at ``path`` for training that is described by ``identity``: its architecture and its data."""

    path: Path
    identity: Mapping[str, Any]

    def read(self) -> dict[str, Any] | None:
        """What was written last, or None where there is no file yet.

        Raises:
            BadInput: If the file is no checkpoint, damaged, or one of another architecture or dataset.
        """
        try:
            content = torch.load(self.path, map_location="cpu", weights_only=True)
        except FileNotFoundError:
            return None
        except Exception as error:
            # Damaged bytes are answered with whatever they happen to break, an IndexError among others.
            raise BadInput(
                f"{self.path} cannot be read as a checkpoint: give the path of one, or of no file yet."
            ) from error
        found = content.get("identity") if isinstance(content, dict) else None
        if not isinstance(found, dict) or not _same(content.get("format"), FORMAT):
            raise BadInput(f"{self.path} is no checkpoint of this version: give another path.")
        for name, value in self.identity.items():
            held = found.get(name)
            if _same(held, value):
                continue
            if name == "data":
                raise BadInput(f"the checkpoint {self.path} was made from other pictures: give another path.")
            kind = shown(held).strip("'") if _plain(held) else "of another kind"
            asked = shown(value).strip("'")
            raise BadInput(
                f"the checkpoint {self.path} has {name} {kind}, and {asked} is asked for: give another path."
            )
        return dict(content)

    def damaged(self) -> BadInput:
        """What is said of a file that has the right identity, and whose other content is of no use."""
        return BadInput(f"the checkpoint {self.path} is damaged: remove it, or give another path.")

    def write(self, content: Mapping[str, Any]) -> None:
        """Replace the file as a whole; whenever this ends, the old or the new content is there, and no other.

        Raises:
            BadInput: If there is no such folder, or it cannot be written to.
        """
        # A name that nobody can have put a file or a link at, known before the file is there: whatever ends
        # this, nothing remains.
        part = self.path.parent / f".{secrets.token_hex(8)}.part"
        try:
            with os.fdopen(os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as file:
                os.fchmod(file.fileno(), 0o600)  # an umask may have taken more away
                torch.save({**content, "format": FORMAT, "identity": dict(self.identity)}, file)
                file.flush()
                os.fsync(file.fileno())
            os.replace(part, self.path)
        except (OSError, RuntimeError) as error:
            # Of a full disk torch knows only that it could not write.
            reason = getattr(error, "strerror", None) or "writing failed"
            raise BadInput(
                f"the checkpoint {self.path} cannot be written ({reason}): name a file in a folder that "
                "exists and has room."
            ) from error
        finally:
            with contextlib.suppress(OSError):
                part.unlink()


def _plain(value: Any) -> bool:
    """Whether ``value`` is what an identity is made of: a number, a word, or a list of some."""
    parts = value if isinstance(value, list) else [value]
    return len(parts) <= 8 and all(
        isinstance(part, str | float) or (isinstance(part, int) and part.bit_length() <= 64) for part in parts
    )


def _same(held: Any, value: Any) -> bool:
    """Whether what a file holds is ``value``; tensors, which answer with more than yes or no, never are."""
    return _plain(held) and type(held) is type(value) and bool(held == value)
