"""A mechanism on trial: its promise, its releases of two neighbouring inputs, and attacks on it.

**Informed attack.** The difference of the log-densities of independent noise, up to what both worlds share,
is the best score.

**Generic attack.** It knows nothing of the mistake and looks for noise that repeats itself or is missing.

The attacker knows both inputs, as differential privacy allows. Under the true one, what is left after
subtracting it is the noise. Noise that is zero, or the same in two places, does not happen by chance.

**Noise** and sound mechanisms are those of the package itself, drawn as its users draw them.

Broken mechanisms take their noise from here too, unless the noise is the mistake: so each of them has the one
mistake it is named after. NumPy's floating-point noise would be a second one, and the audit sees it: on
noise of 0.3Δ/ε drawn that way, true ε 3.3, the rounding of the scores alone let it report 4.6.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.mechanisms import Gaussian, Laplace, Mechanism
from sfumato.noise import Randomness, Seeded, gaussian_noise, laplace_noise
from sfumato.privacy import Guarantee

Array = NDArray[np.float64]

# Rounding moves a sum of numbers near 1 by 1e-16 or so; a grid that noise is drawn on is far coarser.
_EQUAL = 1e-12
#: The grid of the broken mechanisms' noise. Their inputs lie on it, so that it gives nothing away; it is so
#: fine that two draws are never equal by chance in as many games as anybody plays.
FINE = 2.0**-30
RATIO = "likelihood ratio"
#: What an attack on opposite records knew beforehand.
OPPOSITE = "nothing: two opposite records are where any audit begins"


@dataclass(frozen=True, kw_only=True, eq=False)
class Suspect:
    """A mechanism, broken or sound, as the audit meets it.

    ``promised`` is what its author believes. ``draw(neighbour, games, seed)`` releases one of two
    neighbouring inputs ``games`` times, each time with noise of its own; without a seed the noise is fresh.
    ``score`` is the attack that knows how the mechanism works: higher means the neighbour, ±∞ certainty.
    ``mistake`` is one sentence, and empty for a sound mechanism. ``inputs`` holds, for each of the two
    worlds, what every released value would be without noise: all that a generic attack is told.

    ``hint`` says what the attack knew beforehand. ``plain`` is True where the two inputs are opposite records
    of the declared domain, which an audit tries without suspecting anything. ``normal_scores``
    is True where scores are normal with one deviation in both worlds: then the Gaussian fit may be believed.
    """

    name: str
    mistake: str = ""
    promised: Guarantee
    draw: Callable[[bool, int, int | None], Array]
    attack: str
    score: Callable[[Array], Array]
    hint: str
    inputs: tuple[Array, Array]
    plain: bool = False
    normal_scores: bool = False

    @property
    def delta(self) -> float:
        """Return the δ at which the promise is read."""
        return self.promised.at_delta

    @property
    def epsilon(self) -> float:
        """Return the promised ε at that δ."""
        return self.promised.epsilon()

    def outputs(self, neighbour: bool, games: int, seed: int | None = None) -> Array:
        """Return ``games`` independent releases, one a row, of the record or of its neighbour."""
        if isinstance(games, bool) or not isinstance(games, int) or games < 1:
            raise BadInput(f"`games` was {games!r}: it must be a whole number, 1 or more.", parameter="games")
        return np.asarray(self.draw(neighbour, games, seed), dtype=np.float64).reshape(games, -1)

    def scores(self, outputs: Array) -> Array:
        """Return the informed attack's score of each release: higher means the neighbour."""
        return np.asarray(self.score(outputs), dtype=np.float64)


def normal_ratio(
    outputs: Array, first: Array, second: Array, sigma: float | Array, second_sigma: float | None = None
) -> Array:
    """Return the log-likelihood of the second input less that of the first, for normal noise.

    ``sigma`` is one number or one a column; ``second_sigma``, a number, where the worlds differ in it.
    """
    other = sigma if second_sigma is None else second_sigma
    near = np.square((outputs - second) / other).sum(axis=1)
    far = np.square((outputs - first) / sigma).sum(axis=1)
    ratio = 0.5 * (far - near)
    if second_sigma is not None:
        ratio += outputs.shape[1] * (math.log(float(sigma)) - math.log(second_sigma))
    return np.asarray(ratio)


def laplace_ratio(
    outputs: Array, first: Array, second: Array, scale: float, second_scale: float | None = None
) -> Array:
    """Return the log-likelihood of the second input less that of the first, for Laplace noise."""
    other = scale if second_scale is None else second_scale
    ratio = np.abs(outputs - first).sum(axis=1) / scale - np.abs(outputs - second).sum(axis=1) / other
    if second_scale is not None:
        ratio += outputs.shape[1] * (math.log(scale) - math.log(second_scale))
    return np.asarray(ratio)


