"""A learned scorer as a detector: every tile is embedded and scored from its own pixels."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.media.detect.detector import Box, Detector
from sfumato.media.detect.learned_scorer import SensitivityScorer
from sfumato.media.detect.tile_embedding import tile_embedding
from sfumato.media.images.factors import FACTORS
from sfumato.media.images.tiles import edges, tile_grid

__all__ = ["Learned"]


class Learned(Detector):
    """``scorer``, trained on embeddings of tiles of about ``tile`` pixels, speaking of ``factor``.

    ``embedding`` maps tiles (n, h, w, c) to (n, d), each from its own pixels alone.
    """

    def __init__(
        self,
        scorer: SensitivityScorer,
        *,
        factor: str = "identity",
        tile: int = 64,
        embedding: Callable[[NDArray[Any]], NDArray[np.float64]] = tile_embedding,
    ) -> None:
        if factor not in FACTORS:
            raise BadInput(
                f"`factor` must be one of {', '.join(FACTORS)}, not {factor!r}.", parameter="factor"
            )
        self.scorer, self.tile, self.embedding = scorer, tile, embedding
        self.factor = factor

    @property
    def name(self) -> str:
        """How a statement names the detector, with the digest of what was learned."""
        return f"learned {self.factor}, sha256 {self.scorer.digest()}"

    def boxes(self, picture: NDArray[Any]) -> list[Box]:
        """One box for each tile of the picture, with its score."""
        array = picture[..., None] if picture.ndim == 2 else picture
        height, width = array.shape[:2]
        rows, cols = tile_grid(height, width, self.tile)
        scores = self.tile_scores(array[None], self.tile)[0]
        down, across = edges(height, rows), edges(width, cols)
        return [
            (float(x0), float(y0), float(x1 - x0), float(y1 - y0), float(scores[row, col]))
            for row, (y0, y1) in enumerate(pairwise(down))
            for col, (x0, x1) in enumerate(pairwise(across))
        ]

    def scores(self, tiles: NDArray[Any]) -> NDArray[np.float64]:
        """The careful score of each tile."""
        return self.scorer.scores(self.embedding(tiles))
