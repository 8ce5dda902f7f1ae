"""Rows of the ledger: datasets with the terms of their budget, and entries chained by hashes.

Names, keys and purposes are checked here, and shortened for messages.
"""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, Literal

from sfumato.errors import BadInput
from sfumato.ledger.rdp_filter import Filter, Prices
from sfumato.privacy import RECORDS, Guarantee, Neighbours, Unit

__all__ = ["Entry", "printable_name"]

MAX_TEXT = 10_000
# Keys are indexed as they are, and PostgreSQL indexes at most 2,704 bytes.
MAX_KEY = 500
Kind = Literal["open", "spend", "hold", "commit", "release", "close"]
#: What the first row of a dataset holds in place of a hash.
FIRST = "0" * 64


def checked_name(dataset: str) -> str:
    """Return ``dataset`` if it can be the name of a dataset."""
    return checked_text("a dataset name", dataset, 1, MAX_TEXT)


def printable_name(dataset: str) -> str:
    """Return ``dataset`` if a release can name it: what a certificate shows has to be legible."""
    if not (dataset.strip() and dataset.isprintable()):
        raise BadInput(
            f"`dataset` was {dataset!r}", parameter="dataset", accepted="a name in printable characters"
        )
    return checked_name(dataset)


def call_to_open(name: str, unit: Unit, neighbours: Neighbours, ledger: str | None = None) -> str:
    """Return the call that opens a budget ``name`` for ``unit`` under ``neighbours``, as errors name it.

    ``ledger`` is the URL of the ledger as a literal of Python, "..." for one with a secret in it; None where
    the caller has the ledger in hand.
    """
    words = [repr(name), "epsilon=...", "delta=..."]
    words += [] if str(unit) == RECORDS.unit else [f"unit={str(unit).replace('(', ':').rstrip(')')!r}"]
    words += [] if str(neighbours) == RECORDS.neighbours else [f"neighbours={str(neighbours)!r}"]
    return f"`{'ledger' if ledger is None else f'sf.Ledger({ledger})'}.open({', '.join(words)})`"


def digest(name: str) -> str:
    """Return SHA-256 of ``name``, which datasets are looked up by: long names cannot always be indexed."""
    return hashlib.sha256(name.encode()).hexdigest()


def short(name: str) -> str:
    """Return ``name`` as a message shows it."""
    return repr(name if len(name) <= 60 else name[:57] + "…")


def checked_text(what: str, value: str, least: int, most: int) -> str:
    """Return ``value`` if it is text of ``least`` to ``most`` characters that a database can hold."""
    if not isinstance(value, str):
        raise BadInput(f"{what} must be text, not {value!r}.")
    if not least <= len(value) <= most:
        raise BadInput(f"{what} has {least} to {most:,} characters, not {len(value):,}.")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise BadInput(f"{what} holds characters that cannot be encoded as UTF-8.") from None
    if "\0" in value:
        raise BadInput(f"{what} holds a null character.")
    return value


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
        """Return a dataset that is about to be opened."""
        terms = {"unit": str(unit), "neighbours": str(neighbours)} | asdict(rule)
        return cls(name, unit, neighbours, rule, json.dumps(terms, sort_keys=True))

    @classmethod
    def stored(cls, id_: int, name: str, terms_wire: str) -> Dataset:
        """Return the dataset of a row; a damaged row raises ValueError, KeyError or TypeError."""
        terms = json.loads(terms_wire)
        orders, shares = tuple(terms["orders"]), tuple(terms["shares"])
        rule = Filter(terms["epsilon"], terms["delta"], orders, shares, terms["slack_share"])
        return cls(name, Unit.parse(terms["unit"]), Neighbours(terms["neighbours"]), rule, terms_wire, id_)

    def same_budget(self, other: Dataset) -> bool:
        """Return whether both have the same budget; orders and shares, which only we choose, may differ."""
        ours = (self.unit, self.neighbours, self.filter.epsilon, self.filter.delta)
        return ours == (other.unit, other.neighbours, other.filter.epsilon, other.filter.delta)

    def require_terms(self, guarantee: Guarantee, ledger: str | None = None) -> None:
        """Refuse what is no guarantee, or bounds changes of another unit or under other neighbours.

        The refusal names the call that opens a budget in ``ledger`` (see ``call_to_open``).
        """
        if not isinstance(guarantee, Guarantee):
            raise BadInput(f"`guarantee` was {guarantee!r}: a Guarantee is needed.", parameter="guarantee")
        if (guarantee.unit, guarantee.neighbours) != (self.unit, self.neighbours):
            raise BadInput(
                f"the budget of {short(self.name)} counts per {self.unit} under {self.neighbours}; a "
                f"guarantee per {guarantee.unit} under {guarantee.neighbours} cannot be charged to it; "
                f"open one for it with {call_to_open('NAME', guarantee.unit, guarantee.neighbours, ledger)}."
            )


