"""The one path of a model: open, check, pay, fit, audit, write, certify.

All of the data is checked before anything is paid, and what is paid is durable before the fit; another fit is
paid for again. A model whose audit shows more than is proven, beyond doubt, is not written at all.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.audits.learner_shadows import SHADOWS, checked_shadows
from sfumato.errors import BadInput
from sfumato.io.image_datasets import DatasetSource, open_dataset
from sfumato.learners import Learner
from sfumato.learners.examples import checked_examples
from sfumato.learners.feature_extractors import make_extractor
from sfumato.ledger import Ledger
from sfumato.noise import Randomness
from sfumato.privacy import Guarantee, Statement
from sfumato.privacy.defaults import DELTA
from sfumato.publishers.labelled_images import Labelled
from sfumato.release.audit_slack import set_aside, slack_of, withholding_note
from sfumato.release.class_views import class_views
from sfumato.release.held_out_accuracy import read_held_out
from sfumato.release.learned_model import Learned, write_learning_report
from sfumato.release.learner_catalogue import kind_of_learner, make_learner, rehearse, unheeded, unheeded_note
from sfumato.release.manifest import MANIFEST
from sfumato.release.model_evidence import ModelAudit, audited_model
from sfumato.release.model_inputs import ModelInputs
from sfumato.release.output_lock import one_run_at_a_time
from sfumato.release.payment import Content, Payment, under_budget
from sfumato.release.protected_file import Protected, Report
from sfumato.release.public_facts import check_range, declared_classes, facts_of, records_of
from sfumato.release.publication_place import check_apart, check_new_folder, check_page
from sfumato.release.published_files import names_note, names_of, owned_names
from sfumato.release.release_plan import Plan, cost_of, groups_of
from sfumato.release.stored_model import KeptModel, write_model
from sfumato.release.suggestions import imported
from sfumato.reports import KeyRing

__all__ = ["Learning", "learn", "open_learning", "plan_learning"]


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

    def data(self, report: Report) -> tuple[NDArray[np.floating], NDArray[np.int64]]:
        """Features and labels, once they are known to be what was declared."""
        records, labels = self.source.read(report)
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
    target, tell = Path(output), report or (lambda stage, share: None)
    source, learner, statement = learning.source, learning.learner, learning.statement
    shown = None if page is None else Path(page)
    check_apart(source.path, target)
    check_new_folder(target)
    if shown is not None:
        check_page(source.path, target, shown)
    imported("safetensors.numpy", None, "keeping a model")  # missed after the fit it would be missed too late
    payment = Payment(dataset, ledger, uncharged=uncharged)
    payment.require_budget(statement.proven)
    held = None
    if test is not None:
        held = read_held_out(
            test, source, learning.inputs, len(learning.class_names), top=learning.top, report=tell
        )
    features, labels = learning.data(tell)
    rehearse(learner, learning.inputs.dimension)
    repeatable = learner.randomness is not None and learner.randomness.reproducible
    signer = None if repeatable else (keys or KeyRing()).signing_or_new()
    statement.forewarn()
    charged, paid = payment.pay(statement, target.name, Content(), None)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # said already, before anything was read
        learner.fit(features, labels, report=tell)
        # A learner that promises nothing may have more to say about itself by now.
        added = charged.notes[len(statement.notes) :]
        statement = replace(charged, notes=(*learning.statement.notes, *added))
        audit = ModelAudit(statement, statement)
        if learning.audited:
            audit = audited_model(
                statement,
                learner,
                features,
                labels,
                chance=learning.slack,
                shadows=learning.shadows,
                report=tell,
            )
    leakage = () if audit.attacks is None else audit.attacks.classes
    classes = class_views(learner, leakage, learning.class_names, *learning.promise)
    accuracy = None if held is None else held.accuracy(learner)
    done = Protected(
        target / MANIFEST,
        audit.open_to_all,
        len(learning.class_names),
        learning.inputs.dimension,
        (),
        dataset,
        paid,
        what=_classifier(learning),
    )
    model = KeptModel(learning.method, learner, learning.inputs, learning.class_names)
    write_model(model, target, lambda written: payment.keep(paid, done.certified(written, signer)))
    if shown is not None:
        tell("writing the report", None)
        try:
            write_learning_report(shown, target.name, audit, classes, accuracy)
        except BadInput as error:
            raise error.at(f"{target.name} is kept, and its report is not") from None
    said = (*learning.warnings, *statement.warnings)
    folders = owned_names(source)
    return Learned(target, done, audit, classes, learning.class_names, said, accuracy, shown, folders)


def _classifier(learning: Learning) -> str:
    return f"a classifier of {len(learning.class_names)} classes by {learning.inputs.dimension:,} features"
