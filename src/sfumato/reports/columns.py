"""The three columns of a release as the page shows them, and the verdict that compares them.

Sentences are for readers who do not read formulas. Every sentence follows from the numbers beside it and
claims no more than they do: upper bounds are rounded up, lower bounds down, and an attack that failed is
never called a proof.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from sfumato.privacy import Claim, Comparison, Evidence, Guarantee, Neighbours, Statement, Unit
from sfumato.reports.page_text import (
    at_least,
    at_most,
    delta_at_most,
    factor,
    one_in,
    percent,
    plain,
    share_at_most,
    shortened,
)
from sfumato.reports.release_entry import Entry
from sfumato.reports.utility_section import Verdict

__all__ = ["WEAK_ATTACK"]

#: Up to these ε a bound is called tight, moderate and loose; above the last it promises nothing practical.
TIGHT, MODERATE, LOOSE = 1.0, 4.0, 10.0

#: Above this δ a bound promises nothing practical, whatever its ε: as often a release may show everything.
LARGE_DELTA = 1e-3

WEAK_ATTACK = "A weak attack is no proof of privacy: a better one may exist."

# What a person usually shows in as a whole; of other units one person may well have several.
_WHOLE = ("record", "item", "client", "clip", "tensor")


def claimed(statement: Statement, refuting: Sequence[Comparison] = ()) -> list[str]:
    """Return sentences on the claim: whether the theorem supports it, and whether evidence refutes it.

    The number is compared with what is proven and measured for the very unit and neighbours that it is
    claimed for.
    """
    claim = statement.claimed
    if claim is None:
        return ["No claim of the method's authors is quoted."]
    said = ["These are the authors' words, not ours."]
    if claim.epsilon is None:
        return said
    if claim.unit is None or claim.neighbours is None:
        return [*said, "They leave open what may change between two inputs, so nothing is compared with it."]
    if refuting:
        said.append(f"The evidence refutes the claim: {exceeding(strongest_of(refuting), 'claimed')}.")
    return [*said, _borne_out(statement, claim)]


def _borne_out(statement: Statement, claim: Claim) -> str:
    guarantee = statement.proven_of(claim.unit, claim.neighbours)
    about = f"per {claim.unit} under {claim.neighbours}"
    if guarantee is None:
        return f"The claim is {about}, of which nothing is proven here, so no theorem bears the number out."
    if guarantee.proves_nothing:
        return "No theorem we know bears the number out for this release."
    delta = guarantee.at_delta if claim.delta is None else min(claim.delta, 1.0)
    given, where = guarantee.epsilon(delta), f"at δ = {delta_at_most(delta)} {about}"
    if given > (claim.epsilon or 0.0) * (1.0 + 1e-9):
        much = f"ε = {at_most(given)}" if math.isfinite(given) else "no finite ε"
        return f"The theorem does not bear the number out: it gives {much} {where}."
    return f"The theorem bears the number out {where}."


def proven(guarantee: Guarantee) -> list[str]:
    """Return sentences on the proven bound: as odds, as the best guess it allows, and its worth."""
    if guarantee.proves_nothing:
        return [
            "Nothing is proven.",
            f"No theorem limits what the release tells about {_one(guarantee.unit)}.",
        ]
    epsilon, delta = guarantee.epsilon(), guarantee.at_delta
    if not math.isfinite(epsilon):
        return [f"At δ = {delta_at_most(delta)} the theorem gives no finite ε, so it promises nothing there."]
    aside = f", leaving aside an exception of probability at most {one_in(delta)}" if delta > 0.0 else ""
    said = [
        f"If {_changed(guarantee)}, whatever can be concluded from the release would be at most "
        f"{factor(epsilon)} times as likely{aside}.",
        # δ at ε = 0 is the total variation between the two cases, whatever δ the headline uses.
        _guess(share_at_most((1.0 + guarantee.delta(0.0)) / 2.0)),
        worth(epsilon, delta),
    ]
    if guarantee.unit.name not in _WHOLE:
        said.append(f"The promise is for {_one(guarantee.unit)} only; a person may well show in more.")
    return said


def measured(entry: Entry) -> list[str]:
    """Return sentences on what attacks achieved; their failure is never called a proof."""
    if not entry.evidence:
        return ["Not audited: no attack was tried, so nothing is known beyond what is proven."]
    said = []
    strongest, guarantee = entry.strongest, entry.statement.proven
    if strongest is None:
        said.append("None of the attacks says anything about ε.")
    elif strongest.epsilon_lower:
        ours = (strongest.unit, strongest.neighbours) == (guarantee.unit, guarantee.neighbours)
        about = "" if ours else f" per {strongest.unit} under {strongest.neighbours}"
        said.append(f"The attack “{strongest.attack}” shows that ε{about} is at least {bound(strongest)}.")
    else:
        said.append("No attack established an ε above 0.")
    for item in entry.evidence:
        if item.delta_lower:
            said.append(f"The attack “{item.attack}” shows that {delta_bound(item)} per {item.unit}.")
    judged = [finding for finding in entry.findings if finding.beats_chance is not None]
    if judged:
        beaten = sum(bool(finding.beats_chance) for finding in judged)
        count = f"All {beaten}" if 1 < beaten == len(judged) else f"{beaten or 'None'} of {len(judged)}"
        said.append(f"{count} attacks did better than a guess.")
    return said if entry.alarms else [*said, WEAK_ATTACK]


def bound(item: Evidence) -> str:
    """Return a lower bound with its δ and confidence, as far as they are stated."""
    text = at_least(item.epsilon_lower or 0.0)
    text += f" at δ = {at_most(item.delta)}" if item.delta is not None else ""
    return text + (f", with {percent(item.confidence)} confidence" if item.confidence is not None else "")


def delta_bound(item: Evidence) -> str:
    """Return a lower bound on δ with the ε at which it holds."""
    where = "at every ε" if item.at_epsilon is None else f"at ε = {at_most(item.at_epsilon)}"
    return f"δ is at least {at_least(item.delta_lower or 0.0)} {where}"


def exceeding(compared: Comparison, what: str) -> str:
    """Return sentences on evidence beyond what is proven or claimed for the same unit and neighbours."""
    item, said = compared.evidence, []
    if compared.exceeds_epsilon:
        said.append(
            f"shows that ε is at least {bound(item)}; but at most {at_most(compared.epsilon)} is {what}"
        )
    if compared.exceeds_delta:
        said.append(f"shows that {delta_bound(item)}; but at most {at_most(compared.delta)} is {what}")
    return f"the attack “{item.attack}” {', and '.join(said)}, per {item.unit} under {item.neighbours}"


def strongest_of(found: Sequence[Comparison]) -> Comparison:
    """Return the comparison with the largest bound on ε."""
    return max(found, key=lambda item: (item.exceeds_epsilon, item.evidence.epsilon_lower or 0.0))


def dependable(guarantee: Guarantee) -> bool:
    """Return whether both ε and δ are small enough for the bound to mean anything in practice."""
    return guarantee.epsilon() <= LOOSE and guarantee.at_delta <= LARGE_DELTA


def worth(epsilon: float, delta: float = 0.0) -> str:
    """Return how much an ε at a δ promises, in the words that the glossary explains."""
    if delta > LARGE_DELTA:
        return (
            "A δ this large promises nothing practical, whatever ε is: with that probability the bound "
            "allows the release to show everything."
        )
    if epsilon <= TIGHT:
        return "This is a tight bound."
    if epsilon <= MODERATE:
        return "This is a moderate bound: it limits what can be learnt and leaves room for some."
    if epsilon <= LOOSE:
        return "This is a loose bound: it limits certainty rather than suspicion."
    return (
        "An ε this large promises nothing practical: the bound is true, and a reader who can tell almost "
        "everything still keeps within it."
    )


def _guess(right: str) -> str:
    who = "Somebody who must tell the two cases apart, either being as likely beforehand,"
    if right == "100%":
        return f"{who} may be right practically every time, as far as the theorem goes."
    return f"{who} is right at most {right} of the time; a coin, 50%."


def _changed(guarantee: Guarantee) -> str:
    several = guarantee.unit.name == "pixels" and guarantee.unit.size != 1
    how = {
        Neighbours.REPLACE: "replaced by others" if several else "replaced by another",
        Neighbours.ZERO_OUT: "blanked out (replaced by a fixed null value)",
        Neighbours.ADD_REMOVE: "added or taken away",
    }
    return f"{_one(guarantee.unit)} were {how[guarantee.neighbours]}"


def _one(unit: Unit) -> str:
    if unit.size is None:
        return f"any one {unit.name}"
    return "any one pixel" if unit == Unit("pixels", 1) else unit.kind.words.format(plain(unit.size))


def verdict(entry: Entry) -> Verdict:
    """Return whether measured stays below proven and claimed, as it must, and what can be relied on."""
    guarantee, strongest = entry.statement.proven, entry.strongest
    if entry.alarms:
        return Verdict("alarm", "Alarm: measured exceeds proven", _alarm(entry))
    if guarantee.proves_nothing:
        known = ""
        if strongest is not None and strongest.epsilon_lower:
            known = f" What is known is what an attack reached: ε is at least {bound(strongest)}."
        found = Verdict("nothing", "Nothing is proven", f"Reason: {guarantee.theorem}.{known}")
    elif not dependable(guarantee):
        found = Verdict("vast", "Proven, but too loose to rely on", _relation(entry))
    elif strongest is None:
        headline = "Proven; the attacks do not bound ε" if entry.evidence else "Proven, not audited"
        found = Verdict("unaudited", headline, _relation(entry))
    elif not _tried(entry):
        found = Verdict("unaudited", "Proven; the attacks are about something else", _relation(entry))
    else:
        found = Verdict("consistent", "Proven, and no attack went beyond", _relation(entry))
    if not entry.refuting:
        return found
    said = exceeding(strongest_of(entry.refuting), "claimed")
    return Verdict("refuted", "The claim is refuted", f"{said[0].upper()}{said[1:]}. {found.sentence}")


def summary(entries: Sequence[Entry]) -> str:
    """Return the whole report in one paragraph."""
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
    """Return a sentence naming the releases for which an attack exceeded the proven bound; empty if none."""
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
    """Return whether an attack is about the headline's unit and neighbours, at a δ where it bounds ε."""
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
    """Return the strongest evidence beside what is proven for the same unit and neighbours."""
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


@dataclass(frozen=True)
class Column:
    """One column: ``facts`` are pairs of a word and what it is here."""

    kind: str
    headline: str
    facts: list[tuple[str, str]]
    sentences: list[str]


def columns(entry: Entry) -> list[Column]:
    """Return the columns claimed, proven and measured."""
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