def equality_scores(outputs: Array, first: Array, second: Array) -> Array:
    """Return how many more coincidences the noise shows if ``outputs`` came from ``second``, (games,)."""
    return _coincidences(outputs - second) - _coincidences(outputs - first)


def _coincidences(noise: Array) -> Array:
    """Values without noise, and values with the noise of another one, in each row."""
    missing = (np.abs(noise) <= _EQUAL).sum(axis=1)
    repeated = (np.diff(np.sort(noise, axis=1), axis=1) <= _EQUAL).sum(axis=1)
    return np.asarray(missing + repeated, dtype=np.float64)


def randomness(seed: int | None) -> Randomness | None:
    """Return the operating system's randomness, as in a real release, or a seeded one."""
    return None if seed is None else Seeded(seed)


def normal(sigma: float, size: int | tuple[int, ...], seed: int | None) -> Array:
    """Return Gaussian noise of standard deviation ``sigma`` on the grid of ``FINE`` steps."""
    return gaussian_noise(sigma, size, grid=FINE, randomness=randomness(seed))


def laplace(scale: float, size: int | tuple[int, ...], seed: int | None) -> Array:
    """Return Laplace noise of ``scale`` on the grid of ``FINE`` steps."""
    return laplace_noise(scale, size, grid=FINE, randomness=randomness(seed))


def released(mechanism: Mechanism, dataset: Array, games: int, seed: int | None) -> Array:
    """Return ``games`` releases of ``dataset``, of shape (records, columns); one a row."""
    fresh = type(mechanism)(**(mechanism.get_params(deep=False) | {"randomness": randomness(seed)}))
    return np.asarray(fresh.release(np.tile(dataset, (games, 1))).value).reshape(games, -1)


def drawn(mechanism: Mechanism, first: Array, second: Array) -> Callable[[bool, int, int | None], Array]:
    """Return how a suspect draws that is ``mechanism`` on the datasets ``first`` and ``second``."""

    def draw(neighbour: bool, games: int, seed: int | None) -> Array:
        return released(mechanism, second if neighbour else first, games, seed)

    return draw


def noised(
    name: str,
    inputs: tuple[Array, Array],
    scales: float | tuple[float, float],
    promised: Guarantee,
    *,
    law: Literal["normal", "laplace"] = "normal",
    attack: str = RATIO,
    hint: str = OPPOSITE,
    mistake: str = "",
    normal_scores: bool = False,
) -> Suspect:
    """Return a suspect that adds noise to ``inputs`` and is attacked by the likelihood ratio.

    ``scales`` is that of the noise, or one for the record and one for its neighbour.
    """
    one, other = scales if isinstance(scales, tuple) else (scales, None)
    noise, ratio = (normal, normal_ratio) if law == "normal" else (laplace, laplace_ratio)

    def draw(neighbour: bool, games: int, seed: int | None) -> Array:
        scale = one if other is None or not neighbour else other
        return inputs[neighbour] + noise(scale, (games, inputs[0].size), seed)

    return Suspect(
        name=name,
        mistake=mistake,
        promised=promised,
        draw=draw,
        attack=f"{RATIO}, Gaussian fit" if normal_scores and attack == RATIO else attack,
        score=lambda outputs: ratio(outputs, *inputs, one, other),
        hint=hint,
        inputs=inputs,
        plain=hint == OPPOSITE,
        normal_scores=normal_scores,
    )


def of_mechanism(
    name: str,
    mechanism: Mechanism,
    first: Array,
    second: Array,
    *,
    score: Callable[[Array], Array] | None = None,
    attack: str = RATIO,
    hint: str = OPPOSITE,
    plain: bool = True,
    normal_scores: bool = False,
) -> Suspect:
    """Return the sound suspect that is ``mechanism`` on two records (d,), or datasets (records, d).

    Without ``score`` it is Gaussian or Laplace noise, and attacked by the likelihood ratio.
    """
    datasets = np.atleast_2d(first), np.atleast_2d(second)
    columns, inputs = datasets[0].shape[1], (first.ravel(), second.ravel())
    if isinstance(mechanism, Gaussian):
        sigma = mechanism.sigma(columns)
        score = score or (lambda outputs: normal_ratio(outputs, *inputs, sigma))
    elif isinstance(mechanism, Laplace):
        scale = mechanism.scale(columns)
        score = score or (lambda outputs: laplace_ratio(outputs, *inputs, scale))
    assert score is not None
    return Suspect(
        name=name,
        promised=mechanism.guarantee(columns),
        draw=drawn(mechanism, *datasets),
        attack=f"{RATIO}, Gaussian fit" if normal_scores and attack == RATIO else attack,
        score=score,
        hint=hint,
        inputs=inputs,
        plain=plain,
        normal_scores=normal_scores,
    )
