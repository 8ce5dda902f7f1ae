"""Protections of what a client sends, by name: their interface, and each with its guarantee.

Every client draws its own noise in every round, also where a run can be repeated.

**UpdateNoise**: any sound mechanism for tensors on what a client learned in one round, its update, clipped.

*Guarantee.* Unit client; neighbours replace (another client's records in its place) or zero-out (a client
that learned nothing). The update, trained minus received parameters, is one vector. It is limited to
±``limit`` in every coordinate (L∞) where a limit is declared, and clipped to ``clip`` in the norm of the
mechanism (L2; L1 for Laplace noise), both by maps that look at nothing else, and becomes the one record of a
mechanism whose theorem stands with it. A mechanism for a box takes ±``limit`` as its bounds, after clipping
to ``clip`` in L2 where that is declared. What is sent, received plus released update in single precision, is
a function of the release and of what everybody knows. What a client received depends on earlier releases of
all clients: the rounds compose adaptively, with the same guarantee in each of them.

**RepeatedReports**: several PrivUnitG reports of one update, averaged. One report gains little beyond ε = 40,
several of 40 do. *Guarantee.* Unit client, neighbours replace. Each of k reports is the release of one record
by PrivUnitG, ε₀-LDP by the theorem that stands there. Their coins are independent, so k reports compose to
the pure kε₀, and to less at a δ above 0; their mean is post-processing. k and ε₀ are functions of the
declared ε of a round alone: k = ⌈ε/each⌉ and ε₀ = ε/k, a hair less, so that kε₀ never passes ε. The error of
the mean falls as 1/k.

**TensorPaper**: TLDP on model parameters as its paper lists it for federated learning (Type III, section
5.2.3). Parameters, not updates, are clipped in L∞ to C, and each one is kept as it is with probability p or
noised, with the Δ of the paper's table 4 (256, or 400001 for the text model), which is far wider than the 2C
that clipped parameters can differ by. The text speaks of local privacy, before anything is transmitted; the
listed steps clip at the clients and noise the *averaged* parameters. Both are built: :class:`TensorPaper` at
the client, :class:`AveragedTensors` in ``central_noise`` at the server.

*Guarantee.* Unit client, neighbours replace. That of ``TensorLDP`` for a whole tensor of all I parameters:
some component is kept with probability r = 1 − (1 − p)^I, and then everything counts as shown; otherwise
noise of scale b on values at most 2C apart in each of I components, which are on the grid no farther apart,
since they are rounded toward zero. For a network under Laplace noise r is next to one, and no δ below r has
an ε; for Gaussian noise p falls with e^−ε, and at a large ε the noise alone counts. The paper claims ε for
each round and says nothing of all rounds together.

*Edge cases.* What is not finite counts as zeros. Bounds are declared and never read off an update.
"""

from __future__ import annotations

import hashlib
import math
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from dp_accounting import GaussianDpEvent, LaplaceDpEvent
from numpy.typing import NDArray

from sfumato.errors import BadInput, quoted
from sfumato.learners.federated.local_training import (
    Arrays,
    Shapes,
    as_layers,
    flat_vector,
    shapes_of,
    size_of,
)
from sfumato.mechanisms import (
    Duchi,
    Gaussian,
    GridTensorLDP,
    HessianClipped,
    Hybrid,
    IndependentDirectional,
    Laplace,
    LayerAdaptive,
    MatrixVariateGaussian,
    Mechanism,
    Piecewise,
    PrivUnit,
    PrivUnitG,
    TensorLDP,
    one_of,
    parameters_of,
    positive,
)
from sfumato.noise import Keyed, Randomness, Secure, Seeded, Stream, grid_step
from sfumato.privacy import DELTA, FEDERATED, REQUIRED, Claim, Guarantee, Unit

__all__ = ["CLIENT", "PROTECTIONS", "Protection", "TensorPaper", "make_protection", "protection_name"]

#: All parameters of a model, layer after layer.
Vector = NDArray[np.float64]

