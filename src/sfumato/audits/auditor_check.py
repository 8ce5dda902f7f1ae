"""Self-test of the audit: it must catch every broken mechanism of a zoo and pass the sound ones.

It plays the games of an audit where the answer is known: with mechanisms that break their promise, each by a
mistake that people make, and with sound ones, which are this package's own (:mod:`~sfumato.audits.zoo`). It
runs on the machine and with the build that will audit real releases. The standard audit itself is tried too,
on a release that breaks its promise and on one that keeps it.

**Randomness.** Without a seed, all noise comes from the operating system, as in a real release. A sound
audit then fails the test by chance in fewer than 1 run in 10,000: more alarms than are allowed have a chance
of 1e-6 for each sound mechanism, one at confidence 1 − 1e-9 has 1e-9 for each audit. With a seed the run can
be repeated: everything is then drawn from ``Seeded`` streams and seeded generators, by the same samplers.
"""

from __future__ import annotations

import hashlib
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
from scipy import special

from sfumato.audits.distinguishing_game import classifier_scores
from sfumato.audits.lower_bounds import Bound, check_confidence, gaussian_bound, threshold_bound
from sfumato.audits.release_audit import audit
from sfumato.audits.zoo.noise_specimens import noise_specimens
from sfumato.audits.zoo.output_specimens import output_specimens
from sfumato.audits.zoo.suspect import Array, Specimen, Suspect, equality_scores, randomness
from sfumato.errors import BadInput
from sfumato.mechanisms import Gaussian, Release, TensorLDP, whole
from sfumato.mechanisms.transforms import ReverseManifold
from sfumato.privacy import Unit, format_lower, format_table, wrap_text

__all__ = ["self_test"]

Report = Callable[[str, float], None]

# A sound mechanism is audited many times, each time with fewer games than a broken one.
_SHARE = 5
# The narrowest terminal that the table is made for.
_NARROWEST = 72
# How often a sound mechanism may exceed the alarms that are allowed, by chance alone.
_FALSE_FAILURE = 1e-6
#: The confidence at which a sound mechanism must never be accused.
STRICT = 1.0 - 1e-9


@dataclass(frozen=True, kw_only=True, eq=False)
class AuditedRelease(Specimen):
    """A release of ``records`` that ``draw(seed)`` makes, with a statement that its author believes."""

    records: Array
    draw: Callable[[int | None], Release]
    hint: str = "nothing"
    plain: bool = True


@cache
def specimens() -> tuple[Suspect | AuditedRelease, ...]:
    """Return all specimens: one is broken if it has a mistake, and must be caught, and sound otherwise."""
    return (*noise_specimens(), *output_specimens(), _component_for_tensor(), _keyed_embedding())


def _component_for_tensor() -> AuditedRelease:
    """TLDP, with what is proven of one component stated of the whole tensor, its δ included."""
    tensors = np.random.default_rng(0).random((400, 16))
    promised = replace(TensorLDP(1.0, (0.0, 1.0)).guarantee(16), unit=Unit("tensor"))

    def draw(seed: int | None) -> Release:
        made = TensorLDP(1.0, (0.0, 1.0), randomness=randomness(seed)).release(tensors)
        return replace(made, statement=replace(made.statement, proven=promised, also_proven=()))

    return AuditedRelease(
        name="component's delta for a tensor, audited",
        mistake="What holds of one component, its δ of 1/3 included, is promised of a tensor of 16.",
        promised=promised,
        records=tensors,
        draw=draw,
    )


def _keyed_embedding() -> AuditedRelease:
    """Gaussian noise under a keyed embedding, whose columns the audit matches with those of the records."""
    records = np.random.default_rng(0).normal(size=(300, 32))
    records /= np.linalg.norm(records, axis=1, keepdims=True)
    embedding = ReverseManifold(1.0, key=bytes(range(32)))

    def draw(seed: int | None) -> Release:
        made = Gaussian(1.0, 1e-5, clip=1.0, randomness=randomness(seed)).release(records)
        return replace(made, value=embedding.fit_transform(made.value))

    return AuditedRelease(
        name="Gaussian, keyed embedding, audited",
        promised=Gaussian(1.0, 1e-5, clip=1.0).guarantee(),
        records=records,
        draw=draw,
    )


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
    """A broken mechanism, and the ``attempts``, which hold all together with the confidence."""

    specimen: Specimen
    attempts: tuple[Attempt, ...]

    @property
    def measured(self) -> float:
        """Return the largest ε that an attack proved."""
        return max(attempt.epsilon_lower for attempt in self.attempts)

    @property
    def caught(self) -> bool:
        """Return whether that is more than was promised."""
        return bool(self.by)

    @property
    def by(self) -> tuple[Attempt, ...]:
        """Return the attempts that proved more than was promised, the informed one first."""
        return tuple(item for item in self.attempts if item.epsilon_lower > self.specimen.epsilon)

    @property
    def by_strangers(self) -> bool:
        """Return whether an attack that was told nothing of the mechanism caught it too."""
        return any(not attempt.informed for attempt in self.by)

    def to_dict(self) -> dict[str, Any]:
        """Return JSON values."""
        return {
            "name": self.specimen.name,
            "mistake": self.specimen.mistake,
            "promised_epsilon": self.specimen.epsilon,
            "delta": self.specimen.delta,
            "measured_epsilon": self.measured,
            "caught": self.caught,
            "by": [attempt.attack for attempt in self.by],
            "attempts": [vars(attempt) for attempt in self.attempts],
            "attack_knew": self.specimen.hint,
            "opposite_records": self.specimen.plain,
        }


