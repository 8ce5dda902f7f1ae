"""What leaves a client in figure 3, by its name there, and what is proven of a client over all rounds."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from sfumato.learners.federated import (
    Central,
    Protection,
    TensorPaper,
    calibrate,
    make_central,
    make_protection,
)
from sfumato.privacy import Guarantee
from sfumato_reproductions.tldp.federated.baselines import WHOLE, ClippedParameters
from sfumato_reproductions.tldp.federated.protocol import CLIENTS, CLIP
from sfumato_reproductions.tldp.promise import DELTA

__all__ = [
    "AVERAGED",
    "CLEAN",
    "GAUSSIAN",
    "NOTHING",
    "PAPER",
    "REPORTS",
    "Method",
    "Model",
    "kinds",
    "offered",
    "tldp_kinds",
]

CLEAN = "not protected"
_TLDP = {"TLDP-L": "laplace", "TLDP-G": "gaussian"}
_SPAN = 256.0
#: TLDP with the Δ of all other data, where table 4 has a wider one, with which nothing can be learned.
_NARROW = {f"{kind}, Δ = {_SPAN:g}": noise for kind, noise in _TLDP.items()}
#: TLDP by the list of steps of section 5.2.3: the server averages clipped parameters, then adds the noise.
AVERAGED = {f"{kind}, averaged first": noise for kind, noise in _TLDP.items()}
_UPDATES = {"LLAGP": "layer-adaptive", "DPHSGD": "hessian-clipped"}
#: The curves of the paper.
PAPER = (*_TLDP, *WHOLE, *_UPDATES)

GAUSSIAN = "Gaussian noise"
REPORTS = "PrivUnitG"
#: To send nothing: the initial model stays.
NOTHING = "nothing sent"

# One report gains little beyond this ε; more reports than this in a round take too long.
_REPORT, _MOST = 40.0, 10
# With less than this over all rounds nobody learns anything from three clients.
_LEAST = 0.1


@dataclass(frozen=True)
class Model:
    """What is public of a training: the shapes of its layers, its rounds, and the paper's Δ."""

    shapes: tuple[tuple[int, ...], ...]
    rounds: int
    span: float

    @property
    def size(self) -> int:
        """How many parameters there are."""
        return sum(math.prod(shape) for shape in self.shapes)


