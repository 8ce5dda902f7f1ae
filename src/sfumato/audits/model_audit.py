"""The standard audit of a model: every attack that needs only its answers about members and non-members."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from sfumato.audits.compactdp_attacks import attack_configurations
from sfumato.audits.findings import Finding, stated_bound
from sfumato.audits.model_attacks import class_threshold, label_only, loss_threshold, model_differences
from sfumato.audits.one_run import best_guesses, one_run_bound
from sfumato.audits.predictions import Predictions, check_comparable

__all__ = ["audit_model", "one_run_finding"]

NO_EPSILON = "one trained model is one run, so these rates bound no ε"


def audit_model(
    members: Predictions,
    nonmembers: Predictions,
    *,
    confidence: float = 0.99,
    seed: int = 0,
    report: Callable[[str, float], None] | None = None,
) -> tuple[Finding, ...]:
    """Attack a model by its answers about records it was trained on and records it was not.

    The caller must see to it that both groups come from one distribution and that nobody chose between them
    by looking at the records: a random part of one data set held back from training. Otherwise the attacks
    find the difference between the distributions, which looks like memorisation.

    The attacks are the loss threshold, the loss threshold for each class, label only, the six configurations
    of CompactDP's Table 1, and the differences of its appendix H. The shadow-model attack, LiRA and RMIA need
    other models, which `audit_learner` trains. Each interval holds with ``confidence`` by itself, not all
    together.

    **Bounds on ε.** Rates over the records of one trained model are not those of independent runs, so no
    lower bound on ε follows from them, and the findings state none. Where each record was put in or left out
    of training by its own fair coin, `one_run_finding` bounds ε.
    """
    tell = report or (lambda stage, share: None)
    tell("thresholds", 0.0)
    found = (
        loss_threshold(members, nonmembers, confidence=confidence),
        class_threshold(members, nonmembers, confidence=confidence, seed=seed),
        label_only(members, nonmembers, confidence=confidence),
        *attack_configurations(
            members,
            nonmembers,
            confidence=confidence,
            seed=seed,
            report=lambda stage, share: tell(stage, 0.02 + 0.88 * share),
        ),
        *model_differences(members, nonmembers, confidence=confidence, seed=seed),
    )
    tell("model audited", 1.0)
    return tuple(map(bounds_no_epsilon, found))


def bounds_no_epsilon(finding: Finding) -> Finding:
    """Return ``finding`` with a note that rates over the records of one model bound no ε."""
    return replace(finding, note="; ".join(filter(None, (finding.note, NO_EPSILON))))


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