@dataclass(frozen=True)
class SoundVerdict:
    """A sound mechanism: the ε ``measured`` in each of many audits, and how often they accused it.

    ``alarms`` are counted at ``confidence``; ``strict_alarms``, at 1 − 1e-9, are of the informed attack and
    of the generic ones.
    """

    specimen: Specimen
    measured: tuple[float, ...]
    alarms: int
    strict_alarms: int
    confidence: float

    @property
    def allowed(self) -> int:
        """Return how many alarms chance explains."""
        return alarms_allowed(len(self.measured), self.confidence)

    @property
    def passed(self) -> bool:
        """Return whether the alarms are no more than chance explains."""
        return self.alarms <= self.allowed and self.strict_alarms == 0

    def to_dict(self) -> dict[str, Any]:
        """Return JSON values."""
        return {
            "name": self.specimen.name,
            "proven_epsilon": self.specimen.epsilon,
            "delta": self.specimen.delta,
            "typical_measured": statistics.median(self.measured),
            "largest_measured": max(self.measured),
            "alarms": self.alarms,
            "alarms_allowed": self.allowed,
            "strict_alarms": self.strict_alarms,
            "repetitions": len(self.measured),
            "passed": self.passed,
        }


def alarms_allowed(repetitions: int, confidence: float) -> int:
    """Return the smallest number that a sound mechanism exceeds with chance ≤ 1e-6: 12 of 200 at 99%."""
    allowed = 0
    while special.bdtrc(allowed, repetitions, 1.0 - confidence) > _FALSE_FAILURE:
        allowed += 1
    return allowed


def try_broken(
    specimen: Suspect | AuditedRelease, *, games: int, confidence: float, seed: int | None
) -> BrokenVerdict:
    """Run every attack on ``games`` releases of either input, or the standard audit on one release."""
    if isinstance(specimen, Suspect):
        attempts = _game_attempts(specimen, games, confidence, seed)
    else:
        attempts = _audit_attempts(specimen, confidence, seed)
    return BrokenVerdict(specimen, tuple(attempts))


def _game_attempts(suspect: Suspect, games: int, confidence: float, seed: int | None) -> list[Attempt]:
    """Return every attack on the same ``games`` releases of either input; all bounds hold together."""
    outputs = _outputs(suspect, games, seed, 0)
    strangers = _strangers(suspect, *outputs)
    each = 1.0 - (1.0 - confidence) / (1 + len(strangers))
    known = _informed_bound(suspect, outputs, each)
    attempts = [Attempt(suspect.attack, True, known.epsilon, known.assumption)]
    for attack, scores in strangers.items():
        bound = threshold_bound(*scores, delta=suspect.delta, confidence=each)
        attempts.append(Attempt(attack, False, bound.epsilon))
    return attempts


def _audit_attempts(release: AuditedRelease, confidence: float, seed: int | None) -> list[Attempt]:
    """Return the bounds of the standard audit at the promised δ.

    They count only if the audit at its own default δ raises an alarm.
    """
    made = release.draw(_seed(seed, release.name, 0))
    usual = audit(made, original=release.records, confidence=confidence)
    found = audit(made, original=release.records, delta=release.delta, confidence=confidence)
    return [
        Attempt(item.attack, False, item.epsilon_lower if usual.alarms else 0.0)
        for item in found.findings
        if item.epsilon_lower is not None
    ]


