"""Baseline publishers without a guarantee: pixelation, blur, and k-anonymous clusters of pictures.

**Pixelation and blur** publish one picture for each private picture, with its label.

*Guarantee.* None: what is published is a deterministic function of one private picture, so that whoever has
a picture can obscure it in the same way and see whether it is there.

**Clusters**, as in the baseline of the curvature paper (section 5.1.3): k-means over all pictures, whatever
their labels; every member of a cluster of at least ``k`` is replaced by the member nearest to the centre,
with its label.

*Guarantee.* None: each picture that is published is a real private picture with its real label, and which
one it is depends on all records. Equal copies protect nobody whose own picture is the copy.

The paper does not say what happens to the members of smaller clusters. They are ``"dropped"`` here, since
unchanged they stand for fewer than ``k`` records; ``"kept"`` publishes them unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.mechanisms import one_of, positive
from sfumato.noise import Randomness
from sfumato.publishers.publisher import Labelled, Progress, ReplacingPublisher, whole_number

__all__ = ["BlurPublisher", "KAnonymityPublisher", "PixelationPublisher"]

Array = NDArray[np.float32]

# Lloyd's rounds after which few pictures still change their cluster.
_ROUNDS = 12
_BLOCK = 2048


class KAnonymityPublisher(ReplacingPublisher):
    """Publishes for each of at most ``clusters`` clusters the picture nearest to its centre.

    It stands in the place of each member where there are ``k`` or more; fewer are ``small``: ``"dropped"``
    or ``"kept"``. Pictures are published in the order of the records that they stand for.
    """

    unproven = "a real private picture is published with its label for each cluster"

    def __init__(
        self,
        k: int = 10,
        clusters: int = 1000,
        *,
        small: str = "dropped",
        top: float = 255.0,
        randomness: Randomness | None = None,
    ) -> None:
        super().__init__(top=top, randomness=randomness)
        self.k = whole_number("k", k, 2)
        self.clusters = whole_number("clusters", clusters, 1)
        self.small = one_of("small", small, ("dropped", "kept"))

    def parameters(self) -> Mapping[str, Any]:
        """Return the public parameters."""
        return {"k": self.k, "clusters": self.clusters, "small": self.small, **super().parameters()}

    def _replaced(self, data: Labelled, report: Progress) -> tuple[Array, NDArray[np.int64]]:
        if self.clusters > len(data):
            raise BadInput(
                f"`clusters` was {self.clusters}: there are {len(data)} pictures to put into them.",
                parameter="clusters",
            )
        rows = data.varied().pictures.reshape(len(data), -1)
        rng = np.random.default_rng(self.randomness.stream(b"k-anonymity centres").integer(128))
        centres = rows[rng.choice(len(rows), size=self.clusters, replace=False)]
        for done in range(_ROUNDS):
            centres = _means(rows, _nearest(rows, centres), centres)
            report("clustering", (done + 1) / (_ROUNDS + 1), {})
        near = _nearest(rows, centres)
        far = _distances(rows, centres, near)
        members = np.bincount(near, minlength=self.clusters)
        # The first of each cluster when sorted by cluster, then by distance.
        order = np.lexsort((far, near))
        found, first = np.unique(near[order], return_index=True)
        standing = np.zeros(self.clusters, dtype=np.intp)
        standing[found] = order[first]
        many = members[near] >= self.k
        shown = np.where(many, standing[near], np.arange(len(rows)))
        if self.small == "dropped":
            shown = shown[many]
        if not shown.size:
            raise BadInput(
                f"no cluster has k = {self.k} members or more: ask for fewer than {self.clusters} clusters."
            )
        report("clustering", 1.0, {"clusters shown": float((members >= self.k).sum())})
        return data.pictures[shown], data.labels[shown]


def _nearest(rows: Array, centres: Array) -> NDArray[np.intp]:
    """Return the nearest centre of each row; of equals the first."""
    squares = np.square(centres).sum(axis=1)
    near = np.empty(len(rows), dtype=np.intp)
    for start in range(0, len(rows), _BLOCK):
        part = slice(start, start + _BLOCK)
        near[part] = (squares - 2.0 * (rows[part] @ centres.T)).argmin(axis=1)
    return near


def _distances(rows: Array, centres: Array, near: NDArray[np.intp]) -> Array:
    """Return the squared distance of each row from its centre."""
    far = np.empty(len(rows), dtype=np.float32)
    for start in range(0, len(rows), _BLOCK):
        part = slice(start, start + _BLOCK)
        far[part] = np.square(rows[part] - centres[near[part]]).sum(axis=1)
    return far


def _means(rows: Array, near: NDArray[np.intp], centres: Array) -> Array:
    """Return the mean of the rows nearest to each centre; a centre without rows stays where it is."""
    order = np.argsort(near, kind="stable")
    found, first, counts = np.unique(near[order], return_index=True, return_counts=True)
    moved = centres.copy()
    moved[found] = np.add.reduceat(rows[order], first, axis=0) / counts[:, None].astype(np.float32)
    return moved


class PixelationPublisher(ReplacingPublisher):
    """Shows the average of each square of ``block`` × ``block`` pixels; squares at the far edges are cut.

    The paper's "3x3 pixelation" is read as blocks of 3 × 3 pixels: from 28 × 28 pixels 10 × 10 are left, with
    which classifiers can reach its 97 % on MNIST; with 3 × 3 pixels in all they could not.
    """

    one_to_one: bool = True
    unproven = "a deterministic function of each private picture is published"

    def __init__(self, block: int = 3, *, top: float = 255.0, randomness: Randomness | None = None) -> None:
        super().__init__(top=top, randomness=randomness)
        self.block = whole_number("block", block, 1)

    def parameters(self) -> Mapping[str, Any]:
        """Return the public parameters."""
        return {"block": self.block, **super().parameters()}

    def _replaced(self, data: Labelled, report: Progress) -> tuple[Array, NDArray[np.int64]]:
        averages = _averaged(_averaged(data.pictures, self.block, 1), self.block, 2)
        report("pictures pixelated", 1.0, {})
        return averages, data.labels


class BlurPublisher(ReplacingPublisher):
    """Averages around each pixel with a Gaussian weight, ``radius`` its deviation; edges are mirrored."""

    one_to_one: bool = True
    unproven = "a deterministic function of each private picture is published"

    def __init__(
        self, radius: float = 1.5, *, top: float = 255.0, randomness: Randomness | None = None
    ) -> None:
        super().__init__(top=top, randomness=randomness)
        self.radius = positive("radius", radius)

    def parameters(self) -> Mapping[str, Any]:
        """Return the public parameters."""
        return {"radius": self.radius, **super().parameters()}

    def _replaced(self, data: Labelled, report: Progress) -> tuple[Array, NDArray[np.int64]]:
        from scipy.ndimage import gaussian_filter

        # Beyond a few sizes of the picture a wider blur is the same blur, only slower.
        radius = min(self.radius, 4.0 * max(data.shape[:2]))
        along = (0.0, radius, radius, 0.0)[: data.pictures.ndim]
        blurred = np.asarray(gaussian_filter(data.pictures, along, mode="reflect"), dtype=np.float32)
        report("pictures blurred", 1.0, {})
        return blurred, data.labels


def _averaged(pictures: Array, block: int, axis: int) -> Array:
    """Return ``pictures`` with each run of ``block`` values along ``axis`` replaced by its mean."""
    size = pictures.shape[axis]
    starts = np.arange(0, size, block)
    lengths = np.minimum(block, size - starts)
    sums = np.add.reduceat(pictures, starts, axis=axis, dtype=np.float32)
    shape = [1] * pictures.ndim
    shape[axis] = len(starts)
    return np.repeat(sums / lengths.astype(np.float32).reshape(shape), lengths, axis=axis)
