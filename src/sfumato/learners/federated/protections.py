"""Protections of what a client sends, by name: their interface, and each with its guarantee.

A ``Protection`` has public parameters and a guarantee, and says what leaves a client. Every client draws its
own noise in every round, also where a run can be repeated.

**UpdateNoise**: any sound mechanism for tensors on what a client learned in one round, its update, clipped.

*Guarantee.* Unit client; neighbours replace (another client's records in its place) or zero-out (a client
that learned nothing). The update, trained minus received parameters, is one vector. It is limited to
±``limit`` in every coordinate (L∞) where a limit is declared, and clipped to ``clip`` in the norm of the
mechanism (L2; L1 for Laplace noise), both by maps that look at nothing else, and becomes the one record of a
mechanism whose theorem stands with it. A mechanism for a box takes ±``limit`` as its bounds, after clipping
to ``clip`` in L2 where that is declared. What is sent, received plus released update in single precision, is
a function of the release and of what everybody knows. What a client received depends on earlier releases of
all clients: the rounds compose adaptively, with the same guarantee in each of them.

*Edge cases.* An update that is not finite counts as zero. ``limit`` and ``clip`` are declared and never
read off an update.

**RepeatedReports**: several PrivUnitG reports of one update, averaged. One report gains little beyond ε = 40,
several of 40 do.

*Guarantee.* Unit client, neighbours replace. The update, trained minus received parameters, is one vector,
limited to ±``limit`` in every coordinate where a limit is declared and clipped to the L2 ball. Each of k
reports of it is the release of one record by PrivUnitG, ε₀-LDP by the theorem that stands there. Their coins
are independent, so k reports compose to the pure kε₀, and to less at a δ above 0; the mean of the reports,
added to what everybody knows, is post-processing. k and ε₀ are functions of the declared ε of a round alone:
k = ⌈ε/each⌉ and ε₀ = ε/k, a hair less, so that kε₀ never passes ε.

*Edge cases.* An update that is not finite counts as zero. The error of the mean falls as 1/k; where ε is at
most ``each`` there is one report, that of ``priv-unit-g``.

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
"""

from __future__ import annotations

import hashlib
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

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

__all__ = [
    "CLIENT",
    "PROTECTIONS",
    "NoProtection",
    "Protection",
    "TensorPaper",
    "finite_parameters",
    "make_protection",
    "protection_name",
]

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
}
#: Names on the command line; the paper's own names of its baselines are understood too.
PROTECTIONS = (*UPDATE_MECHANISMS, "repeated-priv-unit-g", "tensor-ldp", "none")
_ALSO = {
    "llagp": "layer-adaptive",
    "dphsgd": "hessian-clipped",
    "mvg": "matrix-variate-gaussian",
    "idn": "independent-directional",
    "privunit": "priv-unit",
    "privunitg": "priv-unit-g",
    "tldp": "tensor-ldp",
}
#: What those take that are no single mechanism on updates.
_OWN = {"tensor-ldp": ("noise", "span", "retain"), "repeated-priv-unit-g": ("each",)}


