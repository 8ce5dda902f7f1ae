"""The audit examines itself: it must catch every broken mechanism of a zoo and leave the sound ones alone.

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

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sfumato.audits.zoo import broken, sound
from sfumato.audits.zoo.audited_releases import (
    audited_broken,
    audited_sound,
    try_audited_broken,
    try_audited_sound,
)
from sfumato.audits.zoo.trials import try_broken, try_sound
from sfumato.audits.zoo.verdict import BrokenVerdict, SoundVerdict
from sfumato.audits.zoo.verdict_table import render
from sfumato.errors import BadInput

__all__ = ["SelfTest", "self_test"]

Report = Callable[[str, float], None]

# Games and repetitions.
_FULL, _QUICK = (100_000, 200), (50_000, 20)
# A sound mechanism is audited many times, each time with fewer games than a broken one.
_SHARE = 5


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
        """Whether every broken mechanism was caught and no sound one accused more often than is allowed."""
        return all(verdict.caught for verdict in self.broken) and all(row.passed for row in self.sound)

    def table(self, width: int = 100) -> str:
        """For a terminal of ``width`` columns: what was caught, by whom, and what that does not show."""
        return render(
            self.broken,
            self.sound,
            games=self.games,
            sound_games=self.sound_games,
            confidence=self.confidence,
            width=width,
        )

    def to_dict(self) -> dict[str, Any]:
        """As JSON values, for machines."""
        return {
            "passed": self.passed,
            "games": self.games,
            "sound_games": self.sound_games,
            "repetitions": self.repetitions,
            "confidence": self.confidence,
            "seed": self.seed,
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
