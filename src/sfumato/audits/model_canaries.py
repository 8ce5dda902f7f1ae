"""The whole audit of a learner: what one trained model gives away, and what canaries prove about its ε.

One model is trained on four fifths of the records, the rest being held out, and attacked by its answers
(:mod:`~sfumato.audits.model_audit`) and by what stands in it (:mod:`~sfumato.audits.stored_records`); with
shadow models, fits of the same learner on random halves, also by LiRA, RMIA and an attack network
(:mod:`~sfumato.audits.learner_shadows`). Where the learner claims a guarantee, another is trained with
canaries that fair coins chose (:mod:`~sfumato.audits.canary_game`). This game and the search for stored
records alone say something about ε.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from sfumato.audits.attack_heuristics import heuristics_of
from sfumato.audits.audited_learner import answers_of, checked_records, fit_twin, guarantee_of
from sfumato.audits.canary_game import OneRunAudit, one_run_audit
from sfumato.audits.class_leakage import ClassLeakage, class_leakage
from sfumato.audits.findings import Finding
from sfumato.audits.held_out_members import held_out
from sfumato.audits.heuristics import Heuristic
from sfumato.audits.learner_shadows import checked_shadows, shadow_findings
from sfumato.audits.model_audit import audit_model
from sfumato.audits.stored_records import stored_records
from sfumato.errors import BadInput
from sfumato.privacy import Evidence, Guarantee
from sfumato.privacy.defaults import DELTA

__all__ = ["LearnerAudit", "audit_learner", "one_run_audit"]

Report = Callable[[str, float], None]


@dataclass(frozen=True)
class LearnerAudit:
    """What the attacks on a learner found, beside what is ``proven``.

    ``findings`` are the standard audit of one model on ``members`` and ``nonmembers`` records of one
    distribution, with its accuracy on either, and the attacks by shadow models, and the search for stored
    records; ``classes`` the loss threshold class by class. ``heuristics`` are the three conversions of the
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
        """The membership attack with the largest AUC."""
        return _strongest(self.findings)

    @property
    def privacy_risk(self) -> float:
        """The privacy risk score (AUC − 0.5)/0.5 of the strongest attack; chosen among several, so upward."""
        return (self.strongest.value - 0.5) / 0.5

    @property
    def consistent(self) -> bool:
        """Whether no bound on ε lies above what is proven."""
        stored = (item for item in self.findings if item.neighbours == str(self.proven.neighbours))
        return (self.one_run is None or self.one_run.consistent) and all(
            (item.epsilon_lower or 0.0) <= self.proven.epsilon(item.delta) for item in stored
        )

    def evidence(self) -> tuple[Evidence, ...]:
        """All findings, as they enter the measured column of a statement."""
        more = () if self.one_run is None else self.one_run.findings
        return tuple(item.evidence() for item in (*self.findings, *more))

    def to_dict(self) -> dict[str, Any]:
        """As JSON values, for machines; the heuristics under that name, with their caution."""
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
            "heuristic": [
                {
                    "name": item.name,
                    "epsilon": item.epsilon,
                    "formula": item.formula,
                    "caution": item.caution,
                }
                for item in self.heuristics
            ],
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
    calibration: Sequence[tuple[float, float]] | None = None,
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
    audit, where nothing is. ``calibration`` are pairs (AUC, ε) for the conversion of an AUC
    (`auc_calibration` makes some). ``delta`` is that of the conversions and of the bounds on ε. The bounds on
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
    heuristics, missing = heuristics_of(_strongest(found), delta=delta, calibration=calibration)
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
