"""A lower bound on the ε of a learner from one training run with canaries that fair coins chose.

**The games.** Each canary has a fair coin of its own, drawn without a look at anything. What turning it does
must be what the guarantee's neighbours describe:

- ``add/remove``: the coin says whether the canary is among the records.
- ``zero-out``: the coin says whether the canary is there or a null record, the number of records staying what
  it was. A learner whose ``fit`` takes ``records=``, the number of records of which those given are the ones
  that are not null, plays this game. For any other learner a coin chooses between two canaries, which is
  two zero-outs, and the bound is for one (:mod:`~sfumato.audits.coin_bounds`).
- ``replace``: the coin says which of two records is there.

The bounds rest on the coins alone, whatever the records and the canaries are. A bound near 0 is no proof of
privacy: the attack may be weak.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.audits.audited_learner import checked_records, fit_twin, guarantee_of
from sfumato.audits.bound import Bound, check_delta
from sfumato.audits.canary_records import canary_records
from sfumato.audits.canary_scores import answer_certainty, weight_certainty
from sfumato.audits.coin_bounds import gaussian_mu, guess_bound, impossible
from sfumato.audits.findings import Finding
from sfumato.audits.proportions import failure_chance
from sfumato.errors import BadInput
from sfumato.privacy import RECORD, Comparison, Guarantee, Neighbours
from sfumato.privacy.defaults import DELTA
from sfumato.privacy.wording import downward, upward

__all__ = ["OneRunAudit", "one_run_audit"]

Floats = NDArray[np.float64]
Report = Callable[[str, float], None]

# Fewer coins than this bound nothing.
_FEWEST = 10
_ANSWERS = "knows every record and canary, sees the model's answers about the canaries, and not the coins"
_WEIGHTS = "knows every record and canary, sees the weights of the model, and not the coins"


@dataclass(frozen=True)
class OneRunAudit:
    """What one training run gave away about ``canaries`` coins, beside what is ``proven``.

    Each of ``findings`` is a lower bound on ε at its δ, for a record under the neighbours of the game; all of
    them, and so the largest, hold together with ``confidence``. ``surely_more`` says whether coins were
    guessed so well as happens with at most ``chance`` if the proof holds. ``zero_outs`` is 2 where a coin
    stood for two zero-outs.
    """

    findings: tuple[Finding, ...]
    proven: Guarantee
    canaries: int
    zero_outs: int
    surely_more: bool
    chance: float
    confidence: float

    @property
    def epsilon_lower(self) -> float:
        """The largest of the bounds."""
        return max(item.epsilon_lower or 0.0 for item in self.findings)

    @property
    def consistent(self) -> bool:
        """Whether no bound lies above what is proven at its δ."""
        return not any(Comparison(self.proven, item.evidence()).refuted for item in self.findings)

    def sentence(self) -> str:
        """What was measured against what is proven."""
        best = max(self.findings, key=lambda item: item.epsilon_lower or 0.0)
        told = (
            f"one run with {self.canaries} canaries shows ε ≥ {downward(best.epsilon_lower or 0.0, 3)} "
            f"at δ = {best.delta:g} ({best.attack}, confidence {self.confidence:g})"
        )
        if self.proven.proves_nothing:
            return f"{told}; nothing is proven."
        proven = Comparison(self.proven, best.evidence()).epsilon
        against = f"{told}, against a proven ε of {upward(proven, 3)}"
        if self.surely_more:
            return f"{against}: the proof, the code or the audit is wrong, beyond a doubt of {self.chance:g}."
        return (
            f"{against}." if self.consistent else f"{against}: more than is proven, though not beyond doubt."
        )

    def to_dict(self) -> dict[str, Any]:
        """As JSON values, for machines."""
        return {
            "canaries": self.canaries,
            "zero_outs": self.zero_outs,
            "proven": self.proven.to_dict(),
            "epsilon_lower": self.epsilon_lower,
            "confidence": self.confidence,
            "consistent": self.consistent,
            "surely_more": self.surely_more,
            "chance": self.chance,
            "findings": [item.to_dict() for item in self.findings],
            "sentence": self.sentence(),
        }


def one_run_audit(
    make: Callable[[], Any],
    X: Any,
    y: Any,
    *,
    canaries: int = 500,
    kind: str = "axes",
    neighbours: Neighbours | str | None = None,
    delta: float = DELTA,
    confidence: float = 0.99,
    chance: float = 1e-6,
    length: float | None = None,
    seed: int = 0,
    report: Report | None = None,
) -> OneRunAudit:
    """Train ``make()`` once on ``X`` (n, d), ``y`` (n,) and ``canaries`` of a ``kind``, and guess the coins.

    ``make`` returns an untrained learner: ``fit(X, y)``, ``predict_proba(X)`` and, where it claims something,
    ``guarantee()``. ``neighbours`` are those of the guarantee unless given; where the guarantee has others,
    or another unit than a record, nothing is proven of the game. What is proven is asked again after
    training, for learners that must count the records to know. Canaries (see
    :mod:`~sfumato.audits.canary_records`) have ``length``: by default the ``reach`` of the learner if it has
    one, else that of the longest record. The findings: a bound from the model's answers and, for a linear
    model, one from its weights; where the guarantee is that of Gaussian noise, of each also a bound on the
    Gaussian curve, which is tighter and holds only for such curves. All of these bounds hold together with
    ``confidence``, each by its share of what that leaves. ``seed`` draws canaries and coins; it must be
    unknown to the learner.
    """
    features, labels, classes = checked_records(X, y)
    if isinstance(canaries, bool) or not isinstance(canaries, int) or canaries < _FEWEST:
        raise BadInput(
            f"`canaries` was {canaries!r}: {_FEWEST} coins are the fewest that bound anything.",
            parameter="canaries",
        )
    delta, tell = check_delta(delta), report or (lambda stage, share: None)
    learner = make()
    classes = max(classes, getattr(learner, "classes", None) or 0)
    game = guarantee_of(learner).neighbours if neighbours is None else Neighbours(neighbours)
    null = game is Neighbours.ZERO_OUT and "records" in inspect.signature(learner.fit).parameters
    pairs = game is not Neighbours.ADD_REMOVE and not null
    zero_outs = 2 if game is Neighbours.ZERO_OUT and pairs else 1
    rng = np.random.default_rng(seed)
    records = canary_records(
        kind, features, labels, classes, canaries, length=_length(length, learner, features), rng=rng
    )
    coins = rng.integers(0, 2, canaries)
    tell("training with canaries", 0.0)
    given = records.dataset(coins, pairs=pairs)
    if null:
        fit_twin(learner, *given, records=len(records.features) + canaries)
    else:
        fit_twin(learner, *given)
    proven = guarantee_of(learner)
    if (proven.unit, proven.neighbours) != (RECORD, game):
        proven = Guarantee.nothing(f"nothing is proven of a record under {game}", RECORD, game)
    tell("guessing the coins", 0.8)
    seen = [("answers", _ANSWERS, answer_certainty(learner, records, pairs=pairs))]
    inner = weight_certainty(learner, records, pairs=pairs)
    if inner is not None:
        seen.append(("weights", _WEIGHTS, inner))
    curves = (False, True) if gaussian_mu(proven) is not None and delta > 0.0 else (False,)
    # The largest of the bounds is what counts, so each must leave room for all of them to hold.
    each = 1.0 - failure_chance(confidence) / (len(seen) * len(curves))
    found, sure = [], False
    for name, threat, certainty in seen:
        for gaussian in curves:
            bound = guess_bound(
                certainty,
                coins,
                delta=delta,
                confidence=each,
                gaussian=gaussian,
                zero_outs=zero_outs,
            )
            found.append(_finding(name, threat, bound, game, kind, zero_outs))
        sure = sure or impossible(certainty, coins, proven, chance=chance / len(seen), zero_outs=zero_outs)
    tell("coins guessed", 1.0)
    return OneRunAudit(tuple(found), proven, canaries, zero_outs, sure, chance, confidence)


def _length(length: float | None, learner: Any, features: Floats) -> float:
    if length is None:
        reach = getattr(learner, "reach", None)
        length = float(np.linalg.norm(features, axis=1).max()) if reach is None else float(reach)
    if not 0.0 < length < np.inf:
        raise BadInput(f"canaries were to have the length {length!r}: it must be above 0 and finite.")
    return length


def _finding(name: str, threat: str, bound: Bound, game: Neighbours, kind: str, zero_outs: int) -> Finding:
    correct, guesses = bound.numbers["correct"], bound.numbers["guesses"]
    note = f"canaries of the kind {kind}, chosen by fair coins"
    if zero_outs == 2:
        note += "; a coin chose between two of them, which is two zero-outs, and the bound is for one"
    return Finding(
        attack=f"one-run audit by {name}" + (", Gaussian curve" if bound.assumption else ""),
        threat=threat,
        measure="share of correct guesses",
        value=correct / guesses,
        chance=0.5,
        confidence=bound.confidence,
        epsilon_lower=bound.epsilon,
        delta=bound.delta,
        unit="record",
        neighbours=str(game),
        numbers={key: float(value) for key, value in bound.numbers.items()},
        note=f"{note}; {bound.assumption}" if bound.assumption else note,
    )
