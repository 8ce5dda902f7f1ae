"""Certificates: a statement bound to the bytes of one release, signed.

A certificate is a DSSE envelope around an in-toto statement. Its subject is the SHA-256 of the released
file; its predicate is the release's statement with dataset, versions and the hash of the ledger row that paid
for it. The signature is Ed25519 over DSSE's pre-authentication encoding.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from sfumato.errors import BadInput, SfumatoError
from sfumato.privacy import Statement
from sfumato.report.keys import PublicKey, SigningKey

__all__ = ["Certificate", "Check", "VerificationFailed", "certificate_file", "file_digest"]

_PAYLOAD_TYPE = "application/vnd.in-toto+json"
_STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
_PREDICATE_TYPE = "urn:sfumato:release:v1"


class VerificationFailed(SfumatoError):
    """A certificate, its file or its ledger row is not what it says."""

    exit_code = 4


@dataclass(frozen=True)
class Check:
    """One thing that was looked at: the envelope, the key, the file or the ledger row."""

    what: Literal["envelope", "key", "file", "ledger"]
    outcome: Literal["holds", "fails", "not checked"]
    detail: str


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

    def payload(self) -> bytes:
        """The in-toto statement as JSON."""
        document = {
            "_type": _STATEMENT_TYPE,
            "subject": [{"name": self.file_name, "digest": {"sha256": self.sha256}}],
            "predicateType": _PREDICATE_TYPE,
            "predicate": {
                "statement": self.statement.to_dict(),
                "rows": self.rows,
                "columns": self.columns,
                "dataset": self.dataset,
                "left_out": list(self.left_out),
                "ledger": None if self.ledger is None else dict(self.ledger),
                "sfumato": self.version,
            },
        }
        text = json.dumps(document, ensure_ascii=False, sort_keys=True, allow_nan=False)
        # A file name may hold half of a surrogate pair, whose backslash form is what JSON wants as well.
        return text.encode("utf-8", "backslashreplace")

    def signed(self, key: SigningKey) -> bytes:
        """The envelope as JSON, signed with ``key``."""
        signature = key.sign(_authenticated(_PAYLOAD_TYPE, self.payload()))
        return self._envelope([{"keyid": key.public.id, "sig": base64.b64encode(signature).decode()}])

    def unsigned(self) -> bytes:
        """The envelope without a signature: a record of what was done that nobody vouches for."""
        return self._envelope([])

    def _envelope(self, signatures: list[dict[str, str]]) -> bytes:
        payload = base64.b64encode(self.payload()).decode()
        envelope = {"payloadType": _PAYLOAD_TYPE, "payload": payload, "signatures": signatures}
        return json.dumps(envelope, indent=2).encode() + b"\n"

    @classmethod
    def read(cls, envelope: bytes, keys: Mapping[str, PublicKey]) -> Certificate:
        """The certificate in ``envelope``, if one of ``keys`` signed it; otherwise says what is wrong."""
        try:
            outer = json.loads(envelope)
            payload = base64.b64decode(outer["payload"], validate=True)
            signatures = [
                (str(s["keyid"]), base64.b64decode(s["sig"], validate=True)) for s in outer["signatures"]
            ]
            kind = outer["payloadType"]
        except (ValueError, KeyError, TypeError, RecursionError, binascii.Error):
            raise VerificationFailed("envelope: it is not a certificate, or it was damaged.") from None
        if kind != _PAYLOAD_TYPE or not signatures:
            raise VerificationFailed("envelope: it is of another kind or not signed.")
        known = [(keys[name], signature) for name, signature in signatures if name in keys]
        if not known:
            name = signatures[0][0][:16]
            raise VerificationFailed(
                f"key: it was signed with key {name}…, which is not trusted; see 'sfumato key trust'."
            )
        if not any(key.signed(_authenticated(kind, payload), signature) for key, signature in known):
            raise VerificationFailed(
                "envelope: the signature does not fit the statement; one of them was altered."
            )
        return cls._from_payload(payload)

    @classmethod
    def _from_payload(cls, payload: bytes) -> Certificate:
        try:
            document = json.loads(payload)
            (subject,), predicate = document["subject"], document["predicate"]
            if (document["_type"], document["predicateType"]) != (_STATEMENT_TYPE, _PREDICATE_TYPE):
                raise VerificationFailed("envelope: it holds a signed document of another kind.")
            return cls(
                file_name=subject["name"],
                sha256=subject["digest"]["sha256"],
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


def certificate_file(output: Path) -> Path:
    """Where the certificate of ``output`` stands: beside it."""
    return output.with_name(output.name + ".cert.json")


def file_digest(file: Path) -> str:
    """The SHA-256 of a file, read by blocks."""
    try:
        with file.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise BadInput(f"{file.name} cannot be read: {error.strerror}.") from None


def _authenticated(kind: str, payload: bytes) -> bytes:
    """DSSE's pre-authentication encoding, so that a signature covers the kind and the exact bytes."""
    return b"DSSEv1 %d %s %d %s" % (len(kind), kind.encode(), len(payload), payload)
