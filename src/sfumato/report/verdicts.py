"""How proven and measured stand to each other, release by release and for the whole report."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from sfumato.privacy import Evidence
from sfumato.report.entry import Entry
from sfumato.report.numbers import at_least, at_most, delta_at_most, share_at_most
from sfumato.report.sentences import LOOSE, bound, measured, proven, worth
from sfumato.report.text import shortened

__all__ = ["Verdict", "alarm", "summary", "verdict"]


@dataclass(frozen=True)
class Verdict:
    """A ``kind`` for the eye, a ``headline`` and a ``sentence``."""

    kind: Literal["alarm", "nothing", "vast", "unaudited", "consistent"]
    headline: str
    sentence: str


def verdict(entry: Entry) -> Verdict:
    """Whether measured stays below proven, as it must, and what there is to rely on."""
    guarantee, strongest = entry.statement.proven, entry.strongest
    if entry.alarms:
        return Verdict("alarm", "Alarm: measured exceeds proven", _alarm(entry))
    if guarantee.proves_nothing:
        known = ""
        if strongest is not None and strongest.epsilon_lower:
            known = f" What is known is what an attack reached: ε is at least {bound(strongest)}."
        return Verdict("nothing", "Nothing is proven", f"Reason: {guarantee.theorem}.{known}")
    if not guarantee.epsilon() <= LOOSE:
        return Verdict("vast", "Proven, but too loose to rely on", _relation(entry))
    if strongest is None:
        headline = "Proven; the attacks do not bound ε" if entry.evidence else "Proven, not audited"
        return Verdict("unaudited", headline, _relation(entry))
    return Verdict("consistent", "Proven, and no attack went beyond", _relation(entry))


def summary(entries: Sequence[Entry]) -> str:
    """The whole report in one paragraph."""
    if len(entries) == 1:
        (entry,) = entries
        promises = proven(entry.statement.proven)
        said = [f"{_quoted(entry)} was released by {entry.statement.mechanism}.", *promises[:2]]
        if entry.statement.proven.epsilon() > LOOSE and len(promises) > 2:
            said.append(worth(entry.statement.proven.epsilon()))
        return " ".join([*said, measured(entry)[0], *_accord(entries)])
    said = [f"This report covers {len(entries)} releases.", _bounds(entries)]
    attacked = [entry for entry in entries if entry.evidence]
    count = "All" if len(attacked) == len(entries) else str(len(attacked) or "None")
    said.append(f"{count} of them {'was' if len(attacked) == 1 else 'were'} attacked.")
    leader = max(attacked, key=_reached, default=None)
    if leader is not None and _reached(leader) > 0.0:
        reached = at_least(_reached(leader))
        said.append(f"The strongest attack shows an ε of at least {reached}, on {_quoted(leader)}.")
    return " ".join([*said, *_accord(entries)])


def _bounds(entries: Sequence[Entry]) -> str:
    guarantees = [entry.statement.proven for entry in entries]
    bounded = [guarantee for guarantee in guarantees if math.isfinite(guarantee.epsilon())]
    if not bounded:
        return "For none of them is a bound proven."
    said = f"A bound is proven for {'all' if len(bounded) == len(entries) else len(bounded)} of them"
    # One range of ε makes sense only where all of them bound changes of the same thing.
    if len({(guarantee.unit, guarantee.neighbours) for guarantee in bounded}) == 1:
        sizes = [guarantee.epsilon() for guarantee in bounded]
        span = at_most(min(sizes))
        span += f" to {at_most(max(sizes))}" if max(sizes) > min(sizes) else ""
        said += f" (ε = {span} per {bounded[0].unit})"
    left = len(entries) - len(bounded)
    return said + (f"; for {left} nothing is." if left else ".")


def alarm(entries: Sequence[Entry]) -> str:
    """Which releases an attack went further against than is proven; empty where there are none."""
    alarmed = [_quoted(entry) for entry in entries if entry.alarms]
    return f"Alarm: an attack went beyond what is proven for {', '.join(alarmed)}." if alarmed else ""


def _accord(entries: Sequence[Entry]) -> list[str]:
    if any(entry.alarms for entry in entries):
        return ["An attack went beyond what is proven."]
    bounded = [entry for entry in entries if math.isfinite(entry.statement.proven.epsilon())]
    if any(entry.strongest is not None for entry in bounded):
        return ["No attack went beyond what is proven."]
    return ["Whether an attack can go beyond what is proven was not tried."] if bounded else []


def _alarm(entry: Entry) -> str:
    worst: Evidence = max(entry.alarms, key=lambda item: item.epsilon_lower or 0.0)
    return (
        f"The attack “{worst.attack}” shows that ε is at least {bound(worst)}; but at most "
        f"{at_most(entry.statement.proven.epsilon(worst.delta))} is proven. The proof, the code or the audit "
        "is wrong, unless this is bad luck, which a sound release has with probability "
        f"{share_at_most(entry.false_alarm_rate)} at most. Do not hand it out before this is explained."
    )


def _relation(entry: Entry) -> str:
    strongest, guarantee = entry.strongest, entry.statement.proven
    if strongest is None:
        return "No attack tried to go beyond what is proven, so only the theorem speaks."
    delta = guarantee.at_delta if strongest.delta is None else strongest.delta
    upper = guarantee.epsilon(delta)
    limit = f"at most {at_most(upper)} is proven" if math.isfinite(upper) else "no finite bound is proven"
    return (
        f"Measured stays below proven, as it must: at δ = {delta_at_most(delta)}, ε is at least "
        f"{at_least(strongest.epsilon_lower or 0.0)} and {limit}."
    )


def _quoted(entry: Entry) -> str:
    return f"“{shortened(entry.name, 100)}”"


def _reached(entry: Entry) -> float:
    return 0.0 if entry.strongest is None else entry.strongest.epsilon_lower or 0.0
