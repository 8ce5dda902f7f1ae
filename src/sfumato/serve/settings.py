"""What a service is told when it starts: where it keeps things, and how much it takes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from sfumato.report import KeyRing

__all__ = ["Settings"]


@dataclass(frozen=True)
class Settings:
    """A service that keeps its things under ``data``, a folder that only its owner may enter.

    ``database`` (tenants, keys, policies) and ``ledger`` (budgets) are URLs of SQLite or PostgreSQL; unless
    given they are files in ``data``. ``body_bytes`` is the most that one request may bring.
    """

    data: Path
    database: str | None = None
    ledger: str | None = None
    body_bytes: int = 256 << 20

    @property
    def database_url(self) -> str:
        """Where tenants stand."""
        return self.database or f"sqlite:///{self.data.absolute() / 'service.db'}"

    @property
    def ledger_url(self) -> str:
        """Where budgets stand."""
        return self.ledger or f"sqlite:///{self.data.absolute() / 'ledger.db'}"

    @property
    def keys(self) -> KeyRing:
        """What signs certificates and keys noise, for all tenants."""
        return KeyRing(self.data / "keys")

    @property
    def releases(self) -> Path:
        """Where released files are kept, each tenant's in a folder of its own."""
        return self.data / "releases"

    @property
    def work(self) -> Path:
        """Where private bodies lie while they are worked on."""
        return self.data / "work"
