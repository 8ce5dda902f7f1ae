"""Trials of the zoo: every attack on a broken mechanism, many audits of a sound one, and the verdicts.

Whole releases are tried by the standard audit: one that must be accused, and one that must not be.

The other suspects are tried game by game. What an audit does around its games can be wrong too: it may learn
from the rows that it tests, or hold a game on one unit against a promise about another. So the audit itself
is tried, with a release that keeps its promise and with one that does not.
"""

from __future__ import annotations

import hashlib
import statistics
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import special

from sfumato.audits.distinguishing_game import classifier_scores
from sfumato.audits.lower_bounds import Bound, gaussian_bound, threshold_bound
from sfumato.audits.release_audit import audit
from sfumato.audits.zoo import choices, data_dependence, noise_reuse, noise_scale, output_support
from sfumato.audits.zoo.suspect import Array, Suspect, equality_scores, randomness
from sfumato.mechanisms import Gaussian, Release, TensorLDP
from sfumato.mechanisms.transforms import ReverseManifold
from sfumato.privacy import Unit

__all__ = ["broken", "sound"]

_THEMES = (noise_scale, data_dependence, noise_reuse, output_support, choices)

Scores = tuple[Array, Array]
# How often a sound mechanism may exceed the alarms that are allowed, by chance alone.
_FALSE_FAILURE = 1e-6
#: The confidence at which a sound mechanism must never be accused.
STRICT = 1.0 - 1e-9


def broken() -> tuple[Suspect, ...]:
    """Return mechanisms that promise more than they keep; each must be caught."""
    return tuple(suspect for theme in _THEMES for suspect in theme.broken())


def sound() -> tuple[Suspect, ...]:
    """Return mechanisms that keep their promise; an audit at confidence c accuses each with chance 1 − c."""
    return tuple(suspect for theme in _THEMES for suspect in theme.sound())


def alarms_allowed(repetitions: int, confidence: float) -> int:
    """Return the smallest number that a sound mechanism exceeds with chance ≤ 1e-6: 12 of 200 at 99%."""
    allowed = 0
    while special.bdtrc(allowed, repetitions, 1.0 - confidence) > _FALSE_FAILURE:
        allowed += 1
    return allowed


@dataclass(frozen=True)
class Attempt:
    """One attack on one mechanism: what it found ε to be at least.

    ``informed`` is True where the attack was told how the mechanism works; ``assumption`` says on what the
    bound rests besides counting, and is empty where it rests on nothing else.
    """

    attack: str
    informed: bool
    epsilon_lower: float
    assumption: str = ""


@dataclass(frozen=True)
class BrokenVerdict:
    """A broken mechanism: its promise, and the ``attempts``, which hold all together with the confidence."""

    name: str
    mistake: str
    hint: str
    plain: bool
    epsilon: float
    delta: float
    attempts: tuple[Attempt, ...]

    @property
    def measured(self) -> float:
        """Return the largest ε that an attack proved."""
        return max(attempt.epsilon_lower for attempt in self.attempts)

    @property
    def caught(self) -> bool:
        """Return whether that is more than was promised."""
        return self.measured > self.epsilon

    @property
    def by(self) -> tuple[str, ...]:
        """Return the attacks that proved more than was promised, the informed one first."""
        return tuple(attempt.attack for attempt in self.attempts if attempt.epsilon_lower > self.epsilon)

    @property
    def by_strangers(self) -> bool:
        """Return whether an attack that was told nothing of the mechanism caught it too."""
        return any(not attempt.informed and attempt.epsilon_lower > self.epsilon for attempt in self.attempts)

    def to_dict(self) -> dict[str, Any]:
        """Return JSON values."""
        return {
            "name": self.name,
            "mistake": self.mistake,
            "promised_epsilon": self.epsilon,
            "delta": self.delta,
            "measured_epsilon": self.measured,
            "caught": self.caught,
            "by": list(self.by),
            "attempts": [vars(attempt) for attempt in self.attempts],
            "attack_knew": self.hint,
            "opposite_records": self.plain,
        }


