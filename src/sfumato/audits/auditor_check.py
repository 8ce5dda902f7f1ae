"""Self-test of the audit: it must catch every broken mechanism of a zoo and pass the sound ones.

The bounds of an audit are only as good as the games behind them. This plays them where the answer is known:
with mechanisms that break their promise, each by a mistake that people make, and with sound ones, which are
this package's own. It runs on the machine and with the build that will audit real releases. The audit of a
whole release is tried as well, on one that breaks its promise and on one that keeps it.

**Randomness.** Without a seed, all noise comes from the operating system, as in a real release. A sound
audit then fails the test by chance in fewer than 1 run in 10,000: more alarms than are allowed have a chance
of 1e-6 for each sound mechanism, one at confidence 1 − 1e-9 has 1e-9 for each audit. With a seed the run can
be repeated: everything is then drawn from ``Seeded`` streams and seeded generators, by the same samplers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sfumato.audits.zoo import broken, sound
from sfumato.audits.zoo.trials import (
    BrokenVerdict,
    SoundVerdict,
    audited_broken,
    audited_sound,
    try_audited_broken,
    try_audited_sound,
    try_broken,
    try_sound,
)
from sfumato.errors import BadInput
from sfumato.privacy import format_lower, format_table, wrap_text

__all__ = ["self_test"]


Report = Callable[[str, float], None]

# Games and repetitions.
_FULL, _QUICK = (100_000, 200), (50_000, 20)
# A sound mechanism is audited many times, each time with fewer games than a broken one.
_SHARE = 5
# The narrowest terminal that the table is made for.
_NARROWEST = 72


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
        caught = sum(verdict.caught for verdict in self.broken)
        passed = sum(verdict.passed for verdict in self.sound)
        lines = [
            *wrap_text(
                f"Broken mechanisms: {caught} of {len(self.broken)} caught. Each was released "
                f"{self.games:,} times from either of two neighbouring inputs; all bounds of a row hold "
                f"together with {100.0 * self.confidence:.6g}% confidence.",
                width,
            ),
            *format_table(
                ["mechanism", "promised", "measured", "caught by"],
                [
                    [row.name, _promise(row), f"ε ≥ {format_lower(row.measured)}", _catchers(row)]
                    for row in self.broken
                ],
                width,
            ),
        ]
        for row in self.broken:
            lines += wrap_text(f"{row.name}: {row.mistake}", width)
        lines += [
            "",
            *wrap_text(
                f"Sound mechanisms: {passed} of {len(self.sound)} within the allowed number of alarms. Each "
                f"was audited again and again by the attack that knows it, on {self.sound_games:,} fresh "
                "releases of either input; typical and largest are the lower bounds on ε that were found.",
                width,
            ),
            *format_table(
                [
                    *("mechanism", "proven", "typical", "largest"),
                    f"alarms at {100.0 * self.confidence:.6g}%",
                    "at 1−1e-9",
                ],
                [
                    [
                        *(row.name, _promise(row), format_lower(row.typical), format_lower(row.largest)),
                        f"{row.alarms} of {row.repetitions}" + ("" if row.passed else " (!)"),
                        str(row.strict_alarms),
                    ]
                    for row in self.sound
                ],
                width,
            ),
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
    games: int | None = None,
    repetitions: int | None = None,
    confidence: float = 0.99,
    seed: int | None = None,
    quick: bool = False,
    report: Report | None = None,
) -> SelfTest:
    """Try the audit on every broken mechanism once and on every sound one ``repetitions`` times.

    Whole releases are tried by the standard audit, once or as many times.

    A broken mechanism releases each of its two inputs ``games`` times, a sound one a fifth of that in every
    repetition: 100,000 games and 200 repetitions unless given, 50,000 and 20 when ``quick``. ``confidence``
    is that of a whole row: several attacks on one mechanism share its error probability. ``report`` is told
    the stage and the share of it that is done. ``seed`` makes the run repeatable (see above).
    """
    usual = _QUICK if quick else _FULL
    games = usual[0] if games is None else games
    repetitions = usual[1] if repetitions is None else repetitions
    for name, value, least in (("games", games, 1000), ("repetitions", repetitions, 1)):
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise BadInput(
                f"`{name}` was {value!r}: it must be a whole number, {least} or more.", parameter=name
            )
    if isinstance(confidence, bool) or not 0.5 <= confidence < 1.0:
        raise BadInput(
            f"`confidence` was {confidence!r}: it must be at least 0.5 and below 1.", parameter="confidence"
        )
    if seed is not None and (isinstance(seed, bool) or not isinstance(seed, int)):
        raise BadInput(
            f"`seed` was {seed!r}: it must be a whole number, or None for fresh noise.", parameter="seed"
        )
    tell = report or (lambda stage, share: None)
    suspects, trusted = broken(), sound()
    caught, cleared = [], []
    for done, suspect in enumerate(suspects):
        tell("broken mechanisms", done / len(suspects))
        caught.append(try_broken(suspect, games=games, confidence=confidence, seed=seed))
    caught += [try_audited_broken(release, confidence=confidence, seed=seed) for release in audited_broken()]
    for done, suspect in enumerate(trusted):
        tell("sound mechanisms", done / len(trusted))
        cleared.append(
            try_sound(
                suspect,
                games=games // _SHARE,
                repetitions=repetitions,
                confidence=confidence,
                seed=seed,
            )
        )
    cleared += [
        try_audited_sound(release, repetitions=repetitions, confidence=confidence, seed=seed)
        for release in audited_sound()
    ]
    tell("sound mechanisms", 1.0)
    return SelfTest(
        tuple(caught), tuple(cleared), games, games // _SHARE, repetitions, float(confidence), seed
    )


def _notes(broken: Sequence[BrokenVerdict], games: int) -> Iterator[str]:
    hidden = [verdict.name for verdict in broken if verdict.caught and not verdict.by_strangers]
    placed = [verdict for verdict in broken if not verdict.plain]
    assumed = [verdict.name for verdict in broken if any(attempt.assumption for attempt in verdict.attempts)]
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
            f"whoever chose them knew: {'; '.join(dict.fromkeys(verdict.hint for verdict in placed))}."
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
    strangers = [
        attempt.attack
        for attempt in verdict.attempts
        if not attempt.informed and attempt.epsilon_lower > verdict.epsilon
    ]
    informed = [name for name in verdict.by if name not in strangers]
    if not informed:
        return f"only {', '.join(strangers)}"
    return ", ".join(informed) + (f"; also {', '.join(strangers)}" if strangers else " only")


def _promise(verdict: BrokenVerdict | SoundVerdict) -> str:
    return f"ε={verdict.epsilon:.3g}" + (f", δ={verdict.delta:.2g}" if verdict.delta else "")
