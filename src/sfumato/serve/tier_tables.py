"""A table on its way to be released to one tier."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from sfumato.io import Schema, TableSource
from sfumato.mechanisms.table_tier import TierRows
from sfumato.mechanisms.trust_tier import TrustTier
from sfumato.noise import Keyed
from sfumato.release.table_release import TableFile

__all__ = ["TierTables"]


class _TierTable(TableFile):
    """The rows of ``source`` for the tier of ``mechanism``."""

    def __init__(self, source: TableSource, mechanism: TrustTier) -> None:
        super().__init__(source, mechanism)
        schema = source.schema
        self._rows = TierRows(
            mechanism,
            [column.bounds or (0.0, 0.0) for column in schema.numeric],
            [len(column.categories) for column in schema.coded],
            [column.weight for column in (*schema.numeric, *schema.coded)],
        )
        self.statement = self._rows.statement()


@dataclass(frozen=True)
class TierTables:
    """Opens tables that ``schema`` declares for the tier of ``mechanism``."""

    mechanism: TrustTier
    schema: Schema

    def keyed_by(self, noise: Keyed) -> TierTables:
        """The same with noise from a secret."""
        parameters = self.mechanism.get_params(deep=False) | {"randomness": noise}
        return TierTables(TrustTier(**parameters), self.schema)

    def open(self, path: Path) -> TableFile:
        """The table at ``path``."""
        return _TierTable(TableSource(path, self.schema), self.mechanism)
