"""Noise that is shared, repeated or correlated although it was paid for as if it were independent."""

from __future__ import annotations

import numpy as np

from sfumato.audits.zoo.suspect import Array, Suspect, drawn, normal, normal_ratio, of_mechanism, randomness
from sfumato.mechanisms import Gaussian, TrustAdaptive
from sfumato.noise import Seeded
from sfumato.privacy import ar1_factor, ar1_matrix, correlated_gaussian

_FIRST, _SECOND = np.array([[-1.0, 0.0]]), np.array([[1.0, 0.0]])
_DISTRUSTS = (0.0, 0.1)
_BETA, _FRAMES = 0.9, 5

_TABLE = (
    np.array([[-1.0, 0.0], [0.0, 0.5], [0.25, 0.0]]),
    np.array([[1.0, 0.0], [0.0, 0.5], [0.25, 0.0]]),
)
_FRAME = np.eye(_FRAMES)[2] / 2.0
_LOWER = ar1_matrix(_BETA, _FRAMES)
_WHITEN = np.linalg.inv(_LOWER)


def broken() -> tuple[Suspect, ...]:
    """One array for all records, one seed for two releases, tiers paid once, correlation ignored."""
    return (_one_array(), _one_seed(), _separate_tiers(), _correlated())


def sound() -> tuple[Suspect, ...]:
    """The same four, repaired."""
    return (_own_noise(), _fresh_releases(), _nested_tiers(), _correlation_paid())


# --- one noise array for all records: the difference of two released rows holds no noise at all, so that the
# record is read off whatever it is; opposite records only make the reading easy.


def _difference(outputs: Array) -> Array:
    return np.asarray(outputs[:, 0] - outputs[:, 2])


def _one_array() -> Suspect:
    mechanism = Gaussian(1.0, 1e-2, clip=1.0)
    sigma = mechanism.sigma(2)

    def draw(neighbour: bool, games: int, seed: int | None) -> Array:
        noise = normal(sigma, (games, 1, 2), seed)
        return (_TABLE[neighbour] + noise).reshape(games, -1)

    return Suspect(
        name="one noise array for all records",
        mistake="Noise is drawn for one record and added to every row.",
        promised=mechanism.guarantee(),
        draw=draw,
        attack="difference of two rows",
        score=_difference,
        hint="that rows may share noise, and one other record",
        inputs=(_TABLE[0].ravel(), _TABLE[1].ravel()),
    )


def _own_noise() -> Suspect:
    mechanism = Gaussian(1.0, 0.05, clip=1.0)
    return of_mechanism("Gaussian, three records", mechanism, *_TABLE, hint="all other records", plain=False)


# --- two releases of one dataset at two budgets: with one seed both noises are one z at two scales, and two
# equations in x and z are solved for x.


def _pair(neighbour: bool, games: int, *releases: Gaussian | TrustAdaptive) -> Array:
    rows = np.tile(_SECOND if neighbour else _FIRST, (games, 1))
    return np.hstack([mechanism.release(rows).value for mechanism in releases])


def _twice(*mechanisms: Gaussian | TrustAdaptive) -> Array:
    """σ for each released column."""
    return np.repeat([mechanism.sigma(2) for mechanism in mechanisms], 2)


def _both() -> tuple[Array, Array]:
    return np.tile(_FIRST[0], 2), np.tile(_SECOND[0], 2)


def _one_seed() -> Suspect:
    budgets = (1.0, 0.5)
    promised = [Gaussian(epsilon, 1e-2, clip=1.0) for epsilon in budgets]
    low, high = (mechanism.sigma(2) for mechanism in promised)

    def draw(neighbour: bool, games: int, seed: int | None) -> Array:
        own = seed if seed is not None else int(np.random.default_rng().integers(2**62))
        made = [Gaussian(epsilon, 1e-2, clip=1.0, randomness=Seeded(own)) for epsilon in budgets]
        return _pair(neighbour, games, *made)

    return Suspect(
        name="one seed for two releases",
        mistake="A dataset is released at two budgets with the same seed, so with the same noise rescaled.",
        promised=promised[0].guarantee() + promised[1].guarantee(),
        draw=draw,
        attack="noise eliminated",
        score=lambda outputs: (high * outputs[:, 0] - low * outputs[:, 2]) / (high - low),
        hint="that both releases may have the same seed",
        inputs=_both(),
    )


