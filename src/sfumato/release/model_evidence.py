"""The audit beside a model: further ones of the same method and parameters, attacked and never kept.

One is learned from four fifths of some of the records, and attacks on models try to tell them from the rest;
the loss threshold class by class too, and one by reading the model itself. Shadow models, learned from random
halves, are what LiRA, RMIA and an attack network judge by. Where something is proven, another one is learned
with canaries by coins. These coins and records that stand in the model alone say something about ε. No record
is left out of the model that is kept, and the others cost nothing that is proven, because nobody sees them.
What is measured stays with whoever learned; what others see, whether a model appears, depends on it with a
chance that was set aside of δ (:mod:`~sfumato.release.audit_slack`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from sfumato.audits.bound import usual_delta
from sfumato.audits.canary_game import OneRunAudit
from sfumato.audits.findings import Finding
from sfumato.audits.model_canaries import LearnerAudit, audit_learner, one_run_audit
from sfumato.learners import Learner
from sfumato.noise import Secure
from sfumato.privacy import Statement
from sfumato.release.protected_file import Report
from sfumato.reports import VerificationFailed

__all__ = ["ModelAudit", "audited_model"]

T = TypeVar("T")

_CANARIES = 500
# What one record gives away hardly depends on how many others there are, and an audit should not take long.
_MOST_RECORDS = 4000
# What the classifiers of attacks take as a seed.
_SEEDS = 1 << 32
_KEPT = "what an audit measures is computed from the records and stays with whoever learned"
_SECOND = "measured on further models, learned from some of the records or with canaries, and not kept"
_NO_GAME = "not audited by canaries: the audit could not be done"
_NO_ATTACKS = "not audited by attacks on members: the audit could not be done"
_NO_SHADOWS = "not attacked by shadow models: they could not be learned from halves of the records"


@dataclass(frozen=True)
class ModelAudit:
    """What stays with whoever learned (``statement``), what goes out, and what was found.

    ``attacks`` are those on a model of four fifths of the records, ``game`` that with canaries; None where
    it was not asked for, or could not be done, which ``statement`` then says in a note.
    """

    statement: Statement
    open_to_all: Statement
    attacks: LearnerAudit | None = None
    game: OneRunAudit | None = None

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Of both, those of the coins first."""
        return (
            *(() if self.game is None else self.game.findings),
            *(() if self.attacks is None else self.attacks.findings),
        )

    def to_dict(self) -> dict[str, Any]:
        """As JSON values, for machines."""
        return {
            "attacks": None if self.attacks is None else self.attacks.to_dict(),
            "canaries": None if self.game is None else self.game.to_dict(),
        }


def audited_model(
    statement: Statement,
    learner: Learner,
    features: NDArray[np.floating],
    labels: NDArray[np.int64],
    *,
    chance: float,
    shadows: int,
    report: Report,
) -> ModelAudit:
    """Attack what a learner with these parameters learns from some thousand of the records at most.

    ``shadows`` is how many further models are learned for attacks by shadow models.

    Raises :class:`~sfumato.reports.VerificationFailed` where canaries contradict the proof so well as happens
    with at most ``chance`` if it holds; a bound that holds in 99 of 100 runs stands in the measured column
    alone. An attack that stumbles is one that was not made, and a note for the owner says so.
    """
    open_to_all = replace(statement, notes=(*statement.notes, _KEPT))
    seed = (learner.randomness or Secure()).stream(b"model canaries").integer(64)
    chosen = np.random.default_rng(seed).permutation(len(features))[:_MOST_RECORDS]
    some, kinds = features[chosen], labels[chosen]
    proven = statement.proven
    delta = usual_delta(proven)

    def make() -> Any:
        return type(learner)(**learner.public(), randomness=learner.randomness)

    def tell(stage: str, share: float) -> None:
        report(f"audit: {stage}", share)

    game, failed = None, []
    if not proven.proves_nothing:
        game, error = _tried(
            lambda: one_run_audit(
                make,
                some,
                kinds,
                canaries=_CANARIES,
                kind=_canary_kind(learner, some.shape[1]),
                delta=delta,
                chance=chance,
                seed=seed,
                report=tell,
            )
        )
        if error:
            failed.append(f"{_NO_GAME} ({error})")
        if game is not None and game.surely_more:
            raise VerificationFailed(f"the model was not kept: {game.sentence()}")
    attacks, error = _tried(
        lambda: audit_learner(
            make,
            some,
            kinds,
            delta=delta,
            canaries=0,
            shadows=shadows,
            seed=seed % _SEEDS,
            report=tell,
        )
    )
    if error:
        failed.append(f"{_NO_ATTACKS} ({error})")
    elif shadows and attacks is not None and not any("LiRA" in item.attack for item in attacks.findings):
        failed.append(_NO_SHADOWS)
    found = ModelAudit(statement, open_to_all, attacks, game)
    evidence = tuple(item.evidence() for item in found.findings)
    notes = (*statement.notes, *((_SECOND,) if evidence else ()), *failed)
    return replace(found, statement=replace(statement, measured=evidence, notes=notes))


def _canary_kind(learner: Learner, dimension: int) -> str:
    """Canaries on axes of their own are the easiest to find; where there is no room for these, directions."""
    most = learner.most_features
    return "axes" if most is None or dimension + _CANARIES <= most else "directions"


def _tried(attack: Callable[[], T]) -> tuple[T | None, str]:
    """What ``attack`` finds, or the name of the error that it ended with.

    Whatever an audit stumbles over: it would tell of the records if their model did not appear.
    """
    try:
        return attack(), ""
    except Exception as error:
        return None, type(error).__name__
