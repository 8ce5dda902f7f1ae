"""The audit beside a model: a second one, learned with canaries by coins, which is measured and never kept.

No record is left out of the model that is kept, and the second one costs nothing that is proven, because
nobody sees it. What is measured stays with whoever learned; what others see, whether a model appears, depends
on it with a chance of a tenth of δ at most.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.audit.finding import Finding
from sfumato.audit.model_canaries import one_run_audit
from sfumato.learn import Learner
from sfumato.noise import Secure
from sfumato.pipeline.protected import Report
from sfumato.privacy import Statement
from sfumato.report import VerificationFailed

__all__ = ["audited_model"]

_CANARIES = 500
# What a coin gives away hardly depends on how many others there are, and an audit should not take long.
_MOST_RECORDS = 4000
_KEPT = "what an audit measures is computed from the records and stays with whoever learned"
_APPEARS = "that it appears depends on an audit of the same method, which may add a tenth of δ to δ"
_SECOND = "measured on a second model, learned from some of the records and from canaries, and not kept"


def audited_model(
    statement: Statement,
    learner: Learner,
    features: NDArray[np.floating],
    labels: NDArray[np.int64],
    *,
    report: Report,
) -> tuple[Statement, Statement, tuple[Finding, ...]]:
    """What stays with whoever learned, what goes out, and what was found of a learner with these parameters.

    Nothing is found where records allow no audit, such as those of one class. Raises
    :class:`~sfumato.report.VerificationFailed` where a finding contradicts the proof beyond doubt; a bound
    that holds in 99 of 100 runs stands in the measured column alone.
    """
    delta = statement.proven.at_delta
    open_to_all = replace(statement, notes=(*statement.notes, _KEPT, _APPEARS))
    seed = (learner.randomness or Secure()).stream(b"model canaries").integer(64)
    chosen = np.random.default_rng(seed).permutation(len(features))[:_MOST_RECORDS]

    def make() -> Any:
        return type(learner)(**learner.public(), randomness=learner.randomness)

    try:
        found = one_run_audit(
            make,
            features[chosen],
            labels[chosen],
            canaries=_CANARIES,
            delta=delta,
            chance=min(1e-6, 0.1 * delta) if delta > 0.0 else 1e-12,
            seed=seed,
            report=lambda stage, share: report(f"audit: {stage}", share),
        )
    except Exception:
        # Whatever an audit stumbles over: it would tell of the records if their model did not appear.
        return open_to_all, open_to_all, ()
    if found.surely_more:
        raise VerificationFailed(f"the model was not kept: {found.sentence()}")
    evidence = tuple(item.evidence() for item in found.findings)
    measured = replace(statement, measured=evidence, notes=(*statement.notes, _SECOND))
    return measured, open_to_all, found.findings
