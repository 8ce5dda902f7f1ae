"""Running totals of a dataset's entries: what each kind of entry does to them, and what they still admit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from sfumato.ledger.entries import FIRST, Entry
from sfumato.ledger.rdp_filter import Filter, Prices, add

__all__ = ["Account", "State"]

#: "exhausted": one release used the budget up by its own curve, outside the filter.
State = Literal["open", "exhausted", "closed"]


@dataclass(frozen=True)
class Account:
    """What the entries of a dataset add up to. Spends include holds that were not given back."""

    spent: Prices
    entries: int = 0
    spends: int = 0
    holds: int = 0
    state: State = "open"
    head: str = FIRST
    at: str = ""

    def admits(self, rule: Filter, prices: Prices, *, covered: bool) -> bool:
        """Whether a release of these prices fits; ``covered`` if the budget is enough for it alone."""
        if self.state != "open":
            return False
        return rule.fits(add(self.spent, prices)) or (covered and self.spends == 0)

    def after(self, entry: Entry, rule: Filter, held: Prices | None = None) -> Account:
        """The totals once ``entry`` is appended; ``held`` are the prices of the hold that it settles."""
        spent, spends, holds, state = self.spent, self.spends, self.holds, self.state
        if entry.kind in ("spend", "hold"):
            assert entry.prices is not None
            spent, spends, holds = add(spent, entry.prices), spends + 1, holds + (entry.kind == "hold")
            state = "open" if rule.fits(spent) else "exhausted"
        elif entry.kind in ("commit", "release"):
            holds -= 1
            if entry.kind == "release":
                assert held is not None
                spent, spends = add(spent, held, -1), spends - 1
                state = "open" if state == "exhausted" else state
        elif entry.kind == "close":
            state = "closed"
        return Account(spent, entry.number, spends, holds, state, entry.hash, entry.at)
