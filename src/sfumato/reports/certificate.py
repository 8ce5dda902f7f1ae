"""Certificates: a statement bound to the bytes of one release, signed.

Its subject is the SHA-256 of the released file; its predicate is the release's statement with dataset,
versions and the hash of the ledger row that paid for it.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sfumato.privacy import Statement
from sfumato.reports.envelope import VerificationFailed, seal, unseal
from sfumato.reports.signing_keys import PublicKey, SigningKey

__all__ = ["Certificate", "certificate_file"]

_KIND = "urn:sfumato:release:v1"


@dataclass(frozen=True)
class Certificate:
    """What a certificate says; who signed it is a matter of :meth:`read` and of the keys it is given."""

    file_name: str
    sha256: str
    statement: Statement
    rows: int
    columns: int
    dataset: str | None
    ledger: Mapping[str, Any] | None
    version: str
    left_out: tuple[str, ...] = ()

    def signed(self, key: SigningKey) -> bytes:
        """The envelope as JSON, signed with ``key``."""
        return seal(_KIND, {self.file_name: self.sha256}, self._predicate(), key)

    def unsigned(self) -> bytes:
        """The envelope without a signature: a record of what was done that nobody vouches for."""
        return seal(_KIND, {self.file_name: self.sha256}, self._predicate(), None)

    @classmethod
    def read(cls, envelope: bytes, keys: Mapping[str, PublicKey]) -> Certificate:
        """The certificate in ``envelope``, if one of ``keys`` signed it; otherwise says what is wrong."""
        subjects, predicate = unseal(_KIND, envelope, keys)
        try:
            ((name, digest),) = subjects.items()
            return cls(
                file_name=name,
                sha256=digest,
                statement=Statement.from_dict(predicate["statement"]),
                rows=predicate["rows"],
                columns=predicate["columns"],
                dataset=predicate["dataset"],
                ledger=predicate["ledger"],
                version=predicate["sfumato"],
                left_out=tuple(predicate["left_out"]),
            )
        except (ValueError, KeyError, TypeError):
            raise VerificationFailed(
                "envelope: the signed document is not one this version can read."
            ) from None

    def fits(self, digest: str) -> bool:
        """Whether a file with this SHA-256 is the one that was certified."""
        return hmac.compare_digest(self.sha256, digest)

    def _predicate(self) -> dict[str, Any]:
        return {
            "statement": self.statement.to_dict(),
            "rows": self.rows,
            "columns": self.columns,
            "dataset": self.dataset,
            "left_out": list(self.left_out),
            "ledger": None if self.ledger is None else dict(self.ledger),
            "sfumato": self.version,
        }


def certificate_file(output: Path) -> Path:
    """Where the certificate of ``output`` stands: beside it."""
    return output.with_name(output.name + ".cert.json")
