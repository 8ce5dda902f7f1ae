"""A federated run before any record is read: its dataset, its terms, what it would state and cost."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import sfumato
from sfumato.io.image_datasets import DatasetSource
from sfumato.learners.examples import checked_examples
from sfumato.privacy import Guarantee, Statement
from sfumato.release.client_budget import ClientBudgets, ClientCost
from sfumato.release.federated_run import Shares
from sfumato.release.federation import Federation
from sfumato.release.model_inputs import ModelInputs
from sfumato.release.protected_file import Report
from sfumato.release.public_facts import check_range
from sfumato.release.published_files import names_note

__all__ = ["METHOD", "Federating"]

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
        terms, server = self.terms, self.terms.at_server()
        drawn = terms.protection().parameters() if server is None else server.parameters()
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
            "round": drawn,
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

    def shares(self, report: Report) -> Shares:
        """Every client's features and labels: record i is with client i mod the number of clients."""
        records, labels = self.source.read(report)
        if self.inputs.top is not None:
            check_range(records, self.inputs.top)
        features = self.inputs.features(records, report)
        rows, numbers = checked_examples(features, labels, self.terms.classes)
        count = self.terms.clients
        return {name: (rows[i::count], numbers[i::count]) for i, name in enumerate(self.terms.names)}
