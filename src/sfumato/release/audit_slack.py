"""Reserve part of δ for the event that an audit withholds the release.

An audit that refutes a proof beyond doubt withholds the release, and that nothing appears is public. If the
proof holds, that happens with probability c at most, whatever the records are. P and Q are the distributions
of what would be released of two datasets, p and q their probabilities that nothing appears, and H bounds
P(S) − e^ε·Q(S) over all S.

**A twin decides** (models): what is released and whether it appears are independent. Then c is slack, for
groups of every size too. *Proof.* (1 − p)·P(S) − e^ε(1 − q)·Q(S) = (1 − q)(P(S) − e^ε·Q(S)) + (q − p)·P(S),
which is H + max(0, q − p) at most; counting "nothing" in adds p − e^ε·q, and H + max(p, q) bounds it all. ∎

**The release itself decides** (publications). Let A and A′ be the releases, with the coins of the audit,
after which nothing appears of the first and of the second dataset. Then c + P(A′) is slack. *Proof.* With
"nothing" counted in, the first has P(S∖A′) + P(S∩A′) + P(A) at most and the second Q(S∖A′) at least. ∎ And
P(A′) ≤ e^x·Q(A′) + δ(x) ≤ e^x·c + δ(x) for every x, δ being that of the release without an audit. The best of
all x is a trade-off: A′ is a test of Q against P with a first error of c at most, so that its second error,
1 − P(A′), is f(c) at least, and P(A′) ≤ 1 − f(c).

**Groups.** Nothing in that proof needs P and Q to be of neighbours: for datasets that differ in k records it
holds with the H and the δ(x) of the group, and its slack is s_k = c + 1 − f_k(c). It is
paid once, not k times: P′ and Q′ are compared in one step, and not by way of the datasets in between. s_k can
still pass the δ of the statement, since what is all but impossible on one dataset may be likely k records
away. H stays as it is: at δ′ + s_k the ε of the group is that of the release without an audit at δ′. So the
group's ε is stated at that δ, where the statement's has no room for s_k; nothing is proven only where s_k
leaves no δ below 1.

**No audit can refute a large ε.** If every coin of m canaries were guessed right, and (ε, δ) allowed that
with probability above c, no outcome has probability c or less: nothing is ever withheld, A and A′ are empty,
and the slack is 0. Whether that is so depends on the guarantee, on c and on m, which are public; under
add/remove neighbours the number of records is not, and the slack is reserved.
"""

from __future__ import annotations

import math
from dataclasses import replace

from sfumato.privacy import Guarantee

# A thousandth of δ: hardly more noise, and a budget's slack pays for many releases.
_SHARE, _MOST = 1e-3, 1e-6
# Precision of a trade-off.
_DIGITS = 1e-12


def slack_of(delta: float) -> float:
    """Return the part of ``delta`` that is reserved: a thousandth of it, and a millionth at most."""
    return min(_MOST, _SHARE * delta)


def own_chance(guarantee: Guarantee, slack: float) -> float:
    """Return the c with which a release of ``guarantee``, deciding about itself, costs ``slack`` at most."""
    half = 0.5 * slack
    return half * math.exp(-_softplus(guarantee.epsilon(half)))


def own_slack(guarantee: Guarantee, chance: float) -> float:
    """Return the slack of a release of ``guarantee`` that decides about itself with probability ``chance``.

    This is for groups, of which ``guarantee`` is then stated; 1 if nothing better is found. It is computed by
    the trade-off and, since a slack far below one is lost in its digits, by the best of some x.
    """
    found, step = 1.0, 10.0**0.25
    left = chance * step
    while 0.0 < left < 1.0:
        epsilon = _softplus(guarantee.epsilon(left))
        found = min(found, left + math.exp(min(math.log(chance) + epsilon, 0.0)))
        left *= step
    return min(found, chance + 1.0 - guarantee.tradeoff(chance) + _DIGITS)


def set_aside(guarantee: Guarantee, slack: float, delta: float) -> Guarantee:
    """Return ``guarantee``, calibrated to what ``slack`` leaves of ``delta``, as it is stated and charged.

    One that has a slack of its own, as that of a group may, is stated at its own δ plus ``slack``, and so is
    one whose ``slack`` exceeds half of ``delta``.
    """
    if guarantee.proves_nothing:
        return guarantee
    room = guarantee.slack == 0.0 and slack <= 0.5 * delta
    at_delta = delta if room else guarantee.at_delta + slack
    if at_delta >= 1.0:
        reason = f"an audit may withhold it; ε is about {guarantee.epsilon():.3g} without an audit"
        return Guarantee.nothing(reason, guarantee.unit, guarantee.neighbours)
    return replace(guarantee.with_slack(slack), at_delta=at_delta)


def withholding_note(slack: float) -> str:
    """Return the note of the statement about the reserved part of δ."""
    return (
        f"{slack:.3g} of δ is set aside, as slack, for the chance that an audit keeps back what is honest "
        "(without an audit nothing is set aside)"
    )


def _softplus(x: float) -> float:
    """log(1 + e^x)."""
    return max(x, 0.0) + math.log1p(math.exp(-abs(x)))
