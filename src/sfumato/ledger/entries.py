"""One row of the ledger, and the hash that chains it to the row before."""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from sfumato.ledger.rdp_filter import Prices
from sfumato.privacy import Guarantee

__all__ = ["FIRST", "Entry", "Kind", "guarantee_text", "prices_of", "prices_text"]

Kind = Literal["open", "spend", "hold", "commit", "release", "close"]

#: What the first row of a dataset holds in place of a hash.
FIRST = "0" * 64


@dataclass(frozen=True)
class Entry:
    """What happened to a dataset's budget; ``number`` counts from 1 in each dataset.

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

    @cached_property
    def hash(self) -> str:
        """SHA-256 of the row as canonical JSON."""
        content = {
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
        canonical = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
        return hashlib.sha256(canonical.encode("ascii")).hexdigest()

    @cached_property
    def guarantee(self) -> Guarantee | None:
        """What was paid for, in a spend or hold."""
        return None if self.guarantee_wire is None else Guarantee.from_dict(json.loads(self.guarantee_wire))

    @cached_property
    def prices(self) -> Prices | None:
        """What a spend or hold added to each account of the filter."""
        return None if self.prices_wire is None else prices_of(self.prices_wire)

    def to_dict(self) -> dict[str, Any]:
        """As JSON values, for people and exports; ε is null where there is none at the guarantee's own δ."""
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


def guarantee_text(guarantee: Guarantee) -> str:
    """A guarantee as its row holds it."""
    return json.dumps(guarantee.to_dict(), sort_keys=True)


def prices_text(prices: Prices) -> str:
    """Prices as a row holds them: whole numbers with spaces between them."""
    return " ".join(map(str, prices))


def prices_of(text: str) -> Prices:
    """Prices from the text of a row."""
    return tuple(map(int, text.split()))
