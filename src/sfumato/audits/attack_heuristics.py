"""The three conversions of CompactDP, applied to one attack, and the models that its AUC is read against.

Everything here is labelled *heuristic*: none of the numbers bounds ε in either direction
(:mod:`~sfumato.audits.heuristics`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sfumato.audits.audited_learner import answers_of, checked_records, fit_twin
from sfumato.audits.findings import Finding
from sfumato.audits.held_out_members import held_out
from sfumato.audits.heuristics import Heuristic, from_advantage, from_auc, from_rates
from sfumato.audits.loss_threshold import loss_threshold
from sfumato.audits.roc import LOW_FPR
from sfumato.errors import BadInput

__all__ = ["auc_calibration", "heuristics_of"]


def heuristics_of(
    finding: Finding, *, delta: float, calibration: Sequence[tuple[float, float]] | None = None
) -> tuple[tuple[Heuristic, ...], tuple[str, ...]]:
    """The conversions of a membership ``finding`` that exist, and a sentence for each that does not.

    From its advantage; from its true positive rate at a false positive rate of 0.1%; and from its AUC, by a
    line through ``calibration``, pairs (AUC, ε) of models whose ε is known.
    """
    done, missing = [], []
    makers: tuple[tuple[str, Callable[[], Heuristic]], ...] = (
        ("advantage", lambda: from_advantage(finding.numbers["advantage"], delta=delta)),
        ("rates", lambda: from_rates(finding.numbers["tpr_at_0.1%_fpr"], LOW_FPR)),
        ("AUC", lambda: from_auc(finding.value, calibration or ())),
    )
    for name, made in makers:
        if name == "AUC" and calibration is None:
            missing.append("heuristic AUC: no models of known ε were given to read it against")
            continue
        try:
            done.append(made())
        except BadInput as refused:
            missing.append(f"heuristic {name}: {refused}".rstrip("."))
    return tuple(done), tuple(missing)


def auc_calibration(
    make: Callable[[float], Any],
    X: Any,
    y: Any,
    *,
    epsilons: Sequence[float] = (1.0, 3.0, 8.0),
    share: float = 0.2,
    seed: int = 0,
) -> tuple[tuple[float, float], ...]:
    """Pairs (AUC of the loss threshold, ε) of models ``make(epsilon)``, all trained on the same members."""
    features, labels, _ = checked_records(X, y)
    split = held_out(len(features), share=share, seed=seed)
    pairs = []
    for epsilon in epsilons:
        learner = make(float(epsilon))
        fit_twin(learner, features[split.members], labels[split.members])
        members, nonmembers = (
            answers_of(learner, features[part], labels[part]) for part in (split.members, split.nonmembers)
        )
        pairs.append((loss_threshold(members, nonmembers).value, float(epsilon)))
    return tuple(pairs)
