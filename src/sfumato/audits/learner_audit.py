"""The audit of a learner: attacks on one trained model, shadow models, and canaries that bound its ε.

One model is trained on four fifths of the records, the rest being held out. It is attacked by its answers
(:mod:`~sfumato.audits.model_audit`) and by its contents (:mod:`~sfumato.audits.memorised_records`); with
shadow models, fits of the same learner on random halves, also by LiRA, RMIA and an attack network. If the
learner claims a guarantee, another model is trained with canaries that fair coins chose
(:mod:`~sfumato.audits.canary_game`). Only this game and the search for stored records say something about ε.

**Shadow models** are fits of the same learner on random halves of the same records.

Every record is inside half of the shadow models and outside the others, by coins that know nothing of the
model that is attacked. LiRA and RMIA (both online) judge each record by what models with it and without it
answer; the attack network learns from all shadow models together what answers about members look like. RMIA
compares with records that the attacked model has not seen: half of those held out, which it does not attack.

**Leakage by class** is measured by membership attacks on one class at a time.

Classes differ: a class whose records lie far apart is remembered record by record while others are not, and
an average over all classes hides it. Members and non-members must come from one distribution, as everywhere.

**Conversions.** Two conversions of CompactDP turn the strongest attack into a number called ε. They are
labelled *heuristic*: none of the numbers bounds ε in either direction
(:mod:`~sfumato.audits.compactdp_attacks`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.audits.canary_game import (
    OneRunAudit,
    answers_of,
    checked_records,
    fit_twin,
    guarantee_of,
    one_run_audit,
)
from sfumato.audits.compactdp_attacks import (
    CONFIGURATIONS,
    Heuristic,
    attack_configurations,
    from_advantage,
    from_rates,
)
from sfumato.audits.findings import Finding
from sfumato.audits.memorised_records import stored_records
from sfumato.audits.model_attacks import loss_threshold
from sfumato.audits.model_audit import NO_EPSILON, audit_model
from sfumato.audits.predictions import Predictions, check_comparable
from sfumato.audits.reference_attacks import lira, rmia
from sfumato.audits.roc import LOW_FPR
from sfumato.audits.shadow_models import HeldOut, held_out, shadow_attack, train_shadows
from sfumato.errors import BadInput
from sfumato.privacy import DELTA, Guarantee

__all__ = ["SHADOWS", "ClassLeakage", "LearnerAudit", "audit_learner", "checked_shadows", "class_leakage"]

Report = Callable[[str, float], None]
#: As many as an audit trains unless told otherwise: they take about as long as four fits to all records.
SHADOWS = 8
# Fewer leave a record with one model on a side, and no spread to judge by.
_FEWEST = 4
_THREAT = "sees the model's answers and trained {} models like it on halves of the same records"
#: The attack that needs no training: a record's score is minus its loss.
LOSS = "loss threshold"


def heuristics_of(finding: Finding, *, delta: float) -> tuple[tuple[Heuristic, ...], tuple[str, ...]]:
    """Return the conversions of a membership ``finding`` that exist, and a sentence for each missing one.

    From its advantage, and from its true positive rate at a false positive rate of 0.1%.
    """
    done, missing = [], []
    makers: dict[str, Callable[[], Heuristic]] = {
        "advantage": lambda: from_advantage(finding.numbers["advantage"], delta=delta),
        "rates": lambda: from_rates(finding.numbers["tpr_at_0.1%_fpr"], LOW_FPR),
    }
    for name, made in makers.items():
        try:
            done.append(made())
        except BadInput as refused:
            missing.append(f"heuristic {name}: {refused}".rstrip("."))
    return tuple(done), tuple(missing)


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
    learner: Any,
    features: NDArray[np.float64],
    labels: NDArray[np.int64],
    split: HeldOut,
    *,
    shadows: int,
    confidence: float = 0.99,
    seed: int = 0,
    report: Callable[[str, float], None] | None = None,
) -> tuple[Finding, ...]:
    """Attack a ``learner`` that was fitted to the members of ``split`` by LiRA, RMIA and the attack network.

    ``make`` makes the ``shadows`` learners, each fitted to half of all ``features`` (n, d) with ``labels``.
    Learners with one seed have one noise, which these attacks then see through: ``make`` must draw anew.
    """
    tell = report or (lambda stage, share: None)
    # Not the stream of the seed itself: that one drew the members, and halves must know nothing of them.
    rng = np.random.default_rng([seed, 1])
    trained = train_shadows(
        lambda seed: make(),
        features,
        labels,
        shadows,
        int(rng.integers(1 << 31)),
        report=lambda stage, done: tell(stage, 0.8 * done),
    )
    answers = answers_of(learner, features, labels)
    member = np.zeros(len(labels), dtype=np.bool_)
    member[split.members] = True
    others = rng.permutation(split.nonmembers)[: (split.nonmembers.size + 1) // 2]
    asked = np.setdiff1d(np.arange(len(labels)), others)
    logits, probabilities = trained.scaled_logits(), trained.true_probabilities()
    found = (
        lira(answers.scaled_logit, member, logits, trained.inside, confidence=confidence),
        rmia(
            answers.true_probability[asked],
            member[asked],
            probabilities[:, asked],
            answers.true_probability[others],
            probabilities[:, others],
            inside=trained.inside[:, asked],
            population_inside=trained.inside[:, others],
            confidence=confidence,
        ),
        replace(
            shadow_attack(
                answers.rows(member),
                answers.rows(~member),
                trained.pairs(),
                confidence=confidence,
                seed=seed,
                report=lambda stage, done: tell(stage, 0.8 + 0.2 * done),
            ),
            threat=_THREAT.format(shadows),
        ),
    )
    return tuple(
        replace(item, note=f"{item.note}; {NO_EPSILON}" if item.note else NO_EPSILON) for item in found
    )


@dataclass(frozen=True)
class ClassLeakage:
    """What an attack found among the records of one class.

    ``finding`` has the AUC with its interval and, among its numbers, the true positive rate at a false
    positive rate of 0.1% and the advantage. It is None where the class has too few records, and ``note`` says
    so in words; otherwise ``note`` is that of the finding.
    """

    label: int
    members: int
    nonmembers: int
    finding: Finding | None
    note: str

    @property
    def auc(self) -> float | None:
        """Return the AUC of the attack within the class."""
        return None if self.finding is None else self.finding.value

    @property
    def interval(self) -> tuple[float, float] | None:
        """Return the interval of the AUC, at the confidence of the finding."""
        return None if self.finding is None else self.finding.interval

    @property
    def tpr(self) -> float | None:
        """Return the true positive rate at a false positive rate of 0.1%."""
        return None if self.finding is None else self.finding.numbers["tpr_at_0.1%_fpr"]

    @property
    def advantage(self) -> float | None:
        """Return the largest difference of true and false positive rate over all thresholds."""
        return None if self.finding is None else self.finding.numbers["advantage"]

    @property
    def leakage(self) -> float | None:
        """Return the leakage score, (AUC − 0.5)/0.5; below 0 if the attack does worse than a guess."""
        return None if self.finding is None else (self.finding.value - 0.5) / 0.5

    def to_dict(self) -> dict[str, Any]:
        """Return JSON values; null if the class has too few records."""
        return {
            "class": self.label,
            "members": self.members,
            "nonmembers": self.nonmembers,
            "auc": self.auc,
            "interval": None if self.interval is None else list(self.interval),
            "confidence": None if self.finding is None else self.finding.confidence,
            "tpr_at_0.1%_fpr": self.tpr,
            "advantage": self.advantage,
            "leakage": self.leakage,
            "note": self.note,
        }


def class_leakage(
    members: Predictions,
    nonmembers: Predictions,
    *,
    attack: str = LOSS,
    fewest: int = 10,
    folds: int = 5,
    confidence: float = 0.99,
    seed: int = 0,
) -> tuple[ClassLeakage, ...]:
    """Return one row for each class, in the order of the labels, of ``attack`` within that class.

    ``attack`` is ``"loss threshold"`` or the name of a configuration of CompactDP's Table 1, which learns
    from the records of the class alone, in ``folds`` folds. A class with fewer than ``fewest`` members or
    non-members (for a configuration, two a fold at least), or, for a configuration, whose answers are all the
    same, is answered in words. Each interval holds with ``confidence`` by itself, not all together.
    """
    check_comparable(members, nonmembers)
    if isinstance(fewest, bool) or fewest < 2:
        raise BadInput(
            f"`fewest` was {fewest!r}: an interval needs 2 records of each side or more.", parameter="fewest"
        )
    known = [item.name for item in CONFIGURATIONS]
    if attack != LOSS and attack not in known:
        raise BadInput(f"{attack!r} is no attack on a class: choose {LOSS} or one of {', '.join(known)}.")
    needed = fewest if attack == LOSS else max(fewest, 2 * folds)
    rows = []
    for label in range(members.classes):
        mine, others = (np.flatnonzero(group.labels == label) for group in (members, nonmembers))
        if min(mine.size, others.size) < needed:
            note = (
                f"class {label} has {mine.size} members and {others.size} non-members: {needed} of each are "
                "the fewest that say anything"
            )
            rows.append(ClassLeakage(label, mine.size, others.size, None, note))
            continue
        inside, outside = members.rows(mine), nonmembers.rows(others)
        if attack == LOSS:
            found = loss_threshold(inside, outside, confidence=confidence)
        elif _all_the_same(inside, outside):
            note = f"the model gives every record of class {label} the same answer: there is nothing to learn"
            rows.append(ClassLeakage(label, mine.size, others.size, None, note))
            continue
        else:
            found = attack_configurations(
                inside, outside, names=[attack], folds=folds, confidence=confidence, seed=seed
            )[0]
        note = "; ".join(part for part in (found.note, NO_EPSILON) if part)
        found = replace(found, attack=f"{found.attack}, class {label}", note=note)
        rows.append(ClassLeakage(label, mine.size, others.size, found, note))
    return tuple(rows)


def _all_the_same(*groups: Predictions) -> bool:
    first = groups[0].probabilities[0]
    return all(bool((group.probabilities == first).all()) for group in groups)


@dataclass(frozen=True)
class LearnerAudit:
    """What the attacks on a learner found, beside what is ``proven``.

    ``findings`` are the standard audit of one model on ``members`` and ``nonmembers`` records of one
    distribution, with its accuracy on either, and the attacks by shadow models, and the search for stored
    records; ``classes`` the loss threshold class by class. ``heuristics`` are the conversions of the
    strongest membership attack into a number called ε, and bound nothing. ``notes`` says which of them do not
    exist and why, and why there are no attacks by shadow models where they could not be trained. ``one_run``
    is None where it was not asked for.
    """

    findings: tuple[Finding, ...]
    classes: tuple[ClassLeakage, ...]
    heuristics: tuple[Heuristic, ...]
    one_run: OneRunAudit | None
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
        return (self.one_run is None or self.one_run.consistent) and all(
            (item.epsilon_lower or 0.0) <= self.proven.epsilon(item.delta) for item in stored
        )

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
            "one_run": None if self.one_run is None else self.one_run.to_dict(),
            "notes": list(self.notes),
        }


def audit_learner(
    make: Callable[[], Any],
    X: Any,
    y: Any,
    *,
    share: float = 0.2,
    delta: float = DELTA,
    canaries: int | None = None,
    kind: str = "axes",
    shadows: int = 0,
    folds: int = 5,
    confidence: float = 0.99,
    seed: int = 0,
    report: Report | None = None,
) -> LearnerAudit:
    """Train ``make()`` on all but ``share`` of the records ``X`` (n, d), ``y`` (n,), and attack it.

    ``make`` returns an untrained learner with ``fit(X, y)``, ``predict_proba(X)`` and, where it claims
    something, ``guarantee()``; it is called once more if there are canaries, and once for each of the
    ``shadows``, as many models, without which LiRA, RMIA and the shadow-model attack are not run.
    ``canaries`` is the number of canaries: by default 500 where something is proven and 0, for no one-run
    audit, where nothing is. ``delta`` is that of the conversions and of the bounds on ε. The bounds on
    ε hold with ``confidence`` all together, each other finding by itself.
    """
    features, labels, _ = checked_records(X, y)
    checked_shadows(shadows)
    tell = report or (lambda stage, share: None)
    split = held_out(len(features), share=share, seed=seed)
    learner = make()
    proven = guarantee_of(learner)
    tell("training on the members", 0.0)
    fit_twin(learner, features[split.members], labels[split.members])
    members, nonmembers = (
        answers_of(learner, features[part], labels[part]) for part in (split.members, split.nonmembers)
    )
    stored = stored_records(
        learner,
        features[split.members],
        features[split.nonmembers],
        neighbours=proven.neighbours,
        delta=delta,
        confidence=confidence,
        seed=seed,
    )
    found = audit_model(
        members,
        nonmembers,
        folds=folds,
        confidence=confidence,
        seed=seed,
        report=lambda stage, done: tell(stage, 0.1 + 0.2 * done),
    )
    unshadowed: tuple[str, ...] = ()
    if shadows:
        try:
            found += shadow_findings(
                make,
                learner,
                features,
                labels,
                split,
                shadows=shadows,
                confidence=confidence,
                seed=seed,
                report=lambda stage, done: tell(stage, 0.3 + 0.4 * done),
            )
        except BadInput as error:
            unshadowed = (f"not attacked by shadow models: {error}",)
    classes = class_leakage(members, nonmembers, confidence=confidence, seed=seed)
    count = (0 if proven.proves_nothing else 500) if canaries is None else canaries
    one_run = None
    if count:
        one_run = one_run_audit(
            make,
            features,
            labels,
            canaries=count,
            kind=kind,
            delta=delta,
            confidence=confidence,
            seed=seed,
            report=lambda stage, done: tell(stage, 0.7 + 0.3 * done),
        )
    heuristics, missing = heuristics_of(_strongest(found), delta=delta)
    tell("learner audited", 1.0)
    return LearnerAudit(
        findings=(*found, stored),
        classes=classes,
        heuristics=heuristics,
        one_run=one_run,
        proven=proven,
        members=len(members),
        nonmembers=len(nonmembers),
        accuracy=(float(members.correct.mean()), float(nonmembers.correct.mean())),
        notes=(*missing, *unshadowed),
    )


def _strongest(findings: Sequence[Finding]) -> Finding:
    return max((item for item in findings if item.measure == "AUC"), key=lambda item: item.value)
