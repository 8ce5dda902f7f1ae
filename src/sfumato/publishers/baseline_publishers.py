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

from dataclasses import KW_ONLY, dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.mechanisms import one_of, positive
from sfumato.publishers.publisher import Labelled, Pictures, Progress, ReplacingPublisher, whole_number

__all__ = ["BlurPublisher", "KAnonymityPublisher", "PixelationPublisher"]

Array = NDArray[np.float32]

# Lloyd's rounds after which few pictures still change their cluster.
_ROUNDS = 12


@dataclass(eq=False)
class KAnonymityPublisher(ReplacingPublisher):
    """Publishes for each of at most ``clusters`` clusters the picture nearest to its centre.

    It stands in the place of each member where there are ``k`` or more; fewer are ``small``: ``"dropped"``
    or ``"kept"``. Pictures are published in the order of the records that they stand for.
    """

    k: int = 10
    clusters: int = 1000
    _: KW_ONLY
    small: str = "dropped"

    unproven = "a real private picture is published with its label for each cluster"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.k = whole_number("k", self.k, 2)
        self.clusters = whole_number("clusters", self.clusters, 1)
        self.small = one_of("small", self.small, ("dropped", "kept"))

    def _replaced(self, data: Labelled, report: Progress) -> Pictures:
        from sklearn.cluster import KMeans

        if self.clusters > len(data):
            raise BadInput(
                f"`clusters` was {self.clusters}: there are {len(data)} pictures to put into them.",
                parameter="clusters",
            )
        rows = data.varied().pictures.reshape(len(data), -1)
        report("clustering", 0.0, {})
        seed = self.randomness.stream(b"k-anonymity centres").integer(64) % 2**32
        means = KMeans(self.clusters, init="random", n_init=1, max_iter=_ROUNDS, random_state=seed).fit(rows)
        near = means.labels_
        far = np.square(rows - means.cluster_centers_[near]).sum(axis=1)
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


@dataclass(eq=False)
class PixelationPublisher(ReplacingPublisher):
    """Shows the average of each square of ``block`` × ``block`` pixels; squares at the far edges are cut.

    The paper's "3x3 pixelation" is read as blocks of 3 × 3 pixels: from 28 × 28 pixels 10 × 10 are left, with
    which classifiers can reach its 97 % on MNIST; with 3 × 3 pixels in all they could not.
    """

    block: int = 3

    one_to_one = True
    unproven = "a deterministic function of each private picture is published"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.block = whole_number("block", self.block, 1)

    def _replaced(self, data: Labelled, report: Progress) -> Pictures:
        averages = _averaged(_averaged(data.pictures, self.block, 1), self.block, 2)
        report("pictures pixelated", 1.0, {})
        return averages, data.labels


@dataclass(eq=False)
class BlurPublisher(ReplacingPublisher):
    """Averages around each pixel with a Gaussian weight, ``radius`` its deviation; edges are mirrored."""

    radius: float = 1.5

    one_to_one = True
    unproven = "a deterministic function of each private picture is published"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.radius = positive("radius", self.radius)

    def _replaced(self, data: Labelled, report: Progress) -> Pictures:
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
