"""TLDP beside a sound mechanism at the same ε of a client over all rounds: one row for every point."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sfumato_reproductions.tldp.federated.methods import Method, tldp_kinds
from sfumato_reproductions.tldp.federated.sweep import Measured, Results, equal_epsilon

__all__ = ["Row", "learns", "rows"]

# By so much F1 must be above guessing before it is said that something was learned.
_ABOVE = 0.1


def learns(measured: Measured, score: float) -> bool:
    """Whether ``score`` is above guessing by 0.1 or more."""
    return score >= measured.guessing + _ABOVE


@dataclass(frozen=True)
class Row:
    """TLDP at one claimed ε, and the sound method at its ε of a client over all rounds.

    ``proven`` is infinite where nothing is proven of TLDP at δ = 1e-5. ``hidden`` is log₁₀ of the chance that
    no parameter is shown as it is; ``epsilon`` is the ε at which both are compared (``equal_epsilon``), and
    ``sound_proven`` what is proven of the sound method, at δ = 1e-5.
    """

    data: str
    tldp: Method
    proven: float
    hidden: float
    epsilon: float
    score: tuple[float, ...]
    sound: Method
    sound_proven: float
    sound_score: tuple[float, ...]
    macro: float
    learned: bool

    @property
    def difference(self) -> float:
        """Mean F1 of the sound method minus that of TLDP."""
        return statistics.fmean(self.sound_score) - statistics.fmean(self.score)

    @property
    def standard_error(self) -> float | None:
        """That of the difference, over seeds, which share records and initial parameters."""
        pairs = [ours - theirs for ours, theirs in zip(self.sound_score, self.score, strict=True)]
        return statistics.stdev(pairs) / math.sqrt(len(pairs)) if len(pairs) > 1 else None

    def to_dict(self) -> dict[str, Any]:
        """As JSON values, for machines; where nothing is proven, ε is null."""
        return {
            "data": self.data,
            "tldp": self.tldp.kind,
            "claimed_epsilon": self.tldp.epsilon,
            "proven_epsilon": self.proven if math.isfinite(self.proven) else None,
            "log10_nothing_shown": self.hidden,
            "compared_at_epsilon": self.epsilon,
            "tldp_f1": list(self.score),
            "sound": str(self.sound),
            "sound_proven_epsilon": self.sound_proven,
            "sound_f1": list(self.sound_score),
            "difference": self.difference,
            "standard_error": self.standard_error,
            "macro_difference": self.macro,
            "either_learned": self.learned,
        }


def rows(results: Results) -> Iterator[Row]:
    """All points of TLDP, data set by data set."""
    for data, found in results.found.items():
        for kind in tldp_kinds(found.model):
            for claim in results.run.claimed:
                method = Method(kind, claim)
                epsilon = equal_epsilon(method, found.model)
                sound = found.chosen[epsilon]
                means = [found.mean(made) for made in (sound, method)]
                macro = [statistics.fmean(found.values(made, macro=True)) for made in (sound, method)]
                yield Row(
                    data,
                    method,
                    method.proven(found.model),
                    method.hidden(found.model),
                    epsilon,
                    tuple(found.values(method)),
                    sound,
                    sound.proven(found.model),
                    tuple(found.values(sound)),
                    macro[0] - macro[1],
                    any(learns(found, mean) for mean in means),
                )
