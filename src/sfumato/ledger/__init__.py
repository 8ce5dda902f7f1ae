"""Budgets, spends and holds, durable and chained: SQLite by default, PostgreSQL by URL.

``rdp_filter`` says what fits and proves it; ``entries`` and ``accounts`` are a row and what rows add up to;
``database`` and ``ledger_tables`` are the database; ``ledger`` is the public class.
"""

# Below this line: written by `make index` from the `__all__` of every module.
from typing import TYPE_CHECKING

from sfumato.loading import when_used

if TYPE_CHECKING:
    from sfumato.ledger.accounts import Balance as Balance
    from sfumato.ledger.accounts import BudgetRefused as BudgetRefused
    from sfumato.ledger.accounts import LedgerUnavailable as LedgerUnavailable
    from sfumato.ledger.accounts import Preview as Preview
    from sfumato.ledger.accounts import used_shares as used_shares
    from sfumato.ledger.database import Row as Row
    from sfumato.ledger.database import Storage as Storage
    from sfumato.ledger.database import Transaction as Transaction
    from sfumato.ledger.database import is_sqlite as is_sqlite
    from sfumato.ledger.entries import Entry as Entry
    from sfumato.ledger.entries import printable_name as printable_name
    from sfumato.ledger.ledger import Ledger as Ledger
    from sfumato.ledger.rdp_filter import Filter as Filter

__all__ = [
    "Balance",
    "BudgetRefused",
    "Entry",
    "Filter",
    "Ledger",
    "LedgerUnavailable",
    "Preview",
    "Row",
    "Storage",
    "Transaction",
    "is_sqlite",
    "printable_name",
    "used_shares",
]

if not TYPE_CHECKING:  # a type checker knows the names above, and refuses any other
    __getattr__, __dir__ = when_used(
        __name__,
        {
            "Balance": "accounts",
            "BudgetRefused": "accounts",
            "LedgerUnavailable": "accounts",
            "Preview": "accounts",
            "used_shares": "accounts",
            "Row": "database",
            "Storage": "database",
            "Transaction": "database",
            "is_sqlite": "database",
            "Entry": "entries",
            "printable_name": "entries",
            "Ledger": "ledger",
            "Filter": "rdp_filter",
        },
    )
