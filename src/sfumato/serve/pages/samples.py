"""What the explorer shows: real mechanisms on public pictures that come with scikit-learn and scikit-image.

No private data is ever touched. Noise is keyed by a secret of the service, so every process shows the same
picture beside the same numbers, both of one computation.
"""

from __future__ import annotations

import hashlib
import hmac
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.mechanisms import TrustAdaptive
from sfumato.noise import Keyed
from sfumato.privacy import Statement
from sfumato.privacy.defaults import DELTA
from sfumato.reports.embedded_images import Pictures, png
from sfumato.reports.numbers import at_most, plain, share

__all__ = ["DISTRUSTS", "EPSILONS", "LEAST", "SAMPLES", "Sample", "Samples", "Shown", "budget"]

#: What the most trusted reader may get, and what the least trusted one always gets.
EPSILONS: tuple[float, ...] = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0)
LEAST = 1.0
DISTRUSTS: tuple[float, ...] = tuple(number / 10 for number in range(11))

_CLIP = 4.0
_ENLARGED = 14
_MOST_KEPT = 64

Levels = NDArray[np.uint8]


@dataclass(frozen=True)
class Sample:
    """One thing to look at: what it is, what its unit means, and what its utility is called."""

    name: str
    title: str
    told: str
    before: str
    after: str
    utility: str


#: By their names.
SAMPLES: Mapping[str, Sample] = {
    sample.name: sample
    for sample in (
        Sample(
            "astronaut",
            "A portrait",
            "NASA's portrait of Eileen Collins, from scikit-image, through plane-means. The promise is about "
            "what stands in any one square of 16 × 16 pixels, not about the picture as a whole.",
            "The portrait as it is",
            "The portrait as it would be released",
            "structural similarity",
        ),
        Sample(
            "cat",
            "A cat",
            "Chelsea the cat, from scikit-image, through plane-means. The promise is about what stands in "
            "any one square of 16 × 16 pixels, not about the picture as a whole.",
            "The cat as it is",
            "The cat as it would be released",
            "structural similarity",
        ),
        Sample(
            "digits",
            "1,797 digits",
            "Handwritten digits, from scikit-learn, through trust-adaptive noise. The unit is one whole "
            "image: noise hides single digits before it hides what all of them have in common. The last row "
            "shows averages over all released images of one digit.",
            "Ten digits as they are",
            "The same ten as they would be released, and averages of all that were released",
            "accuracy of a classifier that learned from the release",
        ),
    )
}


@dataclass(frozen=True)
class Shown:
    """One release: its picture, its statement and its utility, all of the same values.

    ``measures`` and ``also`` are pairs of a word and a number: what it is good for, and more that is known.
    """

    before: bytes
    after: bytes
    size: tuple[int, int]
    after_size: tuple[int, int]
    statement: Statement
    utility: float
    measures: list[tuple[str, str]]
    also: list[tuple[str, str]]


def budget(epsilon: float, distrust: float) -> float:
    """ε(τ) of a reader of ``distrust`` where the most trusted one gets ``epsilon``."""
    return TrustAdaptive(
        distrust=distrust, epsilon=(LEAST, max(epsilon, LEAST)), delta=DELTA, clip=_CLIP
    ).budget()


class Samples:
    """Releases of the samples, each made once and remembered while it is among the last 64."""

    def __init__(self, secret: bytes) -> None:
        # A secret of its own: what noise a public picture got is plain to everybody who has the picture.
        self._secret = hmac.digest(secret, b"sfumato frontier explorer", hashlib.sha256)
        self._kept: OrderedDict[tuple[str, float, float], Shown] = OrderedDict()
        self._lock = threading.Lock()

    def shown(self, name: str, epsilon: float, distrust: float) -> Shown:
        """The release of sample ``name`` for readers of ``distrust``; both are values of the scales."""
        if name not in SAMPLES or epsilon not in EPSILONS or distrust not in DISTRUSTS:
            raise BadInput("the explorer shows its own samples, at the values of its two scales.")
        key = (name, epsilon, distrust)
        with self._lock:  # also so that one visitor's sliding keeps at most one processor busy
            if key not in self._kept:
                noise = Keyed(self._secret, dataset=name, version="1", release=f"{epsilon:g}, {distrust:g}")
                self._kept[key] = _MAKERS[name](epsilon, distrust, noise)
            self._kept.move_to_end(key)
            while len(self._kept) > _MOST_KEPT:
                self._kept.popitem(last=False)
            return self._kept[key]


