"""The verdicts of the self-test as a table for a terminal, with a footnote on what they do not show."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator, Sequence
from itertools import zip_longest

from sfumato.audits.zoo.verdict import BrokenVerdict, SoundVerdict

__all__ = ["render"]

_NARROWEST = 72


def render(
    broken: Sequence[BrokenVerdict],
    sound: Sequence[SoundVerdict],
    *,
    games: int,
    sound_games: int,
    confidence: float,
    width: int = 100,
) -> str:
    """Two tables and a footnote, ``width`` columns wide (never narrower than 72)."""
    width = max(width, _NARROWEST)
    caught = sum(verdict.caught for verdict in broken)
    passed = sum(verdict.passed for verdict in sound)
    lines = [
        *textwrap.wrap(
            f"Broken mechanisms: {caught} of {len(broken)} caught. Each was released {games:,} times from "
            "either of two neighbouring inputs; all bounds of a row hold together with "
            f"{100.0 * confidence:.6g}% confidence.",
            width,
        ),
        "",
        *_broken_lines(broken, width),
        "",
        *textwrap.wrap(
            f"Sound mechanisms: {passed} of {len(sound)} within the allowed number of alarms. Each was "
            f"audited again and again by the attack that knows it, on {sound_games:,} fresh releases of "
            "either input; typical and largest are the lower bounds on ε that were found.",
            width,
        ),
        "",
        *_sound_lines(sound, confidence, width),
        "",
    ]
    for note in _notes(broken, games):
        lines += textwrap.wrap(note, width)
    return "\n".join(line.rstrip() for line in lines)


def _broken_lines(verdicts: Sequence[BrokenVerdict], width: int) -> Iterator[str]:
    widths = _widths(width, (14, 10, max(16, width // 3)))
    yield from _row(("mechanism", "promised", "measured", "caught by"), widths)
    yield _rule(widths)
    for verdict in verdicts:
        cells = (verdict.name, _promise(verdict), f"ε ≥ {_down(verdict.measured)}", _catchers(verdict))
        yield from _row(cells, widths)
        yield from textwrap.wrap(verdict.mistake, width, initial_indent="    ", subsequent_indent="    ")


def _sound_lines(verdicts: Sequence[SoundVerdict], confidence: float, width: int) -> Iterator[str]:
    strict = "at 1−1e-9"
    widths = _widths(width, (14, 7, 7, 9, 9))
    yield from _row(
        ("mechanism", "proven", "typical", "largest", f"alarms at {100.0 * confidence:.6g}%", strict), widths
    )
    yield _rule(widths)
    for verdict in verdicts:
        alarms = f"{verdict.alarms} of {verdict.repetitions}"
        if not verdict.passed:
            alarms += " (!)"
        yield from _row(
            (
                verdict.name,
                _promise(verdict),
                _down(verdict.typical),
                _down(verdict.largest),
                alarms,
                str(verdict.strict_alarms),
            ),
            widths,
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
        if not attempt.informed and attempt.epsilon > verdict.epsilon
    ]
    informed = [name for name in verdict.by if name not in strangers]
    if not informed:
        return f"only {', '.join(strangers)}"
    return ", ".join(informed) + (f"; also {', '.join(strangers)}" if strangers else " only")


def _promise(verdict: BrokenVerdict | SoundVerdict) -> str:
    return f"ε={verdict.epsilon:.3g}" + (f", δ={verdict.delta:.2g}" if verdict.delta else "")


def _down(epsilon: float) -> str:
    """A lower bound that still holds as it is printed."""
    return f"{math.floor(epsilon * 1000.0) / 1000.0:.3f}"


def _widths(width: int, others: tuple[int, ...]) -> tuple[int, ...]:
    return (width - sum(others) - 3 * len(others), *others)


def _row(cells: Sequence[str], widths: Sequence[int]) -> Iterator[str]:
    wrapped = [textwrap.wrap(cell, width) or [""] for cell, width in zip(cells, widths, strict=True)]
    for parts in zip_longest(*wrapped, fillvalue=""):
        yield " │ ".join(part.ljust(width) for part, width in zip(parts, widths, strict=True))


def _rule(widths: Sequence[int]) -> str:
    return "─┼─".join("─" * width for width in widths)
