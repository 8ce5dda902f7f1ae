"""The rows of the tables: how each is learned, what the paper calls it, and what is proven of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sfumato.noise import Seeded
from sfumato.privacy import Guarantee
from sfumato_reproductions.compactdp import published
from sfumato_reproductions.compactdp.heads import OptimisedHead, PlainHead
from sfumato_reproductions.compactdp.protocol import DELTA

__all__ = [
    "BASELINES",
    "CERTIFIED",
    "COMBINED",
    "COMPACT",
    "DP_SGD",
    "MAIN",
    "METHODS",
    "NON_PRIVATE",
    "PAPER_NOISE",
    "Method",
]

NON_PRIVATE, COMPACT = "non-private", "CompactDP"
#: ε -> name.
Named = Mapping[float, str]
_EPSILONS = (0.1, 0.5, 1.0, 3.0, 8.0)
DP_SGD: Named = {epsilon: f"DP-SGD, ε = {epsilon:g}" for epsilon in _EPSILONS}
COMBINED: Named = {epsilon: f"CompactDP + DP-SGD, ε = {epsilon:g}" for epsilon in _EPSILONS}
CERTIFIED: Named = {epsilon: f"certified contraction, ε = {epsilon:g}" for epsilon in _EPSILONS}
PAPER_NOISE = "CompactDP + DP-SGD, σ = ησ₁, ε = 1"


@dataclass(frozen=True)
class Method:
    """``make`` gives an unfitted classifier of so many classes, by a seed; ``printed`` is the paper's row.

    ``nothing`` says that nothing is proven because there is no noise at all. ``behind`` is the method whose
    first stage this one has too: it is not trained again.
    """

    name: str
    make: Callable[[int, int], Any]
    printed: str | None = None
    nothing: bool = False
    behind: Method | None = None

    def guarantee(self, model: Any) -> Guarantee | None:
        """What is proven of the fitted ``model``; None of one without noise."""
        return None if self.nothing else model.guarantee()

    def parameters(self) -> dict[str, str]:
        """Everything that the classifier is made with but its classes and seed, as text."""
        known = self.make(2, 0).get_params(deep=False)
        return {key: repr(value) for key, value in known.items() if key not in ("randomness", "random_state")}


def _dp_sgd(epsilon: float) -> Callable[[int, int], Any]:
    def make(classes: int, seed: int) -> Any:
        from sfumato.learners import PrivateSoftmax

        return PrivateSoftmax(epsilon, DELTA, classes=classes, randomness=Seeded(seed))

    return make


def _compact(classes: int, seed: int) -> Any:
    from sfumato.learners.compact import CompactClassifier

    return CompactClassifier(classes=classes, randomness=Seeded(seed))


def _combined(epsilon: float, mode: str = "accountant") -> Callable[[int, int], Any]:
    def make(classes: int, seed: int) -> Any:
        from sfumato.learners.compact import CompactPrivate

        return CompactPrivate(epsilon, DELTA, mode=mode, classes=classes, randomness=Seeded(seed))

    return make


def _certified(epsilon: float) -> Callable[[int, int], Any]:
    def make(classes: int, seed: int) -> Any:
        from sfumato.learners import CertifiedCompact

        return CertifiedCompact(epsilon, DELTA, classes=classes, randomness=Seeded(seed))

    return make


# The paces, for features of length 1 at most, were set once, before any table was made.
_HEADS: dict[str, dict[str, Any]] = {
    published.DPADAM: {"optimiser": "adam", "pace": 0.3},
    published.AUTOCLIP: {"clipping": "automatic", "pace": 4.0},
    published.DPA: {"schedule": "decreasing", "pace": 4.0},
}
#: Table 4's other private optimisers, by their names here.
BASELINES = tuple(f"{name}, ε = 1" for name in _HEADS)


def _optimised(options: Mapping[str, Any]) -> Callable[[int, int], Any]:
    return lambda classes, seed: OptimisedHead(classes, seed, options)


_STAGE_ONE = Method(COMPACT, _compact, published.COMPACT)

METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        Method(NON_PRIVATE, lambda classes, seed: PlainHead(), published.NON_PRIVATE, nothing=True),
        *(
            Method(name, _dp_sgd(epsilon), published.DP_SGD if epsilon == 1.0 else None)
            for epsilon, name in DP_SGD.items()
        ),
        *(
            Method(name, _optimised(_HEADS[printed]), printed)
            for name, printed in zip(BASELINES, _HEADS, strict=True)
        ),
        _STAGE_ONE,
        *(
            Method(name, _combined(epsilon), published.combined(epsilon), behind=_STAGE_ONE)
            for epsilon, name in COMBINED.items()
        ),
        Method(PAPER_NOISE, _combined(1.0, "paper"), published.combined(1.0), behind=_STAGE_ONE),
        *(Method(name, _certified(epsilon)) for epsilon, name in CERTIFIED.items()),
    )
}

#: The rows of the paper's ablations, and one of which something is proven.
MAIN = (NON_PRIVATE, DP_SGD[1.0], COMPACT, COMBINED[1.0], PAPER_NOISE, CERTIFIED[1.0])
