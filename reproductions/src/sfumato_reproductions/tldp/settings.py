"""What is released in figures 1 and 2, by which mechanism, and what is proven of it for either unit."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.mechanisms import (
    Gaussian,
    GridTensorLDP,
    Hybrid,
    IndependentDirectional,
    Laplace,
    MatrixVariateGaussian,
    PrivUnitG,
    TensorLDP,
    WeightedTensorLDP,
)
from sfumato.noise import Seeded
from sfumato.privacy import gaussian_epsilon
from sfumato_reproductions.tldp.candidate import TLDP
from sfumato_reproductions.tldp.promise import DELTA, Promise, own_promise, proven_epsilon
from sfumato_reproductions.tldp.response import composed_delta, composed_epsilon

__all__ = [
    "CLEAN",
    "GAUSSIAN",
    "GRID",
    "HYBRID",
    "PRIVUNIT",
    "SAME_NOISE",
    "SHOWN",
    "SPAN",
    "WHOLE",
    "Protected",
    "Setting",
]

Floats = NDArray[np.float32]

#: The paper's Δ; pictures and features lie between 0 and Δ.
SPAN = 256.0

#: The paper's baselines: ε is for the whole tensor.
WHOLE = ("Laplace", "Gaussian", "MVG", "IDN")
#: The noise of TLDP-L on every component, and none of them kept.
SAME_NOISE = "Laplace, one component"
GRID = "GridTensorLDP, 2 levels"
HYBRID = "Hybrid"
#: Gaussian noise on the whole tensor, calibrated at a δ of its own.
GAUSSIAN = "Gaussian at δ"
PRIVUNIT = "PrivUnitG"
#: (0, δ)-LDP: a tensor is shown as it is with probability δ, or not at all.
SHOWN = "shown or withheld"
CLEAN = "not protected"

_COMPONENTWISE = (SAME_NOISE, GRID, HYBRID)
_MATRICES = ("MVG", "IDN")


@dataclass(frozen=True)
class Protected:
    """Released tensors (n, I), the root mean square of what was added, and which rows they are."""

    values: Floats
    spread: float
    rows: NDArray[np.intp]


@dataclass(frozen=True)
class Setting:
    """A mechanism by its name in the figures, with its ε and, for some, a δ of its own.

    ε is that of a component for TLDP (the claimed one), ``SAME_NOISE``, ``GRID`` and ``HYBRID``, else that of
    a tensor. δ is the paper's unless ``GAUSSIAN`` or ``SHOWN`` is given another.
    """

    kind: str
    epsilon: float = 0.0
    delta: float = DELTA

    def mechanism(self, shape: tuple[int, ...], seed: int) -> Any:
        """The mechanism for tensors of ``shape``, with reproducible noise."""
        given: dict[str, Any] = {"bounds": (0.0, SPAN), "randomness": Seeded(seed)}
        epsilon, matrix = self.epsilon, (shape[0], math.prod(shape[1:]))
        if self.kind in TLDP:
            noise, weights = TLDP[self.kind]
            if weights is None:
                return TensorLDP(epsilon, noise=noise, delta=self.delta, **given)
            return WeightedTensorLDP(epsilon, noise=noise, delta=self.delta, weights=weights, **given)
        if self.kind in ("Gaussian", GAUSSIAN):
            return Gaussian(epsilon, self.delta, **given)
        if self.kind == "MVG":
            return MatrixVariateGaussian(epsilon, self.delta, calibration="paper", shape=matrix, **given)
        if self.kind == "IDN":
            return IndependentDirectional(epsilon, self.delta, calibration="paper", shape=shape, **given)
        if self.kind == GRID:
            return GridTensorLDP(epsilon, levels=2, unit="component", **given)
        if self.kind == HYBRID:
            return Hybrid(epsilon, **given)
        if self.kind == PRIVUNIT:
            half = math.sqrt(math.prod(shape)) * SPAN / 2.0
            return PrivUnitG(epsilon, half, randomness=given["randomness"])
        return Laplace(epsilon, **given)

    def protected(self, values: Floats, shape: tuple[int, ...], seed: int) -> Protected:
        """A release of ``values`` (n, I), made unbiased where the mechanism's own is not."""
        rows, size = np.arange(len(values)), values.shape[1]
        if self.kind == CLEAN:
            return Protected(values, 0.0, rows)
        if self.kind == SHOWN:
            # As many rows as without protection, so that a learner takes as many steps.
            draw = np.random.default_rng(seed)
            shown = np.flatnonzero(draw.random(len(values)) < self.delta)
            kept = draw.choice(shown if len(shown) else rows[:1], len(values))
            return Protected(values[kept], 0.0, kept)
        mechanism = self.mechanism(shape, seed)
        if self.kind == GRID:
            released = mechanism.unbiased(mechanism.release(values).value).astype(np.float32)
            estimates = mechanism.unbiased(np.array([[0.0], [SPAN]]))[:, 0]
            spread = math.sqrt(float(mechanism.channel(1).matrix[0] @ np.square(estimates)))
        elif self.kind == PRIVUNIT:
            half = np.float32(SPAN / 2.0)
            released = mechanism.release(values - half).value + half
            spread = mechanism.expected_error(size)[0].value
        else:
            columns = 1 if self.kind in _COMPONENTWISE else size
            released = mechanism.release(values.reshape(-1, columns)).value.reshape(values.shape)
            spread = mechanism.expected_error(columns)[0].value
        return Protected(released, spread, rows)

    def epsilon_at(self, unit: str, shape: tuple[int, ...], delta: float) -> float:
        """The ε that is proven of ``unit`` at ``delta`` under replace; infinite where nothing is."""
        size, whole = math.prod(shape), unit == "tensor"
        if self.kind == CLEAN:
            return math.inf
        if self.kind == SHOWN:
            return 0.0 if delta >= self.delta else math.inf
        if self.kind in TLDP:
            return proven_epsilon(self.mechanism(shape, 0), unit, size, delta)
        if self.kind in _COMPONENTWISE:
            return composed_epsilon(self.epsilon, size, delta) if whole else self.epsilon
        if self.kind in ("Gaussian", GAUSSIAN):
            mu = 1.0 / self.mechanism(shape, 0).guarantee(size).event.noise_multiplier
            return gaussian_epsilon(mu / (1.0 if whole else math.sqrt(size)), delta)
        if self.kind in _MATRICES:
            statement = self.mechanism(shape, 0).statement(size)
            both = {str(made.unit): made for made in (statement.proven, *statement.also_proven)}
            return float(both[unit].epsilon(delta))
        if self.kind == "Laplace" and not whole:
            return self.epsilon / size
        return self.epsilon  # what is proven of a tensor holds for each of its components

    def proven(self, unit: str, shape: tuple[int, ...]) -> Promise:
        """(ε, δ) for ``unit``: TLDP at its own δ, the others at theirs."""
        if self.kind in TLDP:
            return own_promise(self.mechanism(shape, 0), unit, math.prod(shape))
        return Promise(unit, self.epsilon_at(unit, shape, self.delta), self.delta)

    def keeps_to(self, promise: Promise, shape: tuple[int, ...]) -> bool:
        """Whether what is proven of ``promise``'s unit is no weaker than ``promise``."""
        if self.kind in _COMPONENTWISE and promise.unit == "tensor":
            # By δ, which moves by far less than ε where many components are composed.
            made = composed_delta(self.epsilon, math.prod(shape), promise.epsilon)
            return made <= promise.delta * (1.0 + 1e-9)
        return promise.kept_by(self.epsilon_at(promise.unit, shape, promise.delta))