@dataclass(frozen=True)
class Entry:
    """One change of a dataset's budget; ``number`` counts from 1 in each dataset.

    ``refers_to`` is the number of the hold that a commit or release settles. ``hash`` covers everything
    else here, the identity of the ledger and ``previous``, the hash of the row before. Guarantee, prices
    and terms are hashed as they stand in the database, so that a later version of Sfumato, which may write
    them differently, still finds old rows whole.
    """

    ledger: str
    dataset: str
    number: int
    kind: Kind
    at: str
    previous: str
    purpose: str = ""
    key: str | None = None
    refers_to: int | None = None
    guarantee_wire: str | None = None
    prices_wire: str | None = None
    terms_wire: str | None = None

    def content(self) -> dict[str, Any]:
        """Return what is hashed, by the names of the columns."""
        return {
            "ledger": self.ledger,
            "dataset": self.dataset,
            "number": self.number,
            "kind": self.kind,
            "at": self.at,
            "previous": self.previous,
            "purpose": self.purpose,
            "key": self.key,
            "refers_to": self.refers_to,
            "guarantee": self.guarantee_wire,
            "prices": self.prices_wire,
            "terms": self.terms_wire,
        }

    @cached_property
    def hash(self) -> str:
        """SHA-256 of the row as canonical JSON."""
        canonical = json.dumps(self.content(), sort_keys=True, separators=(",", ":"), ensure_ascii=True)
        return hashlib.sha256(canonical.encode("ascii")).hexdigest()

    @cached_property
    def guarantee(self) -> Guarantee | None:
        """The guarantee that a spend or hold paid for."""
        return None if self.guarantee_wire is None else Guarantee.from_dict(json.loads(self.guarantee_wire))

    @cached_property
    def prices(self) -> Prices | None:
        """The prices that a spend or hold added to each account of the filter."""
        return None if self.prices_wire is None else prices_of(self.prices_wire)

    def to_dict(self) -> dict[str, Any]:
        """Return JSON values for people and exports; ε is null where the guarantee has none at its own δ."""
        guarantee = self.guarantee
        epsilon = math.inf if guarantee is None else guarantee.epsilon()
        return {
            "number": self.number,
            "at": self.at,
            "kind": self.kind,
            "purpose": self.purpose,
            "key": self.key,
            "refers_to": self.refers_to,
            "epsilon": epsilon if math.isfinite(epsilon) else None,
            "delta": None if guarantee is None else guarantee.at_delta,
            "guarantee": None if guarantee is None else guarantee.to_dict(),
            "previous": self.previous,
            "hash": self.hash,
        }


def prices_text(prices: Prices) -> str:
    """Return prices as a row holds them: whole numbers separated by spaces."""
    return " ".join(map(str, prices))


def prices_of(text: str) -> Prices:
    """Return the prices in the text of a row."""
    return tuple(map(int, text.split()))
