"""Models that are trained on private records, as one kind of release."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.audits import SHADOWS, checked_shadows
from sfumato.errors import BadInput, Forewarning
from sfumato.io import open_dataset
from sfumato.learners import Learner, checked_examples, make_extractor
from sfumato.noise import Randomness
from sfumato.privacy import DELTA, TEXT_WIDTH, Statement, printable
from sfumato.publishers import Labelled
from sfumato.release.audit_slack import slack_of
from sfumato.release.catalogue import class_of, imported, make_learner, unheeded
from sfumato.release.labelled_release import (
    FittedKind,
    FittedResult,
    OpenedFit,
    check_apart,
    check_new_folder,
    check_page,
    check_range,
    declared_classes,
    facts_of,
    names_of,
    owned_names,
    records_of,
    under_budget,
    write_owner_report,
)
from sfumato.release.model_evidence import (
    Accuracy,
    ClassViews,
    HeldOut,
    ModelAudit,
    audited_model,
    class_views,
    read_held_out,
)
from sfumato.release.path import (
    Certify,
    Content,
    Payment,
    Protected,
    Report,
    Spending,
    one_run_at_a_time,
    release,
    silent,
)
from sfumato.release.stored_model import KeptModel, ModelInputs, write_model
from sfumato.reports import MANIFEST, Entry, KeyRing


@dataclass(frozen=True, kw_only=True)
class Learned(FittedResult):
    """What ``learn`` wrote, and what its audit found.

    ``classes`` is what was found of each class, and ``accuracy`` was measured on held-out records, if any
    were given.
    """

    audit: ModelAudit
    classes: ClassViews
    warnings: tuple[str, ...] = ()
    accuracy: Accuracy | None = None

    def text(self, width: int = TEXT_WIDTH) -> str:
        """Return the result for people: of what was measured, bounds on ε and the strongest attack."""
        attacks = self.audit.attacks
        shown = [item for item in self.findings if item.epsilon_lower is not None]
        shown += [] if attacks is None else [attacks.strongest]
        measured = replace(self.statement, measured=tuple(item.evidence() for item in shown))
        lines = self.lines(width, measured, "Model")
        if attacks is not None:
            several = sum(item.measure == "AUC" for item in attacks.findings)
            lines.append(
                f"Attacks: the table shows the strongest of {several} membership attacks; `report` shows all "
                "of them, and the loss threshold for each class"
            )
        if self.accuracy is not None:
            lines.append(str(self.accuracy))
        if self.page is not None:
            lines.append(f"Report: {printable(self.page)} (computed from records: keep it private)")
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Return the result as JSON values."""
        return super().to_dict() | {
            "audit": self.audit.to_dict(),
            "class_by_class": self.classes.to_dict(),
            "warnings": list(self.warnings),
            "accuracy": None if self.accuracy is None else self.accuracy.to_dict(),
        }


@dataclass(frozen=True, eq=False, kw_only=True)
class Learning(OpenedFit):
    """A model before any record is read: the dataset, its learner and what would be stated.

    ``slack`` is the largest chance that an honest model is withheld. ``warnings`` are those of the learner
    with the parameters that were given; a function of what is public. ``top`` is the value of white as it was
    declared, None where the type of the images says it. ``shadows`` is the number of shadow models,
    ``promise`` the (ε, δ) that was given, or 1 and the default δ.
    """

    fitted: Learner
    method: str
    inputs: ModelInputs
    records: int
    class_names: tuple[str, ...]
    warnings: tuple[str, ...]
    top: float | None = None
    shadows: int = SHADOWS
    promise: tuple[float, float] = (1.0, DELTA)

    @property
    def statement(self) -> Statement:
        """What the learner states, with the map from records to features and the warnings."""
        stated = super().statement
        # After the fit the learner notes its warnings by itself, with the δ that it was calibrated to.
        own = self.fitted.forewarnings(self.records, self.inputs.dimension)
        return replace(stated, notes=(*(note for note in stated.notes if note not in own), *self.warnings))

    def parameters(self) -> dict[str, Any]:
        """Return the method, and the map from records to features."""
        inputs, resolved = self.inputs, self.fitted.resolved(self.records)
        added = {**resolved, "method": self.method, "shape": list(inputs.shape)}
        if inputs.extractor is not None:
            added |= {"extractor": inputs.extractor_name, "top": inputs.top}
        return added

    @property
    def what(self) -> str:
        """What is released, for people."""
        return f"a classifier of {len(self.class_names)} classes by {self.inputs.dimension:,} features"

    def shape(self) -> tuple[int, int, str]:
        """Return how many records and features there are, and what would be released, for people."""
        what = f"{self.what} of {self.records:,} {self.inputs.what}"
        return self.records, self.inputs.dimension, what

    def data(self, report: Report, content: Content) -> tuple[NDArray[np.floating], NDArray[np.int64]]:
        """Return features and labels that are what was declared; add the records to ``content``."""
        records, labels = self.source.read(report)
        content.add(records, labels)
        classes = len(self.class_names)
        if self.inputs.top is not None:
            # Images are checked before they become features, which takes time.
            top, shape = self.inputs.top, self.inputs.shape
            Labelled.checked(records, labels, top=top, shape=shape, classes=classes)
            check_range(records, top)
        features, numbers = checked_examples(self.inputs.features(records, report), labels, classes)
        # Where something is proven a model appears whatever the records are: refusing would tell of them.
        if self.fitted.guarantee().proves_nothing and not (features != features[:1]).any():
            raise BadInput("all records are the same: there is nothing that could be learned from them.")
        return features, numbers


