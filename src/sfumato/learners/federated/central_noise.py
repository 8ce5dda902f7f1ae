"""Central privacy: the server samples clients, sums their clipped updates, and adds noise to the sum.

**Guarantee.** Unit client, against everybody who sees the models that the server sends out; the server itself
sees every update. Each update (sent minus received parameters) is clipped *by the server* to the L2 ball of
radius C and rounded toward zero to a public grid, where its norm is checked in integers, so that nothing
rests on the clients' honesty. The integers are summed exactly, Gaussian noise of σ is rounded to the same
grid and added, and the result is multiplied by the public number step/(q·K), K being the number of clients,
which is public. One client moves the sum by at most C (zero-out: an update of zero) or 2C (replace), so one
round is the Gaussian mechanism of multiplier σ/C or σ/2C.

*Membership.* This holds because who is in a sum is decided for each client by itself. Let aⱼ be what client j
answers in a round, "nothing" included. The sum is Σⱼ bⱼ·g(aⱼ), where bⱼ is the coin of client j and g maps
every answer to a vector of norm at most C and depends on public numbers alone: the model that was sent out,
its shape, C, the longest reply that is read, the seconds that a client has. g is zero where no reply was read
by the deadline, and for every reply that is refused: an error, other shapes, NaN, too many bytes, what cannot
be decoded, no proof of the name. Changing aⱼ changes one summand, since

- the deadline is a number of seconds after the round was sent, the same for all, and a thread of its own
  waits for each client (``gather`` in ``rounds``): neither when others answer nor how long their replies
  take to read moves it;
- each reply is read by itself (``Replies.take`` in ``rounds``), and whatever goes wrong there is zero for
  that client alone;
- names are assigned by the server or proven by a secret (``Credential``), and a name counts once. Over gRPC
  an answer counts for the name of its stream; over Flower a reply counts for the node that was sent the
  message which it names, whose number nobody else knows, and only the first of each node: no client takes
  the place of another;
- who is asked depends on coins and on names, not on earlier answers: every client that is there is asked
  again after a round that it missed;
- a run begins once K nodes were there, or after a public number of seconds without those that are missing.
  As long as one is missing it does not begin earlier, so a client is in time if it appears within these
  seconds, whether others do or not; where names are assigned, coins are too, which are independent and told
  to nobody;
- the divisor q·K is public, nothing that clients do ends a run, or keeps it from beginning, and a round
  without answers releases noise;
- a clip has at most 2²⁶ steps of the grid, so that sums of fewer than 2²⁷ clients are exact in float64 in any
  order.

Premise: what a client answers, and whether it appears and answers in time, depends on its own records and
coins and on the models, and not on other clients in any other way; and a client has one node. A round that
was interrupted is asked for again, by the same coins, and aⱼ is the answer to the last asking: whether and
when a run is interrupted must not depend on records. Clients that
share a machine take time from each other, and a round begins when the one before has ended:
``docs/limits.md`` says what that leaves. In one process, and in a simulation, where clients take turns, there
is therefore no deadline.

*Sampling.* Each client takes part in a round by a coin of its own, of probability q, tossed from
``sfumato.noise`` and told to nobody but the server (Poisson sampling). One round is then the sampled Gaussian
mechanism (Mironov, Talwar & Zhang 2019), proven for zero-out neighbours only, and so refused for replace. The
coin falls with q rounded down to a multiple of 2⁻⁶⁴, and a smaller q never loses. Every client pays in every
round, sampled or not. Samples of a fixed size are another mechanism, and are not offered.

*Rounds.* The models sent out in one round shape the updates of the next: adaptive composition of the same
guarantee, by dp-accounting. A client may also remember in which rounds it was asked. Given all models so far
and all coins of the others, its update x is then random, but the coin of this round is not known to it before
it is asked: the release is a mixture, over x, of (1 − q)·N(s, σ²) + q·N(s + x, σ²) with ‖x‖ ≤ C, against
N(s, σ²). Hockey-stick divergences are jointly convex, so no mixture is worse than the worst x.

**Calibration.** The ε that is asked for is that of one client over all rounds. Each round has the same
guarantee, and its noise is found by bisection: the least with which the rounds, composed by dp-accounting,
keep to (ε, δ). That is sound for rounds whose inputs depend on earlier rounds, since what is fixed in advance
is every round's privacy curve. Whatever the search does, what it returns was checked.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from dp_accounting import GaussianDpEvent, PoissonSampledDpEvent

from sfumato.errors import BadInput
from sfumato.learners.federated.local_training import Arrays, Shapes, as_layers, flat_vector, size_of
from sfumato.learners.federated.protections import (
    CLIENT,
    RoundMechanism,
    TensorPaper,
    Vector,
    make_protection,
)
from sfumato.mechanisms import known_neighbours, positive, shown
from sfumato.noise import Randomness, Secure, coins, gaussian_noise, grid_step, onto_grid
from sfumato.privacy import DELTA, FEDERATED, Claim, Guarantee, Neighbours

__all__ = ["Central", "calibrate", "make_central"]

_TURNS = 44
_WEAKEST, _STRONGEST = 1e-9, 1e9
# A step of the search costs a composition; what is left on the table is less noise by this share.
_CLOSE = 5e-4


def calibrate(
    guarantee_of: Callable[[float], Guarantee],
    *,
    rounds: int,
    epsilon: float,
    delta: float,
    also: Callable[[Guarantee], bool] | None = None,
) -> float:
    """Return the largest strength whose guarantee, ``rounds`` times, is at most (``epsilon``, ``delta``).

    ``guarantee_of(strength)`` is that of one round, and its ε must not fall with the strength: the ε of one
    round, or one over a noise multiplier. ``also(guarantee)`` may refuse more, such as what a budget would
    not admit.
    """

    def keeps(strength: float) -> bool:
        try:
            one = guarantee_of(strength)
        except BadInput:
            return False  # parameters so extreme that nothing can be drawn with them
        held = one.times(rounds).epsilon(delta) <= epsilon
        return held and (also is None or also(one))

    low = epsilon / rounds
    while not keeps(low):
        low /= 4.0
        if low < _WEAKEST * epsilon:
            guarantee_of(epsilon)  # says in its own sentence what is wrong with the parameters
            raise BadInput(
                f"no noise keeps {rounds} rounds to ε = {epsilon:g} at δ = {delta:g}: take a larger ε or "
                "δ, or fewer rounds."
            )
    high = 2.0 * low
    while keeps(high):
        low, high = high, 4.0 * high
        if high > _STRONGEST * epsilon:
            return low
    for _ in range(_TURNS):
        if high / low < 1.0 + _CLOSE:
            break
        middle = math.sqrt(low * high)
        low, high = (middle, high) if keeps(middle) else (low, middle)
    return low


class Central(RoundMechanism):
    """A trusted server's mechanism on the replies of one round."""

    @abstractmethod
    def guarantee(self, shapes: Shapes, clients: int) -> Guarantee:
        """Return that of one of ``clients`` clients in one round, for layers of ``shapes``."""

    @abstractmethod
    def summand(self, reply: Vector, received: Vector) -> Vector:
        """Return what one reply adds to the sum: g of the theorem, bounded whatever the reply holds."""

    @abstractmethod
    def released(
        self, total: Vector, received: Vector, clients: int, randomness: Randomness | None
    ) -> Vector:
        """Return the parameters after the round, drawn from the sum ``total``."""

    def combined(
        self,
        replies: Mapping[str, Arrays],
        received: Arrays,
        clients: int,
        randomness: Randomness | None = None,
    ) -> Arrays:
        """Return the parameters after the round; ``replies`` are checked, ``received`` is what was sent."""
        base = flat_vector(received)
        total = np.zeros(base.size)
        for name in sorted(replies):
            total += self.summand(flat_vector(replies[name]), base)
        return as_layers(self.released(total, base, clients, randomness), received)

    def sampled(self, names: Sequence[str], randomness: Randomness | None = None) -> list[str]:
        """Return who takes part in a round: everybody."""
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
            raise BadInput(
                f"`sample` was {shown(rate)}: a chance above 0 and of at most 1 is needed.",
                parameter="sample",
            )
        if known_neighbours(self.neighbours) is Neighbours.REPLACE and rate < 1.0:
            raise BadInput("sampled clients are proven for zero-out neighbours, not for replace.")

    def guarantee(self, shapes: Shapes, clients: int) -> Guarantee:
        """Return the (sampled) Gaussian mechanism."""
        step = self._step(size_of(shapes))
        # Refuses a clip with too many steps, which could not be summed, before anybody pays.
        onto_grid(np.zeros((1, 1)), self.clip, "l2", step)
        event = GaussianDpEvent(float(self.multiplier))
        sampled = self.sample < 1.0
        return Guarantee(
            unit=CLIENT,
            neighbours=known_neighbours(self.neighbours),
            event=PoissonSampledDpEvent(float(self.sample), event) if sampled else event,
            theorem="Gaussian noise on the sum of clipped updates" + ", clients sampled" * sampled,
        )

    def sigma(self) -> float:
        """Return the deviation of the noise on the sum."""
        across = 2.0 * self.clip if known_neighbours(self.neighbours) is Neighbours.REPLACE else self.clip
        return math.nextafter(across * self.multiplier, math.inf)

    def sampled(self, names: Sequence[str], randomness: Randomness | None = None) -> list[str]:
        """Return each of ``names`` by a coin of its own."""
        if self.sample == 1.0:
            return list(names)
        stream = (Secure() if randomness is None else randomness).stream(b"clients of a round")
        taken = coins(stream, min(int(self.sample * 2.0**64), (1 << 64) - 1), len(names))
        return [name for name, one in zip(names, taken, strict=True) if one]

    def summand(self, reply: Vector, received: Vector) -> Vector:
        """Return the clipped update on the grid."""
        update = reply - received
        if self.limit is not None:
            update = np.clip(update, -self.limit, self.limit)
        return np.asarray(onto_grid(update[None, :], self.clip, "l2", self._step(update.size))[0])

    def released(
        self, total: Vector, received: Vector, clients: int, randomness: Randomness | None
    ) -> Vector:
        """Return received parameters plus the noised sum over the public number q·K."""
        step = self._step(total.size)
        noise = gaussian_noise(self.sigma(), total.size, grid=step, randomness=randomness)
        return received + (total * step + noise) / (self.sample * clients)

    def _step(self, size: int) -> float:
        """Return the step of the grid for ``size`` parameters."""
        return grid_step(self.sigma(), self.clip / math.sqrt(size))

    def claim(self) -> Claim | None:
        """Return the theorem's own."""
        return Claim(
            text="(ε, δ)-DP for clients by noise on the sum of their clipped updates",
            source="McMahan, Ramage, Talwar & Zhang 2018 (DP-FedAvg)",
        )

    def parameters(self) -> dict[str, Any]:
        """Return all parameters that are given."""
        plain = {name: value for name, value in asdict(self).items() if value is not None}
        del plain["name"]
        return plain