CLIENT = Unit(FEDERATED.unit)
# All reports of a round are in memory at once.
_MOST = 1000
#: Names on the command line, and the mechanisms behind them.
UPDATE_MECHANISMS: Mapping[str, type[Mechanism]] = {
    "gaussian": Gaussian,
    "laplace": Laplace,
    "grid-tensor-ldp": GridTensorLDP,
    "priv-unit": PrivUnit,
    "priv-unit-g": PrivUnitG,
    "duchi": Duchi,
    "piecewise": Piecewise,
    "hybrid": Hybrid,
    "layer-adaptive": LayerAdaptive,
    "hessian-clipped": HessianClipped,
    "matrix-variate-gaussian": MatrixVariateGaussian,
    "independent-directional": IndependentDirectional,
    "repeated-priv-unit-g": PrivUnitG,
}
#: Names on the command line; the paper's own names of its baselines are understood too.
PROTECTIONS = (*UPDATE_MECHANISMS, "tensor-ldp", "none")
_ALSO = {
    "llagp": "layer-adaptive",
    "dphsgd": "hessian-clipped",
    "mvg": "matrix-variate-gaussian",
    "idn": "independent-directional",
    "privunit": "priv-unit",
    "privunitg": "priv-unit-g",
    "tldp": "tensor-ldp",
}


def randomness_of(
    randomness: Randomness | None, who: str, round: int, content: Mapping[str, Arrays] | None = None
) -> Randomness:
    """Return the randomness of ``who`` in ``round``; no two of a seeded or keyed run share any noise.

    Keyed noise is keyed by the ``content`` that it is added to as well: a round that was interrupted may have
    another one when it is drawn again.
    """
    if isinstance(randomness, Seeded):
        label = f"sfumato federated\0{randomness.seed}\0{round}\0{who}".encode()
        return Seeded(int.from_bytes(hashlib.sha256(label).digest()[:16], "little"))
    if isinstance(randomness, Keyed):
        digest = hashlib.sha256()
        for name, arrays in sorted((content or {}).items()):
            for part in (name.encode(), flat_vector(arrays).tobytes()):
                digest.update(hashlib.sha256(part).digest())
        return _OfContent(randomness.part(f"round {round} of {who}"), digest.digest())
    return randomness or Secure()


class _OfContent(Randomness):
    """The streams of ``noise`` for one content."""

    def __init__(self, noise: Keyed, digest: bytes) -> None:
        self._noise, self._digest = noise, digest

    def stream(self, label: bytes) -> Stream:
        """Return the stream of ``label`` for this content."""
        return self._noise.stream(self._digest + label)


class RoundMechanism(ABC):
    """What adds the noise of a round, at each client or at the server; all its parameters are public."""

    name: str

    def claim(self) -> Claim | None:
        """Return the authors' claim about one round, or None."""
        return None

    def parameters(self) -> dict[str, Any]:
        """Return every parameter that is given as a JSON value."""
        return {}


class Protection(RoundMechanism):
    """A protection of a client's parameters before they leave it.

    The unit is the client: all records that it holds. What it received is known to everybody, so it may be
    used freely. What is not finite counts as zeros, which is a function of the client's own records: the
    guarantee covers a training that diverged too.
    """

    #: Whether the update is released, and added to what was received; otherwise the parameters are.
    of_updates: ClassVar[bool] = True

    @abstractmethod
    def guarantee(self, shapes: Shapes) -> Guarantee:
        """Return that of one client in one round, for layers of ``shapes``; no data is needed."""

    @abstractmethod
    def released(self, vector: Vector, shapes: Shapes, randomness: Randomness | None) -> Vector:
        """Draw the release of ``vector``, of layers of ``shapes``, with the noise of the guarantee."""

    def protect(self, arrays: Arrays, received: Arrays, randomness: Randomness | None = None) -> Arrays:
        """Return what a client that made ``arrays`` of ``received`` sends.

        ``randomness`` is the client's own in this round (:func:`randomness_of`), unless given the operating
        system's.
        """
        shapes = shapes_of(received)
        if shapes_of(arrays) != shapes:
            raise BadInput(
                f"layers of the shapes {shapes_of(arrays)} were trained from layers of {shapes}: every "
                "client must train the model that it received."
            )
        made, base = flat_vector(arrays), flat_vector(received) if self.of_updates else 0.0
        with np.errstate(invalid="ignore"):
            vector = made - base
        if not np.isfinite(vector).all():
            vector = np.zeros_like(vector)
        return as_layers(base + self.released(vector, shapes, randomness), received)

    def at(self, progress: float) -> Protection:
        """Return the protection when a share ``progress`` of all rounds is done; same guarantee."""
        return self


