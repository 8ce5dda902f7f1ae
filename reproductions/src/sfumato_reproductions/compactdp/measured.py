"""What was measured of one method: accuracy, attacks, differences, what is proven, and how long it took."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from sfumato.audits import Predictions, one_run_bound
from sfumato_reproductions.compactdp.attack import Attack
from sfumato_reproductions.compactdp.protocol import CONFIDENCE, DELTA
from sfumato_reproductions.curvature_publication.measured import Proven
from sfumato_reproductions.proportions import interval

__all__ = ["Measured", "OneRun", "Proven", "Stored"]


@dataclass(frozen=True)
class OneRun:
    """How many of the guesses about records that fair coins chose were right."""

    correct: int
    guesses: int
    canaries: int

    @classmethod
    def played(cls, members: Predictions, nonmembers: Predictions) -> OneRun:
        """Guess the coins from a model's answers: members have a scaled logit above the median of all.

        The 1.5·m^(2/3) records farthest from the median are guessed, a number that depends on nothing else.
        """
        logits = np.concatenate([members.scaled_logit, nonmembers.scaled_logit])
        coins = np.repeat([True, False], [len(members), len(nonmembers)])
        # Ties in certainty are broken by position: mix the groups, or members would stand first.
        order = np.random.default_rng(0).permutation(coins.size)
        scores, coins = (logits - np.median(logits))[order], coins[order]
        guesses = min(coins.size, round(1.5 * math.pow(coins.size, 2.0 / 3.0)))
        most = np.argsort(-np.abs(scores), kind="stable")[:guesses]
        return cls(int(np.count_nonzero((scores[most] > 0.0) == coins[most])), guesses, coins.size)

    def bound(self, runs: int = 1) -> float:
        """A lower bound on ε at δ = 1e-5; those of so many ``runs`` hold together with 0.95."""
        confidence = 1.0 - (1.0 - CONFIDENCE) / runs
        found = one_run_bound(self.correct, self.guesses, self.canaries, delta=DELTA, confidence=confidence)
        return found.epsilon


@dataclass(frozen=True)
class Stored:
    """How many ``members`` are ``found`` in the model itself, and ``falsely`` of the ``nonmembers``."""

    found: int
    members: int
    falsely: int
    nonmembers: int

    @property
    def names(self) -> bool:
        """Whether members are found more often than others, both ends of the intervals holding together."""
        each = 1.0 - (1.0 - CONFIDENCE) / 2.0
        low, _ = interval(self.found, self.members, each)
        return low > interval(self.falsely, self.nonmembers, each)[1]

    def __str__(self) -> str:
        return f"{self.found:,} of {self.members:,} members, {self.falsely:,} of {self.nonmembers:,} others"


@dataclass(frozen=True)
class Measured:
    """One method on one data set with one seed.

    ``accuracy`` is that on the tests, ``learned`` that on members. ``attacks`` is empty where only accuracy
    was wanted, and then ``differences``, ``one_run`` and ``stored`` are too. ``differences`` are members
    minus non-members, in confidence, calibration error and entropy. ``eta`` is the largest contraction of a
    class, where there is one, and ``head`` the ε that the noise of the head would prove by itself, where it
    has any and proves nothing for the whole.
    """

    method: str
    accuracy: float
    learned: float
    attacks: tuple[Attack, ...]
    differences: Mapping[str, float]
    one_run: OneRun | None
    proven: Proven
    eta: float | None
    head: float | None
    seconds: float
    stored: Stored | None = None

    @property
    def strongest(self) -> Attack:
        """The attack with the largest AUC."""
        return max(self.attacks, key=lambda attack: attack.auc)

    @property
    def auc(self) -> float:
        """The largest AUC of the six."""
        return self.strongest.auc

    @property
    def leakage(self) -> float:
        """(AUC − 0.5)/0.5."""
        return (self.auc - 0.5) / 0.5

    @property
    def found(self) -> bool:
        """Whether any attack does better than a coin, after the correction for six, or reading the model."""
        return any(attack.finds for attack in self.attacks) or (self.stored is not None and self.stored.names)

    def bound(self, runs: int = 1) -> float | None:
        """What the coins bound; None where nothing was attacked."""
        return None if self.one_run is None else self.one_run.bound(runs)

    def to_dict(self) -> dict[str, Any]:
        """As JSON values: an infinite ε, nothing proven, is null."""
        value = asdict(self)
        value["attacks"] = [attack.to_dict() for attack in self.attacks]
        value["differences"] = dict(self.differences)
        value["proven"]["epsilon"] = _finite(self.proven.epsilon)
        value["head"] = None if self.head is None else _finite(self.head)
        return value

    @classmethod
    def read(cls, value: Mapping[str, Any]) -> Measured:
        """What :meth:`to_dict` wrote."""
        got = dict(value)
        proven = dict(got["proven"])
        proven["epsilon"] = math.inf if proven["epsilon"] is None else proven["epsilon"]
        got["proven"] = Proven(**proven)
        got["attacks"] = tuple(map(Attack.read, got["attacks"]))
        got["one_run"] = None if got["one_run"] is None else OneRun(**got["one_run"])
        got["stored"] = None if got["stored"] is None else Stored(**got["stored"])
        return cls(**got)


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
