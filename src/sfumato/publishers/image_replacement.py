"""Publishers that put another picture in the place of each private one, once, when they are fitted."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.mechanisms.parameters import positive
from sfumato.mechanisms.release_value import Release
from sfumato.noise import Randomness
from sfumato.privacy import Guarantee
from sfumato.publishers.labelled_images import Labelled
from sfumato.publishers.publisher import Progress, Publisher, published_randomness, whole

__all__ = ["ReplacingPublisher"]


class ReplacingPublisher(Publisher):
    """Base of publishers of which nothing is proven, and the reason is ``unproven``.

    ``top`` is the largest value of a picture. What stands in the place of the records is published in their
    order, the same however often it is asked for.
    """

    unproven: str

    def __init__(self, *, top: float = 255.0, randomness: Randomness | None = None) -> None:
        self.top = positive("top", top)
        self.randomness = published_randomness(randomness)
        self._published: tuple[NDArray[np.float32], NDArray[np.int64]] | None = None

    @abstractmethod
    def _replaced(self, data: Labelled, report: Progress) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Pictures with values in [0, 1] and their labels, in the order of the records."""

    def guarantee(self) -> Guarantee:
        """Nothing."""
        return Guarantee.nothing(self.unproven)

    def fit(self, X: Any, y: Any, *, report: Progress | None = None) -> Self:
        """Make the pictures that are published in the place of ``X`` (n, h, w[, c]) with labels ``y``."""
        data = Labelled.checked(X, y, top=self.top)
        pictures, labels = self._replaced(data, report or (lambda stage, share, facts: None))
        self._published = (np.clip(pictures, 0.0, 1.0) * np.float32(self.top), labels)
        return self

    def publish(self, n: int | None = None) -> Release:
        """The first ``n`` pictures, all without ``n``; at most as many as there are."""
        if self._published is None:
            raise BadInput("nothing has been fitted: call fit(X, y) before publish(n).")
        pictures, labels = self._published
        n = len(labels) if n is None else whole("n", n, 1)
        if n > len(labels):
            raise BadInput(
                f"`n` was {n}: there are {len(labels)} pictures to publish, one for a record at most.",
                parameter="n",
            )
        return self._release(pictures[:n].copy(), labels[:n].copy())

    def parameters(self) -> Mapping[str, Any]:
        """The public parameters."""
        return {"top": self.top}
