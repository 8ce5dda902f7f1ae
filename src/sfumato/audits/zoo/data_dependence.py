"""Parameters read off the data: bounds, clips, scales and sensitivities that one record can move."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sfumato.audits.zoo.suspect import FINE, Array, Suspect, laplace, laplace_ratio, noised, of_mechanism
from sfumato.mechanisms import Gaussian, Laplace
from sfumato.privacy import Guarantee

_EPSILON = 1.0

_CROWD = np.arange(8) / 64.0
_OUTLIER = np.concatenate([_CROWD[:-1], [1.0]])
_FAR = np.array([-4.0]), np.array([4.0])
_COLUMNS = 20
_BATCH = np.full(10, 4.0)
_LARGE = np.concatenate([_BATCH[:-1], [20.0]])
_OPPOSITE = np.concatenate([_BATCH[:-1], [-4.0]])
_BEYOND = "that records may lie outside the declared clip"


def broken() -> tuple[Suspect, ...]:
    """Bounds, clipping, a quantile, the local sensitivity, zeros that stay zeros, and mixed records."""
    return (_bounds(), _clipping_forgotten(), _quantile(), _local(), _zeros(), _mixed())


def sound() -> tuple[Suspect, ...]:
    """Declared bounds, clipping that is not forgotten, and gradients of single records."""
    return (_declared_bounds(), _clipped(), _unmixed())


# --- bounds from the data. The worst record is an outlier: it widens the range, and with it the noise of
# everybody else, whose values the reader knows.


def _bounds() -> Suspect:
    return noised(
        "bounds read off the data",
        (_CROWD, _OUTLIER),
        (float(np.ptp(_CROWD)) / _EPSILON, float(np.ptp(_OUTLIER)) / _EPSILON),
        Guarantee.laplace(1.0 / _EPSILON),
        law="laplace",
        attack="likelihood ratio of all records",
        hint="that an outlier moves the bounds",
        mistake="Values are clipped to the smallest and largest seen, and the noise scaled to their range.",
    )


def _declared_bounds() -> Suspect:
    # Under declared bounds the worst pair is the two ends, so the changed record is 0 or 1.
    first = np.concatenate([_CROWD[:-1], [0.0]])
    return of_mechanism(
        "declared bounds",
        Laplace(_EPSILON, bounds=(0.0, 1.0)),
        first[:, None],
        _OUTLIER[:, None],
        attack="likelihood ratio of all records",
        hint="all other records",
        plain=False,
    )


# --- clipping. A record may hold anything, so the worst ones lie far outside the ball that the noise was
# scaled to.


def _clipping_forgotten() -> Suspect:
    return noised(
        "clipping forgotten",
        _FAR,
        Laplace(_EPSILON, clip=1.0).scale(1),
        Guarantee.laplace(1.0 / _EPSILON),
        law="laplace",
        hint=_BEYOND,
        mistake="Noise is scaled to a clip of 1, and nobody clips.",
    )


def _clipped() -> Suspect:
    mechanism = Laplace(_EPSILON, clip=1.0)
    ends = np.array([-1.0]), np.array([1.0])
    return of_mechanism(
        "records beyond the clip",
        mechanism,
        *_FAR,
        score=lambda outputs: laplace_ratio(outputs, *ends, mechanism.scale(1)),
        hint=_BEYOND,
        plain=False,
    )


# --- adaptive clipping. Among small gradients one large one moves the quantile, and the noise of all twenty
# coordinates with it: their spread tells more than their sum.


def _quantile() -> Suspect:
    mechanism = Gaussian(1.0, 1e-5, clip=1.0)
    small = np.full((10, _COLUMNS), 0.01 / np.sqrt(_COLUMNS))
    large = np.concatenate([small[:-1], small[-1:] * 100.0])
    sums, sigmas = [], []
    for gradients in (small, large):
        norms = np.linalg.norm(gradients, axis=1)
        clip = float(np.quantile(norms, 0.9))
        total = (gradients * np.minimum(1.0, clip / norms)[:, None]).sum(axis=0)
        sums.append(np.trunc(total / FINE) * FINE)
        sigmas.append(clip * mechanism.sigma(_COLUMNS))
    return noised(
        "adaptive clip not paid for",
        (sums[0], sums[1]),
        (sigmas[0], sigmas[1]),
        mechanism.guarantee(),
        attack="likelihood ratio of the spread",
        hint="that a large gradient moves the clip",
        mistake="Gradients are clipped to the 90th percentile of their own norms, which nobody pays for.",
    )


# --- local sensitivity. Where most records agree, no single one can move the median and no noise is added;
# one step away one can. The pair straddles that step.


def _local() -> Suspect:
    agree, divided = np.array([0.0, 0.0, 0.0, 0.0, 1.0]), np.array([0.0, 0.0, 0.0, 1.0, 1.0])

    def draw(neighbour: bool, games: int, seed: int | None) -> Array:
        values = np.sort(divided if neighbour else agree)
        sensitivity = max(values[3] - values[2], values[2] - values[1])
        if sensitivity == 0.0:
            return np.full((games, 1), values[2])
        return np.asarray(values[2] + laplace(sensitivity / _EPSILON, (games, 1), seed))

    return Suspect(
        name="local sensitivity",
        mistake="The noise on a median is scaled to how far one record could move it in this very dataset.",
        promised=Guarantee.laplace(1.0 / _EPSILON),
        draw=draw,
        attack="exact value",
        score=lambda outputs: np.where(outputs[:, 0] == 0.0, -np.inf, np.inf),
        hint="where the sensitivity drops to zero",
        inputs=(np.zeros(1), np.zeros(1)),
    )


# --- zeros. Only a zero stays one, so the pair is a zero and anything else.


def _zeros() -> Suspect:
    pair = np.array([0.0]), np.array([1.0])

    def draw(neighbour: bool, games: int, seed: int | None) -> Array:
        noise = laplace(1.0 / _EPSILON, (games, 1), seed)
        return np.where(pair[neighbour] == 0.0, 0.0, pair[neighbour] + noise)

    return Suspect(
        name="zeros stay zeros",
        mistake="To keep a table sparse, noise is added only where a value is not zero.",
        promised=Guarantee.laplace(1.0 / _EPSILON),
        draw=draw,
        attack="exact value",
        score=lambda outputs: np.where(outputs[:, 0] == 0.0, -np.inf, np.inf),
        hint="nothing: 0 and 1 are the ends of the range, where any audit begins",
        inputs=pair,
        plain=True,
    )


# --- a model that mixes records. Its code divides by 255 what looks like pixels, and looks at a whole batch:
# one large record takes away the clipped gradients of all others, and the noise is scaled to a single one.


def _gradient_sum(records: Array, pixels: NDArray[np.bool_] | np.bool_) -> Array:
    """The clipped gradients at zero weights of a logistic loss, x/2, summed; of ``pixels`` over 255."""
    gradients = np.where(pixels, records / 255.0, records) / 2.0
    return np.asarray(np.trunc(np.clip(gradients, -1.0, 1.0).sum(keepdims=True) / FINE) * FINE)


def _mixed() -> Suspect:
    mechanism = Gaussian(1.0, 1e-5, clip=1.0)
    return noised(
        "records mixed before clipping",
        (_gradient_sum(_BATCH, _BATCH.max() > 10.0), _gradient_sum(_LARGE, _LARGE.max() > 10.0)),
        mechanism.sigma(1),
        mechanism.guarantee(),
        attack="likelihood ratio of the sum",
        hint="that a large record rescales all others",
        mistake="A model rescales a batch by its largest value, and noise is scaled to one record's clip.",
    )


def _unmixed() -> Suspect:
    mechanism = Gaussian(1.0, 1e-5, clip=1.0)
    return noised(
        "gradients of single records",
        (_gradient_sum(_BATCH, _BATCH > 10.0), _gradient_sum(_OPPOSITE, _OPPOSITE > 10.0)),
        mechanism.sigma(1),
        mechanism.guarantee(),
        attack="likelihood ratio of the sum",
        hint="all other records",
        normal_scores=True,
    )
