"""The audit of a learner: attacks on one trained model, by class and by shadow models.

One model is trained on four fifths of the records and attacked by its answers
(:mod:`~sfumato.audits.model_attacks`) and by its contents (:mod:`~sfumato.audits.memorised_records`). Only
the search for stored records says something about ε; canaries do too
(:func:`~sfumato.audits.canary_game.one_run_audit`).

**Held-out records.** CompactDP (section 4.1) takes the other 20% of the records as non-members. The split
does not depend on the records, so an attack that separates the two parts has found the model's memory.

**Shadow models** are fits of the same learner on random halves. Every record is inside half of them, by coins
that do not depend on the attacked model. LiRA and RMIA (both online) judge each record by what models with it
and without it answer; the attack network learns from all shadow models together. RMIA compares with half of
the held-out records, which it does not attack.

**Leakage by class** is measured by membership attacks on one class at a time: an average over all classes
hides a class whose records lie far apart and are remembered one by one.

**Conversions.** Two conversions of CompactDP turn the strongest attack into an "empirical ε". They are
labelled *heuristic*: none of the numbers bounds ε in either direction.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.audits.canary_game import answers_of, checked_records, fit_twin, guarantee_of
from sfumato.audits.findings import Finding
from sfumato.audits.lower_bounds import check_delta
from sfumato.audits.memorised_records import stored_records
from sfumato.audits.model_attacks import (
    CONFIGURATIONS,
    FOLDS,
    all_equal,
    attack_configurations,
    audit_model,
    bounds_no_epsilon,
    loss_threshold,
)
from sfumato.audits.predictions import Predictions, check_comparable
from sfumato.audits.roc import LOW_FPR
from sfumato.audits.shadow_models import lira, rmia, shadow_attack, train_shadows
from sfumato.errors import BadInput
from sfumato.privacy import DELTA, Guarantee

__all__ = [
    "SHADOWS",
    "ClassLeakage",
    "LearnerAudit",
    "audit_learner",
    "checked_shadows",
    "class_leakage",
]

Indices = NDArray[np.intp]
Report = Callable[[str, float], None]
#: The default number of shadow models; they take about as long as four fits to all records.
SHADOWS = 8
# Fewer leave a record with one model on a side, and no spread to judge by.
_FEWEST = 4
# Members and non-members that a class needs for an interval that says anything.
_FEWEST_RECORDS = 10
_HELD_OUT = 0.2
#: The attack that needs no training: a record's score is minus its loss.
LOSS = "loss threshold"
_CAUTION = (
    "heuristic: a weak attack yields a small number, which says nothing about how private the release is; "
    "this is no bound on ε"
)


@dataclass(frozen=True)
class Heuristic:
    """A number called ε by convention, the formula it came from, and why not to rely on it."""

    name: str
    epsilon: float
    formula: str
    caution: str = _CAUTION


def from_advantage(advantage: float, *, delta: float) -> Heuristic:
    """Return log(1 + advantage − 2δ) − log(1 − δ), for a membership advantage TPR − FPR in [−1, 1].

    Negative where the advantage is below δ: a guess. Refused where the logarithm does not exist.
    """
    delta = check_delta(delta)
    if not -1.0 <= advantage <= 1.0:
        raise BadInput(f"`advantage` was {advantage!r}: it must lie between -1 and 1.", parameter="advantage")
    inside = 1.0 + advantage - 2.0 * delta
    if inside <= 0.0:
        raise BadInput(
            f"an advantage of {advantage:g} at a delta of {delta:g} has no logarithm here: "
            "1 + advantage − 2δ must be above 0."
        )
    value = math.log(inside) - math.log1p(-delta)
    return Heuristic("advantage", value, "log(1 + advantage − 2δ) − log(1 − δ)")


def heuristics_of(finding: Finding, *, delta: float) -> tuple[tuple[Heuristic, ...], tuple[str, ...]]:
    """Return the conversions of a membership ``finding`` that exist, and a sentence for each missing one.

    From its advantage, and from its true positive rate at a false positive rate of 0.1%.
    """
    done, missing = [], []
    try:
        done.append(from_advantage(finding.numbers["advantage"], delta=delta))
    except BadInput as refused:
        missing.append(f"heuristic advantage: {refused}".rstrip("."))
    tpr = finding.numbers["tpr_at_0.1%_fpr"]
    if tpr > 0.0:
        done.append(Heuristic("rates", math.log(tpr) - math.log(LOW_FPR), "log(TPR/FPR)"))
    else:
        missing.append("heuristic rates: log(TPR/FPR) does not exist for a true positive rate of 0")
    return tuple(done), tuple(missing)


def held_out(records: int, *, seed: int = 0) -> tuple[Indices, Indices]:
    """Return which of ``records`` records are trained on, and which fifth is held out, both ascending.

    All splits are equally likely; they depend on ``records`` and ``seed`` alone.
    """
    count = round(_HELD_OUT * records)
    if not 0 < count < records:
        raise BadInput(
            f"holding out {_HELD_OUT:g} of {records} records leaves one part empty: members and non-members "
            "are both needed."
        )
    order = np.random.default_rng(seed).permutation(records)
    return np.sort(order[count:]), np.sort(order[:count])


def checked_shadows(shadows: Any) -> int:
    """Return the number of shadow models: none, or as many as show a spread on both sides; else raise."""
    if isinstance(shadows, bool) or not isinstance(shadows, int) or (shadows != 0 and shadows < _FEWEST):
        raise BadInput(
            f"`shadows` was {shadows!r}: give 0 for no shadow models, or {_FEWEST} or more, so that each "
            "record is in two of them and out of two.",
            parameter="shadows",
        )
    return shadows


def shadow_findings(
    make: Callable[[], Any],
    answers: Predictions,
    features: NDArray[np.float64],
    members: Indices,
    nonmembers: Indices,
    *,
    shadows: int,
    confidence: float,
    seed: int,
    report: Report,
) -> tuple[Finding, ...]:
    """Attack a learner that was fitted to ``members`` by LiRA, RMIA and the attack network.

    ``answers`` are its predictions of all ``features`` (n, d). ``make`` makes the ``shadows`` learners, each
    fitted to half of them. Learners with one seed have one noise, which these attacks then see through:
    ``make`` must draw anew.
    """
    # Not the stream of the seed itself: that one drew the members, and halves must not depend on them.
    rng = np.random.default_rng([seed, 1])
    trained = train_shadows(
        lambda seed: make(),
        features,
        answers.labels,
        shadows,
        int(rng.integers(1 << 31)),
        report=lambda stage, done: report(stage, 0.8 * done),
    )
    is_member = np.zeros(len(answers), dtype=np.bool_)
    is_member[members] = True
    population = rng.permutation(nonmembers)[: (nonmembers.size + 1) // 2]
    others = np.setdiff1d(np.arange(len(answers)), population)
    probabilities = np.stack([item.true_probability for item in trained.predictions])
    found = (
        lira(
            answers.scaled_logit,
            is_member,
            np.stack([item.scaled_logit for item in trained.predictions]),
            trained.inside,
            confidence=confidence,
        ),
        rmia(
            answers.true_probability[others],
            is_member[others],
            probabilities[:, others],
            answers.true_probability[population],
            probabilities[:, population],
            inside=trained.inside[:, others],
            population_inside=trained.inside[:, population],
            confidence=confidence,
        ),
        replace(
            shadow_attack(
                answers.rows(is_member),
                answers.rows(~is_member),
                trained.pairs(),
                confidence=confidence,
                seed=seed,
                report=lambda stage, done: report(stage, 0.8 + 0.2 * done),
            ),
            threat=f"sees the model's answers and trained {shadows} models like it on halves of the same "
            "records",
        ),
    )
    return tuple(map(bounds_no_epsilon, found))


@dataclass(frozen=True)
class ClassLeakage:
    """What an attack found among the records of one class.

    ``finding`` has the AUC with its interval and, among its numbers, the true positive rate at a false
    positive rate of 0.1% and the advantage. It is None where the class has too few records, and ``note`` says
    so; otherwise ``note`` is that of the finding.
    """

    label: int
    members: int
    nonmembers: int
    finding: Finding | None
    note: str

    @property
    def leakage(self) -> float | None:
        """The leakage score, (AUC − 0.5)/0.5; below 0 if the attack does worse than a guess."""
        return None if self.finding is None else (self.finding.value - 0.5) / 0.5

    def to_dict(self) -> dict[str, Any]:
        """Return JSON values; null if the class has too few records."""
        found: dict[str, Any] = {} if self.finding is None else self.finding.to_dict()
        numbers = found.get("numbers", {})
        return {
            "class": self.label,
            "members": self.members,
            "nonmembers": self.nonmembers,
            "auc": found.get("value"),
            "interval": found.get("interval"),
            "confidence": found.get("confidence"),
            "tpr_at_0.1%_fpr": numbers.get("tpr_at_0.1%_fpr"),
            "advantage": numbers.get("advantage"),
            "leakage": self.leakage,
            "note": self.note,
        }


def class_leakage(
    members: Predictions,
    nonmembers: Predictions,
    *,
    attack: str = LOSS,
    confidence: float = 0.99,
    seed: int = 0,
) -> tuple[ClassLeakage, ...]:
    """Return one row for each class, in the order of the labels, of ``attack`` within that class.

    ``attack`` is ``"loss threshold"`` or the name of a configuration of CompactDP's Table 1, which learns
    from the records of the class alone. A class with fewer than ten members or non-members or, for a
    configuration, whose answers are all the same, has no finding, and a note that says why. Each interval
    holds with ``confidence`` by itself, not all together.
    """
    check_comparable(members, nonmembers)
    known = [item.name for item in CONFIGURATIONS]
    if attack != LOSS and attack not in known:
        raise BadInput(f"{attack!r} is no attack on a class: choose {LOSS} or one of {', '.join(known)}.")
    rows = []
    for label in range(members.classes):
        inside, outside = (group.labels == label for group in (members, nonmembers))
        counts = int(inside.sum()), int(outside.sum())
        found, note = None, ""
        if min(counts) < max(_FEWEST_RECORDS, 2 * FOLDS):
            note = (
                f"class {label} has {counts[0]} members and {counts[1]} non-members: {_FEWEST_RECORDS} of "
                "each are needed"
            )
        elif attack == LOSS:
            found = loss_threshold(members.rows(inside), nonmembers.rows(outside), confidence=confidence)
        elif all_equal(members.probabilities[inside], nonmembers.probabilities[outside]):
            note = f"the model gives every record of class {label} the same answer: there is nothing to learn"
        else:
            (found,) = attack_configurations(
                *(members.rows(inside), nonmembers.rows(outside)),
                names=[attack],
                confidence=confidence,
                seed=seed,
            )
        if found is not None:
            found = bounds_no_epsilon(replace(found, attack=f"{found.attack}, class {label}"))
            note = found.note
        rows.append(ClassLeakage(label, *counts, found, note))
    return tuple(rows)


@dataclass(frozen=True)
class LearnerAudit:
    """What the attacks on a learner found, beside what is ``proven``.

    ``findings`` are the standard audit of one model on ``members`` and ``nonmembers`` records of one
    distribution, with its accuracy on either, the attacks by shadow models, and the search for stored
    records; ``classes`` the loss threshold class by class. ``heuristics`` are the conversions of the
    strongest membership attack into a number called ε, and bound nothing. ``notes`` says which of them do not
    exist and why, and why there are no attacks by shadow models where they could not be trained.
    """

    findings: tuple[Finding, ...]
    classes: tuple[ClassLeakage, ...]
    heuristics: tuple[Heuristic, ...]
    proven: Guarantee
    members: int
    nonmembers: int
    accuracy: tuple[float, float]
    notes: tuple[str, ...]

    @property
    def strongest(self) -> Finding:
        """Return the membership attack with the largest AUC."""
        return _strongest(self.findings)

    @property
    def privacy_risk(self) -> float:
        """Return the risk score (AUC − 0.5)/0.5 of the strongest attack, biased upwards by that choice."""
        return (self.strongest.value - 0.5) / 0.5

    @property
    def consistent(self) -> bool:
        """Return whether no bound on ε lies above what is proven."""
        stored = (item for item in self.findings if item.neighbours == str(self.proven.neighbours))
        return all((item.epsilon_lower or 0.0) <= self.proven.epsilon(item.delta) for item in stored)

    def to_dict(self) -> dict[str, Any]:
        """Return JSON values; the heuristics under that name, with their caution."""
        return {
            "members": self.members,
            "nonmembers": self.nonmembers,
            "accuracy": {"members": self.accuracy[0], "nonmembers": self.accuracy[1]},
            "strongest": self.strongest.attack,
            "privacy_risk": self.privacy_risk,
            "proven": self.proven.to_dict(),
            "consistent": self.consistent,
            "findings": [item.to_dict() for item in self.findings],
            "classes": [item.to_dict() for item in self.classes],
            "heuristic": [vars(item) for item in self.heuristics],
            "notes": list(self.notes),
        }


def audit_learner(
    make: Callable[[], Any],
    X: Any,
    y: Any,
    *,
    delta: float = DELTA,
    shadows: int = 0,
    confidence: float = 0.99,
    seed: int = 0,
    report: Report | None = None,
) -> LearnerAudit:
    """Train ``make()`` on four fifths of the records ``X`` (n, d), ``y`` (n,), and attack it.

    ``make`` returns an untrained learner with ``fit(X, y)``, ``predict_proba(X)`` and, where it claims
    something, ``guarantee()``; it is called once more for each of the ``shadows``, as many models, without
    which LiRA, RMIA and the shadow-model attack are not run. ``delta`` is that of the conversions and of the
    bound on ε. Each finding holds with ``confidence`` by itself.
    """
    features, labels, _ = checked_records(X, y)
    checked_shadows(shadows)
    tell = report or (lambda stage, share: None)
    inside, outside = held_out(len(features), seed=seed)
    learner = make()
    proven = guarantee_of(learner)
    tell("training on the members", 0.0)
    fit_twin(learner, features[inside], labels[inside])
    answers = answers_of(learner, features, labels)
    members, nonmembers = answers.rows(inside), answers.rows(outside)
    stored = stored_records(
        learner,
        features[inside],
        features[outside],
        neighbours=proven.neighbours,
        delta=delta,
        confidence=confidence,
        seed=seed,
    )
    found = audit_model(
        members,
        nonmembers,
        confidence=confidence,
        seed=seed,
        report=lambda stage, done: tell(stage, 0.1 + 0.3 * done),
    )
    notes: tuple[str, ...] = ()
    if shadows:
        try:
            found += shadow_findings(
                *(make, answers, features, inside, outside),
                shadows=shadows,
                confidence=confidence,
                seed=seed,
                report=lambda stage, done: tell(stage, 0.4 + 0.6 * done),
            )
        except BadInput as error:
            notes = (f"not attacked by shadow models: {error}",)
    heuristics, missing = heuristics_of(_strongest(found), delta=delta)
    tell("learner audited", 1.0)
    return LearnerAudit(
        findings=(*found, stored),
        classes=class_leakage(members, nonmembers, confidence=confidence, seed=seed),
        heuristics=heuristics,
        proven=proven,
        members=len(members),
        nonmembers=len(nonmembers),
        accuracy=(float(members.correct.mean()), float(nonmembers.correct.mean())),
        notes=(*missing, *notes),
    )


def _strongest(findings: Sequence[Finding]) -> Finding:
    return max((item for item in findings if item.measure == "AUC"), key=lambda item: item.value)
