"""The standard audit of a model: every attack that needs only its answers about members and non-members."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from sfumato.audits.compactdp_attacks import attack_configurations
from sfumato.audits.findings import Finding, stated_bound
from sfumato.audits.model_attacks import class_threshold, label_only, loss_threshold, model_differences
from sfumato.audits.one_run import best_guesses, one_run_bound
from sfumato.audits.predictions import Predictions, check_comparable
from sfumato.audits.shadow_models import shadow_attack
from sfumato.errors import BadInput

__all__ = ["audit_model", "one_run_finding"]

NO_EPSILON = "one trained model is one run, so these rates bound no ε"


def audit_model(
    members: Predictions,
    nonmembers: Predictions,
    *,
    shadows: Sequence[tuple[Predictions, Predictions]] | None = None,
    fair_coins: bool = False,
    delta: float | None = None,
    folds: int = 5,
    confidence: float = 0.99,
    seed: int = 0,
    report: Callable[[str, float], None] | None = None,
) -> tuple[Finding, ...]:
    """Attack a model by its answers about records it was trained on and records it was not.

    The caller must see to it that both groups come from one distribution and that nobody chose between them
    by looking at the records: a random part of one data set held back from training. Otherwise the attacks
    find the difference between the distributions and it looks like memory.

    The battery: loss threshold, loss threshold a class, label only, the six configurations of CompactDP's
    Table 1, the differences of its appendix H, and, where ``shadows`` are given as `shadow_attack` takes
    them, the shadow-model attack. LiRA and RMIA need answers of models trained with and without each record:
    `audit_learner` trains some, where a learner is at hand. Each interval holds with ``confidence``
    by itself, not all together.

    **Bounds on ε.** Rates over the records of one trained model are not those of independent runs, so no
    lower bound on ε follows from them, and the findings state none. The exception is ``fair_coins``: where
    each record here was put in or left out of training by its own fair coin, a one-run audit bounds ε at
    ``delta`` for neighbours that add or remove a record (`one_run_finding`).
    """
    if fair_coins and delta is None:
        raise BadInput("a bound on ε needs its delta: give one with fair_coins, as 1e-5.")
    if delta is not None and not fair_coins:
        raise BadInput(
            "`delta` was given without fair_coins: one trained model bounds ε only where fair coins chose "
            "its records.",
            parameter="delta",
        )

    step = report or (lambda stage, share: None)

    def within(low: float, high: float) -> Callable[[str, float], None]:
        return lambda stage, share: step(stage, low + (high - low) * share)

    configured = 0.5 if shadows is not None else 0.9
    step("thresholds", 0.0)
    found = [
        loss_threshold(members, nonmembers, confidence=confidence),
        class_threshold(members, nonmembers, folds=folds, confidence=confidence, seed=seed),
        label_only(
            members.probabilities.argmax(axis=1),
            members.labels,
            nonmembers.probabilities.argmax(axis=1),
            nonmembers.labels,
            confidence=confidence,
        ),
        *attack_configurations(
            members,
            nonmembers,
            folds=folds,
            confidence=confidence,
            seed=seed,
            report=within(0.02, configured),
        ),
    ]
    if shadows is not None:
        found.append(
            shadow_attack(
                members,
                nonmembers,
                shadows,
                confidence=confidence,
                seed=seed,
                report=within(configured, 0.95),
            )
        )
    found.extend(model_differences(members, nonmembers, confidence=confidence, seed=seed))
    found = [replace(item, note=f"{item.note}; {NO_EPSILON}" if item.note else NO_EPSILON) for item in found]
    if fair_coins and delta is not None:
        found.append(one_run_finding(members, nonmembers, delta=delta, confidence=confidence))
    step("model audited", 1.0)
    return tuple(found)


def one_run_finding(
    members: Predictions, nonmembers: Predictions, *, delta: float, confidence: float = 0.99
) -> Finding:
    """Bound ε from below by one training run in which a fair coin chose each record (Steinke et al. 2023).

    A record is guessed to be a member where its scaled logit lies above the median of all records, and the
    records farthest from the median are guessed; neither uses the coins. The bound is wrong if anything but
    independent fair coins decided which of these records were trained on.
    """
    check_comparable(members, nonmembers)
    logits = np.concatenate([members.scaled_logit, nonmembers.scaled_logit])
    coins = np.repeat([1, 0], [len(members), len(nonmembers)])
    # Ties in certainty are broken by position: mix the groups, or members would stand first.
    order = np.random.default_rng(0).permutation(coins.size)
    hits = best_guesses((logits - np.median(logits))[order], coins[order])
    bound = one_run_bound(*hits, delta=delta, confidence=confidence)
    return Finding(
        attack="one-run audit",
        threat="sees the probability the model gives to the true label of records chosen by fair coins",
        measure="share of correct guesses",
        value=hits[0] / hits[1],
        chance=0.5,
        note="for neighbours that add or remove a record; rests on fair coins having chosen the records",
        **stated_bound(bound, "record", "add/remove"),
    )
