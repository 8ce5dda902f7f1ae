"""A mechanism of the zoo: its promise, its releases of two neighbouring inputs, and attacks on it.

**Informed attack.** The best score is the difference of the log-densities of independent noise.

**Generic attack.** It knows both inputs and nothing of the mistake. What is left of a release after
subtracting the true input is the noise; noise that is zero, or the same in two places, does not happen by
chance.

**Noise** is that of the package itself, also of broken mechanisms unless the noise is the mistake, so that
each has the one mistake it is named after. NumPy's floating-point noise would be a second one: on noise of
0.3Δ/ε drawn that way, true ε 3.3, the rounding of the scores alone let the audit report 4.6.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sfumato.mechanisms import Gaussian, Laplace, Mechanism
from sfumato.noise import Randomness, Seeded, gaussian_noise, laplace_noise
from sfumato.privacy import Guarantee

Array = NDArray[np.float64]
Law = Literal["normal", "laplace"]
Draw = Callable[[bool, int, int | None], Array]

# Rounding moves a sum of numbers near 1 by 1e-16 or so; a grid that noise is drawn on is far coarser.
_EQUAL = 1e-12
#: The grid of the broken mechanisms' noise. Their inputs lie on it, so that it gives nothing away; it is so
#: fine that two draws are never equal by chance in as many games as anybody plays.
FINE = 2.0**-30
RATIO = "likelihood ratio"
#: What an attack on opposite records knew beforehand.
OPPOSITE = "nothing: two opposite records are where any audit begins"


@dataclass(frozen=True, kw_only=True)
class Specimen:
    """A mechanism of the zoo, broken or sound, and what its author promises.

    ``mistake`` is one sentence, and empty for a sound mechanism. ``hint`` says what the attack knew
    beforehand. ``plain`` is True where the two inputs are opposite records of the declared domain, which an
    audit tries without suspecting anything.
    """

    name: str
    promised: Guarantee
    mistake: str = ""
    hint: str = OPPOSITE
    plain: bool = False

    @property
    def delta(self) -> float:
        """Return the δ at which the promise is read."""
        return self.promised.at_delta

    @property
    def epsilon(self) -> float:
        """Return the promised ε at that δ."""
        return self.promised.epsilon()


@dataclass(frozen=True, kw_only=True, eq=False)
class Suspect(Specimen):
    """A mechanism that is tried game by game.

    ``draw(neighbour, games, seed)`` releases one of two neighbouring inputs ``games`` times, each time with
    noise of its own; without a seed the noise is fresh. ``score`` is the attack that knows how the mechanism
    works: higher means the neighbour, ±∞ certainty. ``inputs`` holds, for each of the two worlds, what every
    released value would be without noise: all that a generic attack is told. ``normal_scores`` is True where
    scores are normal with one deviation in both worlds: then the Gaussian fit may be believed.
    """

    draw: Draw
    score: Callable[[Array], Array]
    inputs: tuple[Array, Array]
    attack: str = RATIO
    normal_scores: bool = False

    def outputs(self, neighbour: bool, games: int, seed: int | None = None) -> Array:
        """Return ``games`` independent releases, one a row, of the record or of its neighbour."""
        return np.asarray(self.draw(neighbour, games, seed), dtype=np.float64).reshape(games, -1)

    def scores(self, outputs: Array) -> Array:
        """Return the informed attack's score of each release: higher means the neighbour."""
        return np.asarray(self.score(outputs), dtype=np.float64)


def suspect(**fields: Any) -> Callable[[Draw], Suspect]:
    """Return a decorator that makes the decorated ``draw`` a suspect with these ``fields``."""
    return lambda draw: Suspect(draw=draw, **fields)


