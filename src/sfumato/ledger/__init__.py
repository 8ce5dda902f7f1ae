"""Budgets, spends and holds, durable and chained: SQLite by default, PostgreSQL by URL.

``rdp_filter`` says what fits and proves it; ``entries`` and ``accounts`` are a row and what rows add up to;
``database`` and ``ledger_tables`` are the database; ``ledger`` is the public class.
"""

from sfumato.loading import names_of_stub

__getattr__, __dir__, __all__ = names_of_stub(__name__, __file__)
