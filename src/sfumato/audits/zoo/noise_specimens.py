"""Specimens that add noise: too little of it, scaled by what was read off the data, or used twice.

**Too little noise** is attacked by the likelihood ratio between opposite records of the declared domain: any
other two are closer, and for noise that is added they are then harder to tell apart.

**Parameters read off the data** are bounds, clips, scales and sensitivities that one record can move.

**Shared noise** is repeated or correlated although it was paid for as if it were independent.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sfumato.audits.zoo.suspect import (
    FINE,
    Array,
    Suspect,
    drawn,
    log_ratio,
    noise,
    noised,
    of_mechanism,
    randomness,
    suspect,
)
from sfumato.mechanisms import Gaussian, Laplace, Personalised, TrustAdaptive
from sfumato.privacy import Guarantee, ar1_factor, ar1_matrix, classical_sigma, correlated_gaussian

_EPSILON = 1.0
_PURE = Guarantee.laplace(1.0 / _EPSILON)
_FIT = "likelihood ratio, Gaussian fit"

# An L2 ball in two dimensions, an L1 ball in one, a box of five columns.
_BALL = np.array([-1.0, 0.0]), np.array([1.0, 0.0])
_LINE = np.array([-1.0]), np.array([1.0])
_BOX = np.zeros(5), np.ones(5)


def _too_little() -> tuple[Suspect, ...]:
    gaussian = Gaussian(2.0, 1e-3, clip=1.0)
    smaller = Gaussian(1.0, 1e-2, clip=1.0)
    of_one_radius = Gaussian(1.0, 1e-2, clip=1.0, neighbours="zero-out")
    large = Gaussian(15.0, 1e-5, clip=1.0)
    return (
        noised(
            "half the noise",
            _BALL,
            gaussian.sigma(2) / 2.0,
            gaussian.guarantee(),
            mistake="The standard deviation is half of what the promise needs.",
        ),
        noised(
            "Laplace scale times 0.3",
            _LINE,
            0.3 * Laplace(1.0, clip=1.0).scale(1),
            _PURE,
            law="laplace",
            mistake="Content that looks less sensitive gets Laplace noise of scale 0.3Δ/ε at the same ε.",
        ),
        noised(
            "noise shrunk by a contraction",
            _BALL,
            0.4 * smaller.sigma(2),
            smaller.guarantee(),
            mistake="Features are contracted by η = 0.4 and the noise with them, but the clip stays what it "
            "was.",
        ),
        noised(
            "radius taken for diameter",
            _BALL,
            of_one_radius.sigma(2),
            smaller.guarantee(),
            mistake="Under replace two records of an L2 ball are 2C apart; the noise was scaled to C.",
        ),
        noised(
            "epsilon not shared by columns",
            _BOX,
            1.0,
            _PURE,
            law="laplace",
            mistake="Each of five columns spends the whole ε, as if a record had only one.",
        ),
        # Beyond ε = 9 a hundred thousand games are too few for counting alone: the Gaussian fit must help.
        noised(
            "classical formula at epsilon 15",
            _BALL,
            classical_sigma(15.0, 1e-5, 2.0),
            large.guarantee(),
            mistake="σ = Δ√(2 ln(1.25/δ))/ε is proven for ε < 1 only.",
            attack=_FIT,
            normal_scores=True,
        ),
        of_mechanism("Gaussian", Gaussian(1.0, 0.05, clip=1.0), *_BALL),
        of_mechanism("Laplace", Laplace(1.0, clip=1.0), *_LINE),
        of_mechanism("Laplace, five columns", Laplace(2.0, bounds=(0.0, 1.0)), *_BOX),
        of_mechanism("Gaussian at epsilon 15", large, *_BALL, attack=_FIT, normal_scores=True),
        _personalised(),
    )


def _personalised() -> Suspect:
    """The record with the largest ε is the one that the promise for all of them is about."""
    budgets, delta = [0.5, 1.0, 0.25], 0.05
    first, second = np.zeros((3, 2)), np.zeros((3, 2))
    first[1], second[1] = _BALL
    sigma = Gaussian(max(budgets), delta, clip=1.0).sigma(2)

    @suspect(
        name="Personalised",
        promised=Personalised(budgets, delta, clip=1.0).guarantee(),
        score=lambda outputs: log_ratio(outputs[:, 2:4], *_BALL, sigma),
        hint="which record has the largest ε",
        inputs=(first.ravel(), second.ravel()),
    )
    def personalised(neighbour: bool, games: int, seed: int | None) -> Array:
        everybody = Personalised(np.tile(budgets, games), delta, clip=1.0)
        return drawn(everybody, first, second)(neighbour, games, seed)

    return personalised


# --- bounds from the data. The worst record is an outlier: it widens the range, and with it the noise of
# everybody else, whose values the reader knows.

_CROWD = np.arange(8) / 64.0
_OUTLIER = np.concatenate([_CROWD[:-1], [1.0]])


def _bounds() -> tuple[Suspect, ...]:
    # Under declared bounds the worst pair is the two ends, so the changed record is 0 or 1.
    first = np.concatenate([_CROWD[:-1], [0.0]])
    return (
        noised(
            "bounds read off the data",
            (_CROWD, _OUTLIER),
            (float(np.ptp(_CROWD)) / _EPSILON, float(np.ptp(_OUTLIER)) / _EPSILON),
            _PURE,
            law="laplace",
            attack="likelihood ratio of all records",
            hint="that an outlier moves the bounds",
            mistake="Values are clipped to the smallest and largest seen, and the noise scaled to their "
            "range.",
        ),
        of_mechanism(
            "declared bounds",
            Laplace(_EPSILON, bounds=(0.0, 1.0)),
            first[:, None],
            _OUTLIER[:, None],
            attack="likelihood ratio of all records",
            hint="all other records",
            plain=False,
        ),
    )


# --- clipping. A record may hold anything, so the worst ones lie far outside the ball that the noise was
# scaled to.


def _clipping() -> tuple[Suspect, ...]:
    mechanism = Laplace(_EPSILON, clip=1.0)
    far = np.array([-4.0]), np.array([4.0])
    hint = "that records may lie outside the declared clip"
    return (
        noised(
            "clipping forgotten",
            far,
            mechanism.scale(1),
            _PURE,
            law="laplace",
            hint=hint,
            mistake="Noise is scaled to a clip of 1, and nobody clips.",
        ),
        of_mechanism(
            "records beyond the clip",
            mechanism,
            *far,
            score=lambda outputs: log_ratio(outputs, *_LINE, mechanism.scale(1), law="laplace"),
            hint=hint,
            plain=False,
        ),
    )


# --- adaptive clipping. Among small gradients one large one moves the quantile, and the noise of all twenty
# coordinates with it: their spread tells more than their sum.


def _quantile() -> Suspect:
    columns = 20
    mechanism = Gaussian(1.0, 1e-5, clip=1.0)
    small = np.full((10, columns), 0.01 / np.sqrt(columns))
    large = np.concatenate([small[:-1], small[-1:] * 100.0])
    sums, sigmas = [], []
    for gradients in (small, large):
        norms = np.linalg.norm(gradients, axis=1)
        clip = float(np.quantile(norms, 0.9))
        total = (gradients * np.minimum(1.0, clip / norms)[:, None]).sum(axis=0)
        sums.append(np.trunc(total / FINE) * FINE)
        sigmas.append(clip * mechanism.sigma(columns))
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


def _is_zero(outputs: Array) -> Array:
    return np.where(outputs[:, 0] == 0.0, -np.inf, np.inf)


@suspect(
    name="local sensitivity",
    mistake="The noise on a median is scaled to how far one record could move it in this very dataset.",
    promised=_PURE,
    attack="exact value",
    score=_is_zero,
    hint="where the sensitivity drops to zero",
    inputs=(np.zeros(1), np.zeros(1)),
)
def _local(neighbour: bool, games: int, seed: int | None) -> Array:
    values = np.array([0.0, 0.0, 0.0, float(neighbour), 1.0])
    sensitivity = max(values[3] - values[2], values[2] - values[1])
    if sensitivity == 0.0:
        return np.full((games, 1), values[2])
    return np.asarray(values[2] + noise(sensitivity / _EPSILON, (games, 1), seed, "laplace"))


# --- zeros. Only a zero stays one, so the pair is a zero and anything else.


@suspect(
    name="zeros stay zeros",
    mistake="To keep a table sparse, noise is added only where a value is not zero.",
    promised=_PURE,
    attack="exact value",
    score=_is_zero,
    hint="nothing: 0 and 1 are the ends of the range, where any audit begins",
    inputs=(np.zeros(1), np.ones(1)),
    plain=True,
)
def _zeros(neighbour: bool, games: int, seed: int | None) -> Array:
    noisy = 1.0 + noise(1.0 / _EPSILON, (games, 1), seed, "laplace")
    return noisy if neighbour else np.zeros((games, 1))


# --- a model that mixes records. Its code divides by 255 what looks like pixels, and looks at a whole batch:
# one large record takes away the clipped gradients of all others, and the noise is scaled to a single one.


def _gradient_sum(records: Array, pixels: NDArray[np.bool_] | np.bool_) -> Array:
    """Return the summed clipped gradients at zero weights of a logistic loss, x/2; of ``pixels`` over 255."""
    gradients = np.where(pixels, records / 255.0, records) / 2.0
    return np.asarray(np.trunc(np.clip(gradients, -1.0, 1.0).sum(keepdims=True) / FINE) * FINE)


def _mixed() -> tuple[Suspect, ...]:
    mechanism = Gaussian(1.0, 1e-5, clip=1.0)
    batch = np.full(10, 4.0)
    large, opposite = (np.concatenate([batch[:-1], [last]]) for last in (20.0, -4.0))
    attack = "likelihood ratio of the sum"
    return (
        noised(
            "records mixed before clipping",
            (_gradient_sum(batch, batch.max() > 10.0), _gradient_sum(large, large.max() > 10.0)),
            mechanism.sigma(1),
            mechanism.guarantee(),
            attack=attack,
            hint="that a large record rescales all others",
            mistake="A model rescales a batch by its largest value, and noise is scaled to one record's "
            "clip.",
        ),
        noised(
            "gradients of single records",
            (_gradient_sum(batch, batch > 10.0), _gradient_sum(opposite, opposite > 10.0)),
            mechanism.sigma(1),
            mechanism.guarantee(),
            attack=attack,
            hint="all other records",
            normal_scores=True,
        ),
    )


# --- one noise array for all records: the difference of two released rows holds no noise at all, so that the
# record is read off whatever it is; opposite records only make the reading easy.


def _one_array() -> tuple[Suspect, ...]:
    mechanism = Gaussian(1.0, 1e-2, clip=1.0)
    others = [[0.0, 0.5], [0.25, 0.0]]
    tables = np.array([_BALL[0], *others]), np.array([_BALL[1], *others])

    @suspect(
        name="one noise array for all records",
        mistake="Noise is drawn for one record and added to every row.",
        promised=mechanism.guarantee(),
        attack="difference of two rows",
        score=lambda outputs: outputs[:, 0] - outputs[:, 2],
        hint="that rows may share noise, and one other record",
        inputs=(tables[0].ravel(), tables[1].ravel()),
    )
    def shared(neighbour: bool, games: int, seed: int | None) -> Array:
        return np.asarray(tables[neighbour] + noise(mechanism.sigma(2), (games, 1, 2), seed))

    own = Gaussian(1.0, 0.05, clip=1.0)
    hint = "all other records"
    return shared, of_mechanism("Gaussian, three records", own, *tables, hint=hint, plain=False)


# --- two releases of one dataset at two budgets: with one seed both noises are one z at two scales, and two
# equations in x and z are solved for x.

_TWICE = np.tile(_BALL[0], 2), np.tile(_BALL[1], 2)


def _release_each(neighbour: bool, games: int, *mechanisms: Gaussian | TrustAdaptive) -> Array:
    rows = np.tile(_BALL[neighbour], (games, 1))
    return np.hstack([mechanism.release(rows).value for mechanism in mechanisms])


def _sigmas(*mechanisms: Gaussian | TrustAdaptive) -> Array:
    """Return σ for each released column."""
    return np.repeat([mechanism.sigma(2) for mechanism in mechanisms], 2)


def _two_releases(delta: float, seeds: tuple[int | None, int | None] = (None, None)) -> list[Gaussian]:
    return [
        Gaussian(epsilon, delta, clip=1.0, randomness=randomness(seed))
        for epsilon, seed in zip((1.0, 0.5), seeds, strict=True)
    ]


def _one_seed() -> tuple[Suspect, ...]:
    low, high = (mechanism.sigma(2) for mechanism in _two_releases(1e-2))
    sigmas = _sigmas(*_two_releases(0.05))

    @suspect(
        name="one seed for two releases",
        mistake="A dataset is released at two budgets with the same seed, so with the same noise rescaled.",
        promised=_two_releases(1e-2)[0].guarantee() + _two_releases(1e-2)[1].guarantee(),
        attack="noise eliminated",
        score=lambda outputs: (high * outputs[:, 0] - low * outputs[:, 2]) / (high - low),
        hint="that both releases may have the same seed",
        inputs=_TWICE,
    )
    def one_seed(neighbour: bool, games: int, seed: int | None) -> Array:
        own = seed if seed is not None else int(np.random.default_rng().integers(2**62))
        return _release_each(neighbour, games, *_two_releases(1e-2, (own, own)))

    @suspect(
        name="two releases, both paid",
        promised=_two_releases(0.05)[0].guarantee() + _two_releases(0.05)[1].guarantee(),
        score=lambda outputs: log_ratio(outputs, *_TWICE, sigmas),
        hint="that both releases are of one record",
        inputs=_TWICE,
    )
    def both_paid(neighbour: bool, games: int, seed: int | None) -> Array:
        return _release_each(neighbour, games, *_two_releases(0.05, _two_seeds(seed)))

    return one_seed, both_paid


def _two_seeds(seed: int | None) -> tuple[int | None, int | None]:
    return (None, None) if seed is None else (seed, seed + 1)


# --- two tiers for two readers who pool what they see. Nearly equal trust is the worst case: the second
# release then tells almost as much as the first one.


def _tier(distrust: float, seed: int | None = None) -> TrustAdaptive:
    return TrustAdaptive(distrust, (0.5, 2.0), 1e-2, clip=1.0, randomness=randomness(seed))


def _tiers() -> tuple[Suspect, ...]:
    distrusts = (0.0, 0.1)
    sigmas = _sigmas(*map(_tier, distrusts))
    common = {
        "attack": "likelihood ratio of both tiers",
        "score": lambda outputs: log_ratio(outputs, *_TWICE, sigmas),
        "hint": "that the readers pool their releases",
        "inputs": _TWICE,
    }

    @suspect(
        name="two tiers, charged once",
        mistake="Two readers of different trust get independent noise; only the more trusted is charged.",
        promised=_tier(0.0).guarantee(),
        **common,
    )
    def separate(neighbour: bool, games: int, seed: int | None) -> Array:
        return _release_each(neighbour, games, *map(_tier, distrusts, _two_seeds(seed)))

    @suspect(name="nested tiers", promised=_tier(0.0).tiers(distrusts).guarantee(), **common)
    def nested(neighbour: bool, games: int, seed: int | None) -> Array:
        released = _tier(0.0, seed).tiers(distrusts).release(np.tile(_BALL[neighbour], (games, 1)))
        return np.hstack([released[distrust].value for distrust in distrusts])

    return separate, nested


# --- noise correlated over frames: neighbouring frames tell what the noise of the changed frame was. The
# changed frame lies inside the clip, where it has a neighbour on either side.


def _correlated() -> tuple[Suspect, ...]:
    beta, frames = 0.9, 5
    frame = np.eye(frames)[2] / 2.0
    lower = ar1_matrix(beta, frames)
    whiten = np.linalg.inv(lower)
    sigma = Gaussian(1.0, 1e-2, clip=0.5).sigma(1)
    common = {
        "attack": "likelihood ratio after whitening",
        # Along the change, after turning the noise into independent noise: the likelihood ratio, rescaled.
        "score": lambda outputs: outputs @ (whiten.T @ (whiten @ frame)),
        "hint": "that the noise is correlated, and how",
        "inputs": (-frame, frame),
    }

    @suspect(
        name="AR(1) noise taken as independent",
        mistake="Noise with β = 0.9 over frames is accounted as if frames had independent noise.",
        promised=correlated_gaussian(np.eye(frames), sigma, 1.0, at_delta=1e-2),
        **common,
    )
    def taken(neighbour: bool, games: int, seed: int | None) -> Array:
        white = noise(sigma, (games, frames), seed)
        return np.asarray((frame if neighbour else -frame) + white @ lower.T)

    # Independent noise on L⁻¹x, multiplied by L: then grid and proof are those of the Gaussian mechanism.
    mechanism = Gaussian(1.0, 0.05, clip=ar1_factor(beta) / 2.0 * (1.0 + 1e-12))
    whitened = drawn(mechanism, (-whiten @ frame)[None], (whiten @ frame)[None])

    @suspect(
        name="AR(1) noise, paid for",
        promised=correlated_gaussian(lower, mechanism.sigma(frames), 1.0, at_delta=0.05),
        **common,
    )
    def paid(neighbour: bool, games: int, seed: int | None) -> Array:
        return np.asarray(whitened(neighbour, games, seed) @ lower.T)

    return taken, paid


def noise_specimens() -> tuple[Suspect, ...]:
    """Return every specimen of this module, broken and sound."""
    return (
        *_too_little(),
        *_bounds(),
        *_clipping(),
        _quantile(),
        _local,
        _zeros,
        *_mixed(),
        *_one_array(),
        *_one_seed(),
        *_tiers(),
        *_correlated(),
    )