def log_ratio(
    outputs: Array,
    first: Array,
    second: Array,
    scale: float | Array,
    second_scale: float | Array | None = None,
    law: Law = "normal",
) -> Array:
    """Return the log-likelihood of the second input less that of the first.

    ``scale`` is that of the noise, one number or one a column; ``second_scale`` where the worlds differ.
    """
    other = scale if second_scale is None else second_scale
    far, near = np.abs(outputs - first) / scale, np.abs(outputs - second) / other
    ratio = 0.5 * (np.square(far) - np.square(near)) if law == "normal" else far - near
    return np.asarray((ratio + np.log(scale) - np.log(other)).sum(axis=1))


def equality_scores(outputs: Array, first: Array, second: Array) -> Array:
    """Return how many more coincidences the noise shows if ``outputs`` came from ``second``, (games,)."""
    return _coincidences(outputs - second) - _coincidences(outputs - first)


def _coincidences(noise: Array) -> Array:
    """Return the number of values without noise, and with the noise of another one, in each row."""
    missing = (np.abs(noise) <= _EQUAL).sum(axis=1)
    repeated = (np.diff(np.sort(noise, axis=1), axis=1) <= _EQUAL).sum(axis=1)
    return np.asarray(missing + repeated, dtype=np.float64)


def randomness(seed: int | None) -> Randomness | None:
    """Return the operating system's randomness, as in a real release, or a seeded one."""
    return None if seed is None else Seeded(seed)


def noise(scale: float, size: int | tuple[int, ...], seed: int | None, law: Law = "normal") -> Array:
    """Return noise of ``scale`` on the grid of ``FINE`` steps."""
    draw = gaussian_noise if law == "normal" else laplace_noise
    return draw(scale, size, grid=FINE, randomness=randomness(seed))


def drawn(mechanism: Mechanism, first: Array, second: Array) -> Draw:
    """Return how a suspect draws that is ``mechanism`` on the datasets ``first`` and ``second``."""

    def draw(neighbour: bool, games: int, seed: int | None) -> Array:
        fresh = type(mechanism)(**(mechanism.get_params(deep=False) | {"randomness": randomness(seed)}))
        return np.asarray(fresh.release(np.tile(second if neighbour else first, (games, 1))).value)

    return draw


def noised(
    name: str,
    inputs: tuple[Array, Array],
    scales: float | tuple[float, float],
    promised: Guarantee,
    *,
    law: Law = "normal",
    hint: str = OPPOSITE,
    **fields: Any,
) -> Suspect:
    """Return a suspect that adds noise to ``inputs`` and is attacked by the likelihood ratio.

    ``scales`` is that of the noise, or one for the record and one for its neighbour.
    """
    pair = scales if isinstance(scales, tuple) else (scales, scales)
    return Suspect(
        name=name,
        promised=promised,
        draw=lambda neighbour, games, seed: (
            inputs[neighbour] + noise(pair[neighbour], (games, inputs[0].size), seed, law)
        ),
        score=lambda outputs: log_ratio(outputs, *inputs, *pair, law),
        inputs=inputs,
        hint=hint,
        plain=hint == OPPOSITE,
        **fields,
    )


def of_mechanism(
    name: str,
    mechanism: Mechanism,
    first: Array,
    second: Array,
    *,
    score: Callable[[Array], Array] | None = None,
    plain: bool = True,
    **fields: Any,
) -> Suspect:
    """Return the sound suspect that is ``mechanism`` on two records (d,), or datasets (records, d).

    Without ``score`` it is Gaussian or Laplace noise, and attacked by the likelihood ratio.
    """
    datasets = np.atleast_2d(first), np.atleast_2d(second)
    columns, inputs = datasets[0].shape[1], (first.ravel(), second.ravel())
    if score is None:
        law: Law = "laplace" if isinstance(mechanism, Laplace) else "normal"
        assert isinstance(mechanism, Gaussian | Laplace)
        scale = mechanism.scale(columns) if isinstance(mechanism, Laplace) else mechanism.sigma(columns)

        def score(outputs: Array) -> Array:
            return log_ratio(outputs, *inputs, scale, law=law)

    return Suspect(
        name=name,
        promised=mechanism.guarantee(columns),
        draw=drawn(mechanism, *datasets),
        score=score,
        inputs=inputs,
        plain=plain,
        **fields,
    )
