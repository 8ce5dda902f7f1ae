"""Too little noise: mistakes in the number that multiplies it, and mechanisms that get it right.

All are attacked by the likelihood ratio between opposite records of the declared domain: any other two are
closer, and for noise that is added they are then harder to tell apart.
"""

from __future__ import annotations

import numpy as np

from sfumato.audits.zoo.suspect import RATIO, Array, Suspect, drawn, noised, normal_ratio, of_mechanism
from sfumato.mechanisms import Gaussian, Laplace, Personalised
from sfumato.privacy import Guarantee, classical_sigma

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
            Guarantee.laplace(1.0),
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
            Guarantee.laplace(1.0),
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
            normal_scores=True,
        ),
    )


def sound() -> tuple[Suspect, ...]:
    """The package's own Gaussian, Laplace and personalised noise."""
    people = Personalised([0.5, 1.0, 0.25], 0.05, clip=1.0)
    return (
        of_mechanism("Gaussian", Gaussian(1.0, 0.05, clip=1.0), *_BALL),
        of_mechanism("Laplace", Laplace(1.0, clip=1.0), *_LINE),
        of_mechanism("Laplace, five columns", Laplace(2.0, bounds=(0.0, 1.0)), *_BOX),
        of_mechanism("Gaussian at epsilon 15", Gaussian(15.0, 1e-5, clip=1.0), *_BALL, normal_scores=True),
        _personalised(people),
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
        attack=RATIO,
        score=lambda outputs: normal_ratio(outputs[:, 2:4], first[1], second[1], sigma),
        hint="which record has the largest ε",
        inputs=(first.ravel(), second.ravel()),
    )
