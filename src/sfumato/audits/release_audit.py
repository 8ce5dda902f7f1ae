"""The standard audit of a data release: every attack that applies to it, and their joint result.

Attacks on the rows that were released say what this release gave away; games on worst-case rows, drawn anew
from the statement's parameters (:mod:`~sfumato.audits.mechanism_audit`), say what its mechanism gives away.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from dp_accounting import GaussianDpEvent, LaplaceDpEvent
from numpy.typing import ArrayLike, NDArray

from sfumato.audits.distinguishing_game import pair_games
from sfumato.audits.embedding_attacks import see_through
from sfumato.audits.findings import Audit, Finding
from sfumato.audits.lower_bounds import check_confidence, check_delta, usual_delta
from sfumato.audits.mechanism_audit import audit_mechanism
from sfumato.audits.noise_defects import (
    averaging_attack,
    exact_value_game,
    exact_value_leak,
    noise_across_rows,
    shared_noise,
)
from sfumato.audits.record_attacks import (
    attribute_inference,
    informed_inverter,
    membership_attacks,
    nearest_matching,
    posterior_mean,
    ridge_reconstruction,
    rows_of,
)
from sfumato.errors import BadInput
from sfumato.mechanisms import Mechanism, Release, as_array, declared_domain
from sfumato.privacy import Guarantee, Neighbours, Statement, Unit

__all__ = ["audit"]

Floats = NDArray[np.float64]
Report = Callable[[str, float], None]

# Units that a row of a release may be; of any other it holds several.
_WHOLE_ROWS = ("record", "tensor", "client", "item")
# With fewer rows the attacks have nothing to learn from and every interval is too wide to say anything.
_FEWEST = 100


def audit(
    release: Release | Any,  # or a statement or a mechanism, whose bases have no types
    *,
    original: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    nonmembers: ArrayLike | None = None,
    repeats: Sequence[Release] = (),
    delta: float | None = None,
    mechanism_only: bool = False,
    columns: int | None = None,
    confidence: float = 0.99,
    seed: int = 0,
    report: Report | None = None,
) -> Audit:
    """Attack ``release`` of the records ``original`` (n, …), row for row, and say what was achieved.

    The mechanism that the statement names is also drawn anew on its worst pair of neighbours. With
    ``mechanism_only`` that is all: ``release`` may then be a statement or a mechanism too, no data is needed
    or looked at, and the findings may travel with the release. ``columns`` is the number of columns that were
    released, where it is not known and what is proven depends on it.

    ``labels`` (n,) is a sensitive attribute to infer; ``nonmembers`` are records of the same distribution
    that were not released, and without them half of the rows play that part. ``repeats`` are further releases
    of the same records that a reader might pool. ``delta`` is that of the bounds on ε: unless given, that of
    the statement's headline, but at most 1e-5.

    The result is evidence: its ``epsilon_lower`` is the largest lower bound on ε that an attack on this
    release achieved, with the confidence that all bounds hold together (with ``mechanism_only`` the largest
    of the games with the mechanism). The attacker's random choices follow from ``seed``.
    """
    check_confidence(confidence)
    if mechanism_only:
        if original is not None:
            raise BadInput("an audit of the mechanism alone looks at no data: leave out original.")
        return _of_mechanism(release, columns, delta, confidence, seed, report)
    if not isinstance(release, Release):
        raise BadInput(f"sf.audit takes a release, as mechanism.release(X) returns it, not {type(release)}.")
    if original is None:
        raise BadInput("an audit needs the original records, or mechanism_only=True, which needs no data.")
    delta = usual_delta(release.statement.proven) if delta is None else check_delta(delta)
    records = _rows(original, "original")
    released = _rows(release.value, "release")
    if len(records) != len(released):
        raise BadInput(
            f"the original has {len(records)} rows and the release {len(released)}: an audit compares them "
            "row by row."
        )
    if len(records) < _FEWEST:
        raise BadInput(f"an audit of {len(records)} rows would say nothing; at least {_FEWEST} are needed.")
    steps = _progress(report, 9 + len(repeats))
    findings: list[Finding] = []
    clipped = _clipped(records, release.statement)
    same_columns = released.shape == records.shape
    steps("looking for exact values")
    if same_columns:
        findings.append(exact_value_leak(records, released, confidence=confidence))
    steps("seeing through transforms")
    seen = see_through(clipped, released, confidence, seed)
    tested = np.arange(len(records))
    if seen is not None:
        findings.append(seen.finding)
        tested = seen.tested

    def visible(rows: NDArray[Any]) -> NDArray[Any]:
        """Return released rows in the columns of the originals, as far as they can be had."""
        return rows[tested] if seen is None else seen.view(rows[tested])

    case = _Case(
        clipped[tested],
        # Where columns are others, no value of the release is one of the original's own.
        records[tested] if same_columns else None,
        visible(released),
        release.statement,
        seen is None or seen.certain,
        delta,
        confidence,
        seed,
    )
    if case.released.shape == case.clipped.shape:
        findings += _compared(steps, case, nonmembers)
    steps("reconstructing by regression")
    findings.append(ridge_reconstruction(clipped, released, confidence=confidence, seed=seed))
    steps("inferring the label")
    if labels is not None:
        findings.append(attribute_inference(released, labels, confidence=confidence, seed=seed))
    if repeats:
        others = [_rows(item.value, "release") for item in repeats]
        if any(value.shape != released.shape for value in others):
            raise BadInput("releases that are pooled must have the same rows and columns.")
        findings += _pooled(steps, case, [visible(value) for value in others])
    steps("drawing the mechanism anew on worst-case rows")
    remarks = []
    try:
        findings += audit_mechanism(
            release.statement,
            columns=released.shape[1],
            delta=delta,
            confidence=_half(confidence),
            seed=seed,
        )
    except BadInput as refusal:
        remarks.append(f"What the mechanism gives away on worst-case rows was not measured: {refusal}")
    steps("done")
    return Audit.of(release, findings, remarks)


def _of_mechanism(
    source: Any,
    columns: int | None,
    delta: float | None,
    confidence: float,
    seed: int,
    report: Report | None,
) -> Audit:
    """Return the audit of a mechanism alone."""
    steps = _progress(report, 1)
    steps("drawing the mechanism anew on worst-case rows")
    statement: Any = source
    if isinstance(source, Release):
        statement, columns = source.statement, source.provenance.get("columns", columns)
    half = _half(confidence)  # as beside attacks on a release, so that both find the same
    found = audit_mechanism(statement, columns=columns, delta=delta, confidence=half, seed=seed)
    if isinstance(source, Mechanism):
        statement = source.statement(columns)
    steps("done")
    return Audit.of(Release[Any](None, statement), found)


@dataclass(frozen=True, eq=False)
class _Case:
    """What the attacks are given: clipped records and released rows in the same columns.

    ``records`` are the originals before clipping, where released values may be compared with theirs.
    ``certain`` says that ``released`` shows what was noised, column for column.
    """

    clipped: Floats
    records: NDArray[Any] | None
    released: NDArray[Any]
    statement: Statement
    certain: bool
    delta: float
    confidence: float
    seed: int


def _compared(steps: Callable[[str], None], case: _Case, nonmembers: ArrayLike | None) -> list[Finding]:
    """Run attacks that compare released rows with records in the same columns."""
    both = (case.clipped, case.released)
    common: dict[str, Any] = {"confidence": case.confidence, "seed": case.seed}
    # The deviation of the noise, which an attacker knows from the public parameters.
    sigma = float(np.sqrt(np.mean(np.square(case.released.astype(np.float64) - case.clipped))))
    steps("matching rows with records")
    law = _law(case.statement.proven) or "gaussian"
    findings: list[Finding] = [*nearest_matching(*both, law=law, **common)]
    steps("telling members from others")
    outside = None if nonmembers is None else _clipped(_rows(nonmembers, "nonmembers"), case.statement)
    findings += membership_attacks(*both, nonmembers=outside, sigma=sigma or None, **common)
    steps("reconstructing records")
    findings.append(informed_inverter(*both, confidence=case.confidence))
    if sigma > 0.0:
        findings.append(posterior_mean(*both, sigma=sigma, **common))
    if sigma > 0.0 and case.certain:
        findings.append(noise_across_rows(*both, **common))
    steps("playing the pair game")
    return findings + _bounds(case)


def _bounds(case: _Case) -> list[Finding]:
    """Return lower bounds on ε and δ for the unit of a row; all hold together with the confidence."""
    if case.statement.mechanism == "Personalised":
        return []  # rows are made by rules of their own, so the game of exchanged rows is not valid
    proven, law = case.statement.proven, _law(case.statement.proven)
    unit = _row_unit(case.statement)
    count = (3 if law == "gaussian" and case.delta > 0.0 else 1) + (case.records is not None)
    common: dict[str, Any] = {
        "delta": case.delta,
        "unit": unit,
        "neighbours": proven.neighbours,
        "confidence": 1.0 - (1.0 - _half(case.confidence)) / count,
        "seed": case.seed,
    }
    found = list(pair_games(case.clipped, case.released, law=law, **common))
    if case.records is not None:
        stated = _stated_epsilon(case.statement, Unit(unit), proven.neighbours)
        found.append(exact_value_game(case.records, case.released, at_epsilon=stated, **common))
    return found


def _half(confidence: float) -> float:
    """Return the confidence of half of the error: bounds of the release and of its mechanism share it."""
    return 1.0 - (1.0 - confidence) / 2.0


def _row_unit(statement: Statement) -> str:
    """Return the unit that one row is to the statement: the first of its units that is a whole row."""
    units = [part.unit.name for part in (statement.proven, *statement.also_proven)]
    whole = [name for name in units if name in _WHOLE_ROWS]
    return whole[0] if whole else "tensor" if "component" in units else "record"


def _stated_epsilon(statement: Statement, unit: Unit, neighbours: Neighbours) -> float:
    """Return the ε at which a bound on δ says most: the claimed one, or else that proven, of this unit."""
    claim = None if statement.claimed is None else statement.claimed.guarantee()
    for part in (claim, statement.proven_of(unit, neighbours)):
        if part is not None and (part.unit, part.neighbours) == (unit, neighbours):
            epsilon = part.epsilon()
            if math.isfinite(epsilon):
                return epsilon
    return 0.0


def _pooled(steps: Callable[[str], None], case: _Case, repeats: Sequence[NDArray[Any]]) -> list[Finding]:
    """Return what several releases of the same records say together."""
    findings = []
    for other in repeats:
        steps("comparing releases")
        findings.append(shared_noise(case.clipped, case.released, other, confidence=case.confidence))
    return [*findings, averaging_attack(case.clipped, [case.released, *repeats], confidence=case.confidence)]


def _rows(values: Any, name: str) -> NDArray[Any]:
    """Return ``values`` as finite rows; tensors are flattened."""
    array = as_array(values, f"the {name}")
    return rows_of(array.reshape(len(array), -1) if array.ndim > 2 else array, name)


def _clipped(records: NDArray[Any], statement: Statement) -> Floats:
    """Return the records as the mechanism clips them, by the public bounds in its parameters."""
    clip, bounds = statement.parameters.get("clip"), statement.parameters.get("bounds")
    values = records.astype(np.float64)
    if isinstance(clip, list):
        return values  # a clip for each layer; who does not clip as the mechanism does only guesses worse
    if clip is not None:
        order = 1 if statement.mechanism == "Laplace" else 2
        size = np.linalg.norm(values, ord=order, axis=1, keepdims=True)
        return np.asarray(values * np.minimum(1.0, float(clip) / np.where(size > 0.0, size, 1.0)))
    if bounds is None:
        return values
    box: Any = declared_domain("l2", None, bounds)
    return np.asarray(np.clip(values, box.low, box.high))


def _law(proven: Guarantee) -> str | None:
    """Return the law of the noise if the proven column says Gaussian or Laplace noise alone."""
    if isinstance(proven.event, GaussianDpEvent):
        return "gaussian" if proven.revealed == proven.slack == 0.0 else None
    return "laplace" if isinstance(proven.event, LaplaceDpEvent) else None


def _progress(report: Report | None, count: int) -> Callable[[str], None]:
    """Return what reports the stages of an audit, of which there are ``count`` at most."""
    stages = itertools.count()

    def step(stage: str) -> None:
        share = 1.0 if stage == "done" else next(stages) / count
        if report is not None:
            report(f"attacking: {stage}", share)

    return step
