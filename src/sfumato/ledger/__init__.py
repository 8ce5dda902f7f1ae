"""Budgets, spends and holds, durable and chained: SQLite by default, PostgreSQL by URL.

``filter`` says what fits and why that is sound; ``entry`` and ``account`` are a row and what rows add up to;
``engine``, ``schema``, ``rows`` and ``storage`` are the database; ``ledger`` is what people call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato.loading import when_used

if TYPE_CHECKING:
    from sfumato.ledger.balance import Balance, Preview
    from sfumato.ledger.check import Damage
    from sfumato.ledger.entry import Entry
    from sfumato.ledger.errors import BudgetRefused, LedgerUnavailable
    from sfumato.ledger.filter import Filter
    from sfumato.ledger.ledger import Ledger

__all__ = [
    "Balance",
    "BudgetRefused",
    "Damage",
    "Entry",
    "Filter",
    "Ledger",
    "LedgerUnavailable",
    "Preview",
]

__getattr__ = when_used(
    "sfumato.ledger",
    {
        "Balance": "balance",
        "BudgetRefused": "errors",
        "Damage": "check",
        "Entry": "entry",
        "Filter": "filter",
        "Ledger": "ledger",
        "LedgerUnavailable": "errors",
        "Preview": "balance",
    },
)
