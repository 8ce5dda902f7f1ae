"""Checkpoints of training: whole or not there, and of no use to another model or another dataset.

A checkpoint holds private information: weights that were trained on the private pictures, and a digest of
them. It belongs beside the private data and is never part of a release. Its file can be read by its owner
only (mode 0600). It holds tensors and plain values, and is read without running anything that is in it.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import pickle
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from sfumato.errors import BadInput

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
            BadInput: If the file is no checkpoint, or one of another architecture or dataset.
        """
        try:
            content = torch.load(self.path, map_location="cpu", weights_only=True)
        except FileNotFoundError:
            return None
        except (OSError, RuntimeError, ValueError, EOFError, KeyError, pickle.UnpicklingError) as error:
            raise BadInput(
                f"{self.path} cannot be read as a checkpoint: give the path of one, or of no file yet."
            ) from error
        if not isinstance(content, dict) or content.get("format") != FORMAT:
            raise BadInput(f"{self.path} is no checkpoint of this version: give another path.")
        found = content["identity"]
        for name, value in self.identity.items():
            if found.get(name) == value:
                continue
            if name == "data":
                raise BadInput(f"the checkpoint {self.path} was made from other pictures: give another path.")
            raise BadInput(
                f"the checkpoint {self.path} has {name} {found.get(name)}, and {value} is asked for: give "
                "another path."
            )
        return content

    def write(self, content: Mapping[str, Any]) -> None:
        """Replace the file as a whole; whenever this ends, the old or the new content is there.

        Raises:
            BadInput: If there is no such folder, or it cannot be written to.
        """
        part = self.path.with_name(self.path.name + ".part")
        flags = os.O_CREAT | os.O_WRONLY | os.O_TRUNC | getattr(os, "O_NOFOLLOW", 0)
        try:
            with os.fdopen(os.open(part, flags, 0o600), "wb") as file:
                part.chmod(0o600)  # an unfinished file of before may have had another mode
                torch.save({**content, "format": FORMAT, "identity": dict(self.identity)}, file)
                file.flush()
                os.fsync(file.fileno())
            os.replace(part, self.path)
        except OSError as error:
            with contextlib.suppress(OSError):
                part.unlink()
            raise BadInput(
                f"the checkpoint {self.path} cannot be written ({error.strerror}): name a file in a folder "
                "that exists and has room."
            ) from error
