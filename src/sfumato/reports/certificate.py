"""Certificates: a signed statement bound to the bytes of one release.

A certificate is an in-toto statement in a DSSE envelope, signed with Ed25519. Its subject is the SHA-256 of
the released file. Its predicate is the release's statement with the dataset, versions and the hash of the
ledger row that paid for it. The signature covers DSSE's pre-authentication encoding, that is the type of the
payload and its exact bytes.

Signing keys: one's own, stored privately on disk, and trusted public keys of others.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import os
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from sfumato.errors import BadInput, SfumatoError
from sfumato.privacy import Statement

__all__ = [
    "Certificate",
    "KeyRing",
    "PublicKey",
    "SigningKey",
    "VerificationFailed",
    "certificate_file",
    "default_home",
    "file_digest",
]

_RAW = (serialization.Encoding.Raw, serialization.PublicFormat.Raw)
_PEM = (serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)


def default_home() -> Path:
    """Return the folder of keys and of the default ledger: ``SFUMATO_HOME``, or ``~/.sfumato``."""
    given = os.environ.get("SFUMATO_HOME")
    return Path(given) if given else Path.home() / ".sfumato"


class PublicKey:
    """An Ed25519 key that verifies signatures; ``id`` is the SHA-256 of its 32 bytes."""

    def __init__(self, key: Ed25519PublicKey) -> None:
        self._key = key
        self.id = hashlib.sha256(key.public_bytes(*_RAW)).hexdigest()

    @classmethod
    def read(cls, file: Path) -> PublicKey:
        """Return the key in a PEM file."""
        try:
            key = serialization.load_pem_public_key(file.read_bytes())
        except (ValueError, UnsupportedAlgorithm):
            raise BadInput(
                f"{file.name} does not hold a public key; accepted is an Ed25519 public key in PEM."
            ) from None
        except OSError as error:
            raise BadInput(f"{file.name} cannot be read: {error.strerror}.") from None
        if not isinstance(key, Ed25519PublicKey):
            raise BadInput(f"{file.name} holds a public key of another kind; an Ed25519 key is needed.")
        return cls(key)

    def signed(self, message: bytes, signature: bytes) -> bool:
        """Return whether ``signature`` on ``message`` was made with this key's private half."""
        try:
            self._key.verify(signature, message)
        except InvalidSignature:
            return False
        return True

    def pem(self) -> bytes:
        """Return the key in PEM."""
        return self._key.public_bytes(*_PEM)


class SigningKey:
    """An Ed25519 key that signs; pickled, for one's own workers, with its secret."""

    def __init__(self, key: Ed25519PrivateKey) -> None:
        self._key = key
        self.public = PublicKey(key.public_key())

    def __reduce__(self) -> tuple[Callable[[bytes], SigningKey], tuple[bytes]]:
        return _signing_key, (self._key.private_bytes_raw(),)

    @classmethod
    def new(cls) -> SigningKey:
        """Return a new random key."""
        return cls(Ed25519PrivateKey.generate())

    @classmethod
    def read(cls, file: Path, passphrase: str | None = None) -> SigningKey:
        """Return the key in a PEM file, which may be encrypted."""
        secret = None if passphrase is None else passphrase.encode()
        try:
            key = serialization.load_pem_private_key(file.read_bytes(), secret)
        except TypeError:
            needed = (
                "is encrypted: set SFUMATO_PASSPHRASE"
                if secret is None
                else "is not encrypted: give no passphrase"
            )
            raise BadInput(f"the signing key {needed}.") from None
        except (ValueError, UnsupportedAlgorithm):
            raise BadInput(
                "the signing key cannot be read: the passphrase is wrong or the file is damaged."
            ) from None
        if not isinstance(key, Ed25519PrivateKey):
            raise BadInput("the signing key is of another kind; an Ed25519 key is needed.")
        return cls(key)

    def sign(self, message: bytes) -> bytes:
        """Return the signature on ``message``."""
        return self._key.sign(message)

    def write(self, file: Path, passphrase: str | None = None) -> None:
        """Write the key to a new file that only its owner can read, encrypted if there is a passphrase."""
        how: serialization.KeySerializationEncryption = serialization.NoEncryption()
        if passphrase is not None:
            if not passphrase:
                raise BadInput("an empty passphrase protects nothing; give one or none.")
            how = serialization.BestAvailableEncryption(passphrase.encode())
        content = self._key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, how)
        try:
            _write_private(file, content)
        except FileExistsError:
            raise BadInput(f"there is a signing key already in {file.parent}; move it away first.") from None


def _signing_key(secret: bytes) -> SigningKey:
    return SigningKey(Ed25519PrivateKey.from_private_bytes(secret))


