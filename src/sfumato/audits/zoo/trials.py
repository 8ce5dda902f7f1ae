"""Playing with one mechanism of the zoo: every attack on a broken one, many audits of a sound one."""

from __future__ import annotations

import hashlib
import statistics
from collections.abc import Callable

from sfumato.audits.bound import Bound
from sfumato.audits.game_classifier import classifier_scores
from sfumato.audits.gaussian_fit import gaussian_bound
from sfumato.audits.threshold import threshold_bound
from sfumato.audits.zoo.equality_attack import equality_scores
from sfumato.audits.zoo.suspect import Array, Suspect
from sfumato.audits.zoo.verdict import Attempt, BrokenVerdict, SoundVerdict, alarms_allowed

__all__ = ["STRICT", "try_broken", "try_sound"]

#: The confidence at which a sound mechanism must never be accused.
STRICT = 1.0 - 1e-9

Scores = tuple[Array, Array]


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
    drawn = []
    for neighbour in (False, True):
        label = f"{seed} {suspect.name} {repetition} {neighbour}".encode()
        own = None if seed is None else int.from_bytes(hashlib.sha256(label).digest()[:7], "big")
        drawn.append(suspect.outputs(neighbour, games, own))
    return drawn[0], drawn[1]
