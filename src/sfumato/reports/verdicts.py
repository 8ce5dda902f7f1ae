"""How proven and measured stand to each other, release by release and for the whole report."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from sfumato.reports.numbers import at_least, at_most, delta_at_most, share_at_most
from sfumato.reports.printable_text import shortened
from sfumato.reports.release_entry import Entry
from sfumato.reports.sentences import (
    LARGE_DELTA,
    bound,
    dependable,
    exceeding,
    measured,
    proven,
    strongest_of,
    worth,
)

__all__ = ["Verdict", "alarm", "summary", "verdict"]


@dataclass(frozen=True)
class Verdict:
    """A ``kind`` for the eye, a ``headline`` and a ``sentence``."""

    kind: Literal["alarm", "refuted", "nothing", "vast", "unaudited", "consistent"]
    headline: str
    sentence: str


def verdict(entry: Entry) -> Verdict:
    """Whether measured stays below proven and claimed, as it must, and what there is to rely on."""
    guarantee, strongest = entry.statement.proven, entry.strongest
    if entry.alarms:
        return Verdict("alarm", "Alarm: measured exceeds proven", _alarm(entry))
    if guarantee.proves_nothing:
        known = ""
        if strongest is not None and strongest.epsilon_lower:
            known = f" What is known is what an attack reached: ε is at least {bound(strongest)}."
        told = Verdict("nothing", "Nothing is proven", f"Reason: {guarantee.theorem}.{known}")
    elif not dependable(guarantee):
        told = Verdict("vast", "Proven, but too loose to rely on", _relation(entry))
    elif strongest is None:
        headline = "Proven; the attacks do not bound ε" if entry.evidence else "Proven, not audited"
        told = Verdict("unaudited", headline, _relation(entry))
    elif not _tried(entry):
        told = Verdict("unaudited", "Proven; the attacks are about something else", _relation(entry))
    else:
        told = Verdict("consistent", "Proven, and no attack went beyond", _relation(entry))
    if not entry.refuting:
        return told
    said = exceeding(strongest_of(entry.refuting), "claimed")
    return Verdict("refuted", "The claim is refuted", f"{said[0].upper()}{said[1:]}. {told.sentence}")


def summary(entries: Sequence[Entry]) -> str:
    """The whole report in one paragraph."""
    if len(entries) == 1:
        (entry,) = entries
        promises = proven(entry.statement.proven)
        said = [f"{_quoted(entry)} was released by {entry.statement.mechanism}.", *promises[:2]]
        if not dependable(entry.statement.proven) and len(promises) > 2:
            said.append(worth(entry.statement.proven.epsilon(), entry.statement.proven.at_delta))
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
    left, large = len(entries) - len(bounded), sum(part.at_delta > LARGE_DELTA for part in bounded)
    said += f"; for {left} nothing is." if left else "."
    return said + (f" At the δ of {large} of these it promises nothing practical." if large else "")


def alarm(entries: Sequence[Entry]) -> str:
    """Which releases an attack went further against than is proven; empty where there are none."""
    alarmed = [_quoted(entry) for entry in entries if entry.alarms]
    return f"Alarm: an attack went beyond what is proven for {', '.join(alarmed)}." if alarmed else ""


def _accord(entries: Sequence[Entry]) -> list[str]:
    said = ["An attack refutes what is claimed."] if any(entry.refuting for entry in entries) else []
    if any(entry.alarms for entry in entries):
        return [*said, "An attack went beyond what is proven."]
    bounded = [entry for entry in entries if math.isfinite(entry.statement.proven.epsilon())]
    if any(_tried(entry) for entry in bounded):
        return [*said, "No attack went beyond what is proven."]
    return [*said, "Whether an attack can go beyond what is proven was not tried."] if bounded else said


def _tried(entry: Entry) -> bool:
    """Whether an attack is about the unit and neighbours of the headline, at a δ where it bounds ε."""
    compared = entry.compared
    return (
        compared is not None
        and compared.guarantee is entry.statement.proven
        and math.isfinite(compared.epsilon)
    )


def _alarm(entry: Entry) -> str:
    said = exceeding(strongest_of(entry.alarms), "proven")
    return (
        f"{said[0].upper()}{said[1:]}. The proof, the code or the audit is wrong, unless this is bad luck, "
        f"which a sound release has with probability {share_at_most(entry.false_alarm_rate)} at most. Do not "
        "hand it out before this is explained."
    )


def _relation(entry: Entry) -> str:
    """The strongest evidence beside what is proven of its own unit and neighbours, and of no other."""
    strongest, guarantee, compared = entry.strongest, entry.statement.proven, entry.compared
    if strongest is None:
        return "No attack tried to go beyond what is proven, so only the theorem speaks."
    reached, where = (
        at_least(strongest.epsilon_lower or 0.0),
        f"at δ = {delta_at_most(strongest.delta or 0.0)}",
    )
    theirs = f"ε per {strongest.unit} under {strongest.neighbours}"
    other = f"The attacks are about another change: {where}, {theirs} is at least {reached}"
    untried = f"What is proven per {guarantee.unit} under {guarantee.neighbours} was not tried."
    if compared is None:
        return f"{other}, and no theorem here speaks of it. {untried}"
    upper = compared.epsilon
    limit = f"at most {at_most(upper)} is proven" if math.isfinite(upper) else "nothing is proven"
    if compared.guarantee is not guarantee:
        return f"{other}, and {limit} of it. {untried}"
    if not math.isfinite(upper):
        return f"An attack shows that ε is at least {reached} {where}, and {where} {limit}."
    return f"Measured stays below proven, as it must: {where}, ε is at least {reached} and {limit}."


def _quoted(entry: Entry) -> str:
    return f"“{shortened(entry.name, 100)}”"


def _reached(entry: Entry) -> float:
    return 0.0 if entry.strongest is None else entry.strongest.epsilon_lower or 0.0