@dataclass(frozen=True)
class Method:
    """A method and its ε: the one claimed for a round in ``PAPER``, else that of a client over all rounds.

    ``clip`` is the L2 norm of an update, of the sound ones.
    """

    kind: str
    epsilon: float = 0.0
    clip: float = 0.0

    def protection(self, model: Model) -> Protection | None:
        """What a client does in a round; None where it sends nothing."""
        if self.kind == NOTHING:
            return None
        if self.kind == CLEAN or self.kind in AVERAGED:
            return make_protection("none")
        if noise := (_TLDP | _NARROW).get(self.kind):
            span = _SPAN if self.kind in _NARROW else model.span
            return self._tensor(noise, span)
        if self.kind in WHOLE:
            return ClippedParameters(name=self.kind, epsilon=self.epsilon, delta=DELTA, clip=CLIP)
        if self.kind in _UPDATES:
            own: dict[str, Any] = {"curvature": "own"} if self.kind == "DPHSGD" else {}
            return make_protection(_UPDATES[self.kind], epsilon=self.epsilon, delta=DELTA, clip=CLIP, **own)
        if self.kind == REPORTS:
            each_round = self.epsilon / model.rounds * (1.0 - 2.0**-40)  # sums of ε stay below
            return make_protection("repeated-priv-unit-g", epsilon=each_round, clip=self.clip, each=_REPORT)
        strength = calibrate(
            lambda epsilon: self._gaussian(epsilon).guarantee(model.shapes),
            rounds=model.rounds,
            epsilon=self.epsilon,
            delta=DELTA,
        )
        return self._gaussian(strength)

    def at_server(self, model: Model) -> Central | None:
        """What the server does where it is the server that adds the noise."""
        noise = AVERAGED.get(self.kind)
        if noise is None:
            return None
        given: dict[str, Any] = {"noise": noise, "span": model.span, "delta": DELTA, "clip": CLIP}
        return make_central("tensor-ldp", strength=self.epsilon, **given)

    def proven(self, model: Model) -> float:
        """ε of one client over all rounds at δ = 1e-5, under replace; infinite where nothing is proven.

        Against everybody; of ``AVERAGED`` against everybody but the server.
        """
        protection, server = self.protection(model), self.at_server(model)
        if protection is None:
            return 0.0
        one = (
            protection.guarantee(model.shapes) if server is None else server.guarantee(model.shapes, CLIENTS)
        )
        return one.times(model.rounds).epsilon(DELTA)

    def hidden(self, model: Model) -> float:
        """log₁₀ of the chance that TLDP shows no parameter of a client in any round; 0 for all others."""
        protection = self.protection(model)
        if not isinstance(protection, TensorPaper):
            return 0.0
        kept = protection.mechanism().keep_probability(model.size)
        return model.rounds * model.size * math.log1p(-kept) / math.log(10.0)

    def of_noise(self, model: Model) -> float:
        """The ε at δ = 1e-5 that TLDP's noise would have over all rounds if nothing were ever shown.

        Composed exactly, component by component: neighbours may move every one of them by 2C.
        """
        protection = self.protection(model)
        assert isinstance(protection, TensorPaper)
        if protection.noise == "laplace":
            scale = protection.span / self.epsilon
            return _laplace_epsilon(scale / (2.0 * CLIP), model.size * model.rounds)
        noise = protection.noise_apart(model.size, 2.0 * CLIP)
        return noise.times(model.rounds).epsilon(DELTA)

    def _tensor(self, noise: str, span: float) -> TensorPaper:
        return TensorPaper(epsilon=self.epsilon, noise=noise, clip=CLIP, span=span, delta=DELTA)

    def _gaussian(self, epsilon: float) -> Protection:
        return make_protection("gaussian", epsilon=epsilon, delta=DELTA, clip=self.clip)

    @property
    def key(self) -> str:
        """A name for a file."""
        return f"{self.kind} {self.epsilon!r} {self.clip!r}"

    def __str__(self) -> str:
        return self.kind + (f", clip {self.clip:g}" if self.clip else "")


@lru_cache(maxsize=64)
def _laplace_epsilon(multiplier: float, count: int) -> float:
    """ε at δ = 1e-5 of ``count`` independent Laplace variables, each ``multiplier`` times its sensitivity."""
    return Guarantee.laplace(multiplier).times(count).epsilon(DELTA)


def tldp_kinds(model: Model) -> tuple[str, ...]:
    """TLDP as the paper has it, and with the Δ of all other data where its own is wider."""
    return (*_TLDP, *(_NARROW if model.span > _SPAN else ()))


def kinds(model: Model) -> tuple[str, ...]:
    """All that is drawn beside the sound mechanism: ``PAPER``, ``AVERAGED``, and what ``tldp_kinds`` adds."""
    return tuple(dict.fromkeys((*tldp_kinds(model), *AVERAGED, *PAPER)))


def _reports(epsilon: float) -> int:
    return max(1, math.ceil(epsilon / _REPORT))


def offered(epsilon: float, model: Model, clips: tuple[float, ...]) -> Iterator[Method]:
    """The sound methods that may be chosen for a client's ``epsilon`` over all rounds."""
    yield Method(NOTHING)
    if epsilon < _LEAST:
        return
    yield from (Method(GAUSSIAN, epsilon, clip) for clip in clips)
    if _reports(epsilon / model.rounds) <= _MOST:
        yield from (Method(REPORTS, epsilon, clip) for clip in clips)
