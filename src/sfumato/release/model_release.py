"""Models that were learned from private records, as one kind of release, and the page about each."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

import sfumato
from sfumato.audits import SHADOWS, Finding, checked_shadows
from sfumato.errors import BadInput
from sfumato.io import DatasetSource, atomic_output, open_dataset
from sfumato.learners import Learner, checked_examples, make_extractor
from sfumato.ledger import Ledger
from sfumato.noise import Randomness
from sfumato.privacy import DELTA, Guarantee, Statement
from sfumato.publishers import Labelled
from sfumato.release.audit_slack import set_aside, slack_of, withholding_note
from sfumato.release.catalogue import (
    imported,
    kind_of_learner,
    make_learner,
    rehearse,
    unheeded,
    unheeded_note,
)
from sfumato.release.checkpoint import Checkpoint
from sfumato.release.locations import PRIVATE, check_apart, check_new_folder, check_page, one_run_at_a_time
from sfumato.release.model_evidence import (
    ClassViews,
    HeldOut,
    ModelAudit,
    audited_model,
    class_views,
    read_held_out,
)
from sfumato.release.path import Certify, Kind, Protected, Report, release, silent
from sfumato.release.payment import Content, Payment, Spending, under_budget
from sfumato.release.public_facts import check_range, declared_classes, facts_of, records_of
from sfumato.release.publication import names_note, names_of, owned_names
from sfumato.release.release_plan import Plan, cost_of, groups_of
from sfumato.release.stored_model import KeptModel, ModelInputs, write_model
from sfumato.reports import MANIFEST, Entry, KeyRing, render_report

if TYPE_CHECKING:
    from sfumato.release.model_evidence import Accuracy

__all__ = ["Learned"]


@dataclass(frozen=True)
class Learned:
    """What ``learn`` wrote, and what its audit found.

    ``certified`` is the manifest of the folder ``output``, which carries the certificate. ``statement`` has
    the measured column, which the certificate leaves out. ``classes`` is what was found of each class, and
    ``accuracy`` was measured on records that were held out, if any were given. ``folders`` says which class
    is of which folder, for the owner alone.
    """

    output: Path
    certified: Protected
    audit: ModelAudit
    classes: ClassViews
    class_names: tuple[str, ...]
    warnings: tuple[str, ...] = ()
    accuracy: Accuracy | None = None
    page: Path | None = None
    folders: Mapping[str, str] = field(default_factory=dict)

    @property
    def statement(self) -> Statement:
        """What stays with whoever learned."""
        return self.audit.statement

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What the audit found."""
        return self.audit.findings

    def to_dict(self) -> dict[str, Any]:
        """As JSON values, for machines."""
        return self.certified.to_dict() | {
            "output": str(self.output),
            "certified": str(self.certified.output),
            "classes": list(self.class_names),
            "class_folders": dict(self.folders),
            "statement": self.statement.to_dict(),
            "findings": [item.to_dict() for item in self.findings],
            "audit": self.audit.to_dict(),
            "class_by_class": self.classes.to_dict(),
            "warnings": list(self.warnings),
            "accuracy": None if self.accuracy is None else self.accuracy.to_dict(),
            "report": None if self.page is None else str(self.page),
        }


def write_learning_report(
    page: Path, name: str, audit: ModelAudit, classes: ClassViews, accuracy: Accuracy | None
) -> None:
    """Write the HTML file ``page`` about a model called ``name``, which its owner alone may read.

    It shows no record; what was measured is computed from records, and no guarantee covers it.
    """
    measures: list[dict[str, Any]] = []
    if accuracy is not None:
        note = f"{accuracy.records:,} held-out records in {accuracy.file.name}"
        measures.append({"name": "accuracy", "value": accuracy.share, "note": note})
    remarks = [f"noise of Theorem 3: {classes.missing}"] if classes.missing else []
    entry = Entry(
        name,
        audit.statement,
        audit.findings,
        utility={"measures": measures, "remarks": remarks},
        classes=classes.tables(),
    )
    lines = [f"sfumato verify {name}", f"# Sfumato {sfumato.__version__}"]
    text = render_report([entry], title="Model report", reproduce=lines)
    with atomic_output(page, mode=PRIVATE) as file:
        file.write(text.encode("utf-8"))