def open_learning(
    source: str | os.PathLike[str],
    method: str,
    options: Mapping[str, Any],
    *,
    pictures: str | None = None,
    labels: str | None = None,
    classes: int | None = None,
    top: float | None = None,
    reach: float | None = None,
    extractor: str | None = None,
    public_names: bool = False,
    audited: bool = True,
    shadows: int | None = None,
    randomness: Randomness | None = None,
    payment: Payment | None = None,
) -> Learning:
    """Open a model of the dataset ``source`` by ``method``; only names and headers are read.

    ``options`` are parameters of the learner; all others are those of :func:`sfumato.learn`. Unless
    neighbours are given, those of the budget that pays are taken.
    """
    kind = class_of("learn", method)
    options, ignored = under_budget(kind, options, payment), unheeded(kind, options)
    found = open_dataset(
        source, pictures=pictures, labels=labels, or_features=True, public_names=public_names
    )
    if len(found.shape) == 1:
        for name, given in (("extractor", extractor), ("top", top)):
            if given is not None and given != "none":
                raise BadInput(
                    f"`{name}` is for pictures, and {found.path.name} holds features.", parameter=name
                )
        inputs, classes = ModelInputs(found.shape), declared_classes(found, classes)
    else:
        if reach is not None:
            raise BadInput(
                f"`reach` is for features, and {found.path.name} holds pictures: every extractor gives "
                "features of norm 1 or less.",
                parameter="reach",
            )
        facts = facts_of(found, classes=classes, top=top)
        reach, classes = 1.0, facts.classes
        inputs = ModelInputs(
            found.shape, make_extractor(extractor or "whitened-scattering", found.shape), facts.top
        )
    learner = make_learner(method, options, classes=classes, reach=reach, randomness=randomness)
    said = f"{' and '.join(ignored)} cannot be heeded: this method adds no noise and promises nothing"
    records, epsilon, delta = records_of(found), options.get("epsilon"), options.get("delta")
    opened = Learning(
        source=found,
        fitted=learner,
        audited=audited,
        payment=payment or Payment(),
        method=method,
        inputs=inputs,
        records=records,
        class_names=names_of(found, learner.classes),
        warnings=(*((said,) if ignored else ()), *learner.forewarnings(records, inputs.dimension)),
        top=top,
        shadows=checked_shadows(SHADOWS if shadows is None else shadows),
        promise=(1.0 if epsilon is None else epsilon, DELTA if delta is None else delta),
    )
    proven = learner.guarantee()
    if not audited or proven.proves_nothing:
        return opened
    slack, parameters = slack_of(proven.at_delta), learner.public()
    rest = type(learner)(**parameters | {"delta": parameters["delta"] - slack}, randomness=randomness)
    return replace(opened, fitted=rest, delta=parameters["delta"], slack=slack)


