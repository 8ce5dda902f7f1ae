"""Specimens whose outputs give the input away: atoms, low bits, hard ends, choices, and sums of clients.

**Support**: outputs that one input reaches and its neighbour does not.

**Choices**: randomised response, the exponential mechanism and sparse vector.

**Sums**: twenty clients send updates of length 1, the clip, and the noise is made for one of them (zero-out).
In one world the first client sends nothing; in the other it does what the mistake allows: it sets a deadline
for all, or takes the name of another client.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.audits.zoo.suspect import (
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
from sfumato.mechanisms import Gaussian, GridTensorLDP, Laplace, RandomisedResponse
from sfumato.noise import laplace_noise
from sfumato.privacy import Guarantee, Neighbours

_EPSILON = 1.0
# The ends of a declared range [0, 1], or two categories.
_ENDS = np.array([0.0]), np.array([1.0])


def _certain(ratio: Array, not_first: NDArray[np.bool_], not_second: NDArray[np.bool_]) -> Array:
    """Return ``ratio``, but ∞ where only the neighbour can give the output, −∞ where only the record can."""
    sure = np.where(not_first & ~not_second, np.inf, ratio)
    return np.where(not_second & ~not_first, -np.inf, sure)


# --- TLDP, Algorithm 1 with Laplace noise: b = Δ/ε, and p = e^{ε−Δ/b}/(2b + e^{ε−Δ/b}) = 1/(2b + 1). A value
# that is kept has probability p under its own tensor and zero under any other, so every pair of tensors that
# differ in all four values is a worst one.

_SCALE = 1.0 / _EPSILON
_TENSORS = np.zeros(4), np.ones(4)


def _kept(outputs: Array) -> Array:
    kept_first, kept_second = ((outputs == tensor).any(axis=1) for tensor in _TENSORS)
    return _certain(log_ratio(outputs, *_TENSORS, _SCALE, law="laplace"), kept_second, kept_first)


@suspect(
    name="TLDP as published",
    mistake="Each value of a tensor is released exactly as it is with probability p.",
    promised=Guarantee.pure(_EPSILON, unit="tensor", theorem="TLDP, Theorem 1"),
    attack="exact value",
    score=_kept,
    hint="that values may be kept",
    inputs=_TENSORS,
    plain=True,
)
def _tensor_ldp(neighbour: bool, games: int, seed: int | None) -> Array:
    kept = np.random.default_rng(seed).random((games, 4)) <= 1.0 / (2.0 * _SCALE + 1.0)
    return np.where(kept, 0.0, noise(_SCALE, (games, 4), seed, "laplace")) + _TENSORS[neighbour]


def _repaired_tensor_ldp() -> Suspect:
    mechanism = GridTensorLDP(2.0, bounds=(0.0, 1.0), levels=4)
    matrix = mechanism.channel(2).matrix
    ratio = np.log(matrix[-1]) - np.log(matrix[0])  # of the levels 1 and 0, for each level that may be seen
    return of_mechanism(
        "TLDP repaired on a grid",
        mechanism,
        np.zeros(2),
        np.ones(2),
        score=lambda outputs: ratio[np.rint(outputs * 3.0).astype(np.int64)].sum(axis=1),
        hint="that values may be kept",
    )


# --- float noise (Mironov 2012). Textbook inverse transform reaches few of the doubles, and other ones from 0
# than from 1: small sums near 0 keep bits of the noise that are rounded away near 1.


def reachable(centre: float, outputs: Array) -> NDArray[np.bool_]:
    """Return whether some u = k/2⁵³ near exp(−|y − centre|) gives y = centre ± log u to the last bit."""
    sign = np.where(outputs >= centre, -1.0, 1.0)
    guess = np.rint(np.exp(-np.abs(outputs - centre)) * 2.0**53)
    found = np.zeros(outputs.shape, dtype=bool)
    for offset in range(-4, 5):
        uniform = np.clip(guess + offset, 1.0, 2.0**53 - 1.0) * 2.0**-53
        found |= centre + sign * np.log(uniform) == outputs
    return found


def _low_bits(outputs: Array) -> Array:
    ratio = log_ratio(outputs, *_ENDS, _SCALE, law="laplace")
    return _certain(ratio, ~reachable(0.0, outputs[:, 0]), ~reachable(1.0, outputs[:, 0]))


@suspect(
    name="Laplace noise in floats",
    mistake="Noise is drawn as ±b·log u in floating point, whose low bits show what it was added to.",
    promised=Guarantee.laplace(_SCALE),
    attack="reachable doubles",
    score=_low_bits,
    hint="how the uniforms are made and the noise computed from them, to the last bit",
    inputs=_ENDS,
    plain=True,
)
def _float_laplace(neighbour: bool, games: int, seed: int | None) -> Array:
    generator = np.random.default_rng(seed)
    size = np.log(generator.integers(1, 2**53, (games, 1)) * 2.0**-53)
    return np.asarray(_ENDS[neighbour] + np.where(generator.random((games, 1)) < 0.5, size, -size))


# --- noise with ends. Beyond first + end only the second input reaches; how often it does is what δ must pay.
# Opposite records make that region widest.


def _three_sigma() -> Suspect:
    mechanism = Gaussian(2.0, 1e-5, clip=1.0)
    first, second = np.array([-1.0]), np.array([1.0])
    sigma = mechanism.sigma(1)
    end = 3.0 * sigma

    def score(outputs: Array) -> Array:
        values = outputs[:, 0]
        return _certain(log_ratio(outputs, first, second, sigma), values > first + end, values < second - end)

    @suspect(
        name="noise clipped at three sigma",
        mistake="To avoid odd values the noise is clipped at ±3σ.",
        promised=mechanism.guarantee(),
        attack="impossible region",
        score=score,
        hint="that the noise may have ends",
        inputs=(first, second),
        plain=True,
    )
    def clipped(neighbour: bool, games: int, seed: int | None) -> Array:
        return (second if neighbour else first) + np.clip(noise(sigma, (games, 1), seed), -end, end)

    return clipped


def _truncated() -> Suspect:
    """Laplace noise conditioned on [−A, A] (Geng, Ding, Guo & Kumar 2020), drawn on a grid.

    Within reach of both inputs the ratio is at most e^ε, since both worlds divide by the same mass; the rest
    is what δ pays. With the grid step h, A and Δ on the grid, a rounded draw lies in (A − Δ, A] when the real
    one lies in (A − Δ + h/2, A + h/2].
    """
    step, end = 2.0**-10, 3.0

    def mass(at: float) -> float:
        return 1.0 - math.exp(-(at + step / 2.0) * _EPSILON)

    def score(outputs: Array) -> Array:
        ratio = log_ratio(outputs, *_ENDS, _SCALE, law="laplace")
        return _certain(ratio, outputs[:, 0] > end, outputs[:, 0] < 1.0 - end)

    delta = (mass(end) - mass(end - 1.0)) / 2.0 / mass(end) * (1.0 + 1e-12)

    @suspect(
        name="noise with ends, paid for",
        promised=Guarantee.approximate(_EPSILON, delta, theorem="truncated Laplace"),
        attack="impossible region",
        score=score,
        hint="that the noise has ends",
        inputs=_ENDS,
        plain=True,
    )
    def truncated(neighbour: bool, games: int, seed: int | None) -> Array:
        # All but one draw in twenty are kept, so this many are always enough.
        drawn = laplace_noise(_SCALE, 2 * games + 200, grid=step, randomness=randomness(seed))
        return np.asarray(_ENDS[neighbour] + drawn[np.abs(drawn) <= end][:games, None])

    return truncated


# --- redrawing until the count is not negative divides each law by its own mass: 1/2 for a count of 0, more
# for a count of 1. At the empty count the division is strongest.


def _near_zero(outputs: Array) -> Array:
    """Return zero, or how many eighths from it; in coarse steps, since a finer choice would fit chance."""
    return np.minimum(np.ceil(outputs[:, 0] * 8.0), 8.0)


@suspect(
    name="noise redrawn until it fits",
    mistake="A noisy count is drawn again until it is not negative.",
    promised=Guarantee.laplace(_SCALE, neighbours="add/remove"),
    attack="near zero",
    score=_near_zero,
    hint="that the count may be empty",
    inputs=_ENDS,
)
def _redrawn(neighbour: bool, games: int, seed: int | None) -> Array:
    # At least every second draw is kept, so this many are always enough.
    noisy = float(neighbour) + noise(_SCALE, 3 * games + 200, seed, "laplace")
    return noisy[noisy >= 0.0][:games, None]


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


# --- choices.

_CATEGORIES = 10
_TWO = "nothing: two categories are where any audit begins"


def _truths(outputs: Array) -> Array:
    """Return how many more answers are the neighbour's, 1, than the record's, 0: the ratio, rescaled."""
    return np.asarray((outputs == 1.0).sum(axis=1) - (outputs == 0.0).sum(axis=1), dtype=np.float64)


# Any two categories are a worst pair: the true answer is likely under one and rare under the other.
@suspect(
    name="coin of two for ten categories",
    mistake="An answer is kept with probability e^ε/(1 + e^ε): right for two categories, not for ten.",
    promised=Guarantee.pure(_EPSILON, theorem="randomised response"),
    attack="true answer",
    score=_truths,
    hint=_TWO,
    inputs=_ENDS,
    plain=True,
)
def _wrong_coin(neighbour: bool, games: int, seed: int | None) -> Array:
    generator = np.random.default_rng(seed)
    other = generator.integers(0, _CATEGORIES - 1, games)
    other += other >= int(neighbour)
    keep = math.exp(_EPSILON) / (1.0 + math.exp(_EPSILON))
    return np.where(generator.random(games) < keep, float(neighbour), other)


# One record may raise one candidate's score and lower all others': that is what the 2 is for.
@suspect(
    name="exponential mechanism without its 2",
    mistake="Candidates are chosen with weight exp(ε·score/Δ) instead of exp(ε·score/2Δ).",
    promised=Guarantee.pure(_EPSILON, theorem="exponential mechanism"),
    score=lambda outputs: outputs[:, 0] != 0.0,
    hint="scores that move in opposite directions",
    inputs=_ENDS,
)
def _forgotten_two(neighbour: bool, games: int, seed: int | None) -> Array:
    first = np.arange(_CATEGORIES) == 0
    weights = np.exp(_EPSILON * (~first if neighbour else first))
    return np.random.default_rng(seed).choice(_CATEGORIES, games, p=weights / weights.sum()).astype(float)


# Two queries that change places: the answers "no, yes" and "yes, no" exclude one world each.
_QUERIES = np.array([0.0, 1.0]), np.array([1.0, 0.0])


def _impossible(outputs: Array) -> Array:
    difference = outputs[:, 0] - outputs[:, 1]
    return np.where(difference == 0.0, 0.0, np.copysign(np.inf, difference))


@suspect(
    name="sparse vector, noiseless queries",
    mistake="Queries are held against a noisy threshold, and get no noise of their own.",
    promised=Guarantee.pure(_EPSILON, theorem="sparse vector"),
    attack="impossible answers",
    score=_impossible,
    hint="two queries that one record moves in opposite directions",
    inputs=_QUERIES,
)
def _silent_queries(neighbour: bool, games: int, seed: int | None) -> Array:
    return np.asarray(_QUERIES[neighbour] >= noise(2.0 * _SCALE, (games, 1), seed, "laplace"))


# --- sums of clients.

_OTHERS = 19
# Seconds after which the first client answers, and all others; and that every client has.
_SOON, _LATER, _TIMEOUT = 1.0, 30.0, 60.0


def _in_time(deadline: float) -> float:
    """Return the sum of the updates that came by ``deadline``, that of the first client among them."""
    return float((np.array([_SOON] + [_LATER] * _OTHERS) <= deadline).sum())


def _by_name(name: str) -> float:
    """Return the sum of the updates by name; the first client calls itself ``name``, and sends −1."""
    honest = {f"client {number}": 1.0 for number in range(1, _OTHERS + 1)}
    return sum((honest | {name: -1.0}).values())


def _sum(name: str, total: float, *, hint: str, mistake: str = "") -> Suspect:
    """Return a noised sum that is ``total`` before the noise, and that of the others without the client."""
    return noised(
        name,
        (np.array([float(_OTHERS)]), np.array([total])),
        1.0,
        Guarantee.gaussian(
            1.0,
            unit="client",
            neighbours=Neighbours.ZERO_OUT,
            theorem="Gaussian noise on the sum of clipped updates",
            at_delta=1e-2,
        ),
        attack="likelihood ratio of the sum",
        hint=hint,
        mistake=mistake,
    )


def output_specimens() -> tuple[Suspect, ...]:
    """Return every specimen of this module, broken and sound."""
    answers: dict[str, Any] = {"score": _truths, "attack": "true answer", "hint": _TWO}
    binary, tenfold = RandomisedResponse(2.0, 2), RandomisedResponse(1.0, _CATEGORIES)
    return (
        _tensor_ldp,
        _repaired_tensor_ldp(),
        _float_laplace,
        of_mechanism(
            "Laplace on a grid, low bits read",
            Laplace(_EPSILON, bounds=(0.0, 1.0)),
            *_ENDS,
            score=_low_bits,
            attack="reachable doubles",
            hint="what broke Laplace noise in floats",
        ),
        _three_sigma(),
        _truncated(),
        _redrawn,
        _clamped(),
        _wrong_coin,
        _forgotten_two,
        _silent_queries,
        of_mechanism("randomised response, three columns", binary, np.zeros(3), np.ones(3), **answers),
        of_mechanism("randomised response, ten categories", tenfold, *_ENDS, **answers),
        _sum(
            "deadline set by the first answer",
            _in_time(2.0 * _SOON),
            hint="that one answer sets the deadline of all",
            mistake="A sum waits twice as long as the first answer took: a quick client keeps others out.",
        ),
        _sum(
            "a name that displaces its owner",
            _by_name("client 7"),
            hint="that a client may take the name of another one",
            mistake="Updates are kept by names that clients give themselves, and the last of a name counts.",
        ),
        _sum("a public deadline for every client", _in_time(_TIMEOUT), hint="the sum of all others"),
    )
