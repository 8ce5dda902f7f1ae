"""Signing keys: one's own, kept private on disk, and those of others that one trusts."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from sfumato.errors import BadInput, SfumatoError

__all__ = ["KeyRing", "NoKey", "PublicKey", "SigningKey", "default_home"]

_RAW = (serialization.Encoding.Raw, serialization.PublicFormat.Raw)
_PEM = (serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)


def default_home() -> Path:
    """The folder of keys and of the default ledger: ``SFUMATO_HOME``, or ``.sfumato`` in the home folder."""
    given = os.environ.get("SFUMATO_HOME")
    return Path(given) if given else Path.home() / ".sfumato"


class PublicKey:
    """An Ed25519 key that signatures are checked with; ``id`` is the SHA-256 of its 32 bytes."""

    def __init__(self, key: Ed25519PublicKey) -> None:
        self._key = key
        self.id = hashlib.sha256(key.public_bytes(*_RAW)).hexdigest()

    @classmethod
    def read(cls, file: Path) -> PublicKey:
        """The key in a PEM file."""
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
        """Whether ``signature`` on ``message`` was made with this key's private half."""
        try:
            self._key.verify(signature, message)
        except InvalidSignature:
            return False
        return True

    def pem(self) -> bytes:
        """As a PEM file holds it."""
        return self._key.public_bytes(*_PEM)


class SigningKey:
    """An Ed25519 key that signs; pickles, for workers of one's own, with its secret."""

    def __init__(self, key: Ed25519PrivateKey) -> None:
        self._key = key
        self.public = PublicKey(key.public_key())

    def __reduce__(self) -> tuple[Callable[[bytes], SigningKey], tuple[bytes]]:
        return _signing_key, (self._key.private_bytes_raw(),)

    @classmethod
    def new(cls) -> SigningKey:
        """A key that nobody has had before."""
        return cls(Ed25519PrivateKey.generate())

    @classmethod
    def read(cls, file: Path, passphrase: str | None = None) -> SigningKey:
        """The key in a PEM file, which may be encrypted."""
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
        """The signature on ``message``."""
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
        """Where the private key is."""
        return self.home / "signing.key"

    def create(self, passphrase: str | None = None) -> SigningKey:
        """Make a signing key, keep it, and trust it."""
        self.home.mkdir(parents=True, exist_ok=True, mode=0o700)
        key = SigningKey.new()
        key.write(self.signing_file, passphrase)
        self.trust(key.public)
        return key

    def signing(self) -> SigningKey:
        """The signing key; its passphrase, if it has one, is taken from ``SFUMATO_PASSPHRASE``."""
        if not self.signing_file.exists():
            raise NoKey("there is no signing key yet; make one with `KeyRing().create()`.")
        return SigningKey.read(self.signing_file, _passphrase())

    def signing_or_new(self) -> SigningKey:
        """The signing key, made now if there is none yet, and encrypted if there is a passphrase."""
        if not self.signing_file.exists():
            try:
                return self.create(_passphrase())
            except BadInput:
                if not self.signing_file.exists():
                    raise
                # Another process has made one in the meantime.
        return self.signing()

    def noise_secret(self) -> bytes:
        """The secret of keyed noise, 32 random bytes that only their owner can read; made where missing."""
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
        """The trusted keys by their id."""
        keys = (PublicKey.read(file) for file in sorted((self.home / "trusted").glob("*.pem")))
        return {key.id: key for key in keys}


def _passphrase() -> str | None:
    return os.environ.get("SFUMATO_PASSPHRASE") or None


def _write_private(file: Path, content: bytes) -> None:
    """Write a new file that nobody else can ever read; it appears whole, and never over an existing one."""
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
    """There is no signing key."""

    exit_code = 2