@dataclass(frozen=True)
class SoundVerdict:
    """A sound mechanism: how often it was accused in ``repetitions`` audits, and how close they came.

    ``alarms`` are counted at the confidence of the test; ``strict_alarms``, at 1 − 1e-9, are of the informed
    attack and of the generic ones.
    """

    name: str
    epsilon: float
    delta: float
    typical: float
    largest: float
    alarms: int
    strict_alarms: int
    allowed: int
    repetitions: int

    @property
    def passed(self) -> bool:
        """Return whether the alarms are no more than chance explains."""
        return self.alarms <= self.allowed and self.strict_alarms == 0

    def to_dict(self) -> dict[str, Any]:
        """Return JSON values."""
        return {
            "name": self.name,
            "proven_epsilon": self.epsilon,
            "delta": self.delta,
            "typical_measured": self.typical,
            "largest_measured": self.largest,
            "alarms": self.alarms,
            "alarms_allowed": self.allowed,
            "strict_alarms": self.strict_alarms,
            "repetitions": self.repetitions,
            "passed": self.passed,
        }


def try_broken(suspect: Suspect, *, games: int, confidence: float, seed: int | None) -> BrokenVerdict:
    """Every attack on the same ``games`` releases of either input; their bounds hold all together."""
    outputs = _outputs(suspect, games, seed, 0)
    strangers = _strangers(suspect, *outputs)
    each = 1.0 - (1.0 - confidence) / (1 + len(strangers))
    known = _informed(suspect)(*map(suspect.scores, outputs), delta=suspect.delta, confidence=each)
    attempts = [Attempt(suspect.attack, True, known.epsilon, known.assumption)]
    for attack, scores in strangers.items():
        bound = threshold_bound(*scores, delta=suspect.delta, confidence=each)
        attempts.append(Attempt(attack, False, bound.epsilon))
    return BrokenVerdict(
        name=suspect.name,
        mistake=suspect.mistake,
        hint=suspect.hint,
        plain=suspect.plain,
        epsilon=suspect.epsilon,
        delta=suspect.delta,
        attempts=tuple(attempts),
    )


def try_sound(
    suspect: Suspect, *, games: int, repetitions: int, confidence: float, seed: int | None
) -> SoundVerdict:
    """``repetitions`` audits by the informed attack, each on fresh releases, and one by each generic attack.

    The generic ones ask at the strict confidence only: what they would find in a sound mechanism is a bug.
    """
    bound, measured, strict = _informed(suspect), [], 0
    for repetition in range(repetitions):
        outputs = _outputs(suspect, games, seed, repetition)
        first, second = map(suspect.scores, outputs)
        measured.append(bound(first, second, delta=suspect.delta, confidence=confidence).epsilon)
        if repetition == 0:
            strict += sum(
                threshold_bound(*scores, delta=suspect.delta, confidence=STRICT).epsilon > suspect.epsilon
                for scores in _strangers(suspect, *outputs).values()
            )
        # More confidence only lowers a bound, so that only what exceeds ε already can still exceed it.
        if measured[-1] > suspect.epsilon:
            strict += bound(first, second, delta=suspect.delta, confidence=STRICT).epsilon > suspect.epsilon
    return SoundVerdict(
        name=suspect.name,
        epsilon=suspect.epsilon,
        delta=suspect.delta,
        typical=statistics.median(measured),
        largest=max(measured),
        alarms=sum(epsilon > suspect.epsilon for epsilon in measured),
        strict_alarms=strict,
        allowed=alarms_allowed(repetitions, confidence),
        repetitions=repetitions,
    )


def _informed(suspect: Suspect) -> Callable[..., Bound]:
    """How the scores of the informed attack become a bound."""
    return gaussian_bound if suspect.normal_scores else threshold_bound


def _strangers(suspect: Suspect, first: Array, second: Array) -> dict[str, Scores]:
    """The scores of attacks that are told the two inputs and nothing else."""
    one, other = suspect.inputs
    return {
        "classifier": classifier_scores(first, second, seed=0),
        "equalities": (equality_scores(first, one, other), equality_scores(second, one, other)),
    }


def _outputs(suspect: Suspect, games: int, seed: int | None, repetition: int) -> tuple[Array, Array]:
    """Releases of the record and of its neighbour; no two calls share a seed, so no two share noise."""
    first, second = (
        suspect.outputs(neighbour, games, _seed(seed, suspect.name, repetition, neighbour))
        for neighbour in (False, True)
    )
    return first, second


