"""The three columns of a release as the page shows them: a headline, facts, and sentences."""

from __future__ import annotations

import math
from dataclasses import dataclass

from sfumato.reports.numbers import at_least, at_most, delta_at_most, percent, plain
from sfumato.reports.release_entry import Entry
from sfumato.reports.sentences import claimed, measured, proven

__all__ = ["Column", "columns"]


@dataclass(frozen=True)
class Column:
    """One column: ``facts`` are pairs of a word and what it is here."""

    kind: str
    headline: str
    facts: list[tuple[str, str]]
    sentences: list[str]


def columns(entry: Entry) -> list[Column]:
    """Claimed, proven, measured."""
    return [_claimed(entry), _proven(entry), _measured(entry)]


def _claimed(entry: Entry) -> Column:
    claim = entry.statement.claimed
    if claim is None:
        return Column("claimed", "no claim", [], claimed(entry.statement))
    headline = "no number" if claim.epsilon is None else f"ε = {plain(claim.epsilon)}"
    facts = [("δ", plain(claim.delta))] if claim.delta is not None else []
    if claim.epsilon is not None:
        facts += [("per", str(claim.unit))] if claim.unit is not None else []
        facts += [("neighbours", str(claim.neighbours))] if claim.neighbours is not None else []
    facts += [("in words", claim.text), ("source", claim.source)]
    return Column("claimed", headline, facts, claimed(entry.statement, entry.refuting))


def _proven(entry: Entry) -> Column:
    guarantee = entry.statement.proven
    epsilon = guarantee.epsilon()
    facts = [("per", str(guarantee.unit)), ("neighbours", str(guarantee.neighbours))]
    if guarantee.proves_nothing:
        headline = "nothing"
        facts.append(("reason", guarantee.theorem))
    else:
        headline = f"ε = {at_most(epsilon)}" if math.isfinite(epsilon) else "no finite ε"
        facts = [("δ", delta_at_most(guarantee.at_delta)), *facts, ("theorem", guarantee.theorem)]
        if guarantee.slack > 0.0:
            facts.append(("slack", f"δ₀ = {at_most(guarantee.slack)}, included"))
    return Column("proven", headline, facts, proven(guarantee))


def _measured(entry: Entry) -> Column:
    strongest = entry.strongest
    if strongest is None:
        headline = "no bound on ε" if entry.evidence else "not audited"
        return Column("measured", headline, [], measured(entry))
    facts = [("δ", at_most(strongest.delta))] if strongest.delta is not None else []
    if strongest.confidence is not None:
        facts.append(("confidence", percent(strongest.confidence)))
    facts += [("per", str(strongest.unit)), ("neighbours", str(strongest.neighbours))]
    facts.append(("attack", strongest.attack))
    for word, anew in (("this release", False), ("its mechanism", True)):
        bounds = [item.epsilon_lower for item in entry.findings if item.mechanism_only is anew]
        known = [bound for bound in bounds if bound is not None]
        if known:
            where = ", drawn anew on worst-case rows" if anew else ", on its own rows"
            facts.append((word, f"ε ≥ {at_least(max(known))}{where}"))
    return Column("measured", f"ε ≥ {at_least(strongest.epsilon_lower or 0.0)}", facts, measured(entry))