@dataclass(frozen=True, eq=False)
class Learning:
    """A model before any record is read: the dataset, its learner and what would be stated.

    ``asked`` is the learner with what was asked for. Where an ``audited`` model may be kept back, ``slack``
    of its δ is set aside for that, and ``learner`` is calibrated to the rest
    (:mod:`~sfumato.release.audit_slack`). ``top`` is the value of white as it was declared, None where the
    type of the pictures says it. ``shadows`` is how many models the attacks by shadow models learn from.
    ``promise`` is the (ε, δ) that was asked for, or 1 and the default δ.
    """

    source: DatasetSource
    method: str
    asked: Learner
    inputs: ModelInputs
    records: int
    class_names: tuple[str, ...]
    top: float | None = None
    unheeded: tuple[str, ...] = ()
    audited: bool = True
    shadows: int = SHADOWS
    promise: tuple[float, float] = (1.0, DELTA)

    @cached_property
    def slack(self) -> float:
        """With what chance an honest model is kept back, at most; a function of what is public."""
        proven = self.asked.guarantee()
        return slack_of(proven.at_delta) if self.audited and not proven.proves_nothing else 0.0

    @cached_property
    def learner(self) -> Learner:
        """The learner that is fitted."""
        if self.slack == 0.0:
            return self.asked
        given = self.asked.public()
        return type(self.asked)(
            **given | {"delta": given["delta"] - self.slack}, randomness=self.asked.randomness
        )

    @property
    def warnings(self) -> tuple[str, ...]:
        """What should be known before anything is learned; a function of what is public."""
        said = (unheeded_note(self.unheeded),) if self.unheeded else ()
        return (*said, *self.asked.forewarnings(self.records, self.inputs.dimension))

    def proven(self, size: int = 1) -> Guarantee:
        """What is proven of ``size`` records that change together, with what an audit may cost."""
        own = self.learner.guarantee().group(size)
        return own if self.slack == 0.0 else set_aside(own, self.slack, self.asked.public()["delta"])

    @property
    def statement(self) -> Statement:
        """What the learner states, with the way from records to features and the warnings."""
        stated, extractor = self.learner.statement(), self.inputs.extractor
        parameters = {**stated.parameters, **self.learner.resolved(self.records)}
        parameters |= {"method": self.method, "shape": list(self.inputs.shape)}
        notes = (*stated.notes, *names_note(self.source))
        if self.slack > 0.0:
            parameters["delta"] = self.asked.public()["delta"]
            notes = (*notes, withholding_note(self.slack))
        if extractor is not None:
            parameters |= {"extractor": self.inputs.extractor_name, "top": self.inputs.top}
        if self.source.class_names is not None:
            parameters["class_names"] = list(self.class_names)
        # After the fit the learner notes its warnings by itself, with the δ that it was calibrated to.
        own = self.learner.forewarnings(self.records, self.inputs.dimension)
        notes = (*(note for note in notes if note not in own), *self.warnings)
        return replace(stated, proven=self.proven(), parameters=parameters, notes=notes)

    def data(self, report: Report, content: Content) -> tuple[NDArray[np.floating], NDArray[np.int64]]:
        """Features and labels, once they are known to be what was declared; adds records to ``content``."""
        records, labels = self.source.read(report)
        content.add(records, labels)
        classes = len(self.class_names)
        if self.inputs.top is not None:
            # Said of pictures before they become features, which takes time.
            top, shape = self.inputs.top, self.inputs.shape
            Labelled.checked(records, labels, top=top, shape=shape, classes=classes)
            check_range(records, top)
        features, numbers = checked_examples(self.inputs.features(records, report), labels, classes)
        # Where something is proven a model appears whatever the records are: refusing would tell of them.
        if self.learner.guarantee().proves_nothing and not (features != features[:1]).any():
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
    shadows: int = SHADOWS,
    randomness: Randomness | None = None,
    payment: Payment | None = None,
) -> Learning:
    """A model of the dataset ``source`` by ``method``; only names and headers of the dataset are read.

    ``options`` are parameters of the learner. ``source`` holds pictures, for which ``extractor`` is
    whitened-scattering unless given and ``top`` is the value of white, or features (n, d) of length
    ``reach`` or less. ``classes``, ``top`` and ``reach`` are declared and never read off the data.
    The names of class folders do not travel unless ``public_names`` declares them public.
    ``audited`` will learn further models, which are attacked and not kept, ``shadows`` of them for attacks by
    shadow models. Unless neighbours are given, those of the budget that is to pay are taken (``payment``).
    """
    kind = kind_of_learner(method)
    options = under_budget(kind, options, payment)
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
                "features of length 1 or less.",
                parameter="reach",
            )
        facts = facts_of(found, classes=classes, top=top)
        reach, classes = 1.0, facts.classes
        inputs = ModelInputs(
            found.shape, make_extractor(extractor or "whitened-scattering", found.shape), facts.top
        )
    learner = make_learner(method, options, classes=classes, reach=reach, randomness=randomness)
    names = names_of(found, learner.classes)
    ignored, asked = unheeded(kind, options), (options.get("epsilon"), options.get("delta"))
    return Learning(
        found,
        method,
        learner,
        inputs,
        records_of(found),
        names,
        top,
        ignored,
        audited,
        checked_shadows(shadows),
        (1.0 if asked[0] is None else asked[0], DELTA if asked[1] is None else asked[1]),
    )


