"""What a federated run would promise and cost, and what it left behind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.learners.federated.rounds import Federated
from sfumato.privacy import Guarantee, Statement
from sfumato.release.client_budget import ClientCost
from sfumato.release.federation import Federation
from sfumato.release.protected_file import Protected

if TYPE_CHECKING:
    from sfumato.release.held_out_accuracy import Accuracy

__all__ = ["FederatedModel", "FederationPlan"]


@dataclass(frozen=True)
class FederationPlan:
    """What a run would promise and cost; nothing but names and headers was read."""

    source: Path
    statement: Statement
    one_round: Guarantee
    costs: tuple[ClientCost, ...]
    warnings: tuple[str, ...]
    what: str
    terms: Federation

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "source": str(self.source),
            "what": self.what,
            "statement": self.statement.to_dict(),
            "round": self.one_round.to_dict(),
            "clients": [_cost(cost) for cost in self.costs],
            "warnings": [*self.warnings, *self.statement.warnings],
            "terms": self.terms.to_json(),
            "digest": self.terms.digest(),
        }


@dataclass(frozen=True)
class FederatedModel:
    """What a run left behind in the folder ``output``, and how it went.

    ``folders`` says which class is of which folder, for the owner alone.
    """

    output: Path
    certified: Protected
    statement: Statement
    made: Federated
    warnings: tuple[str, ...]
    accuracy: Accuracy | None = None
    spends: Mapping[str, list[dict[str, Any]]] = field(default_factory=dict)
    folders: Mapping[str, str] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return self.certified.to_dict() | {
            "output": str(self.output),
            "certified": str(self.certified.output),
            "statement": self.statement.to_dict(),
            "class_folders": dict(self.folders),
            "rounds": self.made.rounds,
            "paid": dict(self.made.paid),
            "spends": {name: list(rows) for name, rows in self.spends.items()},
            "refused": [str(item) for item in self.made.refused],
            "stopped": self.made.stopped,
            "warnings": [*self.warnings, *self.statement.warnings],
            "accuracy": None if self.accuracy is None else self.accuracy.to_dict(),
        }


def _cost(cost: ClientCost) -> dict[str, Any]:
    preview = None if cost.preview is None else cost.preview.to_dict()
    return {"client": cost.client, "dataset": cost.dataset, "admitted": cost.admitted, "first_round": preview}
