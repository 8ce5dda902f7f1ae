"""The one path of a federated model: open, check, tell the cost, run the rounds, write, certify.

Every client pays for every round from its own budget before anything of that round is drawn, so a run can end
at any moment without having sent what was not paid for. Where a budget ends, the run stops before the round,
and the model of the last paid round is kept. The statement is about one client over all rounds that were
paid.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from sfumato.errors import BadInput
from sfumato.io.image_datasets import open_dataset
from sfumato.learners.feature_extractors import make_extractor
from sfumato.learners.federated.rounds import Federated, OutOfBudget
from sfumato.release.client_budget import ClientBudgets
from sfumato.release.federated_model import FederatedModel, FederationPlan
from sfumato.release.federated_run import FederatedRun
from sfumato.release.federation import Federation
from sfumato.release.federation_engines import engine_of
from sfumato.release.held_out_accuracy import read_held_out
from sfumato.release.manifest import MANIFEST
from sfumato.release.model_inputs import ModelInputs
from sfumato.release.output_lock import one_run_at_a_time
from sfumato.release.prepared_federation import METHOD, Federating
from sfumato.release.protected_file import Protected, Report
from sfumato.release.public_facts import declared_classes, facts_of, records_of
from sfumato.release.publication_place import check_apart, check_new_folder
from sfumato.release.published_files import names_of, owned_names
from sfumato.release.round_deadline import Waiting
from sfumato.release.stored_model import KeptModel, write_model
from sfumato.release.suggestions import imported
from sfumato.reports import KeyRing

__all__ = ["Federating", "federate", "open_federation", "plan_federation"]

_UNCHARGED = "not charged to the budgets of the clients, as was asked for"


def open_federation(
    source: str | os.PathLike[str],
    terms: Mapping[str, Any],
    *,
    pictures: str | None = None,
    labels: str | None = None,
    classes: int | None = None,
    top: float | None = None,
    extractor: str | None = None,
    public_names: bool = False,
    dataset: str | None = None,
    ledger: str | None = None,
    uncharged: bool = False,
) -> Federating:
    """A run on the dataset ``source`` by ``terms`` (see :class:`Federation`); only headers are read.

    ``dataset`` and ``ledger`` (its URL, in which ``{client}`` may stand) say which budgets are charged; with
    ``uncharged`` the dataset is named and nothing is charged. The names of class folders do not travel unless
    ``public_names`` declares them public. The noise of a round is settled here.
    """
    found = open_dataset(
        source, pictures=pictures, labels=labels, or_features=True, public_names=public_names
    )
    if len(found.shape) == 1:
        for name, given in (("extractor", extractor), ("top", top)):
            if given is not None:
                raise BadInput(
                    f"`{name}` is for pictures, and {found.path.name} holds features.", parameter=name
                )
        inputs, count, factor = ModelInputs(found.shape), declared_classes(found, classes), 1.0
    else:
        facts = facts_of(found, classes=classes, top=top)
        made = make_extractor(extractor or "pixels", found.shape)
        inputs, count = ModelInputs(found.shape, made, facts.top), facts.classes
        # Features of an extractor have a length of 1 at most; a network learns from values of about 1.
        factor = float(np.sqrt(made.dimension))
    if count is None or count < 2:
        raise BadInput(
            "federate needs `classes=N`, 2 or more: the number of classes is public, and must not be read "
            "off "
            "the labels.",
            parameter="classes",
        )
    records = records_of(found)
    # A network over pixels may see them as pictures; over other features it sees a row.
    seen = found.shape if inputs.extractor_name == "pixels" else (inputs.dimension,)
    asked = Federation(**{**terms, "shape": seen, "classes": count, "factor": factor})
    if asked.clients > records:
        raise BadInput(
            f"`clients` was {asked.clients}, and {found.path.name} holds {records} records.",
            parameter="clients",
        )
    budgets = ClientBudgets(dataset, ledger if dataset is not None else None, uncharged=uncharged)
    settled = asked.settled(budget=budgets.charged)
    settled.round_guarantee()  # what is wrong with the parameters is said before any record is read
    return Federating(found, settled, inputs, records, tuple(names_of(found, count)), budgets, top)


def plan_federation(federating: Federating) -> FederationPlan:
    """What the run would promise and cost each client."""
    costs = federating.costs()
    terms = federating.terms
    federating.statement().forewarn()
    model = f"a {terms.model} model of {terms.classes} classes"
    return FederationPlan(
        source=federating.source.path,
        statement=federating.statement(),
        one_round=federating.one_round,
        costs=costs,
        warnings=federating.warnings(costs),
        what=f"{model}, by {terms.clients} clients in {terms.rounds} rounds",
        terms=terms,
    )


@one_run_at_a_time
def federate(
    federating: Federating,
    output: str | os.PathLike[str],
    *,
    engine: str = "rounds",
    waiting: Waiting | None = None,
    test: str | os.PathLike[str] | None = None,
    keys: KeyRing | None = None,
    report: Report | None = None,
) -> FederatedModel:
    """Train together and keep the model in the folder ``output``, with its statement and certificate.

    ``engine`` is one of ``federation_engines.ENGINES``. ``test`` is a dataset of records that are not
    protected, on which accuracy is measured. Raises :class:`~sfumato.errors.BadInput`, leaving no output and
    spending nothing, where anything is wrong with the input, and :class:`OutOfBudget` where not even one
    round can be paid.
    """
    target, tell = Path(output), report or (lambda stage, share: None)
    source, terms = federating.source, federating.terms
    check_apart(source.path, target)
    check_new_folder(target)
    imported("safetensors.numpy", None, "keeping a model")
    run = engine_of(engine)
    costs = federating.costs()
    for cost in costs:
        if cost.preview is not None and not cost.admitted:
            raise OutOfBudget(cost.preview.refusal or f"{cost.dataset} has nothing left.")
    held = None
    if test is not None:
        held = read_held_out(test, source, federating.inputs, terms.classes, top=federating.top, report=tell)
    shares = federating.shares(tell)
    signer = None if terms.noise_seed is not None else (keys or KeyRing()).signing_or_new()
    federating.statement().forewarn()
    # What tells the rows of this run in a ledger from those of another one.
    budgets = replace(federating.budgets, purpose=f"{target.name}-{secrets.token_hex(4)}")
    made = run(FederatedRun(terms, shares, budgets, waiting or Waiting(), tell))
    if not made.rounds:
        why = f"{made.stopped}; no model was made."
        raise OutOfBudget(why) if made.out_of_budget else BadInput(why)

    spends = {name: budgets.spends(name) for name in terms.names}
    paid = max(max(made.paid.values()), *(len(rows) for rows in spends.values()))
    if not made.out_of_budget:
        # A run that ended for any other reason ended for one that may have looked at data: all is counted.
        paid = max(paid, terms.rounds)
    statement = federating.statement(paid)
    notes = [*statement.notes, *_story(federating, made)]
    parameters = {**statement.parameters, "rounds_done": made.rounds, "rounds_paid": paid}
    last = {name: rows[-1] for name, rows in spends.items() if rows}
    if last:
        parameters["last_spends"] = last
    statement = replace(statement, parameters=parameters, notes=tuple(notes))
    learner = federating.terms.classifier().take(made.arrays)
    accuracy = None if held is None else held.accuracy(learner)
    done = Protected(
        target / MANIFEST,
        statement,
        len(federating.class_names),
        federating.inputs.dimension,
        (),
        federating.budgets.dataset,
        None,
        what=f"a {terms.model} model of {terms.classes} classes by {terms.clients} clients",
    )

    def certified(written: Path) -> bytes:
        certificate = done.certified(written, signer)
        for name, row in last.items():
            budgets.keep(name, int(str(row["number"])), certificate)
        return certificate

    write_model(KeptModel(METHOD, learner, federating.inputs, federating.class_names), target, certified)
    warnings = federating.warnings(costs)
    folders = owned_names(source)
    return FederatedModel(target, done, statement, made, warnings, accuracy, spends, folders)


def _story(federating: Federating, made: Federated) -> list[str]:
    """What happened, for the statement: a function of what the server saw arrive."""
    said = []
    if made.stopped is not None:
        said.append(made.stopped)
    if federating.budgets.uncharged and federating.budgets.dataset is not None:
        said.append(_UNCHARGED)
    return said