@dataclass(frozen=True, kw_only=True)
class AveragedTensors(Central):
    """TLDP's listed steps for Type III: clipped parameters are averaged, and the average is released by TLDP.

    **Guarantee.** Unit client, neighbours replace, against everybody but the server. One of K clients moves
    each averaged parameter by at most 2C/K, by 2⁻⁵⁰·K·C more for the rounding of two sums of K numbers (each
    errs by at most K·2⁻⁵³·K·C), and by one step of the grid more once it is rounded there. So it is that of
    ``TensorPaper`` with this distance. The paper takes the sensitivity of the average for that of one
    client, 2C√I. A client that does not answer counts as zeros, so that K stays what it was; who is in the
    average is decided as the module says.
    """

    tensor: TensorPaper
    name: str = "averaged-tensors"

    def guarantee(self, shapes: Shapes, clients: int) -> Guarantee:
        """Return: all shown with probability r, else the noise on averages 2·clip/K apart."""
        rounding = self.tensor.clip * (2.0**-40 / clients + 2.0**-50 * clients)
        distance = 2.0 * self.tensor.clip / clients + rounding + self.tensor.grid()
        return self.tensor.apart(size_of(shapes), distance)

    def summand(self, reply: Vector, received: Vector) -> Vector:
        """Return the clipped parameters."""
        return np.clip(reply, -self.tensor.clip, self.tensor.clip)

    def released(
        self, total: Vector, received: Vector, clients: int, randomness: Randomness | None
    ) -> Vector:
        """Return the average, each parameter of it kept or noised."""
        return np.asarray(self.tensor.mechanism(randomness).perturb((total / clients)[None, :])[0])

    def claim(self) -> Claim | None:
        """Return the paper's claim."""
        return self.tensor.claim()

    def parameters(self) -> dict[str, Any]:
        """Return the parameters of the tensors."""
        return self.tensor.parameters()


def make_central(
    mechanism: str,
    *,
    strength: float,
    delta: float = DELTA,
    clip: float | None = None,
    limit: float | None = None,
    neighbours: str = FEDERATED.neighbours,
    sample: float = 1.0,
    **options: Any,
) -> Central:
    """Return the mechanism of a trusted server for ``gaussian`` or ``tensor-ldp``.

    ``strength`` is one over the noise multiplier for gaussian, and the paper's ε of a round for tensor-ldp,
    whose ``options`` are those of :func:`~sfumato.learners.federated.make_protection`.
    """
    if mechanism == "tensor-ldp":
        given: dict[str, Any] = {"delta": delta, "clip": clip, "limit": limit, "neighbours": neighbours}
        tensor = make_protection(mechanism, epsilon=strength, **given, **options)
        assert isinstance(tensor, TensorPaper)
        return AveragedTensors(tensor=tensor)
    if clip is None:
        raise BadInput(
            "a central gaussian needs `clip`, the largest L2 norm of an update; read off data it leaks.",
            parameter="clip",
        )
    return CentralGaussian(
        multiplier=1.0 / strength, clip=clip, limit=limit, sample=sample, neighbours=neighbours
    )