@dataclass(frozen=True)
class NoProtection(Protection):
    """Parameters leave as they are: nothing is proven."""

    name: str = "none"

    def guarantee(self, shapes: Shapes) -> Guarantee:
        """Return a guarantee of nothing."""
        return Guarantee.nothing("parameters leave the client as they are", CLIENT)

    def protect(self, arrays: Arrays, received: Arrays, randomness: Randomness | None = None) -> Arrays:
        """Return the parameters themselves, also where they are not finite."""
        return [np.asarray(array, dtype=np.float32).copy() for array in arrays]

    def released(self, vector: Vector, shapes: Shapes, randomness: Randomness | None) -> Vector:
        """Return the vector itself."""
        return vector


@dataclass(frozen=True, kw_only=True)
class UpdateNoise(Protection):
    """A mechanism of ``UPDATE_MECHANISMS`` on the clipped update; ``epsilon`` is that of one round.

    ``options`` are further parameters of the mechanism, such as ``levels`` or ``curvature``.
    """

    name: str
    epsilon: float = REQUIRED
    delta: float = DELTA
    clip: float | None = None
    limit: float | None = None
    neighbours: str = FEDERATED.neighbours
    options: Mapping[str, Any] = field(default_factory=dict)
    progress: float = 0.0

    def __post_init__(self) -> None:
        needed, what = ("limit", "L∞ bound") if self._box() else ("clip", "norm")
        if getattr(self, needed) is None:
            raise BadInput(
                f"{self.name} needs `{needed}`, the largest {what} of an update; read off data it leaks.",
                parameter=needed,
            )
        for bound in ("clip", "limit"):
            if getattr(self, bound) is not None:
                positive(bound, getattr(self, bound))
        if "neighbours" not in self._accepted():
            require_replace(self.name, self.neighbours)
        refuse_foreign(self.name, set(self.options) - set(self._accepted()))

    @property
    def count(self) -> int:
        """The number of reports in a round, whose mean is sent."""
        return 1

    def mechanism(self, shapes: Shapes, randomness: Randomness | None = None) -> Mechanism:
        """Return the mechanism of one report of an update of layers of ``shapes``."""
        # Sums of ε stay below what was declared.
        epsilon = self.epsilon if self.count == 1 else self.epsilon / self.count * (1.0 - 2.0**-40)
        known: dict[str, Any] = {"epsilon": epsilon, "randomness": randomness}
        if self._box():
            known |= {"bounds": (-float(self.limit or 0.0), float(self.limit or 0.0)), "outside": "clip"}
        else:
            known |= {"clip": self.clip}
        more = {
            "delta": self.delta,
            "neighbours": self.neighbours,
            "layers": [shape or (1,) for shape in shapes],
            "progress": self.progress,
        }
        known |= {name: value for name, value in more.items() if name in self._accepted()}
        return UPDATE_MECHANISMS[self.name](**(known | dict(self.options)))

    def guarantee(self, shapes: Shapes) -> Guarantee:
        """Return that of all reports, for the unit client."""
        one = self.mechanism(shapes).guarantee(size_of(shapes))
        return replace(one if self.count == 1 else one.times(self.count), unit=CLIENT)

    def released(self, vector: Vector, shapes: Shapes, randomness: Randomness | None) -> Vector:
        """Return the mean of the reports, which draw noise of their own as rows of one release."""
        drawn = self.mechanism(shapes, randomness)
        reports = drawn.perturb(np.repeat(self._limited(vector)[None, :], self.count, axis=0))
        if isinstance(drawn, GridTensorLDP):
            reports = drawn.unbiased(reports)
        return np.asarray(np.asarray(reports, dtype=np.float64).mean(axis=0))

    def claim(self) -> Claim | None:
        """Return the claim of the mechanism's authors about one report."""
        return self.mechanism([(1,)]).claim()

    def parameters(self) -> dict[str, Any]:
        """Return all parameters that are given."""
        plain: dict[str, Any] = {"epsilon": self.epsilon, "clip": self.clip, "limit": self.limit}
        plain |= {"neighbours": self.neighbours}
        if "delta" in self._accepted():
            plain["delta"] = self.delta
        options = {
            name: value if isinstance(value, int | float | str) else "declared"
            for name, value in self.options.items()
        }
        return {name: value for name, value in plain.items() if value is not None} | options

    def at(self, progress: float) -> Protection:
        """Return this with shares of the layers for ``progress``, where the mechanism has such; ε stays."""
        return replace(self, progress=progress) if "progress" in self._accepted() else self

    def _limited(self, update: Vector) -> Vector:
        """Clip by the bound that is not the mechanism's own, where it is declared."""
        if self._box():
            if self.clip is None:
                return update
            with np.errstate(over="ignore"):
                length = float(np.linalg.norm(update))
            return update * min(1.0, self.clip / length) if length > 0.0 else update
        return update if self.limit is None else np.clip(update, -self.limit, self.limit)

    def _box(self) -> bool:
        """Return whether the mechanism bounds each coordinate, and no norm."""
        return "clip" not in self._accepted()

    def _accepted(self) -> Mapping[str, object]:
        return parameters_of(UPDATE_MECHANISMS[self.name])


