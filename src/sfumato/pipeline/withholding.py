"""What it costs that an audit may keep a release back: a part of δ, set aside before anything is fitted.

An audit that refutes a proof beyond doubt keeps the release back, and that nothing appears is seen from
outside. If the proof holds, that happens with a chance of c at most, whatever the records are. P and Q are
the laws of what would be released of two datasets, p and q their chances that nothing appears, and H bounds
P(S) − e^ε·Q(S) over all S.

**A twin decides** (models): what is released and whether it appears are independent. Then c is slack, for
groups of every size too. *Proof.* (1 − p)·P(S) − e^ε(1 − q)·Q(S) = (1 − q)(P(S) − e^ε·Q(S)) + (q − p)·P(S),
which is H + max(0, q − p) at most; counting "nothing" in adds p − e^ε·q, and H + max(p, q) bounds it all. ∎

**The release itself decides** (publications). Let A and A′ be the releases, with the coins of the audit,
after which nothing appears of the first and of the second dataset. Then c + P(A′) is slack. *Proof.* With
"nothing" counted in, the first has P(S∖A′) + P(S∩A′) + P(A) at most and the second Q(S∖A′) at least. ∎ And
P(A′) ≤ e^x·Q(A′) + δ(x) ≤ e^x·c + δ(x) for every x, δ being that of the release without an audit.
"""

from __future__ import annotations

import math
from dataclasses import replace

from sfumato.privacy import Guarantee

__all__ = ["own_chance", "own_slack", "set_aside", "slack_of", "withholding_note"]

# A thousandth of δ: hardly more noise, and a budget pays for many releases from what it holds for slack.
_SHARE, _MOST = 1e-3, 1e-6


def slack_of(delta: float) -> float:
    """What is set aside of ``delta``: a thousandth of it, and a millionth at most."""
    return min(_MOST, _SHARE * delta)


def own_chance(guarantee: Guarantee, slack: float) -> float:
    """The c with which a release of ``guarantee`` that decides about itself costs ``slack`` at most."""
    half = 0.5 * slack
    return half * math.exp(-_softplus(guarantee.epsilon(half)))


def own_slack(guarantee: Guarantee, chance: float) -> float:
    """What a release of ``guarantee`` costs that decides about itself with ``chance``, by the best of some x.

    For groups, of which ``guarantee`` is then said; 1 where nothing better is found.
    """
    found = 1.0
    for power in range(1, 16):
        left = chance * 10.0**power
        if left >= 1.0:
            break
        found = min(found, left + chance * math.exp(min(_softplus(guarantee.epsilon(left)), 700.0)))
    return found


def set_aside(guarantee: Guarantee, slack: float, delta: float) -> Guarantee:
    """``guarantee``, calibrated to what ``slack`` leaves of ``delta``, as it is stated and charged.

    One that has a slack of its own, as that of a group may, is stated at its own δ and ``slack`` more.
    """
    at_delta = delta if guarantee.slack == 0.0 else min(1.0, guarantee.at_delta + slack)
    return replace(guarantee.with_slack(slack), at_delta=at_delta)


def withholding_note(slack: float) -> str:
    """A sentence for the statement, which everybody may read."""
    return (
        f"{slack:.3g} of δ is set aside, as slack, for the chance that an audit keeps back what is honest "
        "(--no-audit sets nothing aside)"
    )


def _softplus(x: float) -> float:
    """log(1 + e^x)."""
    return max(x, 0.0) + math.log1p(math.exp(-abs(x)))