def _digits(epsilon: float, distrust: float, noise: Keyed) -> Shown:
    from sfumato.utility.probe import linear_probe

    values, labels = _digit_images()
    mechanism = TrustAdaptive(
        distrust=distrust, epsilon=(LEAST, epsilon), delta=DELTA, clip=_CLIP, randomness=noise
    )
    release = mechanism.release(values)
    released = np.asarray(release.value)
    chosen = [int(np.flatnonzero(labels == digit)[3]) for digit in range(10)]
    averages = np.stack([released[labels == digit].mean(axis=0) for digit in range(10)])
    learned = linear_probe(released, labels, tested_on=values)
    own = _accuracy_of_originals()
    rows = [_row(values[chosen])], [_row(released[chosen]), _row(averages, stretched=True)]
    before, after = (np.concatenate(each, axis=0) for each in rows)
    return Shown(
        png(before),
        png(after),
        _size(before),
        _size(after),
        release.statement,
        learned.accuracy,
        [
            ("digits read right, learned from the release", share(learned.accuracy)),
            ("the same, learned from the originals", share(own)),
            ("by always guessing the commonest digit", share(learned.chance)),
        ],
        [("noise", f"{plain(mechanism.sigma(values.shape[1]))} on each pixel, whose white is 1")],
    )


def _row(images: NDArray[np.float64], *, stretched: bool = False) -> Levels:
    """Ten images of 8 × 8 beside each other, enlarged; averages with all the contrast that they have."""
    pictures = images.reshape(-1, 8, 8)
    span = (float(pictures.min()), float(pictures.max())) if stretched else (0.0, 1.0)
    levels = 255 - Pictures(pictures, pictures, span).levels(pictures)
    large = levels.repeat(_ENLARGED, axis=1).repeat(_ENLARGED, axis=2)
    framed = np.pad(large, ((0, 0), (6, 6), (6, 6)), constant_values=255)
    return np.concatenate(list(framed), axis=1)


def _photograph(name: str) -> Callable[[float, float, Keyed], Shown]:
    def made(epsilon: float, distrust: float, noise: Keyed) -> Shown:
        from sfumato.media import PlaneMeans
        from sfumato.utility.image_measures import psnr, ssim

        picture = _picture(name)
        release = PlaneMeans(epsilon=budget(epsilon, distrust), randomness=noise).release(picture)
        released = np.asarray(release.value)
        alike = float(ssim(picture[None], released[None], data_range=255.0)[0])
        peak = float(psnr(picture[None], released[None], data_range=255.0)[0])
        whole = next(part for part in release.statement.also_proven if part.unit.name == "item")
        return Shown(
            png(picture),
            png(released),
            _size(picture),
            _size(released),
            release.statement,
            alike,
            [
                ("structural similarity, 1 is the original", plain(alike, 3)),
                ("peak signal-to-noise ratio", f"{plain(peak, 3)} dB"),
            ],
            [("whole picture", f"ε = {at_most(whole.epsilon())}")],
        )

    return made


def _size(image: NDArray[Any]) -> tuple[int, int]:
    return image.shape[1], image.shape[0]


@cache
def _digit_images() -> tuple[NDArray[np.float64], NDArray[np.intp]]:
    from sklearn.datasets import load_digits

    data = load_digits()
    return data.data / 16.0, data.target


@cache
def _accuracy_of_originals() -> float:
    from sfumato.utility.probe import linear_probe

    return linear_probe(*_digit_images()).accuracy


@cache
def _picture(name: str) -> Levels:
    try:
        from skimage import data
    except ImportError:
        raise BadInput("pictures in the explorer need scikit-image: pip install 'sfumato[media]'.") from None
    loaded: Any = data
    picture = loaded.astronaut()[:320, 64:384] if name == "astronaut" else loaded.chelsea()[:, 80:380]
    return np.ascontiguousarray(picture)


_MAKERS: Mapping[str, Callable[[float, float, Keyed], Shown]] = {
    "digits": _digits,
    "astronaut": _photograph("astronaut"),
    "cat": _photograph("cat"),
}
