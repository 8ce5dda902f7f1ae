"""Signed documents: in-toto statements in DSSE envelopes, signed with Ed25519.

A statement names files by their SHA-256 (its subjects) and says something of them (its predicate). The
signature covers DSSE's pre-authentication encoding, that is the kind of the payload and its exact bytes.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sfumato.errors import BadInput, SfumatoError
from sfumato.reports.signing_keys import PublicKey, SigningKey

__all__ = ["VerificationFailed", "file_digest", "seal", "unseal"]

_PAYLOAD_TYPE = "application/vnd.in-toto+json"
_STATEMENT_TYPE = "https://in-toto.io/Statement/v1"


class VerificationFailed(SfumatoError):
    """A certificate, its file or its ledger row is not what it says."""

    exit_code = 4


def seal(
    kind: str, subjects: Mapping[str, str], predicate: Mapping[str, Any], key: SigningKey | None
) -> bytes:
    """The envelope of a document of ``kind`` about files, given as name → SHA-256; signed if with a key."""
    document = {
        "_type": _STATEMENT_TYPE,
        "subject": [{"name": name, "digest": {"sha256": digest}} for name, digest in subjects.items()],
        "predicateType": kind,
        "predicate": predicate,
    }
    text = json.dumps(document, ensure_ascii=False, sort_keys=True, allow_nan=False)
    # A file name may hold half of a surrogate pair, whose backslash form is what JSON wants as well.
    payload = text.encode("utf-8", "backslashreplace")
    signatures = []
    if key is not None:
        signature = key.sign(_authenticated(_PAYLOAD_TYPE, payload))
        signatures = [{"keyid": key.public.id, "sig": base64.b64encode(signature).decode()}]
    envelope = {
        "payloadType": _PAYLOAD_TYPE,
        "payload": base64.b64encode(payload).decode(),
        "signatures": signatures,
    }
    return json.dumps(envelope, indent=2).encode() + b"\n"


def unseal(
    kind: str, envelope: bytes, keys: Mapping[str, PublicKey]
) -> tuple[dict[str, str], dict[str, Any]]:
    """Subjects and predicate of a document of ``kind`` that one of ``keys`` signed; or says what is wrong."""
    try:
        outer = json.loads(envelope)
        payload = base64.b64decode(outer["payload"], validate=True)
        signatures = [
            (str(s["keyid"]), base64.b64decode(s["sig"], validate=True)) for s in outer["signatures"]
        ]
        form = outer["payloadType"]
    except (ValueError, KeyError, TypeError, RecursionError, binascii.Error):
        raise VerificationFailed("envelope: it is not a certificate, or it was damaged.") from None
    if form != _PAYLOAD_TYPE or not signatures:
        raise VerificationFailed("envelope: it is of another kind or not signed.")
    known = [(keys[name], signature) for name, signature in signatures if name in keys]
    if not known:
        name = signatures[0][0][:16]
        raise VerificationFailed(
            f"key: it was signed with key {name}…, which is not trusted; see `KeyRing().trust(...)`."
        )
    if not any(key.signed(_authenticated(form, payload), signature) for key, signature in known):
        raise VerificationFailed(
            "envelope: the signature does not fit the statement; one of them was altered."
        )
    try:
        document = json.loads(payload)
        if (document["_type"], document["predicateType"]) != (_STATEMENT_TYPE, kind):
            raise VerificationFailed("envelope: it holds a signed document of another kind.")
        subjects = {subject["name"]: subject["digest"]["sha256"] for subject in document["subject"]}
        return subjects, document["predicate"]
    except (ValueError, KeyError, TypeError):
        raise VerificationFailed("envelope: the signed document is not one this version can read.") from None


def file_digest(file: Path) -> str:
    """The SHA-256 of a file, read by blocks."""
    try:
        with file.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise BadInput(f"{file.name} cannot be read: {error.strerror}.") from None


def _authenticated(kind: str, payload: bytes) -> bytes:
    return b"DSSEv1 %d %s %d %s" % (len(kind), kind.encode(), len(payload), payload)
