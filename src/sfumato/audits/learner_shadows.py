"""Attacks on a learner by shadow models: fits of the same learner on random halves of the same records.

Every record is inside half of the shadow models and outside the others, by coins that know nothing of the
model that is attacked. LiRA and RMIA (both online) judge each record by what models with it and without it
answer; the attack network learns from all shadow models together what answers about members look like. RMIA
compares with records that the attacked model has not seen: half of those held out, which it does not attack.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.audits.audited_learner import answers_of
from sfumato.audits.findings import Finding
from sfumato.audits.held_out_members import HeldOut
from sfumato.audits.lira import lira
from sfumato.audits.model_audit import NO_EPSILON
from sfumato.audits.rmia import rmia
from sfumato.audits.shadow_models import shadow_attack, train_shadows
from sfumato.errors import BadInput

__all__ = ["SHADOWS", "checked_shadows", "shadow_findings"]

#: As many as an audit trains unless told otherwise: they take about as long as four fits to all records.
SHADOWS = 8
# Fewer leave a record with one model on a side, and no spread to judge by.
_FEWEST = 4
_THREAT = "sees the model's answers and trained {} models like it on halves of the same records"


def checked_shadows(shadows: Any) -> int:
    """How many shadow models are trained: none, or as many as show a spread on both sides."""
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
    """LiRA, RMIA and the attack network against a ``learner`` that was fitted to the members of ``split``.

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