def try_sound(
    specimen: Suspect | AuditedRelease,
    *,
    games: int,
    repetitions: int,
    confidence: float,
    seed: int | None,
) -> SoundVerdict:
    """Audit ``specimen`` many times, each time on fresh releases: by the informed attack, or as a whole.

    The generic attacks are run once, at the strict confidence only: what they would find in a sound mechanism
    is a bug.
    """
    measured, alarms, strict = [], 0, 0
    for repetition in range(repetitions):
        if isinstance(specimen, Suspect):
            outputs = _outputs(specimen, games, seed, repetition)
            epsilon = _informed_bound(specimen, outputs, confidence).epsilon
            alarm = epsilon > specimen.epsilon
            if repetition == 0:
                strict += sum(
                    threshold_bound(*scores, delta=specimen.delta, confidence=STRICT).epsilon
                    > specimen.epsilon
                    for scores in _strangers(specimen, *outputs).values()
                )
            # More confidence only lowers a bound, so that only what exceeds ε already can still exceed it.
            if alarm:
                strict += _informed_bound(specimen, outputs, STRICT).epsilon > specimen.epsilon
        else:
            release, records = specimen.draw(_seed(seed, specimen.name, repetition)), specimen.records
            found = audit(release, original=records, confidence=confidence, seed=repetition)
            epsilon, alarm = found.epsilon_lower or 0.0, bool(found.alarms)
            if alarm:
                sure = audit(release, original=records, confidence=STRICT, seed=repetition)
                strict += bool(sure.alarms)
        measured.append(epsilon)
        alarms += alarm
    return SoundVerdict(specimen, tuple(measured), alarms, strict, confidence)


def _informed_bound(suspect: Suspect, outputs: tuple[Array, Array], confidence: float) -> Bound:
    bound = gaussian_bound if suspect.normal_scores else threshold_bound
    return bound(*map(suspect.scores, outputs), delta=suspect.delta, confidence=confidence)


def _strangers(suspect: Suspect, first: Array, second: Array) -> dict[str, tuple[Array, Array]]:
    """Return the scores of attacks that are told the two inputs and nothing else."""
    one, other = suspect.inputs
    return {
        "classifier": classifier_scores(first, second, seed=0),
        "equalities": (equality_scores(first, one, other), equality_scores(second, one, other)),
    }


def _outputs(suspect: Suspect, games: int, seed: int | None, repetition: int) -> tuple[Array, Array]:
    """Return releases of the record and of its neighbour; no two calls share a seed or noise."""
    first, second = (
        suspect.outputs(neighbour, games, _seed(seed, suspect.name, repetition, neighbour))
        for neighbour in (False, True)
    )
    return first, second


def _seed(seed: int | None, *labels: object) -> int | None:
    """Return a seed of its own for each of the ``labels``; None, for fresh noise, without a ``seed``."""
    text = " ".join(map(str, (seed, *labels))).encode()
    return None if seed is None else int.from_bytes(hashlib.sha256(text).digest()[:7], "big")