class KeyRing:
    """The keys in a folder: ``signing.key``, and the trusted ones in ``trusted/``."""

    def __init__(self, home: Path | None = None) -> None:
        self.home = default_home() if home is None else home

    @property
    def signing_file(self) -> Path:
        """Return the path of the private key."""
        return self.home / "signing.key"

    def create(self, passphrase: str | None = None) -> SigningKey:
        """Create a signing key, store it, and trust it."""
        self.home.mkdir(parents=True, exist_ok=True, mode=0o700)
        key = SigningKey.new()
        key.write(self.signing_file, passphrase)
        self.trust(key.public)
        return key

    def signing(self) -> SigningKey:
        """Return the signing key; its passphrase, if any, is read from ``SFUMATO_PASSPHRASE``."""
        if not self.signing_file.exists():
            raise NoKey("there is no signing key yet; make one with `KeyRing().create()`.")
        return SigningKey.read(self.signing_file, _passphrase())

    def signing_or_new(self) -> SigningKey:
        """Return the signing key; create it if missing, encrypted if there is a passphrase."""
        if not self.signing_file.exists():
            try:
                return self.create(_passphrase())
            except BadInput:
                if not self.signing_file.exists():
                    raise
                # Another process has made one in the meantime.
        return self.signing()

    def noise_secret(self) -> bytes:
        """Return the secret of keyed noise: 32 random bytes in a private file, created if missing."""
        file = self.home / "noise.key"
        if not file.exists():
            self.home.mkdir(parents=True, exist_ok=True, mode=0o700)
            with suppress(FileExistsError):  # another process was faster, and its secret is everybody's
                _write_private(file, os.urandom(32))
        secret = file.read_bytes()
        if len(secret) != 32:
            raise BadInput(f"{file} is damaged: the secret of keyed noise has 32 bytes, not {len(secret)}.")
        return secret

    def trust(self, key: PublicKey) -> Path:
        """Accept certificates signed with ``key`` from now on."""
        folder = self.home / "trusted"
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        file = folder / f"{key.id}.pem"
        file.write_bytes(key.pem())
        return file

    def trusted(self) -> Mapping[str, PublicKey]:
        """Return the trusted keys by id."""
        keys = (PublicKey.read(file) for file in sorted((self.home / "trusted").glob("*.pem")))
        return {key.id: key for key in keys}


def _passphrase() -> str | None:
    return os.environ.get("SFUMATO_PASSPHRASE") or None


def _write_private(file: Path, content: bytes) -> None:
    """Write a new private file; it appears whole, and never replaces an existing one."""
    handle, name = tempfile.mkstemp(prefix=".", dir=file.parent)
    try:
        with os.fdopen(handle, "wb") as out:
            out.write(content)
            out.flush()
            os.fsync(out.fileno())
        os.link(name, file)
    finally:
        os.unlink(name)


class NoKey(SfumatoError):
    """Raised if there is no signing key."""

    exit_code = 2


_PAYLOAD_TYPE = "application/vnd.in-toto+json"
_STATEMENT_TYPE = "https://in-toto.io/Statement/v1"

_KIND = "urn:sfumato:release:v1"


class VerificationFailed(SfumatoError):
    """Raised if a certificate, its file or its ledger row does not match."""

    exit_code = 4


def seal(
    kind: str, subjects: Mapping[str, str], predicate: Mapping[str, Any], key: SigningKey | None
) -> bytes:
    """Return the envelope of a document of ``kind`` about files (name → SHA-256), signed if with a key."""
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
    """Return subjects and predicate of a document of ``kind`` that one of ``keys`` signed, or raise."""
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
    """Return the SHA-256 of a file, read in blocks."""
    try:
        with file.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise BadInput(f"{file.name} cannot be read: {error.strerror}.") from None


def _authenticated(kind: str, payload: bytes) -> bytes:
    return b"DSSEv1 %d %s %d %s" % (len(kind), kind.encode(), len(payload), payload)


@dataclass(frozen=True)
class Certificate:
    """The content of a certificate; :meth:`read` verifies its signature."""

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
        """Return the envelope as JSON, signed with ``key``."""
        return seal(_KIND, {self.file_name: self.sha256}, self._predicate(), key)

    def unsigned(self) -> bytes:
        """Return the envelope without a signature: a record that nobody vouches for."""
        return seal(_KIND, {self.file_name: self.sha256}, self._predicate(), None)

    @classmethod
    def read(cls, envelope: bytes, keys: Mapping[str, PublicKey]) -> Certificate:
        """Return the certificate in ``envelope`` if one of ``keys`` signed it; else raise."""
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
        """Return whether a file with this SHA-256 is the certified one."""
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
    """Return the path of the certificate of ``output``, beside it."""
    return output.with_name(output.name + ".cert.json")