def plan_learning(
    learning: Learning, *, dataset: str | None = None, ledger: Ledger | None = None, uncharged: bool = False
) -> Plan:
    """What the model would promise and cost; nothing but names and headers was read."""
    statement, inputs = learning.statement, learning.inputs
    statement.forewarn()
    return Plan(
        source=str(learning.source.path),
        rows=learning.records,
        columns=inputs.dimension,
        statement=statement,
        grouped=groups_of(learning.proven),
        expected=(),
        cost=cost_of(statement, Payment(dataset, ledger, uncharged=uncharged)),
        what=f"{_classifier(learning)} of {learning.records:,} {inputs.what}",
    )


@one_run_at_a_time
def learn(
    learning: Learning,
    output: str | os.PathLike[str],
    *,
    test: str | os.PathLike[str] | None = None,
    page: str | os.PathLike[str] | None = None,
    dataset: str | None = None,
    ledger: Ledger | None = None,
    uncharged: bool = False,
    keys: KeyRing | None = None,
    report: Report | None = None,
) -> Learned:
    """Learn a model from private records and keep it in the folder ``output``.

    ``test`` is a dataset of records that are not protected, on which accuracy is measured; ``page`` is where
    a report goes. ``dataset`` is charged in ``ledger`` before the fit, unless ``uncharged``. The
    certificate is signed with the key in ``keys``, unless the run can be repeated. Raises
    :class:`~sfumato.errors.BadInput`, leaving no output and spending nothing, where anything is wrong with
    the input, and :class:`~sfumato.reports.VerificationFailed` where the audit contradicts the proof beyond
    doubt.
    """
    target, tell = Path(output), report or silent
    run = _Run(learning, target, test, None if page is None else Path(page))
    done = release(run, Payment(dataset, ledger, uncharged=uncharged), keys, tell)
    leakage = () if run.audit.attacks is None else run.audit.attacks.classes
    classes = class_views(learning.learner, leakage, learning.class_names, *learning.promise)
    accuracy = None if run.held is None else run.held.accuracy(learning.learner)
    if run.page is not None:
        tell("writing the report", None)
        try:
            write_learning_report(run.page, target.name, run.audit, classes, accuracy)
        except BadInput as error:
            raise error.at(f"{target.name} is kept, and its report is not") from None
    said = (*learning.warnings, *run.audit.statement.warnings)
    folders = owned_names(learning.source)
    return Learned(target, done, run.audit, classes, learning.class_names, said, accuracy, run.page, folders)


class _Run(Kind[Spending]):
    """One fit of ``learning``, kept in the folder ``target``."""

    held: HeldOut | None = None

    def __init__(
        self, learning: Learning, target: Path, test: str | os.PathLike[str] | None, page: Path | None
    ) -> None:
        self.learning, self._target, self._test, self.page = learning, target, test, page
        self.output, self.name, self.price = target / MANIFEST, target.name, learning.statement
        self.audit = ModelAudit(self.price, self.price)
        randomness = learning.learner.randomness
        self.reproducible = randomness is not None and randomness.reproducible
        self.checkpoint = None if self.price.proven.proves_nothing else Checkpoint(target)
        check_apart(learning.source.path, target)
        if self.checkpoint is None or not self.checkpoint.exists:  # otherwise its output may stand
            check_new_folder(target)
        if page is not None:
            check_page(learning.source.path, target, page)
        imported("safetensors.numpy", None, "keeping a model")  # missed after the fit it would be too late

    def check(self, content: Content, report: Report) -> None:
        learning, classes = self.learning, len(self.learning.class_names)
        if self._test is not None:
            words: Any = {"top": learning.top, "report": report}
            self.held = read_held_out(self._test, learning.source, learning.inputs, classes, **words)
        self._data = learning.data(report, content)
        rehearse(learning.learner, learning.inputs.dimension)

    def draw(self, pay: Spending, report: Report) -> None:
        added, learner, words = pay(), self.learning.learner, dict[str, Any]()
        if self.checkpoint is not None:
            words["sums"] = self.checkpoint.sums(learner.randomness, report)
        with _told_before():
            learner.fit(*self._data, report=report, **words)
        # A learner that promises nothing may have more to say about itself by now.
        statement = replace(self.price, notes=(*self.learning.statement.notes, *added))
        self.audit = ModelAudit(statement, statement)

    def judge(self, report: Report) -> None:
        learning, statement = self.learning, self.audit.statement
        if learning.audited:
            words: Any = {"chance": learning.slack, "shadows": learning.shadows, "report": report}
            with _told_before():
                self.audit = audited_model(statement, learning.learner, *self._data, **words)

    def write(self, certify: Certify, report: Report) -> None:
        learning = self.learning
        model = KeptModel(learning.method, learning.learner, learning.inputs, learning.class_names)
        write_model(model, self._target, certify)

    def released(self) -> Protected:
        rows, columns = len(self.learning.class_names), self.learning.inputs.dimension
        return Protected(
            self.output, self.audit.open_to_all, rows, columns, (), what=_classifier(self.learning)
        )


@contextmanager
def _told_before() -> Iterator[None]:
    """Without warnings, which were said before anything was read."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        yield


def _classifier(learning: Learning) -> str:
    return f"a classifier of {len(learning.class_names)} classes by {learning.inputs.dimension:,} features"
