"""Federated models, as one kind of release: the run before any record is read, its plan, and its rounds.

Every client pays for every round from its own budget before anything of that round is drawn. Where a budget
ends, the run stops before the round. A run that has paid leaves a model: that of the last round that was
finished, or the public first one where no reply could be used. The statement is about one client over all
rounds that were paid.

**Interrupted runs** are resumed by the same command, from a :mod:`~sfumato.release.checkpoint` beside the
output. Its log holds the *state* after each round: the model, and what became of the replies. An *output*,
which is the state after a round or a client's answer, is then bound to the rows of the ledger that paid for
the round (:meth:`~sfumato.ledger.Ledger.bind`): of two different ones the second is refused.

| noise at | engine | drawn by | paid by | on the disk, and bound, before anybody uses it |
|---|---|---|---|---|
| clients | rounds | this process | this process, for all | the state after the round |
| clients | others | each client, from its own seed | each client | the client's answer; then the state |
| server | all | the server | the server, for all | the state after the round |

**Theorem.** Let the server and the clients of a run be interrupted and resumed any number of times. (1) With
noise at the clients, all that leaves client j is a function of one draw R(j, t) for each round t that it has
paid for. (2) With noise at the server, all models that anybody sees are functions of one draw of the noised
sum S(t) for each round t, which all clients have paid for. So the statement of a run that was not interrupted
holds. *Proof.* (1) A client sends an answer when its row is bound to it, and from then on that one alone,
whatever it is asked; an answer that is not bound was seen by nobody. The row is durable before that, under a
key of the client's seed and t, so that paying again finds the row. Whether the server remembers, forgets or
lies only chooses the model of the next question: rounds compose adaptively, and each has one answer. In one
process the state takes the place of the answers, which nobody else sees. (2) A model that is sent or returned
is part of a state to which the rows of its round are bound. A sum that is not was used by nobody: its round
is asked for again, by the same coins, and drawn. Noise is keyed by what it is added to, so that answers that
differ then share none with those before. The ledger binds in one transaction, so this holds for copies of a
folder and for one that was restored from a backup: the second of two different outputs is refused, and used
by nobody. ∎ As for every run, other data, code or terms are refused, and the key of each row commits to them.
Without a budget there is no row to bind: then the folder of a run must not be copied, and a ledger must not
be restored from a backup together with it.

**Edge cases.** *The server comes back*: the first round without a state is asked for; clients that had
answered it send the same again. *A client comes back* while the server runs: over gRPC its name was given to
its first connection, so it stays out until the command is run again; a SuperNode is asked from the next round
on. *A reply is lost* while the server runs: it stays paid, and the round goes on without it. *Some clients
paid* for a round when it was interrupted: the others pay. *A client of a killed run still works*: the one
that takes its place waits for it. *A budget, or a round without replies, ended the run*: that is a state too,
and a resumed run ends in the same way. With noise at the server the answers that count are those to the last
asking: that a run is interrupted must not depend on records (``central_noise`` names this premise). A run
that proves nothing has no checkpoint. Servers and clients that are started by hand have none either: there a
run that is begun again is another one, and paid for. Secure sums are not used here; an interrupted one is
begun, drawn and paid anew (``secure``).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

import sfumato
from sfumato.errors import BadInput, SfumatoError
from sfumato.io import DatasetSource, open_dataset
from sfumato.learners import checked_examples, make_extractor
from sfumato.learners.federated import Federated
from sfumato.ledger import BudgetRefused
from sfumato.privacy import Guarantee, Statement
from sfumato.release.catalogue import imported
from sfumato.release.checkpoint import Checkpoint
from sfumato.release.client_budget import ClientBudgets, ClientCost, RoundPayment, Waiting
from sfumato.release.federation import FederatedModel, Federation, FederationPlan
from sfumato.release.federation_engines import (
    FederatedRun,
    Shares,
    engine_of,
    never_drawn,
    pack_state,
    unpack_state,
)
from sfumato.release.labelled_release import (
    check_apart,
    check_new_folder,
    check_range,
    declared_classes,
    facts_of,
    names_note,
    names_of,
    owned_names,
    records_of,
)
from sfumato.release.model_evidence import HeldOut, read_held_out
from sfumato.release.path import (
    Certify,
    Content,
    Kind,
    Protected,
    Report,
    one_run_at_a_time,
    release,
    silent,
)
from sfumato.release.stored_model import KeptModel, ModelInputs, write_model
from sfumato.reports import MANIFEST, KeyRing

#: What a kept model of this kind is called.
METHOD = "federated"


@dataclass(frozen=True, eq=False)
class Federating:
    """A federated run before any record is read: the dataset, the settled terms and what would be stated."""

    source: DatasetSource
    terms: Federation
    inputs: ModelInputs
    records: int
    class_names: tuple[str, ...]
    budgets: ClientBudgets
    top: float | None = None

    @property
    def one_round(self) -> Guarantee:
        """What is proven of one client in one round."""
        return self.terms.round_guarantee()

    def proven(self, rounds: int) -> Guarantee:
        """What is proven of one client over ``rounds`` rounds, printed at the δ that was asked for."""
        return replace(self.one_round.times(rounds), at_delta=self.terms.delta)

    def statement(self, rounds: int | None = None) -> Statement:
        """The three columns for ``rounds`` rounds, all of them unless given."""
        terms, count = self.terms, self.terms.rounds if rounds is None else rounds
        claim = terms.claim()
        if claim is not None:
            claim = replace(claim, text=f"{claim.text}, in each of {count} rounds")
        return Statement(
            mechanism=f"Federated {terms.mechanism}",
            parameters=self._parameters(),
            claimed=claim,
            proven=self.proven(max(count, 1)),
            notes=self.notes(),
        )

    def notes(self) -> tuple[str, ...]:
        """Sentences for the statement: who is protected from whom, and what is not covered."""
        terms = self.terms
        said = [f"unit client: all records that one of {terms.clients} clients holds, over all rounds"]
        if terms.mechanism == "none":
            said.append("parameters leave the clients as they are")
        elif terms.central:
            said.append("against whoever sees the models; the server itself sees every update")
        elif not terms.paper:
            said.append("against everybody, the server included")
        if terms.paper:
            said.append("ε is the paper's, of each round; the paper says nothing of all rounds together")
        if terms.sample < 1.0:
            said.append("clients are sampled by coins that the server keeps secret")
        said.append("whether and when a client answers is not covered")
        said += names_note(self.source)
        return (*said, *(("reproducible run: not for release",) if terms.noise_seed is not None else ()))

    def _parameters(self) -> dict[str, Any]:
        terms = self.terms
        plain = {
            "method": METHOD,
            "clients": terms.clients,
            "rounds": terms.rounds,
            "split": "record i of the dataset is with client 1 + i mod clients",
            "model": terms.model,
            "epochs": terms.epochs,
            "batch": terms.batch,
            "rate": terms.rate,
            "seed": terms.seed,
            "noise_at": "server" if terms.central else "clients",
            "round": (terms.at_server() or terms.protection()).parameters(),
            "shape": list(self.inputs.shape),
            "classes": terms.classes,
            "sfumato": sfumato.__version__,
        }
        if terms.epsilon is not None:
            plain |= {"epsilon": terms.epsilon, "delta": terms.delta}
        if self.inputs.extractor is not None:
            plain |= {"extractor": self.inputs.extractor_name, "top": self.inputs.top}
        return plain

    def costs(self) -> tuple[ClientCost, ...]:
        """What every client's budget says to the rounds."""
        if not self.budgets.charged:
            return ()
        one = self.one_round
        return tuple(self.budgets.cost(name, one, self.terms.rounds) for name in self.terms.names)

    def warnings(self, costs: tuple[ClientCost, ...]) -> tuple[str, ...]:
        """What should be known before anything is trained; a function of what is public."""
        said = []
        if self.budgets.uncharged and self.budgets.dataset is not None:
            said.append(f"nothing is charged to the budgets of {self.budgets.dataset!r}, as was asked for")
        short = [cost for cost in costs if cost.admitted < self.terms.rounds]
        if short:
            least = min(short, key=lambda cost: cost.admitted)
            said.append(
                f"the budget of {least.dataset} admits {least.admitted} of {self.terms.rounds} rounds: the "
                "run will stop there"
            )
        return tuple(said)

    def shares(self, report: Report, content: Content) -> Shares:
        """Every client's features and labels: record i is with client i mod the number of clients.

        Adds the records to ``content``.
        """
        records, labels = self.source.read(report)
        content.add(records, labels)
        if self.inputs.top is not None:
            check_range(records, self.inputs.top)
        features = self.inputs.features(records, report)
        rows, numbers = checked_examples(features, labels, self.terms.classes)
        count = self.terms.clients
        return {name: (rows[i::count], numbers[i::count]) for i, name in enumerate(self.terms.names)}


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


