"""TLDP on model parameters as its paper lists it for federated learning (Type III, section 5.2.3).

Parameters, not updates, are clipped in L∞ to C, and each one is kept as it is with probability p or noised,
with the Δ of the paper's table 4 (256, or 400001 for the text model), which is far wider than the 2C that
clipped parameters can differ by. The text speaks of local privacy, before anything is transmitted; the listed
steps clip at the clients and noise the *averaged* parameters. Both are built: :class:`TensorPaper` at the
client, :class:`AveragedTensors` in ``central_noise`` at the server.

**Guarantee.** Unit client, neighbours replace. That of ``tensor_ldp`` for a whole tensor of all I parameters:
some component is kept with probability r = 1 − (1 − p)^I, and then everything counts as shown; otherwise
noise of scale b on values at most 2C apart in each of I components, which are on the grid no farther apart,
since they are rounded toward zero. For a network under Laplace noise r is next to one, and no δ below r has
an ε; for Gaussian noise p falls with e^−ε, and at a large ε the noise alone counts. The paper claims ε for
each round and says nothing of all rounds together.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from dp_accounting import GaussianDpEvent, LaplaceDpEvent

from sfumato.errors import BadInput
from sfumato.learners.federated.parameter_vectors import Arrays, Shapes, shaped, size_of
from sfumato.learners.federated.protection_base import CLIENT, Protection, finite_or_zero, same_shapes
from sfumato.mechanisms import TensorLDP
from sfumato.mechanisms.parameters import one_of, positive
from sfumato.noise import Randomness, grid_step
from sfumato.privacy import Claim, Guarantee
from sfumato.privacy.defaults import DELTA, REQUIRED

__all__ = ["TensorPaper"]


@dataclass(frozen=True, kw_only=True)
class TensorPaper(Protection):
    """Each client's parameters, clipped to ±``clip`` and released by TLDP with Δ = ``span``.

    ``noise`` is laplace or gaussian, ``retain`` the formula of p (see ``TensorLDP``); ``delta`` is that of
    the Gaussian noise alone.
    """

    epsilon: float = REQUIRED
    noise: str = "laplace"
    clip: float = 1.0
    span: float = 256.0
    retain: str = "algorithm"
    delta: float = DELTA
    name: str = "tensor-ldp"

    def __post_init__(self) -> None:
        one_of("noise", self.noise, ("laplace", "gaussian"))
        if 2.0 * positive("clip", self.clip) > positive("span", self.span):
            raise BadInput(
                f"`span` was {self.span:g}: it must be at least twice the clip, {2.0 * self.clip:g}.",
                parameter="span",
            )

    def mechanism(self, randomness: Randomness | None = None) -> TensorLDP:
        """TLDP for parameters between ±span/2, all of them one tensor."""
        half = self.span / 2.0
        return TensorLDP(
            self.epsilon,
            (-half, half),
            noise=self.noise,
            retain=self.retain,
            delta=self.delta,
            unit="tensor",
            randomness=randomness,
        )

    def guarantee(self, shapes: Shapes) -> Guarantee:
        """Everything shown with probability r, else the noise on parameters 2·clip apart."""
        return self.apart(size_of(shapes), 2.0 * self.clip)

    def apart(self, size: int, distance: float) -> Guarantee:
        """What is proven of ``size`` values that neighbours move by at most ``distance`` each."""
        whole = self.mechanism().guarantee(size)
        noise = self.noise_apart(size, distance)
        theorem = f"{whole.theorem}, clipped values"
        # Where something is shown for certain nothing is proven, however much noise the rest has.
        event = None if whole.proves_nothing else noise.event
        return replace(whole, event=event, unit=CLIENT, theorem=theorem)

    def noise_apart(self, size: int, distance: float) -> Guarantee:
        """What the noise alone would prove of such values if none of them were ever shown."""
        noise = self.mechanism().noise_alone("tensor", size)
        assert isinstance(noise.event, LaplaceDpEvent | GaussianDpEvent)
        # The event of values ``span`` apart; a hair less noise than it has, for the rounding.
        multiplier = noise.event.noise_multiplier * (self.span / distance) * (1.0 - 2.0**-50)
        return replace(noise, event=type(noise.event)(multiplier), unit=CLIENT)

    def protect(self, arrays: Arrays, received: Arrays, randomness: Randomness | None = None) -> Arrays:
        """Clipped, then kept or noised."""
        values = np.clip(finite_or_zero(same_shapes(arrays, received)), -self.clip, self.clip)
        return shaped(self.mechanism(randomness).perturb(values[None, :])[0], received)

    def claim(self) -> Claim | None:
        """What the paper says."""
        return Claim(
            text="ε-LDP for the model parameters of one round",
            source="TLDP, theorem 1 and section 5.2.3",
            epsilon=positive("epsilon", self.epsilon),
            delta=0.0,
        )

    def parameters(self) -> dict[str, Any]:
        """All of them."""
        plain = {"epsilon": self.epsilon, "noise": self.noise, "clip": self.clip, "span": self.span}
        return plain | {"retain": self.retain} | ({"delta": self.delta} if self.noise == "gaussian" else {})

    def grid(self) -> float:
        """The step of the grid that values are rounded to."""
        root = self.epsilon if self.noise == "laplace" else math.sqrt(2.0 * self.epsilon)
        return grid_step(self.span / root, self.span / 2.0)