@dataclass(frozen=True, kw_only=True, eq=False)
class AuditedRelease:
    """A release of ``records`` that ``draw`` makes, with a statement that its author believes.

    ``mistake`` is one sentence, and empty for a sound release.
    """

    name: str
    mistake: str = ""
    records: Array
    draw: Callable[[int | None], Release]


def audited_broken() -> tuple[AuditedRelease, ...]:
    """TLDP, with what is proven of one component stated of the whole tensor, its δ included."""
    tensors = np.random.default_rng(0).random((400, 16))

    def draw(seed: int | None) -> Release:
        made = TensorLDP(1.0, (0.0, 1.0), randomness=randomness(seed)).release(tensors)
        promised = replace(made.statement.proven, unit=Unit("tensor"))
        return replace(made, statement=replace(made.statement, proven=promised, also_proven=()))

    return (
        AuditedRelease(
            name="component's delta for a tensor, audited",
            mistake="What holds of one component, its δ of 1/3 included, is promised of a tensor of 16.",
            records=tensors,
            draw=draw,
        ),
    )


def audited_sound() -> tuple[AuditedRelease, ...]:
    """Gaussian noise under a keyed embedding, whose columns the audit matches with those of the records."""
    records = np.random.default_rng(0).normal(size=(300, 32))
    records /= np.linalg.norm(records, axis=1, keepdims=True)
    embedding = ReverseManifold(1.0, key=bytes(range(32)))

    def draw(seed: int | None) -> Release:
        made = Gaussian(1.0, 1e-5, clip=1.0, randomness=randomness(seed)).release(records)
        return replace(made, value=embedding.fit_transform(made.value))

    return (AuditedRelease(name="Gaussian, keyed embedding, audited", records=records, draw=draw),)


def try_audited_broken(suspect: AuditedRelease, *, confidence: float, seed: int | None) -> BrokenVerdict:
    """One release; its audit must raise an alarm, and the bounds at the promised δ lie above the promise.

    The attempts are bounds at the promised δ. They count only if the audit that nobody told a δ has an alarm.
    """
    release = suspect.draw(_seed(seed, suspect.name, 0))
    proven = release.statement.proven
    usual = audit(release, original=suspect.records, confidence=confidence)
    found = audit(release, original=suspect.records, delta=proven.at_delta, confidence=confidence)
    attempts = [
        Attempt(item.attack, False, (item.epsilon_lower or 0.0) if usual.alarms else 0.0)
        for item in found.findings
        if item.epsilon_lower is not None
    ]
    return BrokenVerdict(
        name=suspect.name,
        mistake=suspect.mistake,
        hint="nothing",
        plain=True,
        epsilon=proven.epsilon(),
        delta=proven.at_delta,
        attempts=tuple(attempts),
    )


def try_audited_sound(
    suspect: AuditedRelease, *, repetitions: int, confidence: float, seed: int | None
) -> SoundVerdict:
    """``repetitions`` audits, each of a fresh release."""
    measured, alarms, strict = [], 0, 0
    for repetition in range(repetitions):
        release = suspect.draw(_seed(seed, suspect.name, repetition))
        found = audit(release, original=suspect.records, confidence=confidence, seed=repetition)
        measured.append(found.epsilon_lower or 0.0)
        if found.alarms:
            alarms += 1
            sure = audit(release, original=suspect.records, confidence=STRICT, seed=repetition)
            strict += bool(sure.alarms)
    proven = release.statement.proven
    return SoundVerdict(
        name=suspect.name,
        epsilon=proven.epsilon(),
        delta=proven.at_delta,
        typical=statistics.median(measured),
        largest=max(measured),
        alarms=alarms,
        strict_alarms=strict,
        allowed=alarms_allowed(repetitions, confidence),
        repetitions=repetitions,
    )


def _seed(seed: int | None, *labels: object) -> int | None:
    """Return a seed of its own for each of the ``labels``; None, for fresh noise, without a ``seed``."""
    text = " ".join(map(str, (seed, *labels))).encode()
    return None if seed is None else int.from_bytes(hashlib.sha256(text).digest()[:7], "big")
