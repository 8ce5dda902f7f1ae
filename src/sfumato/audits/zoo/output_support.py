"""Outputs that one input reaches and its neighbour does not: atoms, low bits, hard ends, redrawn noise."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from sfumato.audits.zoo.suspect import (
    Array,
    Suspect,
    drawn,
    laplace,
    laplace_ratio,
    normal,
    normal_ratio,
    of_mechanism,
    randomness,
)
from sfumato.mechanisms import Gaussian, GridTensorLDP, Laplace
from sfumato.noise import laplace_noise
from sfumato.privacy import Guarantee

_EPSILON = 1.0
# The ends of a declared range [0, 1].
_ENDS = np.array([0.0]), np.array([1.0])


def broken() -> tuple[Suspect, ...]:
    """Values kept as they are, floating-point noise, noise with ends, noise drawn until it fits."""
    return (_tensor_ldp(), _float_laplace(), _three_sigma(), _redrawn())


def sound() -> tuple[Suspect, ...]:
    """Values kept on a grid, noise on a grid, ends that are paid for, results clamped after the noise."""
    return (_repaired_tensor_ldp(), _grid_laplace(), _truncated(), _clamped())


def _certain(ratio: Array, not_first: NDArray[np.bool_], not_second: NDArray[np.bool_]) -> Array:
    """``ratio``, but ∞ where only the neighbour can have given the output, −∞ where only the record can."""
    sure = np.where(not_first & ~not_second, np.inf, ratio)
    return np.where(not_second & ~not_first, -np.inf, sure)


# --- TLDP, Algorithm 1 with Laplace noise: b = Δ/ε, and p = e^{ε−Δ/b}/(2b + e^{ε−Δ/b}) = 1/(2b + 1). A value
# that is kept has probability p under its own tensor and zero under any other, so every pair of tensors that
# differ in all four values is a worst one.


def _tensor_ldp() -> Suspect:
    first, second = np.zeros(4), np.ones(4)
    scale = 1.0 / _EPSILON
    keep = 1.0 / (2.0 * scale + 1.0)

    def draw(neighbour: bool, games: int, seed: int | None) -> Array:
        kept = np.random.default_rng(seed).random((games, 4)) <= keep
        return np.where(kept, 0.0, laplace(scale, (games, 4), seed)) + (second if neighbour else first)

    def score(outputs: Array) -> Array:
        kept_first, kept_second = (outputs == first).any(axis=1), (outputs == second).any(axis=1)
        return _certain(laplace_ratio(outputs, first, second, scale), kept_second, kept_first)

    return Suspect(
        name="TLDP as published",
        mistake="Each value of a tensor is released exactly as it is with probability p.",
        promised=Guarantee.pure(_EPSILON, unit="tensor", theorem="TLDP, Theorem 1"),
        draw=draw,
        attack="exact value",
        score=score,
        hint="that values may be kept",
        inputs=(first, second),
        plain=True,
    )


def _repaired_tensor_ldp() -> Suspect:
    first, second = np.zeros(2), np.ones(2)
    mechanism = GridTensorLDP(2.0, bounds=(0.0, 1.0), levels=4)
    matrix = mechanism.channel(2).matrix
    ratio = np.log(matrix[-1]) - np.log(matrix[0])  # of the levels 1 and 0, for each level that may be seen

    def score(outputs: Array) -> Array:
        return np.asarray(ratio[np.rint(outputs * 3.0).astype(np.int64)].sum(axis=1))

    return of_mechanism(
        "TLDP repaired on a grid", mechanism, first, second, score=score, hint="that values may be kept"
    )


# --- float noise (Mironov 2012). Textbook inverse transform reaches few of the doubles, and other ones from 0
# than from 1: small sums near 0 keep bits of the noise that are rounded away near 1.


def reachable(centre: float, outputs: Array, scale: float = 1.0) -> NDArray[np.bool_]:
    """Whether some u = k/2⁵³ near exp(−|y − centre|/scale) gives y = centre ± scale·log u to the last bit."""
    sign = np.where(outputs >= centre, -1.0, 1.0)
    guess = np.rint(np.exp(-np.abs(outputs - centre) / scale) * 2.0**53)
    found = np.zeros(outputs.shape, dtype=bool)
    for offset in range(-4, 5):
        uniform = np.clip(guess + offset, 1.0, 2.0**53 - 1.0) * 2.0**-53
        found |= centre + sign * (scale * np.log(uniform)) == outputs
    return found


def _low_bits(outputs: Array) -> Array:
    ratio = laplace_ratio(outputs, *_ENDS, 1.0 / _EPSILON)
    return _certain(ratio, ~reachable(0.0, outputs[:, 0]), ~reachable(1.0, outputs[:, 0]))


def _float_laplace() -> Suspect:
    def draw(neighbour: bool, games: int, seed: int | None) -> Array:
        generator = np.random.default_rng(seed)
        size = np.log(generator.integers(1, 2**53, (games, 1)) * 2.0**-53)
        return np.asarray(_ENDS[neighbour] + np.where(generator.random((games, 1)) < 0.5, size, -size))

    return Suspect(
        name="Laplace noise in floats",
        mistake="Noise is drawn as ±b·log u in floating point, whose low bits show what it was added to.",
        promised=Guarantee.laplace(1.0 / _EPSILON),
        draw=draw,
        attack="reachable doubles",
        score=_low_bits,
        hint="how the uniforms are made and the noise computed from them, to the last bit",
        inputs=_ENDS,
        plain=True,
    )


def _grid_laplace() -> Suspect:
    return of_mechanism(
        "Laplace on a grid, low bits read",
        Laplace(_EPSILON, bounds=(0.0, 1.0)),
        *_ENDS,
        score=_low_bits,
        attack="reachable doubles",
        hint="what broke Laplace noise in floats",
    )


# --- noise with ends. Beyond first + end only the second input reaches; how often it does is what δ must pay.
# Opposite records make that region widest.


def _three_sigma() -> Suspect:
    mechanism = Gaussian(2.0, 1e-5, clip=1.0)
    first, second = np.array([-1.0]), np.array([1.0])
    sigma = mechanism.sigma(1)
    end = 3.0 * sigma

    def draw(neighbour: bool, games: int, seed: int | None) -> Array:
        noise = normal(sigma, (games, 1), seed)
        return (second if neighbour else first) + np.clip(noise, -end, end)

    def score(outputs: Array) -> Array:
        values = outputs[:, 0]
        return _certain(
            normal_ratio(outputs, first, second, sigma), values > first + end, values < second - end
        )

    return Suspect(
        name="noise clipped at three sigma",
        mistake="To avoid odd values the noise is clipped at ±3σ.",
        promised=mechanism.guarantee(),
        draw=draw,
        attack="impossible region",
        score=score,
        hint="that the noise may have ends",
        inputs=(first, second),
        plain=True,
    )


def _truncated() -> Suspect:
    """Laplace noise conditioned on [−A, A] (Geng, Ding, Guo & Kumar 2020), drawn on a grid.

    Within reach of both inputs the ratio is at most e^ε, since both worlds divide by the same mass; the rest
    is what δ pays. With the grid step h, A and Δ on the grid, a rounded draw lies in (A − Δ, A] when the real
    one lies in (A − Δ + h/2, A + h/2].
    """
    step, end = 2.0**-10, 3.0

    def mass(at: float) -> float:
        return 1.0 - math.exp(-(at + step / 2.0) * _EPSILON)

    delta = (mass(end) - mass(end - 1.0)) / 2.0 / mass(end) * (1.0 + 1e-12)

    def draw(neighbour: bool, games: int, seed: int | None) -> Array:
        # All but one draw in twenty are kept, so this many are always enough.
        noise = laplace_noise(1.0 / _EPSILON, 2 * games + 200, grid=step, randomness=randomness(seed))
        return np.asarray(_ENDS[neighbour] + noise[np.abs(noise) <= end][:games, None])

    def score(outputs: Array) -> Array:
        values = outputs[:, 0]
        ratio = laplace_ratio(outputs, *_ENDS, 1.0 / _EPSILON)
        return _certain(ratio, values > end, values < 1.0 - end)

    return Suspect(
        name="noise with ends, paid for",
        promised=Guarantee.approximate(_EPSILON, delta, theorem="truncated Laplace"),
        draw=draw,
        attack="impossible region",
        score=score,
        hint="that the noise has ends",
        inputs=_ENDS,
        plain=True,
    )


# --- redrawing until the count is not negative divides each law by its own mass: 1/2 for a count of 0, more
# for a count of 1. At the empty count the division is strongest.


def _near_zero(outputs: Array) -> Array:
    """Zero, or how many eighths from it; in coarse steps, since a finer choice would only fit chance."""
    return np.minimum(np.ceil(outputs[:, 0] * 8.0), 8.0)


def _redrawn() -> Suspect:
    def draw(neighbour: bool, games: int, seed: int | None) -> Array:
        # At least every second draw is kept, so this many are always enough.
        noisy = float(neighbour) + laplace(1.0 / _EPSILON, 3 * games + 200, seed)
        return noisy[noisy >= 0.0][:games, None]

    return Suspect(
        name="noise redrawn until it fits",
        mistake="A noisy count is drawn again until it is not negative.",
        promised=Guarantee.laplace(1.0 / _EPSILON, neighbours="add/remove"),
        draw=draw,
        attack="near zero",
        score=_near_zero,
        hint="that the count may be empty",
        inputs=_ENDS,
    )


def _clamped() -> Suspect:
    mechanism = Laplace(_EPSILON, bounds=(0.0, 1.0))
    before = drawn(mechanism, _ENDS[0][None], _ENDS[1][None])
    return Suspect(
        name="clamped after the noise",
        promised=mechanism.guarantee(),
        draw=lambda neighbour, games, seed: np.maximum(before(neighbour, games, seed), 0.0),
        attack="near zero",
        score=_near_zero,
        hint="that the value may be zero",
        inputs=_ENDS,
        plain=True,
    )
