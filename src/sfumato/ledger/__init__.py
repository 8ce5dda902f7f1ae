"""Budgets, spends and holds, durable and chained: SQLite by default, PostgreSQL by URL.

``rdp_filter`` says what fits and why that is sound; ``entries`` and ``account`` are a row and what rows add
up to; ``database``, ``migration``, ``rows`` and ``storage`` are the database; ``ledger`` is what people call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato.loading import when_used

if TYPE_CHECKING:
    from sfumato.ledger.balance import Balance, Preview
    from sfumato.ledger.entries import Entry
    from sfumato.ledger.integrity import Damage
    from sfumato.ledger.ledger import Ledger
    from sfumato.ledger.ledger_errors import BudgetRefused, LedgerUnavailable
    from sfumato.ledger.rdp_filter import Filter

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
        "BudgetRefused": "ledger_errors",
        "Damage": "integrity",
        "Entry": "entries",
        "Filter": "rdp_filter",
        "Ledger": "ledger",
        "LedgerUnavailable": "ledger_errors",
        "Preview": "balance",
    },
)