@one_run_at_a_time
def learn(
    learning: Learning,
    output: str | os.PathLike[str],
    *,
    test: str | os.PathLike[str] | None = None,
    page: str | os.PathLike[str] | None = None,
    keys: KeyRing | None = None,
    report: Report | None = None,
) -> Learned:
    """Train a model on private records and write it to the folder ``output``; ``page`` is the report.

    Raises :class:`~sfumato.reports.VerificationFailed` if the audit contradicts the proof beyond doubt.
    """
    target, tell = Path(output), report or silent
    run = _Run(learning, target, test, None if page is None else Path(page))
    done = release(run, learning.payment, keys, tell)
    audit = run.audit
    leakage = () if audit.attacks is None else audit.attacks.classes
    classes = class_views(learning.fitted, leakage, learning.class_names, *learning.promise)
    accuracy = None if run.held is None else run.held.accuracy(learning.fitted)
    if run.page is not None:
        write_owner_report(
            run.page, "Model report", lambda: _entry(target.name, audit, classes, accuracy), target, tell
        )
    return Learned(
        output=target,
        certified=done,
        statement=audit.statement,
        findings=audit.findings,
        class_names=learning.class_names,
        page=run.page,
        folders=owned_names(learning.source),
        audit=audit,
        classes=classes,
        warnings=(*learning.warnings, *audit.statement.warnings),
        accuracy=accuracy,
    )


def _entry(name: str, audit: ModelAudit, classes: ClassViews, accuracy: Accuracy | None) -> Entry:
    """Return what a report says about a model called ``name``; it shows no record."""
    from sfumato.utility import Measure

    measures = []
    if accuracy is not None:
        note = f"{accuracy.records:,} held-out records in {accuracy.file.name}"
        measures.append(Measure("accuracy", accuracy.share, note=note))
    remarks = [f"noise of Theorem 3: {classes.missing}"] if classes.missing else []
    return Entry(name, audit.statement, audit.findings, measures, classes=classes.tables(), remarks=remarks)


class _Run(FittedKind):
    """One fit of ``learning``, written to the folder ``target``."""

    held: HeldOut | None = None

    def __init__(
        self, learning: Learning, target: Path, test: str | os.PathLike[str] | None, page: Path | None
    ) -> None:
        super().__init__(learning, target, target / MANIFEST)
        self.learning, self._test, self.page = learning, test, page
        self.audit = ModelAudit(self.price, self.price)
        check_apart(learning.source.path, target)
        if not self.begun:
            check_new_folder(target)
        if page is not None:
            check_page(learning.source.path, target, page)
        imported("safetensors.numpy", None, "keeping a model")  # missed after the fit it would be too late

    def check(self, content: Content, report: Report) -> None:
        learning = self.learning
        if self._test is not None:
            self.held = read_held_out(
                self._test,
                learning.source,
                learning.inputs,
                len(learning.class_names),
                top=learning.top,
                report=report,
            )
        self._data = learning.data(report, content)
        _rehearse(learning.fitted, learning.inputs.dimension)

    def draw(self, pay: Spending, report: Report) -> None:
        added, learner, words = pay(), self.learning.fitted, dict[str, Any]()
        if self.checkpoint is not None:
            words["sums"] = self.checkpoint.sums(learner.randomness, report)
        with _without_warnings():
            learner.fit(*self._data, report=report, **words)
        # A learner that promises nothing may have more to say about itself by now.
        statement = replace(self.price, notes=(*self.learning.statement.notes, *added))
        self.audit = ModelAudit(statement, statement)

    def judge(self, report: Report) -> None:
        learning = self.learning
        if learning.audited:
            with _without_warnings():
                self.audit = audited_model(
                    self.audit.statement,
                    learning.fitted,
                    *self._data,
                    chance=learning.slack,
                    shadows=learning.shadows,
                    report=report,
                )

    def write(self, certify: Certify, report: Report) -> None:
        learning = self.learning
        model = KeptModel(learning.method, learning.fitted, learning.inputs, learning.class_names)
        write_model(model, self._target, certify)

    def released(self) -> Protected:
        learning, classes = self.learning, len(self.learning.class_names)
        columns = learning.inputs.dimension
        return Protected(self.output, self.audit.open_to_all, classes, columns, (), what=learning.what)


def _rehearse(learner: Learner, dimension: int) -> None:
    """Fit a copy of ``learner`` to a few made-up records, so that parameters it refuses cost nothing.

    Some parameters are refused only by a fit; a fit to private records would be paid for.
    """
    count = 2 * learner.classes
    made_up = np.zeros((count, dimension))
    made_up[np.arange(count), np.arange(count) % dimension] = getattr(learner, "reach", 1.0)
    twin = type(learner)(**learner.public(), randomness=learner.randomness)
    if not twin.guarantee().proves_nothing:
        with _without_warnings(Forewarning):  # so few records would be warned of
            twin.fit(made_up, np.arange(count) % learner.classes)


@contextmanager
def _without_warnings(category: type[Warning] = UserWarning) -> Iterator[None]:
    """Ignore warnings of ``category``, which were printed before anything was read."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", category)
        yield
