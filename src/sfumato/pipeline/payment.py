"""How a release is paid for: the spend is durable before any noise is drawn.

A release that names a dataset is charged to that dataset's budget. As long as no budget was ever opened in
the ledger nothing is charged, and the statement says so; from the first one on, a dataset without a budget is
refused, since a misspelt name would otherwise release for nothing.

A *request* may be repeated: it is paid once, and its noise is keyed, so that it gives the same bytes.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.mechanisms import Mechanism
from sfumato.noise import Keyed
from sfumato.privacy import Statement

if TYPE_CHECKING:
    from sfumato.ledger import Ledger

__all__ = ["Content", "Payment"]

_UNCHARGED = "not charged: no budget was opened yet"


class Content:
    """A digest of what is released; under the secret of the noise it tells contents apart, and no more."""

    def __init__(self) -> None:
        self._digest = hashlib.sha256()

    def add(self, *parts: NDArray[Any]) -> None:
        """More of the content, in order."""
        for part in parts:
            self._digest.update(part.tobytes())

    def commitment(self, noise: Keyed) -> str:
        """The digest of everything added, readable to nobody without the secret."""
        return noise.commitment(self._digest.digest())


@dataclass(frozen=True)
class Payment:
    """Where a release is charged: to nobody, or to ``dataset`` in ``ledger``, once for each ``request``."""

    dataset: str | None = None
    ledger: Ledger | None = None
    request: str | None = None

    def __post_init__(self) -> None:
        if self.request is not None and (self.ledger is None or self.dataset is None):
            raise BadInput("a request is paid from a budget; name the dataset and the ledger.")

    def noise(self, mechanism: Mechanism) -> Keyed | None:
        """The keyed noise of a request; without it a repeated request would draw fresh noise, unpaid."""
        if self.request is None:
            return None
        if mechanism.keyed is None:
            raise BadInput("a request that may be repeated needs keyed noise: randomness=sf.Keyed(…).")
        return mechanism.keyed

    def pay(
        self, statement: Statement, purpose: str, content: Content, noise: Keyed | None
    ) -> tuple[Statement, dict[str, Any] | None]:
        """Spend what ``statement`` proves, durably; returns it and the ledger row that says so, if any."""
        if self.ledger is None or self.dataset is None:
            return statement, None
        if not self.ledger.names():
            return replace(statement, notes=(*statement.notes, _UNCHARGED)), None
        if noise is not None:
            purpose = f"{purpose} (content {content.commitment(noise)})"
        entry = self.ledger.spend(self.dataset, statement.proven, purpose, self.request)
        if entry.purpose != purpose:
            raise BadInput(
                f"request {self.request!r} was made from other content or under another name; give changed "
                "data a new request."
            )
        return statement, {"ledger": entry.ledger, "number": entry.number, "hash": entry.hash}
