"""The frontier explorer: real mechanisms on public images, with sliders for distrust and ε.

The images come with scikit-learn and scikit-image; no private data is touched. Noise is keyed by a secret of
the service, so every process shows the same image beside the same numbers, both of one computation.
"""

from __future__ import annotations

import hashlib
import hmac
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from starlette.requests import Request
from starlette.responses import Response

from sfumato.errors import BadInput
from sfumato.mechanisms import TrustAdaptive
from sfumato.noise import Keyed
from sfumato.privacy import DELTA, Statement
from sfumato.reports import Frontier, FrontierPlot, Pictures, Point, at_most, plain, png, share
from sfumato.serve.pages.page_request import Visit, is_fragment, page, section_of

#: What the most trusted reader may get, and what the least trusted one always gets.
EPSILONS: tuple[float, ...] = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0)
LEAST = 1.0
DISTRUSTS: tuple[float, ...] = tuple(number / 10 for number in range(11))

_CLIP = 4.0
_ENLARGED = 14
_MOST_KEPT = 64

Levels = NDArray[np.uint8]

_FIRST = ("astronaut", 4, 5)
_SIDES = ("before", "after")


@dataclass(frozen=True)
class Sample:
    """One example: its description, the meaning of its unit, and the name of its utility measure."""

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
    """One release: its image, its statement and its utility, all of the same values.

    ``measures`` and ``also`` are pairs of a word and a number: utility measures, and further facts.
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
    """Return ε(τ) of a reader of ``distrust`` if the most trusted reader gets ``epsilon``."""
    return TrustAdaptive(
        distrust=distrust, epsilon=(LEAST, max(epsilon, LEAST)), delta=DELTA, clip=_CLIP
    ).budget()


class Samples:
    """Releases of the samples, each computed once; the last 64 are cached."""

    def __init__(self, secret: bytes) -> None:
        # A secret of its own: anybody who has a public picture can compute the noise that it got.
        self._secret = hmac.digest(secret, b"sfumato frontier explorer", hashlib.sha256)
        self._cached = lru_cache(_MOST_KEPT)(self._made)
        self._lock = threading.Lock()

    def shown(self, name: str, epsilon: float, distrust: float) -> Shown:
        """Return the release of sample ``name`` for readers of ``distrust``, at values of the scales."""
        if name not in SAMPLES or epsilon not in EPSILONS or distrust not in DISTRUSTS:
            raise BadInput("the explorer shows its own samples, at the values of its two scales.")
        with self._lock:  # also so that one visitor's sliding keeps at most one processor busy
            return self._cached(name, epsilon, distrust)

    def _made(self, name: str, epsilon: float, distrust: float) -> Shown:
        noise = Keyed(self._secret, dataset=name, version="1", release=f"{epsilon:g}, {distrust:g}")
        return _MAKERS[name](epsilon, distrust, noise)


def _digits(epsilon: float, distrust: float, noise: Keyed) -> Shown:
    from sfumato.utility import linear_probe

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
    """Return ten images of 8 × 8 side by side, enlarged; averages are stretched to full contrast."""
    pictures = images.reshape(-1, 8, 8)
    span = (float(pictures.min()), float(pictures.max())) if stretched else (0.0, 1.0)
    levels = 255 - Pictures(pictures, pictures, span).levels(pictures)
    large = levels.repeat(_ENLARGED, axis=1).repeat(_ENLARGED, axis=2)
    framed = np.pad(large, ((0, 0), (6, 6), (6, 6)), constant_values=255)
    return np.concatenate(list(framed), axis=1)


def _photograph(name: str) -> Callable[[float, float, Keyed], Shown]:
    def made(epsilon: float, distrust: float, noise: Keyed) -> Shown:
        from sfumato.media.images import PlaneMeans
        from sfumato.utility import psnr, ssim

        picture = _sample_image(name)
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
    from sfumato.utility import linear_probe

    return linear_probe(*_digit_images()).accuracy


@cache
def _sample_image(name: str) -> Levels:
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


def _explorer(visit: Visit) -> Response:
    sample, epsilon, distrust = _chosen(visit.request)
    shown = visit.desk.samples.shown(sample, EPSILONS[epsilon], DISTRUSTS[distrust])
    values: dict[str, Any] = {
        "here": "explorer",
        "samples": SAMPLES.values(),
        "sample": SAMPLES[sample],
        "epsilon": epsilon,
        "distrust": distrust,
        "scales": {"epsilon": EPSILONS, "distrust": DISTRUSTS},
        "least": plain(LEAST),
        "most_text": plain(EPSILONS[epsilon]),
        "distrust_text": plain(DISTRUSTS[distrust]),
        "budget_text": at_most(budget(EPSILONS[epsilon], DISTRUSTS[distrust])),
        "shown": shown,
        "section": section_of(SAMPLES[sample].title, shown.statement),
    }
    return visit.page("explored.html" if is_fragment(visit.request) else "explorer.html", **values)


def _picture(visit: Visit, sample: str, epsilon: str, distrust: str, side: str) -> Response:
    if side not in _SIDES:
        raise BadInput("a sample is shown before and after.")
    found = visit.desk.samples.shown(
        sample, EPSILONS[_place(epsilon, EPSILONS)], DISTRUSTS[_place(distrust, DISTRUSTS)]
    )
    body = found.before if side == "before" else found.after
    return Response(body, media_type="image/png", headers={"Cache-Control": "private, max-age=3600"})


def _frontier(visit: Visit) -> Response:
    """Return utility against ε of one sample, for the most trusted reader at every ε of the scale."""
    sample, _, _ = _chosen(visit.request)
    samples = visit.desk.samples
    points = []
    for epsilon in EPSILONS:
        shown = samples.shown(sample, epsilon, 0.0)
        points.append(Point(f"ε = {plain(epsilon)}", shown.utility, shown.statement.proven.epsilon()))
    edge = Frontier(points, utility=SAMPLES[sample].utility)
    return visit.page(
        "frontier.html",
        here="explorer",
        sample=SAMPLES[sample],
        samples=SAMPLES.values(),
        frontier=edge,
        plots_drawn=FrontierPlot.drawn(edge),
    )


def _chosen(request: Request) -> tuple[str, int, int]:
    """Return the sample and both slider positions of the address, or the defaults."""
    query = request.query_params
    sample = query.get("sample", _FIRST[0])
    if sample not in SAMPLES:
        raise BadInput(f"the samples are {', '.join(SAMPLES)}.")
    epsilon = _place(query.get("epsilon", str(_FIRST[1])), EPSILONS)
    return sample, epsilon, _place(query.get("distrust", str(_FIRST[2])), DISTRUSTS)


def _place(text: str, scale: tuple[float, ...]) -> int:
    if not text.isdecimal() or not text.isascii() or len(text) > 3 or int(text) >= len(scale):
        raise BadInput(f"a place on this scale is a whole number from 0 to {len(scale) - 1}.")
    return int(text)


ROUTES = [
    page("/explorer", _explorer, "explorer", slow=True),
    page("/explorer/frontier", _frontier, "frontier", slow=True),
    page("/explorer/{sample}/{epsilon}/{distrust}/{side}.png", _picture, "sample", slow=True),
]
