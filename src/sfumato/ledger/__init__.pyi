# Written by `make index` from the `__all__` of every module.
from .accounts import Balance as Balance
from .accounts import BudgetRefused as BudgetRefused
from .accounts import LedgerUnavailable as LedgerUnavailable
from .accounts import Preview as Preview
from .accounts import used_shares as used_shares
from .database import Row as Row
from .database import Storage as Storage
from .database import Transaction as Transaction
from .database import is_sqlite as is_sqlite
from .entries import Entry as Entry
from .entries import printable_name as printable_name
from .ledger import Ledger as Ledger
from .rdp_filter import Filter as Filter
