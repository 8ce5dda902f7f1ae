"""Parameters read off the data: bounds, clips, scales and sensitivities that one record can move."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sfumato.audits.zoo.densities import laplace_ratio, normal_ratio
from sfumato.audits.zoo.package_noise import FINE, drawn, laplace, normal
from sfumato.audits.zoo.suspect import Array, Suspect
from sfumato.mechanisms import Gaussian, Laplace
from sfumato.privacy import Guarantee

__all__ = ["broken", "sound"]

_EPSILON = 1.0


def broken() -> tuple[Suspect, ...]:
    """Bounds, clipping, a quantile, the local sensitivity, zeros that stay zeros, and mixed records."""
    return (_bounds(), _clipping_forgotten(), _quantile(), _local(), _zeros(), _mixed())


def sound() -> tuple[Suspect, ...]:
    """Declared bounds, clipping that is not forgotten, and gradients of single records."""
    return (_declared_bounds(), _clipped(), _unmixed())


# --- bounds from the data. The worst record is an outlier: it widens the range, and with it the noise of
# everybody else, whose values the reader knows.

_CROWD = np.arange(8) / 64.0
_OUTLIER = np.concatenate([_CROWD[:-1], [1.0]])


def _bounds() -> Suspect:
    scales = [float(np.ptp(values)) / _EPSILON for values in (_CROWD, _OUTLIER)]

    def draw(neighbour: bool, games: int, seed: int | None) -> Array:
        values = _OUTLIER if neighbour else _CROWD
        low, high = values.min(), values.max()
        noise = laplace((high - low) / _EPSILON, (games, values.size), seed)
        return np.clip(values, low, high) + noise

    return Suspect(
        name="bounds read off the data",
        mistake="Values are clipped to the smallest and largest seen, and the noise scaled to their range.",
        promised=Guarantee.laplace(1.0 / _EPSILON),
        draw=draw,
        attack="likelihood ratio of all records",
        score=lambda outputs: laplace_ratio(outputs, _CROWD, _OUTLIER, scales[0], scales[1]),
        hint="that an outlier moves the bounds",
        inputs=(_CROWD, _OUTLIER),
    )


def _declared_bounds() -> Suspect:
    mechanism = Laplace(_EPSILON, bounds=(0.0, 1.0))
    scale = mechanism.scale(1)
    # Under declared bounds the worst pair is the two ends, so the changed record is 0 or 1.
    first = np.concatenate([_CROWD[:-1], [0.0]])
    return Suspect(
        name="declared bounds",
        promised=mechanism.guarantee(),
        draw=drawn(mechanism, first[:, None], _OUTLIER[:, None]),
        attack="likelihood ratio of all records",
        score=lambda outputs: laplace_ratio(outputs, first, _OUTLIER, scale),
        hint="all other records",
        inputs=(first, _OUTLIER),
    )


# --- clipping. A record may hold anything, so the worst ones lie far outside the ball that the noise was
# scaled to.

_FAR = np.array([-4.0]), np.array([4.0])


def _clipping_forgotten() -> Suspect:
    scale = Laplace(_EPSILON, clip=1.0).scale(1)

    def draw(neighbour: bool, games: int, seed: int | None) -> Array:
        return _FAR[neighbour] + laplace(scale, (games, 1), seed)

    return Suspect(
        name="clipping forgotten",
        mistake="Noise is scaled to a clip of 1, and nobody clips.",
        promised=Guarantee.laplace(1.0 / _EPSILON),
        draw=draw,
        attack="likelihood ratio",
        score=lambda outputs: laplace_ratio(outputs, *_FAR, scale),
        hint="that records may lie outside the declared clip",
        inputs=_FAR,
    )


def _clipped() -> Suspect:
    mechanism = Laplace(_EPSILON, clip=1.0)
    return Suspect(
        name="records beyond the clip",
        promised=mechanism.guarantee(),
        draw=drawn(mechanism, _FAR[0][None], _FAR[1][None]),
        attack="likelihood ratio",
        score=lambda outputs: laplace_ratio(outputs, np.array([-1.0]), np.array([1.0]), mechanism.scale(1)),
        hint="that records may lie outside the declared clip",
        inputs=_FAR,
    )


# --- adaptive clipping. Among small gradients one large one moves the quantile, and the noise of all twenty
# coordinates with it: their spread tells more than their sum.

_COLUMNS = 20


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

    def draw(neighbour: bool, games: int, seed: int | None) -> Array:
        noise = normal(sigmas[neighbour], (games, _COLUMNS), seed)
        return np.asarray(sums[neighbour] + noise)

    return Suspect(
        name="adaptive clip not paid for",
        mistake="Gradients are clipped to the 90th percentile of their own norms, which nobody pays for.",
        promised=mechanism.guarantee(),
        draw=draw,
        attack="likelihood ratio of the spread",
        score=lambda outputs: normal_ratio(outputs, sums[0], sums[1], sigmas[0], sigmas[1]),
        hint="that a large gradient moves the clip",
        inputs=(sums[0], sums[1]),
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

_BATCH = np.full(10, 4.0)
_LARGE = np.concatenate([_BATCH[:-1], [20.0]])
_OPPOSITE = np.concatenate([_BATCH[:-1], [-4.0]])


def _gradient_sum(records: Array, pixels: NDArray[np.bool_] | np.bool_) -> Array:
    """The clipped gradients at zero weights of a logistic loss, x/2, summed; of ``pixels`` over 255."""
    gradients = np.where(pixels, records / 255.0, records) / 2.0
    return np.asarray(np.trunc(np.clip(gradients, -1.0, 1.0).sum(keepdims=True) / FINE) * FINE)


def _mixed() -> Suspect:
    mechanism = Gaussian(1.0, 1e-5, clip=1.0)
    sigma = mechanism.sigma(1)
    sums = [_gradient_sum(records, records.max() > 10.0) for records in (_BATCH, _LARGE)]
    return Suspect(
        name="records mixed before clipping",
        mistake="A model rescales a batch by its largest value, and noise is scaled to one record's clip.",
        promised=mechanism.guarantee(),
        draw=lambda neighbour, games, seed: sums[neighbour] + normal(sigma, (games, 1), seed),
        attack="likelihood ratio of the sum",
        score=lambda outputs: normal_ratio(outputs, sums[0], sums[1], sigma),
        hint="that a large record rescales all others",
        inputs=(sums[0], sums[1]),
    )


def _unmixed() -> Suspect:
    mechanism = Gaussian(1.0, 1e-5, clip=1.0)
    sigma = mechanism.sigma(1)
    sums = [_gradient_sum(records, records > 10.0) for records in (_BATCH, _OPPOSITE)]
    return Suspect(
        name="gradients of single records",
        promised=mechanism.guarantee(),
        draw=lambda neighbour, games, seed: sums[neighbour] + normal(sigma, (games, 1), seed),
        attack="likelihood ratio of the sum",
        score=lambda outputs: normal_ratio(outputs, sums[0], sums[1], sigma),
        hint="all other records",
        inputs=(sums[0], sums[1]),
        normal_scores=True,
    )