def plan_federation(federating: Federating, output: Path | None = None) -> FederationPlan:
    """What the run would promise and cost each client; none where a run into ``output`` is to be resumed."""
    costs = () if output is not None and Checkpoint(output).exists else federating.costs()
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
    spending nothing, where anything is wrong with the input, and :class:`~sfumato.ledger.BudgetRefused` or
    :class:`~sfumato.learners.federated.OutOfBudget` where not even one round can be paid. A run that was
    interrupted is resumed by the same call.
    """
    target, terms = Path(output), federating.terms
    run = _Run(federating, target, engine, waiting or Waiting(), test)
    costs = () if run.checkpoint is not None and run.checkpoint.exists else federating.costs()
    payer = RoundPayment(federating.budgets, terms.names, federating.one_round)
    done = release(run, payer, keys, report or silent)
    accuracy = None if run.held is None else run.held.accuracy(run.learner)
    warnings, folders = federating.warnings(costs), owned_names(federating.source)
    return FederatedModel(target, done, run.statement, run.made, warnings, accuracy, run.spends, folders)


class _Run(Kind[RoundPayment]):
    """One run of ``federating``, whose model is kept in the folder ``target``."""

    held: HeldOut | None = None

    def __init__(
        self,
        federating: Federating,
        target: Path,
        engine: str,
        waiting: Waiting,
        test: str | os.PathLike[str] | None,
    ) -> None:
        self._federating, self._target, self._waiting, self._test = federating, target, waiting, test
        self.output, self.name, self.price = target / MANIFEST, target.name, federating.statement()
        self.reproducible = federating.terms.noise_seed is not None
        self.declared = {"terms": federating.terms.to_json(), "engine": engine}
        # Clients in other processes bind their own answers, unless it is the server that adds the noise.
        self._binds = federating.terms.central or engine == "rounds"
        self.checkpoint = None if self.price.proven.proves_nothing else Checkpoint(target)
        check_apart(federating.source.path, target)
        if self.checkpoint is None or not self.checkpoint.exists:  # otherwise its output may stand
            check_new_folder(target)
        imported("safetensors.numpy", None, "keeping a model")
        self._engine = engine_of(engine)

    def check(self, content: Content, report: Report) -> None:
        federating, classes = self._federating, self._federating.terms.classes
        if self._test is not None:
            words: Any = {"top": federating.top, "report": report}
            self.held = read_held_out(self._test, federating.source, federating.inputs, classes, **words)
        self._shares = federating.shares(report, content)

    def draw(self, pay: RoundPayment, report: Report) -> None:
        federating, terms = self._federating, self._federating.terms
        pay()
        try:
            self.made = made = self._rounds(pay, report)
        except SfumatoError:
            pay.settle()  # a run that was paid for stays
            raise
        self.spends = pay.spends()
        if self.checkpoint is not None:
            self.checkpoint.kept = pay.kept()
        paid = max(max(made.paid.values()), *(len(rows) for rows in self.spends.values()))
        if not made.out_of_budget:
            # Any other reason to end may have looked at data: all rounds are counted.
            paid = max(paid, terms.rounds)
        stated = federating.statement(paid)
        parameters = {**stated.parameters, "rounds_done": made.rounds, "rounds_paid": paid}
        if last := {name: rows[-1] for name, rows in self.spends.items() if rows}:
            parameters["last_spends"] = last
        uncharged = federating.budgets.uncharged and federating.budgets.dataset is not None
        notes = [note for note in (made.stopped, _UNCHARGED if uncharged else None) if note is not None]
        notes = [*stated.notes, *notes]
        self.statement = replace(stated, parameters=parameters, notes=tuple(notes))
        self.learner = terms.classifier().take(made.arrays)

    def _rounds(self, pay: RoundPayment, report: Report) -> Federated:
        """Run the rounds that are not kept, and return what all of them made."""
        terms, run, waiting = self._federating.terms, self.checkpoint, self._waiting
        if run is None:
            return self._engine(FederatedRun(terms, self._shares, pay.budgets, waiting, report))
        sums = run.sums(None, report)
        packed = sums.state
        while sums.count < (run.resumed or 0):
            packed = sums(never_drawn).tobytes()
        begun = None if packed is None else unpack_state(packed, terms)
        if begun is not None:
            if self._binds:
                pay.bind(begun)
            if begun.stopped is not None or begun.rounds == terms.rounds:
                return begun

        def keep(state: Federated) -> None:
            pay.settle()
            packed = pack_state(state)
            sums(lambda randomness: np.frombuffer(packed, np.uint8))
            sums.save(lambda: packed)
            if self._binds:
                pay.bind(state)

        made = self._engine(
            FederatedRun(
                terms, self._shares, pay.budgets, waiting, report, begun, keep, run.noise, run.folder
            )
        )
        if made.out_of_budget and not any(pay.spends().values()):
            raise BudgetRefused(f"{made.stopped}; no model was made.", 0.0)
        if made.stopped is not None:
            keep(made)
        return made

    def write(self, certify: Certify, report: Report) -> None:
        federating = self._federating
        model = KeptModel(METHOD, self.learner, federating.inputs, federating.class_names)
        write_model(model, self._target, certify)

    def released(self) -> Protected:
        federating, terms = self._federating, self._federating.terms
        rows, columns = len(federating.class_names), federating.inputs.dimension
        what = f"a {terms.model} model of {terms.classes} classes by {terms.clients} clients"
        return Protected(self.output, self.statement, rows, columns, (), what=what)
