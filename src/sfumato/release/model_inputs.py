"""What a model is asked about, and how it becomes features: pictures by a public map, features as given."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.release.public_facts import check_range

if TYPE_CHECKING:
    from sfumato.learners import Extractor

__all__ = ["ModelInputs"]

Report = Callable[[str, float], None]
# Extractors count from black at 0 to white at 255.
_WHITE = 255.0


@dataclass(frozen=True, eq=False)
class ModelInputs:
    """Records of ``shape``: pictures with values from 0 to ``top`` for an ``extractor``, or features (d,).

    ``extractor`` and ``top`` are None where features are given.
    """

    shape: tuple[int, ...]
    extractor: Extractor | None = None
    top: float | None = None

    @property
    def dimension(self) -> int:
        """How many features one record has."""
        return math.prod(self.shape) if self.extractor is None else self.extractor.dimension

    @property
    def extractor_name(self) -> str | None:
        """What statements call the extractor: of a local folder its name, and not where it stands."""
        return None if self.extractor is None else Path(self.extractor.name).name

    @property
    def what(self) -> str:
        """What the records are, for people."""
        if self.extractor is None:
            return "records"
        return f"pictures of {' × '.join(str(side) for side in self.shape)}"

    def features(self, records: Any, report: Report | None = None) -> NDArray[np.floating]:
        """Features (n, ``dimension``) of ``records`` (n, *``shape``); each from its own record alone."""
        from sfumato.learners.examples import checked_features
        from sfumato.learners.extractor import checked_pictures

        given = np.asarray(records)
        if not given.ndim or not len(given):
            raise BadInput(f"records of shape {given.shape} were given: one or more are needed.")
        if self.extractor is None or self.top is None:
            return checked_features(given, self.dimension)
        checked_pictures(given, self.shape)
        check_range(given, self.top)
        if self.top != _WHITE:
            given = given.astype(np.float32) * np.float32(_WHITE / self.top)
        return self.extractor.transform(given, report=report)
