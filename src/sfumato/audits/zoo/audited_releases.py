"""Whole releases on trial by the standard audit: one that must be accused, and one that must not be.

The other suspects are tried game by game. What an audit does around its games can be wrong too: it may learn
from the rows that it tests, or hold a game on one unit against a promise about another. So the audit itself
is tried, with a release that keeps its promise and with one that does not.
"""

from __future__ import annotations

import hashlib
import statistics
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from sfumato.audits.release_audit import audit
from sfumato.audits.zoo.package_noise import randomness
from sfumato.audits.zoo.suspect import Array
from sfumato.audits.zoo.trials import STRICT
from sfumato.audits.zoo.verdict import Attempt, BrokenVerdict, SoundVerdict, alarms_allowed
from sfumato.mechanisms import Gaussian, Release, TensorLDP
from sfumato.mechanisms.transforms import ReverseManifold
from sfumato.privacy import Unit

__all__ = ["AuditedRelease", "audited_broken", "audited_sound", "try_audited_broken", "try_audited_sound"]


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
    release = suspect.draw(_seed(suspect, seed, 0))
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
        release = suspect.draw(_seed(suspect, seed, repetition))
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


def _seed(suspect: AuditedRelease, seed: int | None, repetition: int) -> int | None:
    label = f"{seed} {suspect.name} {repetition}".encode()
    return None if seed is None else int.from_bytes(hashlib.sha256(label).digest()[:7], "big")