@dataclass(frozen=True, kw_only=True)
class RepeatedReports(UpdateNoise):
    """The mean of PrivUnitG reports, of at most ``each``, of the clipped update.

    ``epsilon`` is that of all reports of a round together.
    """

    name: str = "repeated-priv-unit-g"
    each: float = 40.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if positive("epsilon", self.epsilon) > _MOST * positive("each", self.each):
            raise BadInput(
                f"an epsilon of {self.epsilon:g} would take more than {_MOST:,} reports of {self.each:g}; "
                "take a smaller epsilon or a larger each."
            )

    @property
    def count(self) -> int:
        """The number of reports in a round."""
        return max(1, math.ceil(self.epsilon / self.each))

    def parameters(self) -> dict[str, Any]:
        """Return all parameters but neighbours, which are always replace, and the number of reports."""
        plain = super().parameters() | {"each": self.each, "reports": self.count}
        del plain["neighbours"]
        return plain


@dataclass(frozen=True, kw_only=True)
class TensorPaper(Protection):
    """Each client's parameters, clipped to ±``clip`` and released by TLDP with Δ = ``span``.

    ``noise`` is laplace or gaussian, ``retain`` the formula of p (see ``TensorLDP``); ``delta`` is that of
    the Gaussian noise alone.
    """

    of_updates = False

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
        """Return TLDP for parameters between ±span/2, all of them one tensor."""
        return TensorLDP(
            self.epsilon,
            (-self.span / 2.0, self.span / 2.0),
            noise=self.noise,
            retain=self.retain,
            delta=self.delta,
            unit="tensor",
            randomness=randomness,
        )

    def guarantee(self, shapes: Shapes) -> Guarantee:
        """Return: all shown with probability r, else the noise on parameters 2·clip apart."""
        return self.apart(size_of(shapes), 2.0 * self.clip)

    def apart(self, size: int, distance: float) -> Guarantee:
        """Return the guarantee of ``size`` values that neighbours move by at most ``distance`` each."""
        whole = self.mechanism().guarantee(size)
        # Where something is shown for certain nothing is proven, however much noise the rest has.
        event = None if whole.proves_nothing else self.noise_apart(size, distance).event
        return replace(whole, event=event, unit=CLIENT, theorem=f"{whole.theorem}, clipped values")

    def noise_apart(self, size: int, distance: float) -> Guarantee:
        """Return what the noise alone would prove of such values if none of them were ever shown."""
        noise = self.mechanism().noise_alone("tensor", size)
        assert isinstance(noise.event, LaplaceDpEvent | GaussianDpEvent)
        # The event of values ``span`` apart; a hair less noise than it has, for the rounding.
        multiplier = noise.event.noise_multiplier * (self.span / distance) * (1.0 - 2.0**-50)
        return replace(noise, event=type(noise.event)(multiplier), unit=CLIENT)

    def released(self, vector: Vector, shapes: Shapes, randomness: Randomness | None) -> Vector:
        """Return the parameters clipped, then kept or noised."""
        clipped = np.clip(vector, -self.clip, self.clip)[None, :]
        return np.asarray(self.mechanism(randomness).perturb(clipped)[0])

    def claim(self) -> Claim | None:
        """Return the paper's claim."""
        return Claim(
            text="ε-LDP for the model parameters of one round",
            source="TLDP, theorem 1 and section 5.2.3",
            epsilon=positive("epsilon", self.epsilon),
            delta=0.0,
        )

    def parameters(self) -> dict[str, Any]:
        """Return all parameters."""
        plain = {"epsilon": self.epsilon, "noise": self.noise, "clip": self.clip, "span": self.span}
        return plain | {"retain": self.retain} | ({"delta": self.delta} if self.noise == "gaussian" else {})

    def grid(self) -> float:
        """Return the step of the grid that values are rounded to."""
        root = self.epsilon if self.noise == "laplace" else math.sqrt(2.0 * self.epsilon)
        return grid_step(self.span / root, self.span / 2.0)


