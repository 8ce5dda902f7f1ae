"""What a release of a file left behind: the output, and the certificate beside it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sfumato
from sfumato.privacy import Statement
from sfumato.reports import Certificate, SigningKey, certificate_file, file_digest

__all__ = ["Protected", "Report", "silent"]

#: Called with the stage of the work and the share of it that is done, None while that is not known.
Report = Callable[[str, float | None], None]


def silent(stage: str, share: float | None) -> None:
    """Progress that nobody is told."""


@dataclass(frozen=True)
class Protected:
    """What ``protect`` wrote, what was left out of it, and the ledger row that paid for it, if one did.

    ``what`` names for people what was released, where it is not a number of records; ``place`` is where it
    stands, where that is not ``output``: in an object store.
    """

    output: Path
    statement: Statement
    rows: int
    columns: int
    left_out: tuple[str, ...]
    dataset: str | None = None
    paid: Mapping[str, Any] | None = None
    what: str | None = None
    place: str | None = None

    @property
    def certificate_file(self) -> Path:
        """The file beside the output that binds the statement to its bytes."""
        return certificate_file(self.output)

    @property
    def shown(self) -> str:
        """Where the output stands, for people."""
        return str(self.output) if self.place is None else self.place

    @property
    def shown_certificate(self) -> str:
        """Where the certificate stands, for people."""
        return str(self.certificate_file) if self.place is None else f"{self.place}.cert.json"

    def to_dict(self) -> dict[str, Any]:
        """As JSON values, for machines; ``epsilon`` is None where nothing finite is proven."""
        epsilon = self.statement.proven.epsilon()
        finite = math.isfinite(epsilon)
        return {
            "output": self.shown,
            "certificate_file": self.shown_certificate,
            "dataset": self.dataset,
            "paid": None if self.paid is None else dict(self.paid),
            "rows": self.rows,
            "columns": self.columns,
            "left_out": list(self.left_out),
            "what": self.what,
            "epsilon": epsilon if finite else None,
            "delta": self.statement.proven.at_delta if finite else None,
            "warnings": list(self.statement.warnings),
            "statement": self.statement.to_dict(),
        }

    def certified(self, written: Path, signer: SigningKey | None) -> bytes:
        """The certificate of the bytes in ``written``, signed if there is somebody who signs."""
        certificate = Certificate(
            file_name=self.output.name,
            sha256=file_digest(written),
            statement=self.statement,
            rows=self.rows,
            columns=self.columns,
            dataset=self.dataset,
            ledger=self.paid,
            version=sfumato.__version__,
            left_out=self.left_out,
        )
        return certificate.unsigned() if signer is None else certificate.signed(signer)
