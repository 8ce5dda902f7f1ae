"""Features of a data set, kept on disk: they take longer than anything that is learned from them."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import sfumato
from sfumato.io import atomic_output
from sfumato.learners import make_extractor
from sfumato_reproductions.datasets import Dataset
from sfumato_reproductions.memory import digest
from sfumato_reproductions.regenerate import Report

__all__ = ["Features"]

_BYTES = np.float32(255.0)


class Features:
    """Files of features in ``folder``, which only their owner may read; they may be deleted at any time.

    A file is read back only for the same pictures, extractor and version.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def of(self, data: Dataset, extractor: str, report: Report) -> NDArray[np.float32]:
        """Features (n, d) of the pictures of ``data``."""
        made = make_extractor(extractor, data.shape)
        depends = {
            "pictures": hashlib.sha256(np.ascontiguousarray(data.records).tobytes()).hexdigest(),
            "shape": data.shape,
            "extractor": [made.name, made.origin, made.dimension],
            "sfumato": sfumato.__version__,
        }
        name = "".join(letter if letter.isalnum() else "-" for letter in extractor)
        file = self.folder / f"{data.name}-{name}-{digest(depends)[:16]}.npy"
        try:
            kept = np.load(file, allow_pickle=False)
            if kept.shape == (len(data.records), made.dimension) and kept.dtype == np.float32:
                return np.asarray(kept)
        except (OSError, ValueError, EOFError):
            pass
        stage = f"{data.name}: features, {extractor}"
        found = made.transform(data.pictures * _BYTES, report=lambda _, share: report(stage, share))
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with atomic_output(file, mode=0o600) as output:
            np.save(output, found)
        return found