@dataclass(frozen=True)
class SelfTest:
    """The verdicts on every mechanism of the zoo."""

    broken: tuple[BrokenVerdict, ...]
    sound: tuple[SoundVerdict, ...]
    games: int
    sound_games: int
    repetitions: int
    confidence: float
    seed: int | None

    @property
    def passed(self) -> bool:
        """Return whether every broken mechanism was caught and no sound one accused too often."""
        return all(verdict.caught for verdict in self.broken) and all(row.passed for row in self.sound)

    def table(self, width: int = 100) -> str:
        """Return the verdicts for a terminal of ``width`` columns (72 or more), and what they do not show."""
        width = max(width, _NARROWEST)
        confidence = f"{100.0 * self.confidence:.6g}%"
        broken = [
            [row.specimen.name, _promise(row.specimen), f"ε ≥ {format_lower(row.measured)}", _catchers(row)]
            for row in self.broken
        ]
        sound = [
            [
                row.specimen.name,
                _promise(row.specimen),
                format_lower(statistics.median(row.measured)),
                format_lower(max(row.measured)),
                f"{row.alarms} of {len(row.measured)}" + ("" if row.passed else " (!)"),
                str(row.strict_alarms),
            ]
            for row in self.sound
        ]
        headings = ("mechanism", "proven", "typical", "largest", f"alarms at {confidence}", "at 1−1e-9")
        lines = [
            *wrap_text(
                f"Broken mechanisms: {sum(row.caught for row in self.broken)} of {len(self.broken)} caught. "
                f"Each was released {self.games:,} times from either of two neighbouring inputs; all bounds "
                f"of a row hold together with {confidence} confidence.",
                width,
            ),
            *format_table(["mechanism", "promised", "measured", "caught by"], broken, width),
        ]
        for row in self.broken:
            lines += wrap_text(f"{row.specimen.name}: {row.specimen.mistake}", width)
        lines += [
            "",
            *wrap_text(
                f"Sound mechanisms: {sum(row.passed for row in self.sound)} of {len(self.sound)} within the "
                "allowed number of alarms. Each was audited again and again by the attack that knows it, on "
                f"{self.sound_games:,} fresh releases of either input; typical and largest are the lower "
                "bounds on ε that were found.",
                width,
            ),
            *format_table(list(headings), sound, width),
        ]
        for note in _notes(self.broken, self.games):
            lines += wrap_text(note, width)
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Return JSON values."""
        return vars(self) | {
            "passed": self.passed,
            "broken": [verdict.to_dict() for verdict in self.broken],
            "sound": [verdict.to_dict() for verdict in self.sound],
        }

    def __str__(self) -> str:
        return self.table()


def self_test(
    *,
    games: int = 100_000,
    repetitions: int = 200,
    confidence: float = 0.99,
    seed: int | None = None,
    report: Report | None = None,
) -> SelfTest:
    """Try the audit on every broken mechanism once and on every sound one ``repetitions`` times.

    A broken mechanism releases each of its two inputs ``games`` times, a sound one a fifth of that in every
    repetition. ``confidence`` is that of a whole row: several attacks on one mechanism share its error
    probability. ``report`` is told the stage and the share of it that is done. ``seed`` makes the run
    repeatable (see above).
    """
    whole("games", games, smallest=1000)
    whole("repetitions", repetitions)
    check_confidence(confidence)
    if seed is not None and (isinstance(seed, bool) or not isinstance(seed, int)):
        raise BadInput(
            f"`seed` was {seed!r}: it must be a whole number, or None for fresh noise.", parameter="seed"
        )
    tell = report or (lambda stage, share: None)
    broken = [specimen for specimen in specimens() if specimen.mistake]
    sound = [specimen for specimen in specimens() if not specimen.mistake]
    caught, cleared = [], []
    for done, specimen in enumerate(broken):
        tell("broken mechanisms", done / len(broken))
        caught.append(try_broken(specimen, games=games, confidence=confidence, seed=seed))
    fewer = games // _SHARE
    for done, specimen in enumerate(sound):
        tell("sound mechanisms", done / len(sound))
        cleared.append(
            try_sound(specimen, games=fewer, repetitions=repetitions, confidence=confidence, seed=seed)
        )
    tell("sound mechanisms", 1.0)
    return SelfTest(tuple(caught), tuple(cleared), games, fewer, repetitions, float(confidence), seed)


def _notes(broken: Sequence[BrokenVerdict], games: int) -> Iterator[str]:
    hidden = [row.specimen.name for row in broken if row.caught and not row.by_strangers]
    placed = [row.specimen.hint for row in broken if not row.specimen.plain]
    assumed = [row.specimen.name for row in broken if any(attempt.assumption for attempt in row.attempts)]
    yield (
        "What this does not show: the attack named first knew how the mechanism works, and its two inputs "
        "were chosen where the mistake shows. After 'also' stand attacks that were told these two inputs and "
        "nothing else."
    )
    yield "Rows that end in 'audited' are whole releases, tried by the standard audit instead of by games."
    if hidden:
        yield f"Found only by an attack that knew what to look for ({len(hidden)}): {'; '.join(hidden)}."
    if placed:
        yield (
            f"In {len(placed)} rows the inputs are not two opposite records, which an audit tries by itself; "
            f"whoever chose them knew: {'; '.join(dict.fromkeys(placed))}."
        )
    if assumed:
        yield f"Bounds that assume normal scores (the Gaussian fit): {'; '.join(assumed)}."
    yield (
        "So the audit measures rightly where it looks; it does not look everywhere, and a release without an "
        f"alarm is not thereby proven. What happens in fewer than about one release in {games // 10:,} stays "
        "below what this many games can see (which is why δ is larger here than in a release), and so does a "
        "bad source of random bits."
    )


def _catchers(verdict: BrokenVerdict) -> str:
    if not verdict.caught:
        return "NOT CAUGHT"
    informed, strangers = (
        ", ".join(attempt.attack for attempt in verdict.by if attempt.informed is known)
        for known in (True, False)
    )
    if not informed:
        return f"only {strangers}"
    return f"{informed}; also {strangers}" if strangers else f"{informed} only"


def _promise(specimen: Specimen) -> str:
    return f"ε={specimen.epsilon:.3g}" + (f", δ={specimen.delta:.2g}" if specimen.delta else "")
