"""Evidence about a model: attacks on further models, what was found of each class, and held-out accuracy.

An audit trains further models of the same method and parameters, which are attacked and never kept. One is
trained on four fifths of some of the records, and membership attacks try to tell these from the rest: loss
thresholds, also for each class, and one that reads the model itself. Shadow models, trained on random halves,
serve LiRA, RMIA and an attack network. Where something is proven, another model is trained with canaries,
each included by a coin; only canaries and records that stand in the model itself bound ε. No record is left
out of the model that is released, and the others cost nothing, because nobody sees them. What is measured is
computed from the records, is covered by no proof, and stays with the owner; whether a model appears depends
on it with a probability that was reserved of δ (:mod:`~sfumato.release.audit_slack`).
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from sfumato.audits import (
    ClassLeakage,
    Finding,
    LearnerAudit,
    OneRunAudit,
    audit_learner,
    one_run_audit,
    usual_delta,
)
from sfumato.errors import BadInput
from sfumato.io import (
    ArrayPair,
    ClassFolders,
    DatasetSource,
    array_names,
    file_to_read,
    is_archive,
    open_dataset,
)
from sfumato.learners import Learner, checked_examples
from sfumato.noise import Secure
from sfumato.privacy import Statement, printable
from sfumato.release.labelled_release import facts_of, names_of
from sfumato.release.path import Report
from sfumato.release.stored_model import ModelInputs
from sfumato.reports import ClassTable, VerificationFailed, plain

if TYPE_CHECKING:
    from sfumato.learners.compact import Allocation, ClassProfile


_LEAKAGE = (
    "How well the losses of a model of four fifths of the records separate its members from other records "
    "of the same class. Guessing has an AUC of 0.5 and a leakage of 0. Each interval holds with 99% "
    "confidence by itself; rates of one model bound no ε."
)
_PROFILE = (
    "Definitions 1 and 6 of CompactDP, in the units of the features: the diameter d before and after "
    "contraction, η = d′/d, κ = 1 − η, the density ρ at the bandwidth in use (its logarithm) and the "
    "vulnerability ν. They describe features and bound nothing: a constant factor changes d and no attack."
)
_ALLOCATION = (
    "The noise of Theorem 3 for ε = {epsilon:g} at δ = {delta:g} and a sensitivity of 1: equation 21 as "
    "printed, where less δ is less noise, and with its root where it belongs. Neither was added to anything, "
    "and neither proves anything: both are computed from the records."
)


@dataclass(frozen=True)
class ClassViews:
    """Figures for each class, as far as there are any; ``missing`` says why there is no noise to show."""

    names: tuple[str, ...] = ()
    leakage: tuple[ClassLeakage, ...] = ()
    profile: ClassProfile | None = None
    allocations: tuple[Allocation, ...] = ()
    missing: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return JSON values; numbers that are not finite become null."""
        rows = () if self.profile is None else self.profile.rows()
        return {
            "leakage": [item.to_dict() for item in self.leakage],
            "profile": None
            if self.profile is None
            else [
                {name: value if math.isfinite(value) else None for name, value in row.items()} for row in rows
            ],
            "allocations": [
                {
                    "formula": item.formula,
                    "epsilon": item.epsilon,
                    "delta": item.delta,
                    "sigma": item.sigma.tolist(),
                    "spent": item.spent,
                    "allowed": item.allowed,
                    "within_paper": item.within_paper,
                    "within_sound": item.within_sound,
                }
                for item in self.allocations
            ],
            "missing": self.missing or None,
        }

    def tables(self) -> tuple[ClassTable, ...]:
        """Return the tables of the report."""
        found: list[ClassTable] = []
        columns: tuple[str, ...]
        if self.leakage:
            columns = ("Class", "Members", "Others", "AUC", "Interval", "TPR at 0.1% FPR", "Leakage")
            found.append(ClassTable("leakage", _LEAKAGE, columns, [self._leak(row) for row in self.leakage]))
        if self.profile is not None:
            columns = ("Class", "Records", "d", "d′", "η", "κ", "log ρ", "ν")
            found.append(ClassTable("profile", _PROFILE, columns, self._widths(self.profile)))
        if self.allocations:
            first = self.allocations[0]
            text = _ALLOCATION.format(epsilon=first.epsilon, delta=first.delta)
            columns = ("Class", *(f"σ, {item.formula}" for item in self.allocations))
            sigmas = zip(*(item.sigma for item in self.allocations), strict=True)
            rows = [
                (name, *(plain(float(value)) for value in row))
                for name, row in zip(self.names, sigmas, strict=True)
            ]
            found.append(ClassTable("noise of Theorem 3", text, columns, rows))
        return tuple(found)

    def _leak(self, row: ClassLeakage) -> tuple[str, ...]:
        counts = (self.names[row.label], f"{row.members:,}", f"{row.nonmembers:,}")
        found = row.to_dict()
        if row.finding is None:
            return (*counts, "too few", "–", "–", "–")
        ends = " to ".join(map(plain, found["interval"]))
        return (
            *(*counts, plain(found["auc"]), ends),
            *(plain(found["tpr_at_0.1%_fpr"]), plain(found["leakage"])),
        )

    def _widths(self, profile: ClassProfile) -> list[tuple[str, ...]]:
        columns = ("diameter", "contracted_diameter", "eta", "kappa", "log_rho", "vulnerability")
        return [
            (self.names[kind], f"{row['count']:,.0f}", *(plain(row[column]) for column in columns))
            for kind, row in enumerate(profile.rows())
        ]