def own(
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


class Protection(ABC):
    """A protection of a client's parameters before they leave it; all its own parameters are public.

    The unit is the client: all records that it holds. What it received is known to everybody, so it may be
    used freely; parameters that are not finite count as if nothing had been learned, which is a function of
    the client's own records, so that the guarantee covers a training that diverged too.
    """

    name: str

    @abstractmethod
    def guarantee(self, shapes: Shapes) -> Guarantee:
        """Return that of one client in one round, for layers of ``shapes``; no data is needed."""

    @abstractmethod
    def protect(self, arrays: Arrays, received: Arrays, randomness: Randomness | None = None) -> Arrays:
        """Return what a client that made ``arrays`` of ``received`` sends; draws the guarantee's noise.

        ``randomness`` is the client's own in this round (see ``client_randomness``); the operating system's
        unless given.
        """

    @abstractmethod
    def claim(self) -> Claim | None:
        """Return the authors' claim about one round, or None."""

    @abstractmethod
    def parameters(self) -> dict[str, Any]:
        """Return every parameter as a JSON value."""

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
        """Return the parameters themselves."""
        _same_shapes(arrays, received)
        return [np.asarray(array, dtype=np.float32).copy() for array in arrays]

    def claim(self) -> Claim | None:
        """Return None."""
        return None

    def parameters(self) -> dict[str, Any]:
        """Return no parameters."""
        return {}


def finite_parameters(arrays: Arrays, received: Arrays) -> NDArray[np.float64]:
    """Return all of ``arrays``, of the shapes received, as one vector; zeros where any is not finite."""
    return _finite(_same_shapes(arrays, received))


def _update(arrays: Arrays, received: Arrays) -> NDArray[np.float64]:
    """Return what was learned, ``arrays`` minus ``received``, as one vector; zeros where it is not finite."""
    with np.errstate(invalid="ignore"):
        return _finite(_same_shapes(arrays, received) - flat_vector(received))


def _finite(vector: NDArray[np.float64]) -> NDArray[np.float64]:
    return vector if np.isfinite(vector).all() else np.zeros_like(vector)


def _same_shapes(arrays: Arrays, received: Arrays) -> NDArray[np.float64]:
    if shapes_of(arrays) != shapes_of(received):
        raise BadInput(
            f"layers of the shapes {shapes_of(arrays)} were trained from layers of {shapes_of(received)}: "
            "every client must train the model that it received."
        )
    return flat_vector(arrays)


@dataclass(frozen=True, kw_only=True)
class RepeatedReports(Protection):
    """The mean of PrivUnitG reports, of at most ``each``, of the update clipped to ``clip`` in L2.

    ``epsilon`` is that of all reports of a round together; ``limit`` also bounds each coordinate.
    """

    epsilon: float
    clip: float
    each: float = 40.0
    limit: float | None = None
    name: str = "repeated-priv-unit-g"

    def __post_init__(self) -> None:
        for parameter in ("epsilon", "clip", "each"):
            positive(parameter, getattr(self, parameter))
        if self.limit is not None:
            positive("limit", self.limit)
        if self.epsilon > _MOST * self.each:
            raise BadInput(
                f"an epsilon of {self.epsilon:g} would take more than {_MOST:,} reports of {self.each:g}; "
                "take a smaller epsilon or a larger each."
            )

    @property
    def count(self) -> int:
        """The number of reports in a round."""
        return max(1, math.ceil(self.epsilon / self.each))

    def mechanism(self, randomness: Randomness | None = None) -> PrivUnitG:
        """Return the mechanism of one report."""
        # Sums of ε stay below what was declared.
        return PrivUnitG(self.epsilon / self.count * (1.0 - 2.0**-40), self.clip, randomness=randomness)

    def guarantee(self, shapes: Shapes) -> Guarantee:
        """Return that of one report, ``count`` times."""
        return replace(self.mechanism().guarantee(size_of(shapes)).times(self.count), unit=CLIENT)

    def protect(self, arrays: Arrays, received: Arrays, randomness: Randomness | None = None) -> Arrays:
        """Return what was received plus the mean of the reports."""
        update = _update(arrays, received)
        if self.limit is not None:
            update = np.clip(update, -self.limit, self.limit)
        # Rows of one release draw noise of their own.
        reports = self.mechanism(randomness).perturb(np.repeat(update[None, :], self.count, axis=0))
        return as_layers(flat_vector(received) + reports.mean(axis=0), received)

    def claim(self) -> Claim | None:
        """Return the claim of the authors of PrivUnitG about one report."""
        return self.mechanism().claim()

    def parameters(self) -> dict[str, Any]:
        """Return all parameters."""
        plain = {"epsilon": self.epsilon, "clip": self.clip, "each": self.each, "reports": self.count}
        return plain | ({} if self.limit is None else {"limit": self.limit})


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
        """Return TLDP for parameters between ±span/2, all of them one tensor."""
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
        """Return: all shown with probability r, else the noise on parameters 2·clip apart."""
        return self.apart(size_of(shapes), 2.0 * self.clip)

    def apart(self, size: int, distance: float) -> Guarantee:
        """Return the guarantee of ``size`` values that neighbours move by at most ``distance`` each."""
        whole = self.mechanism().guarantee(size)
        noise = self.noise_apart(size, distance)
        theorem = f"{whole.theorem}, clipped values"
        # Where something is shown for certain nothing is proven, however much noise the rest has.
        event = None if whole.proves_nothing else noise.event
        return replace(whole, event=event, unit=CLIENT, theorem=theorem)

    def noise_apart(self, size: int, distance: float) -> Guarantee:
        """Return what the noise alone would prove of such values if none of them were ever shown."""
        noise = self.mechanism().noise_alone("tensor", size)
        assert isinstance(noise.event, LaplaceDpEvent | GaussianDpEvent)
        # The event of values ``span`` apart; a hair less noise than it has, for the rounding.
        multiplier = noise.event.noise_multiplier * (self.span / distance) * (1.0 - 2.0**-50)
        return replace(noise, event=type(noise.event)(multiplier), unit=CLIENT)

    def protect(self, arrays: Arrays, received: Arrays, randomness: Randomness | None = None) -> Arrays:
        """Return the parameters clipped, then kept or noised."""
        values = np.clip(finite_parameters(arrays, received), -self.clip, self.clip)
        return as_layers(self.mechanism(randomness).perturb(values[None, :])[0], received)

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
        if self.name not in UPDATE_MECHANISMS:
            raise BadInput(f"there is no mechanism {self.name!r} for updates.")
        needed, what = ("limit", "L∞ bound") if self._box() else ("clip", "norm")
        if getattr(self, needed) is None:
            raise BadInput(
                f"{self.name} needs `{needed}`, the largest {what} of an update; read off data it leaks.",
                parameter=needed,
            )
        for bound in ("clip", "limit"):
            if getattr(self, bound) is not None:
                positive(bound, getattr(self, bound))
        if self.neighbours != "replace" and "neighbours" not in self._accepted():
            raise BadInput(f"{self.name} is proven for replace neighbours, not for {self.neighbours}.")
        foreign = sorted(set(self.options) - set(self._accepted()))
        if foreign:
            raise BadInput(f"{self.name} takes no {', '.join(map(quoted, foreign))}.", parameter=foreign[0])

    def mechanism(self, shapes: Shapes, randomness: Randomness | None = None) -> Mechanism:
        """Return the mechanism for updates of layers of ``shapes``, one row a client."""
        accepted = self._accepted()
        known: dict[str, Any] = {"epsilon": self.epsilon, "randomness": randomness}
        if self._box():
            known |= {"bounds": (-float(self.limit or 0.0), float(self.limit or 0.0)), "outside": "clip"}
        else:
            known |= {"clip": self.clip}
        layers = [shape or (1,) for shape in shapes]
        more = {
            "delta": self.delta,
            "neighbours": self.neighbours,
            "layers": layers,
            "progress": self.progress,
        }
        known |= {name: value for name, value in more.items() if name in accepted}
        return UPDATE_MECHANISMS[self.name](**(known | dict(self.options)))

    def guarantee(self, shapes: Shapes) -> Guarantee:
        """Return that of the mechanism, for the unit client."""
        return replace(self.mechanism(shapes).guarantee(size_of(shapes)), unit=CLIENT)

    def protect(self, arrays: Arrays, received: Arrays, randomness: Randomness | None = None) -> Arrays:
        """Return what was received plus the released update."""
        row = self._limited(_update(arrays, received))[None, :]
        drawn = self.mechanism(shapes_of(received), randomness)
        released = drawn.perturb(row)
        if isinstance(drawn, GridTensorLDP):
            released = drawn.unbiased(released)
        return as_layers(flat_vector(received) + np.asarray(released[0], dtype=np.float64), received)

    def claim(self) -> Claim | None:
        """Return the claim of the mechanism's authors about one round."""
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

    def _limited(self, update: NDArray[np.float64]) -> NDArray[np.float64]:
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
    if known not in _OWN:
        return UpdateNoise(
            name=known,
            epsilon=epsilon,
            delta=delta,
            clip=clip,
            limit=limit,
            neighbours=neighbours,
            options=options,
        )
    unused = ["limit"] if limit is not None and known == "tensor-ldp" else []
    foreign = sorted(set(options) - set(_OWN[known])) + unused
    if foreign:
        raise BadInput(f"{known} takes no {', '.join(map(quoted, foreign))}.", parameter=foreign[0])
    if neighbours != "replace":
        raise BadInput(
            f"{known} is proven for replace neighbours, not for {neighbours}.", parameter="neighbours"
        )
    if known == "tensor-ldp":
        return TensorPaper(epsilon=epsilon, delta=delta, clip=1.0 if clip is None else clip, **options)
    if clip is None:
        raise BadInput(
            f"{known} needs `clip`, the largest norm of an update; read off data it leaks.", parameter="clip"
        )
    return RepeatedReports(epsilon=epsilon, clip=clip, limit=limit, **options)