def _fresh_releases() -> Suspect:
    mechanisms = [Gaussian(epsilon, 0.05, clip=1.0) for epsilon in (1.0, 0.5)]
    sigma = _twice(*mechanisms)

    def draw(neighbour: bool, games: int, seed: int | None) -> Array:
        seeds = (seed, None if seed is None else seed + 1)
        made = [
            Gaussian(mechanism.epsilon, 0.05, clip=1.0, randomness=randomness(own))
            for mechanism, own in zip(mechanisms, seeds, strict=True)
        ]
        return _pair(neighbour, games, *made)

    return Suspect(
        name="two releases, both paid",
        promised=mechanisms[0].guarantee() + mechanisms[1].guarantee(),
        draw=draw,
        attack="likelihood ratio",
        score=lambda outputs: normal_ratio(outputs, *_both(), sigma),
        hint="that both releases are of one record",
        inputs=_both(),
    )


# --- two tiers for two readers who pool what they see. Nearly equal trust is the worst case: the second
# release then tells almost as much as the first one.


def _tier(distrust: float, seed: int | None = None) -> TrustAdaptive:
    return TrustAdaptive(distrust, (0.5, 2.0), 1e-2, clip=1.0, randomness=randomness(seed))


def _separate_tiers() -> Suspect:
    sigma = _twice(*map(_tier, _DISTRUSTS))

    def draw(neighbour: bool, games: int, seed: int | None) -> Array:
        own = None if seed is None else (seed, seed + 1)
        made = [_tier(distrust, own and own[place]) for place, distrust in enumerate(_DISTRUSTS)]
        return _pair(neighbour, games, *made)

    return Suspect(
        name="two tiers, charged once",
        mistake="Two readers of different trust get independent noise; only the more trusted is charged.",
        promised=_tier(0.0).guarantee(),
        draw=draw,
        attack="likelihood ratio of both tiers",
        score=lambda outputs: normal_ratio(outputs, *_both(), sigma),
        hint="that the readers pool their releases",
        inputs=_both(),
    )


def _nested_tiers() -> Suspect:
    sigma = _twice(*map(_tier, _DISTRUSTS))

    def draw(neighbour: bool, games: int, seed: int | None) -> Array:
        tiers = _tier(0.0, seed).tiers(_DISTRUSTS)
        released = tiers.release(np.tile(_SECOND if neighbour else _FIRST, (games, 1)))
        return np.hstack([released[distrust].value for distrust in _DISTRUSTS])

    return Suspect(
        name="nested tiers",
        promised=_tier(0.0).tiers(_DISTRUSTS).guarantee(),
        draw=draw,
        attack="likelihood ratio of both tiers",
        score=lambda outputs: normal_ratio(outputs, *_both(), sigma),
        hint="that the readers pool their releases",
        inputs=_both(),
    )


# --- noise correlated over frames: neighbouring frames tell what the noise of the changed frame was. The
# changed frame lies inside the clip, where it has a neighbour on either side.


def _whitened(outputs: Array) -> Array:
    """Along the change, after turning the noise into independent noise: the likelihood ratio, rescaled."""
    return np.asarray(outputs @ (_WHITEN.T @ (_WHITEN @ _FRAME)))


def _correlated() -> Suspect:
    sigma = Gaussian(1.0, 1e-2, clip=0.5).sigma(1)

    def draw(neighbour: bool, games: int, seed: int | None) -> Array:
        white = normal(sigma, (games, _FRAMES), seed)
        return np.asarray((_FRAME if neighbour else -_FRAME) + white @ _LOWER.T)

    return Suspect(
        name="AR(1) noise taken as independent",
        mistake="Noise with β = 0.9 over frames is accounted as if frames had independent noise.",
        promised=correlated_gaussian(np.eye(_FRAMES), sigma, 1.0, at_delta=1e-2),
        draw=draw,
        attack="likelihood ratio after whitening",
        score=_whitened,
        hint="that the noise is correlated, and how",
        inputs=(-_FRAME, _FRAME),
    )


def _correlation_paid() -> Suspect:
    """Independent noise on L⁻¹x, multiplied by L: then grid and proof are those of the Gaussian mechanism."""
    clip = ar1_factor(_BETA) / 2.0 * (1.0 + 1e-12)
    mechanism = Gaussian(1.0, 0.05, clip=clip)
    whitened = drawn(mechanism, (-_WHITEN @ _FRAME)[None], (_WHITEN @ _FRAME)[None])

    def draw(neighbour: bool, games: int, seed: int | None) -> Array:
        return np.asarray(whitened(neighbour, games, seed) @ _LOWER.T)

    return Suspect(
        name="AR(1) noise, paid for",
        promised=correlated_gaussian(_LOWER, mechanism.sigma(_FRAMES), 1.0, at_delta=0.05),
        draw=draw,
        attack="likelihood ratio after whitening",
        score=_whitened,
        hint="that the noise is correlated, and how",
        inputs=(-_FRAME, _FRAME),
    )
