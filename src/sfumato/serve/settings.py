"""Settings of a service: storage, limits and network addresses."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from sfumato.errors import BadInput
from sfumato.reports import KeyRing
from sfumato.serve.authentication import Network, network_of

__all__ = ["Listening", "Settings"]


@dataclass(frozen=True)
class Settings:
    """Storage and limits of a service, which stores its data under ``data``, readable by its owner only.

    ``database`` (tenants, keys, policies, jobs) and ``ledger`` (budgets) are URLs of SQLite or PostgreSQL. By
    default they are files in ``data``; with a PostgreSQL ``database`` the ledger must be given.

    ``body_bytes`` limits the body of one request, ``direct_bytes`` that of a synchronous plan or release.
    These are waited for during ``direct_seconds``, ``direct_at_once`` of a tenant at a time. ``memory_bytes``
    limits the memory of one request or job; what needs more is refused by the headers of its files, before
    anything is unpacked or paid. ``tenant_bytes`` limits what a tenant may store on the disk, unless it has a
    quota of its own.

    ``trusted_proxies`` are networks, separated by commas, whose X-Forwarded-For header is trusted.
    ``sources`` are the prefixes that tenants may serve from, each as in ``clinic=s3://bucket/folder``.
    """

    data: Path
    database: str | None = None
    ledger: str | None = None
    body_bytes: int = 256 << 20
    trusted_proxies: str = ""
    sources: tuple[str, ...] = ()
    direct_bytes: int = 32 << 20
    direct_seconds: float = 60.0
    direct_at_once: int = 8
    memory_bytes: int = 2 << 30
    tenant_bytes: int = 64 << 30

    def __post_init__(self) -> None:
        _ = self.trusted  # raises if one is not a network
        if self.ledger is None and (self.database or "").startswith("postgresql"):
            # Several machines would share tenants, and each would let their budgets be spent once more.
            raise BadInput(
                "tenants in PostgreSQL need their budgets there too: give `ledger`, perhaps the same URL.",
                parameter="ledger",
            )

    @property
    def database_url(self) -> str:
        """Return the URL of the database of tenants."""
        return self.database or f"sqlite:///{self.data.absolute() / 'service.db'}"

    @property
    def ledger_url(self) -> str:
        """Return the URL of the ledger."""
        return self.ledger or f"sqlite:///{self.data.absolute() / 'ledger.db'}"

    @property
    def keys(self) -> KeyRing:
        """Return the key ring that signs certificates and keys noise for all tenants."""
        return KeyRing(self.data / "keys")

    @property
    def releases(self) -> Path:
        """Return the folder of releases, with a subfolder for each tenant."""
        return self.data / "releases"

    @property
    def work(self) -> Path:
        """Return the folder of request bodies that are being processed."""
        return self.data / "work"

    @cached_property
    def trusted(self) -> tuple[Network, ...]:
        """Return the networks of ``trusted_proxies``."""
        words = [word.strip() for word in self.trusted_proxies.split(",")]
        try:
            return tuple(network_of(word) for word in words if word)
        except ValueError:
            raise BadInput(
                f"`trusted_proxies` are networks, as in 10.0.0.0/8,192.0.2.7, not {self.trusted_proxies!r}.",
                parameter="trusted_proxies",
            ) from None


@dataclass(frozen=True)
class Listening:
    """Addresses, TLS, number of ``workers`` and shutdown times of a service.

    ``grpc_port`` is None to disable gRPC. With ``tls_certificate`` and ``tls_key`` (PEM files) both protocols
    are served over TLS only. ``metrics_token_file`` holds the token for /metrics, which is absent without
    one. ``log_file`` is None for standard error. On shutdown, a service reports for ``drain_seconds`` that it
    is not ready while it still answers, and then gives running work ``grace_seconds``.
    """

    host: str = "127.0.0.1"
    port: int = 8765
    grpc_port: int | None = None
    workers: int = 1
    tls_certificate: Path | None = None
    tls_key: Path | None = None
    metrics_token_file: Path | None = None
    log_file: Path | None = None
    drain_seconds: float = 0.0
    grace_seconds: float = 30.0

    def __post_init__(self) -> None:
        if self.grpc_port == self.port:
            raise BadInput(
                f"REST and gRPC cannot share port {self.port}: choose another `grpc_port`.",
                parameter="grpc_port",
            )
        if (self.tls_certificate is None) != (self.tls_key is None):
            given = "tls_key" if self.tls_key is None else "tls_certificate"
            raise BadInput("TLS needs both, `tls_certificate` and `tls_key`.", parameter=given)

    @property
    def address(self) -> str:
        """Return the address of REST, as in 127.0.0.1:8765."""
        return self.address_of(self.port)

    @property
    def grpc_address(self) -> str | None:
        """Return the address of gRPC, or None."""
        return None if self.grpc_port is None else self.address_of(self.grpc_port)

    def require_tls(self) -> None:
        """Raise if the TLS certificate or its key cannot be used."""
        if self.tls_certificate is None:
            return
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(self.tls_certificate, self.tls_key)
        except OSError:  # errors of TLS are a kind of it
            raise BadInput(
                "TLS needs a certificate and its own key, two PEM files that can be read."
            ) from None

    def metrics_token(self) -> str | None:
        """Return the token for /metrics, or None."""
        if self.metrics_token_file is None:
            return None
        try:
            token = self.metrics_token_file.read_text("utf-8").strip()
        except (OSError, UnicodeDecodeError):
            raise BadInput(
                f"the file {self.metrics_token_file.name} with the token of /metrics cannot be read."
            ) from None
        if len(token) < 16:
            raise BadInput(
                "the token of /metrics must have at least 16 characters, as 'openssl rand -hex 32' has."
            )
        return token

    def address_of(self, port: int) -> str:
        """Return the host with this ``port``."""
        return f"[{self.host}]:{port}" if ":" in self.host else f"{self.host}:{port}"