def require_replace(name: str, neighbours: str) -> None:
    """Refuse ``neighbours`` for the mechanism ``name`` unless they are those that it is proven for."""
    if neighbours != "replace":
        raise BadInput(
            f"{name} is proven for replace neighbours, not for {neighbours}.", parameter="neighbours"
        )


def refuse_foreign(name: str, foreign: Collection[str]) -> None:
    """Refuse parameters that the mechanism ``name`` does not have."""
    if foreign:
        named = sorted(foreign)
        raise BadInput(f"{name} takes no {', '.join(map(quoted, named))}.", parameter=named[0])


def protection_name(name: str) -> str:
    """Return the name in ``PROTECTIONS`` that ``name`` stands for."""
    known = _ALSO.get(name, name)
    if known not in PROTECTIONS:
        raise BadInput(
            f"there is no mechanism {name!r} for clients: accepted are {', '.join(PROTECTIONS)}.",
            parameter="mechanism",
        )
    return known


def make_protection(
    name: str,
    *,
    epsilon: float = REQUIRED,
    delta: float = DELTA,
    clip: float | None = None,
    limit: float | None = None,
    neighbours: str = FEDERATED.neighbours,
    **options: Any,
) -> Protection:
    """Return the protection called ``name``; ``epsilon`` and ``delta`` are those of one round.

    ``clip`` is the L2 norm of an update (L1 for laplace), ``limit`` its L∞ norm; one of them is needed,
    according to the mechanism. For ``tensor-ldp``, the paper's own mode, ``clip`` is the L∞ norm of the
    *parameters* (1 unless given), and ``noise`` (laplace or gaussian), ``span`` (Δ, 256 unless given) and
    ``retain`` may be given. ``repeated-priv-unit-g`` takes ``each``, the most ε of one report. For the others
    ``options`` are parameters of the mechanism, such as ``curvature`` of hessian-clipped, ``levels`` of
    grid-tensor-ldp, or ``calibration="paper"`` of matrix-variate-gaussian.
    """
    known = protection_name(name)
    if known == "none":
        return NoProtection()
    if known == "tensor-ldp":
        unused = [] if limit is None else ["limit"]
        refuse_foreign(known, [*(set(options) - {"noise", "span", "retain"}), *unused])
        require_replace(known, neighbours)
        return TensorPaper(epsilon=epsilon, delta=delta, clip=1.0 if clip is None else clip, **options)
    given: dict[str, Any] = {"epsilon": epsilon, "delta": delta, "clip": clip, "limit": limit}
    given |= {"neighbours": neighbours}
    if known == "repeated-priv-unit-g":
        own = {"each": options.pop("each")} if "each" in options else {}
        return RepeatedReports(**given, **own, options=options)
    return UpdateNoise(name=known, **given, options=options)
