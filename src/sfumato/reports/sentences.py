"""What each of the three columns says, in sentences for people who do not read formulas.

Every sentence follows from the numbers beside it and claims no more than they do: upper bounds are rounded
up, lower bounds down, and an attack that failed is never called a proof.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from sfumato.privacy import Claim, Comparison, Evidence, Guarantee, Neighbours, Statement, Unit
from sfumato.reports.numbers import (
    at_least,
    at_most,
    delta_at_most,
    factor,
    one_in,
    percent,
    plain,
    share_at_most,
)
from sfumato.reports.release_entry import Entry

__all__ = [
    "LARGE_DELTA",
    "LOOSE",
    "MODERATE",
    "TIGHT",
    "WEAK_ATTACK",
    "bound",
    "claimed",
    "delta_bound",
    "dependable",
    "exceeding",
    "measured",
    "proven",
    "strongest_of",
    "worth",
]

#: Up to these ε a bound is called tight, moderate and loose; above the last it promises nothing practical.
TIGHT, MODERATE, LOOSE = 1.0, 4.0, 10.0

#: Above this δ a bound promises nothing practical, whatever its ε: as often a release may show everything.
LARGE_DELTA = 1e-3

WEAK_ATTACK = "A weak attack is no proof of privacy: a better one may exist."

# What a person usually shows in as a whole; of other units one person may well have several.
_WHOLE = ("record", "item", "client", "clip", "tensor")


def claimed(statement: Statement, refuting: Sequence[Comparison] = ()) -> list[str]:
    """What the authors say, whether the theorem bears it out, and whether evidence refutes it.

    The number is held against what is proven and measured of the very unit and neighbours it is claimed for.
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
    """What the theorem promises: as odds, as the best guess it allows, and whether that is worth much."""
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
    """What attacks reached; that they did not get further is never said to prove anything."""
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
    """A lower bound with its δ and confidence, as far as they are stated."""
    text = at_least(item.epsilon_lower or 0.0)
    text += f" at δ = {at_most(item.delta)}" if item.delta is not None else ""
    return text + (f", with {percent(item.confidence)} confidence" if item.confidence is not None else "")


def delta_bound(item: Evidence) -> str:
    """A lower bound on δ with the ε that it holds at."""
    where = "at every ε" if item.at_epsilon is None else f"at ε = {at_most(item.at_epsilon)}"
    return f"δ is at least {at_least(item.delta_lower or 0.0)} {where}"


def exceeding(compared: Comparison, what: str) -> str:
    """What evidence shows that is more than is proven or claimed of the same unit and neighbours."""
    item, said = compared.evidence, []
    if compared.exceeds_epsilon:
        said.append(
            f"shows that ε is at least {bound(item)}; but at most {at_most(compared.epsilon)} is {what}"
        )
    if compared.exceeds_delta:
        said.append(f"shows that {delta_bound(item)}; but at most {at_most(compared.delta)} is {what}")
    return f"the attack “{item.attack}” {', and '.join(said)}, per {item.unit} under {item.neighbours}"


def strongest_of(found: Sequence[Comparison]) -> Comparison:
    """The comparison with the largest bound on ε."""
    return max(found, key=lambda item: (item.exceeds_epsilon, item.evidence.epsilon_lower or 0.0))


def dependable(guarantee: Guarantee) -> bool:
    """Whether neither ε nor δ is so large that the bound promises nothing practical."""
    return guarantee.epsilon() <= LOOSE and guarantee.at_delta <= LARGE_DELTA


def worth(epsilon: float, delta: float = 0.0) -> str:
    """How much an ε at a δ promises, in the words that the glossary explains."""
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
    size = plain(unit.size)
    if unit.name == "region":
        return f"any square of {size} × {size} pixels"
    if unit.name == "window":
        return f"any stretch of {size} ms"
    return "any one pixel" if unit.size == 1 else f"any {size} pixels"
