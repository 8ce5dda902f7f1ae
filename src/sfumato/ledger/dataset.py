"""What is fixed when a dataset is opened."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from sfumato.errors import BadInput
from sfumato.ledger.ledger_names import call_to_open, short
from sfumato.ledger.rdp_filter import Filter
from sfumato.privacy import Guarantee, Neighbours, Unit

__all__ = ["Dataset"]


@dataclass(frozen=True)
class Dataset:
    """A dataset's name and the terms of its budget; ``terms_wire`` is how its row holds them."""

    name: str
    unit: Unit
    neighbours: Neighbours
    filter: Filter
    terms_wire: str
    id: int = 0

    @classmethod
    def opened(cls, name: str, unit: Unit, neighbours: Neighbours, rule: Filter) -> Dataset:
        """A dataset that is about to be opened."""
        terms = {"unit": str(unit), "neighbours": str(neighbours)} | asdict(rule)
        return cls(name, unit, neighbours, rule, json.dumps(terms, sort_keys=True))

    @classmethod
    def stored(cls, id_: int, name: str, terms_wire: str) -> Dataset:
        """What a row holds; a damaged one raises ValueError, KeyError or TypeError."""
        terms = json.loads(terms_wire)
        rule = Filter(
            terms["epsilon"],
            terms["delta"],
            tuple(terms["orders"]),
            tuple(terms["shares"]),
            terms["slack_share"],
        )
        return cls(name, Unit.parse(terms["unit"]), Neighbours(terms["neighbours"]), rule, terms_wire, id_)

    def same_budget(self, other: Dataset) -> bool:
        """Whether both promise the same; orders and shares, which only we choose, may differ."""
        ours = (self.unit, self.neighbours, self.filter.epsilon, self.filter.delta)
        return ours == (other.unit, other.neighbours, other.filter.epsilon, other.filter.delta)

    def require_terms(self, guarantee: Guarantee, ledger: str | None = None) -> None:
        """Refuse what is no guarantee, or bounds changes of another unit or under other neighbours.

        The refusal names the call that opens a budget in ``ledger`` (see ``call_to_open``).
        """
        if not isinstance(guarantee, Guarantee):
            raise BadInput(f"a guarantee is charged, not {guarantee!r}.")
        if (guarantee.unit, guarantee.neighbours) != (self.unit, self.neighbours):
            raise BadInput(
                f"the budget of {short(self.name)} counts per {self.unit} under {self.neighbours}; a "
                f"guarantee per {guarantee.unit} under {guarantee.neighbours} cannot be charged to it; "
                f"open one for it with {call_to_open('NAME', guarantee.unit, guarantee.neighbours, ledger)}."
            )