def class_views(
    learner: Learner, leakage: Sequence[ClassLeakage], names: tuple[str, ...], epsilon: float, delta: float
) -> ClassViews:
    """Return the figures for each class of a fitted ``learner``; ``leakage`` is what an audit found, if any.

    Profile and noise are those of a learner that contracts without noise; the noise is computed for
    ``epsilon`` and ``delta``.
    """
    profile: ClassProfile | None = getattr(learner, "profile_", None)
    if profile is None:
        return ClassViews(names, tuple(leakage))
    from sfumato.learners.compact import allocations

    try:
        noise = allocations(profile, epsilon=epsilon, delta=delta)
    except BadInput as error:
        return ClassViews(names, tuple(leakage), profile, missing=str(error))
    return ClassViews(names, tuple(leakage), profile, noise)


_PICTURES, _LABELS = ("x_test", "X_test"), ("y_test",)


@dataclass(frozen=True)
class Accuracy:
    """The share of ``records`` held-out records in ``file`` that are classified correctly."""

    file: Path
    share: float
    records: int

    def __str__(self) -> str:
        return f"Accuracy: {self.share:.2%}, measured on {printable(self.file)} ({self.records:,} records)"

    def to_dict(self) -> dict[str, Any]:
        """Return JSON values."""
        return {"file": str(self.file), "accuracy": self.share, "records": self.records}


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Features and labels of the held-out records in ``file``."""

    file: Path
    features: NDArray[np.floating]
    labels: NDArray[np.int64]

    def accuracy(self, learner: Learner) -> Accuracy:
        """Return the accuracy of a fitted ``learner``; it does not protect the held-out records."""
        right = learner.predict(self.features) == self.labels
        return Accuracy(self.file, float(right.mean()), len(self.labels))


def read_held_out(
    file: str | os.PathLike[str],
    learned: DatasetSource,
    inputs: ModelInputs,
    classes: int,
    *,
    top: float | None,
    report: Report,
) -> HeldOut:
    """Return the records in ``file``, for a model of ``inputs`` that is ``learned`` from another dataset.

    The arrays of an archive are x_test and y_test, or else those with the names of the arrays that are
    learned from; both may be in one file. The classes of a folder are found by their names.
    """
    place = Path(file)
    found = _opened(place, learned)
    if found.shape != inputs.shape:
        raise BadInput(
            f"the records in {place.name} have the shape {found.shape}, and those that are learned from "
            f"{inputs.shape}."
        )
    if inputs.extractor is not None:
        inputs = replace(inputs, top=facts_of(found, classes=None, top=top).top)
    records, labels = found.read(report)
    if isinstance(found, ClassFolders):
        names = names_of(learned, classes) if isinstance(learned, ArrayPair) else learned.folders
        strange = [name for name in found.folders if name not in names]
        if strange:
            raise BadInput(f"{place.name} holds the class {strange[0]!r}, which is not learned.")
        labels = np.array([names.index(name) for name in found.folders])[labels]
    try:
        features = inputs.features(records, report)
        return HeldOut(place, *checked_examples(features, labels, classes))
    except BadInput as error:
        raise error.at(place.name) from None


def _opened(place: Path, learned: DatasetSource) -> DatasetSource:
    if not place.exists() or not is_archive(place) or not isinstance(learned, ArrayPair):
        return open_dataset(place, or_features=True)
    names = array_names(file_to_read(place))
    chosen = [
        next((name for name in (*usual, own.name) if name in names), None)
        for usual, own in ((_PICTURES, learned.pictures), (_LABELS, learned.labels))
    ]
    if place.resolve() == learned.path.resolve() and chosen[0] == learned.pictures.name:
        raise BadInput(
            f"`test` {place.name} holds the records that are learned from, and no arrays x_test and y_test.",
            parameter="test",
        )
    return open_dataset(place, pictures=chosen[0], labels=chosen[1], or_features=True)


T = TypeVar("T")

_CANARIES = 500
# What one record reveals hardly depends on the number of others, and an audit should not take long.
_MOST_RECORDS = 4000
# Seeds of the attacks' classifiers are smaller.
_SEEDS = 1 << 32
_KEPT = "what an audit measures is computed from the records and stays with whoever learned"
_SECOND = "measured on further models, learned from some of the records or with canaries, and not kept"
_NO_GAME = "not audited by canaries: the audit could not be done"
_NO_ATTACKS = "not audited by attacks on members: the audit could not be done"
_NO_SHADOWS = "not attacked by shadow models: they could not be learned from halves of the records"


@dataclass(frozen=True)
class ModelAudit:
    """The owner's ``statement``, the public one, and what was found.

    ``attacks`` are those on a model of four fifths of the records, ``game`` is that with canaries; None if it
    was not wanted, or failed, which ``statement`` then says in a note.
    """

    statement: Statement
    open_to_all: Statement
    attacks: LearnerAudit | None = None
    game: OneRunAudit | None = None

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Return the findings of both, those of canaries first."""
        return (
            *(() if self.game is None else self.game.findings),
            *(() if self.attacks is None else self.attacks.findings),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return JSON values."""
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
    """Attack models that are trained like ``learner`` on a few thousand of the records at most.

    ``shadows`` is the number of shadow models. Raises :class:`~sfumato.reports.VerificationFailed` if
    canaries contradict the proof so clearly as happens with probability ``chance`` at most if it holds; a
    bound that holds in 99 of 100 runs stands in the measured column alone. An attack that fails with an error
    is left out, and a note for the owner says so.
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
    """Return the kind of canaries: on axes of their own, which are easiest to find, if there is room."""
    most = learner.most_features
    return "axes" if most is None or dimension + _CANARIES <= most else "directions"


def _tried(attack: Callable[[], T]) -> tuple[T | None, str]:
    """Return what ``attack`` finds, or the name of its error.

    Any error is caught: it would reveal something about the records if their model did not appear.
    """
    try:
        return attack(), ""
    except Exception as error:
        return None, type(error).__name__
