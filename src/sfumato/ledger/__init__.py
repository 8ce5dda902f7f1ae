"""Budgets, spends and holds, durable and chained: SQLite by default, PostgreSQL by URL.

``rdp_filter`` says what fits and proves it; ``entries`` and ``refusal`` are a row and what rows add up to;
``database`` and ``ledger_tables`` are the database; ``ledger`` is the public class.
"""

# Below this line: written by `make index` from the `__all__` of every module.
from typing import TYPE_CHECKING

from sfumato.loading import when_used

if TYPE_CHECKING:
    from sfumato.ledger.balance import Balance as Balance
    from sfumato.ledger.balance import Preview as Preview
    from sfumato.ledger.database import Row as Row
    from sfumato.ledger.database import Storage as Storage
    from sfumato.ledger.database import Transaction as Transaction
    from sfumato.ledger.database import is_sqlite as is_sqlite
    from sfumato.ledger.entries import Dataset as Dataset
    from sfumato.ledger.entries import Entry as Entry
    from sfumato.ledger.entries import printable_name as printable_name
    from sfumato.ledger.ledger import Ledger as Ledger
    from sfumato.ledger.rdp_filter import Filter as Filter
    from sfumato.ledger.rdp_filter import add_prices as add_prices
    from sfumato.ledger.refusal import OF_THIS_KIND as OF_THIS_KIND
    from sfumato.ledger.refusal import Account as Account
    from sfumato.ledger.refusal import BudgetRefused as BudgetRefused
    from sfumato.ledger.refusal import LedgerUnavailable as LedgerUnavailable

__all__ = [
    "OF_THIS_KIND",
    "Account",
    "Balance",
    "BudgetRefused",
    "Dataset",
    "Entry",
    "Filter",
    "Ledger",
    "LedgerUnavailable",
    "Preview",
    "Row",
    "Storage",
    "Transaction",
    "add_prices",
    "is_sqlite",
    "printable_name",
]

if not TYPE_CHECKING:  # a type checker knows the names above, and refuses any other
    __getattr__, __dir__ = when_used(
        __name__,
        {
            "Balance": "balance",
            "Preview": "balance",
            "Row": "database",
            "Storage": "database",
            "Transaction": "database",
            "is_sqlite": "database",
            "Dataset": "entries",
            "Entry": "entries",
            "printable_name": "entries",
            "Ledger": "ledger",
            "Filter": "rdp_filter",
            "add_prices": "rdp_filter",
            "OF_THIS_KIND": "refusal",
            "Account": "refusal",
            "BudgetRefused": "refusal",
            "LedgerUnavailable": "refusal",
        },
    )
