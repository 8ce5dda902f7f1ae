"""Privacy at the server: clients are sampled, their clipped updates summed, and the sum noised.

**Guarantee.** Unit client, against everybody who sees the models that the server sends out; the server itself
sees every update. Each update (sent minus received parameters) is clipped *by the server* to the L2 ball of
radius C and rounded toward zero to a public grid, where its norm is checked in integers, so that nothing
rests on the clients' honesty. The integers are summed exactly, Gaussian noise of σ is rounded to the same
grid and added, and the result is multiplied by the public number step/(q·K), K being the number of clients,
which is public. One client moves the sum by at most C (zero-out: it sends nothing) or 2C (replace), so one
round is the Gaussian mechanism of multiplier σ/C or σ/2C. A client that fails, or whose reply is refused,
counts as a zero update, whatever made it fail; K and q·K do not follow who answered.

*Sampling.* Each client takes part in a round by a coin of its own, of probability q, tossed from
``sfumato.noise`` and told to nobody but the server (Poisson sampling). One round is then the sampled Gaussian
mechanism (Mironov, Talwar & Zhang 2019), proven for zero-out neighbours only, and so refused for replace. The
coin falls with q rounded down to a multiple of 2⁻⁶⁴, and a smaller q never loses. Every client pays in every
round, sampled or not. Samples of a fixed size are another mechanism, and are not offered.

*Rounds.* The models sent out in one round shape the updates of the next: adaptive composition of the same
guarantee, by dp-accounting.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from dp_accounting import GaussianDpEvent, PoissonSampledDpEvent

from sfumato.errors import BadInput
from sfumato.learn.federated.leaving import CLIENT
from sfumato.learn.federated.parameters import Arrays, Shapes, flat, shaped, shapes_of, size_of
from sfumato.learn.federated.type_three import TensorPaper
from sfumato.mechanisms.parameters import known_neighbours, positive, shown
from sfumato.noise import Randomness, Secure, coins, gaussian_noise, grid_step, onto_grid
from sfumato.privacy import Claim, Guarantee, Neighbours

__all__ = ["AveragedTensors", "Central", "CentralGaussian"]


class Central(ABC):
    """What a trusted server does to the replies of one round; every parameter of it is public."""

    name: str

    @abstractmethod
    def guarantee(self, shapes: Shapes, clients: int) -> Guarantee:
        """What is proven of one of ``clients`` clients in one round, for layers of ``shapes``."""

    @abstractmethod
    def combined(
        self,
        replies: Mapping[str, Arrays],
        received: Arrays,
        clients: int,
        randomness: Randomness | None = None,
    ) -> Arrays:
        """The parameters after the round; ``replies`` were checked, and ``received`` is what was sent out."""

    @abstractmethod
    def claim(self) -> Claim | None:
        """What the authors of the method say of one round, or None."""

    @abstractmethod
    def parameters(self) -> dict[str, Any]:
        """Every parameter as a JSON value."""

    def sampled(self, names: Sequence[str], randomness: Randomness | None = None) -> list[str]:
        """Who takes part in a round: everybody."""
        return list(names)


@dataclass(frozen=True, kw_only=True)
class CentralGaussian(Central):
    """Gaussian noise of ``multiplier`` × sensitivity on the sum of updates clipped to ``clip`` in L2.

    ``limit`` also bounds each coordinate of an update. ``sample`` is q; where it is below 1, ``neighbours``
    must be zero-out.
    """

    multiplier: float
    clip: float
    limit: float | None = None
    sample: float = 1.0
    neighbours: str = "zero-out"
    name: str = "central-gaussian"

    def __post_init__(self) -> None:
        positive("multiplier", self.multiplier)
        positive("clip", self.clip)
        if self.limit is not None:
            positive("limit", self.limit)
        rate = self.sample
        if isinstance(rate, bool) or not isinstance(rate, int | float) or not 0.0 < rate <= 1.0:
            raise BadInput(f"sample was {shown(rate)}: a chance above 0 and of at most 1 is needed.")
        relation = known_neighbours(self.neighbours)
        if rate < 1.0 and relation is Neighbours.REPLACE:
            raise BadInput("sampled clients are proven for zero-out neighbours, not for replace.")

    def guarantee(self, shapes: Shapes, clients: int) -> Guarantee:
        """The (sampled) Gaussian mechanism."""
        event = GaussianDpEvent(float(self.multiplier))
        sampled = self.sample < 1.0
        return Guarantee(
            unit=CLIENT,
            neighbours=known_neighbours(self.neighbours),
            event=PoissonSampledDpEvent(float(self.sample), event) if sampled else event,
            theorem="Gaussian noise on the sum of clipped updates" + ", clients sampled" * sampled,
        )

    def sigma(self) -> float:
        """The deviation of the noise on the sum."""
        across = 2.0 * self.clip if known_neighbours(self.neighbours) is Neighbours.REPLACE else self.clip
        return math.nextafter(across * self.multiplier, math.inf)

    def sampled(self, names: Sequence[str], randomness: Randomness | None = None) -> list[str]:
        """Each of ``names`` by a coin of its own."""
        if self.sample == 1.0:
            return list(names)
        stream = (Secure() if randomness is None else randomness).stream(b"clients of a round")
        taken = coins(stream, min(int(self.sample * 2.0**64), (1 << 64) - 1), len(names))
        return [name for name, one in zip(names, taken, strict=True) if one]

    def combined(
        self,
        replies: Mapping[str, Arrays],
        received: Arrays,
        clients: int,
        randomness: Randomness | None = None,
    ) -> Arrays:
        """Received parameters plus the noised sum of clipped updates over the public number q·K."""
        base, sigma = flat(received), self.sigma()
        step = grid_step(sigma, self.clip / math.sqrt(base.size))
        total = np.zeros(base.size)
        for name in sorted(replies):
            update = flat(replies[name]) - base
            if self.limit is not None:
                update = np.clip(update, -self.limit, self.limit)
            total += onto_grid(update[None, :], self.clip, "l2", step)[0]
        noised = total * step + gaussian_noise(sigma, base.size, grid=step, randomness=randomness)
        return shaped(base + noised / (self.sample * clients), received)

    def claim(self) -> Claim | None:
        """The theorem's own."""
        return Claim(
            text="(ε, δ)-DP for clients by noise on the sum of their clipped updates",
            source="McMahan, Ramage, Talwar & Zhang 2018 (DP-FedAvg)",
        )

    def parameters(self) -> dict[str, Any]:
        """All of them."""
        plain = {"multiplier": self.multiplier, "clip": self.clip, "limit": self.limit, "sample": self.sample}
        return {key: value for key, value in plain.items() if value is not None} | {
            "neighbours": self.neighbours
        }


