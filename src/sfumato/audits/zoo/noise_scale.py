"""Too little noise: mistakes in the number that multiplies it, and mechanisms that get it right.

All are attacked by the likelihood ratio between opposite records of the declared domain: any other two are
closer, and for noise that is added they are then harder to tell apart.
"""

from __future__ import annotations

import numpy as np

from sfumato.audits.zoo.densities import laplace_ratio, normal_ratio
from sfumato.audits.zoo.package_noise import drawn, laplace, normal
from sfumato.audits.zoo.suspect import Array, Suspect
from sfumato.mechanisms import Gaussian, Laplace, Personalised
from sfumato.privacy import Guarantee, classical_sigma

__all__ = ["broken", "sound"]

_RATIO = "likelihood ratio"
_OPPOSITE = "nothing: two opposite records are where any audit begins"
# An L2 ball in two dimensions, an L1 ball in one, a box of five columns.
_BALL = np.array([-1.0, 0.0]), np.array([1.0, 0.0])
_LINE = np.array([-1.0]), np.array([1.0])
_BOX = np.zeros(5), np.ones(5)


def broken() -> tuple[Suspect, ...]:
    """Six ways to add too little noise."""
    gaussian = Gaussian(2.0, 1e-3, clip=1.0)
    smaller = Gaussian(1.0, 1e-2, clip=1.0)
    of_one_radius = Gaussian(1.0, 1e-2, clip=1.0, neighbours="zero-out")
    large = Gaussian(15.0, 1e-5, clip=1.0)
    return (
        _normal(
            "half the noise",
            "The standard deviation is half of what the promise needs.",
            gaussian.guarantee(),
            gaussian.sigma(2) / 2.0,
        ),
        _laplace(
            "Laplace scale times 0.3",
            "Content that looks less sensitive gets Laplace noise of scale 0.3Δ/ε at the same ε.",
            Guarantee.laplace(1.0),
            0.3 * Laplace(1.0, clip=1.0).scale(1),
            _LINE,
        ),
        _normal(
            "noise shrunk by a contraction",
            "Features are contracted by η = 0.4 and the noise with them, but the clip stays what it was.",
            smaller.guarantee(),
            0.4 * smaller.sigma(2),
        ),
        _normal(
            "radius taken for diameter",
            "Under replace two records of an L2 ball are 2C apart; the noise was scaled to C.",
            smaller.guarantee(),
            of_one_radius.sigma(2),
        ),
        _laplace(
            "epsilon not shared by columns",
            "Each of five columns spends the whole ε, as if a record had only one.",
            Guarantee.laplace(1.0),
            1.0,
            _BOX,
        ),
        # Beyond ε = 9 a hundred thousand games are too few for counting alone: the Gaussian fit must help.
        _normal(
            "classical formula at epsilon 15",
            "σ = Δ√(2 ln(1.25/δ))/ε is proven for ε < 1 only.",
            large.guarantee(),
            classical_sigma(15.0, 1e-5, 2.0),
            normal_scores=True,
        ),
    )


def sound() -> tuple[Suspect, ...]:
    """The package's own Gaussian, Laplace and personalised noise."""
    people = Personalised([0.5, 1.0, 0.25], 0.05, clip=1.0)
    return (
        _product(Gaussian(1.0, 0.05, clip=1.0), "Gaussian", _BALL),
        _product(Laplace(1.0, clip=1.0), "Laplace", _LINE),
        _product(Laplace(2.0, bounds=(0.0, 1.0)), "Laplace, five columns", _BOX),
        _product(Gaussian(15.0, 1e-5, clip=1.0), "Gaussian at epsilon 15", _BALL, normal_scores=True),
        _personalised(people),
    )


def _normal(
    name: str, mistake: str, promised: Guarantee, sigma: float, normal_scores: bool = False
) -> Suspect:
    def draw(neighbour: bool, games: int, seed: int | None) -> Array:
        return _BALL[neighbour] + normal(sigma, (games, 2), seed)

    return Suspect(
        name=name,
        mistake=mistake,
        promised=promised,
        draw=draw,
        attack=f"{_RATIO}, Gaussian fit" if normal_scores else _RATIO,
        score=lambda outputs: normal_ratio(outputs, *_BALL, sigma),
        hint=_OPPOSITE,
        inputs=_BALL,
        plain=True,
        normal_scores=normal_scores,
    )


def _laplace(
    name: str, mistake: str, promised: Guarantee, scale: float, inputs: tuple[Array, Array]
) -> Suspect:
    def draw(neighbour: bool, games: int, seed: int | None) -> Array:
        centre = inputs[neighbour]
        return centre + laplace(scale, (games, centre.size), seed)

    return Suspect(
        name=name,
        mistake=mistake,
        promised=promised,
        draw=draw,
        attack=_RATIO,
        score=lambda outputs: laplace_ratio(outputs, *inputs, scale),
        hint=_OPPOSITE,
        inputs=inputs,
        plain=True,
    )


def _product(
    mechanism: Gaussian | Laplace, name: str, inputs: tuple[Array, Array], normal_scores: bool = False
) -> Suspect:
    first, second = inputs
    if isinstance(mechanism, Gaussian):
        sigma = mechanism.sigma(first.size)

        def score(outputs: Array) -> Array:
            return normal_ratio(outputs, first, second, sigma)
    else:
        scale = mechanism.scale(first.size)

        def score(outputs: Array) -> Array:
            return laplace_ratio(outputs, first, second, scale)

    return Suspect(
        name=name,
        promised=mechanism.guarantee(first.size),
        draw=drawn(mechanism, first[None], second[None]),
        attack=f"{_RATIO}, Gaussian fit" if normal_scores else _RATIO,
        score=score,
        hint=_OPPOSITE,
        inputs=inputs,
        plain=True,
        normal_scores=normal_scores,
    )


def _personalised(mechanism: Personalised) -> Suspect:
    """The record with the largest ε is the one that the promise for all of them is about."""
    budgets = np.asarray(mechanism.epsilon)
    first = np.array([[0.0, 0.0], [-1.0, 0.0], [0.0, 0.0]])
    second = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 0.0]])
    sigma = Gaussian(float(budgets.max()), mechanism.delta, clip=mechanism.clip).sigma(2)

    def draw(neighbour: bool, games: int, seed: int | None) -> Array:
        everybody = Personalised(np.tile(budgets, games), mechanism.delta, clip=mechanism.clip)
        return drawn(everybody, first, second)(neighbour, games, seed)

    return Suspect(
        name="Personalised",
        promised=mechanism.guarantee(),
        draw=draw,
        attack=_RATIO,
        score=lambda outputs: normal_ratio(outputs[:, 2:4], first[1], second[1], sigma),
        hint="which record has the largest ε",
        inputs=(first.ravel(), second.ravel()),
    )