@dataclass(frozen=True, kw_only=True)
class AveragedTensors(Central):
    """TLDP's listed steps for Type III: clipped parameters are averaged, and the average is released by TLDP.

    **Guarantee.** Unit client, neighbours replace, against everybody but the server. One of K clients moves
    each averaged parameter by at most 2C/K, and by one step of the grid more once it is rounded there. So it
    is that of ``type_three`` with this distance. The paper takes the sensitivity of the average for that of
    one client, 2C√I. A client that does not answer counts as zeros, so that K stays what it was.
    """

    tensor: TensorPaper
    name: str = "averaged-tensors"

    def guarantee(self, shapes: Shapes, clients: int) -> Guarantee:
        """Everything shown with probability r, else the noise on averages 2·clip/K apart."""
        size = size_of(shapes)
        distance = 2.0 * self.tensor.clip / clients * (1.0 + 2.0**-40) + self.tensor.grid()
        return self.tensor.apart(size, distance)

    def combined(
        self,
        replies: Mapping[str, Arrays],
        received: Arrays,
        clients: int,
        randomness: Randomness | None = None,
    ) -> Arrays:
        """The average of clipped parameters, each kept or noised."""
        total = np.zeros(size_of(shapes_of(received)))
        for name in sorted(replies):
            total += np.clip(flat(replies[name]), -self.tensor.clip, self.tensor.clip)
        return shaped(self.tensor.mechanism(randomness).perturb((total / clients)[None, :])[0], received)

    def claim(self) -> Claim | None:
        """What the paper says."""
        return self.tensor.claim()

    def parameters(self) -> dict[str, Any]:
        """Those of the tensors."""
        return self.tensor.parameters()
