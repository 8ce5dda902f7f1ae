"""What every part of a service works with: its settings, its databases, its keys and its noise."""

from __future__ import annotations

from sfumato.errors import BadInput
from sfumato.ledger import Ledger
from sfumato.noise import Keyed
from sfumato.serve.registry import Registry
from sfumato.serve.settings import Settings
from sfumato.serve.work_folders import WorkFolders

__all__ = ["Resources"]


class Resources:
    """The databases and keys of ``settings``, whose folders are made where they are missing."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.jobs, self.audits = settings.data / "jobs", settings.data / "audits"
        for place in (settings.data, settings.releases, settings.work, self.jobs, self.audits):
            place.mkdir(mode=0o700, parents=True, exist_ok=True)
            if place.stat().st_mode & 0o077:
                raise BadInput(f"the folder {place.name} of the service is open to others: chmod 700 it.")
        self.work = WorkFolders(settings.work)
        self.registry = Registry(settings.database_url)
        self.ledger = Ledger(settings.ledger_url)
        self.keys = settings.keys
        #: The public half of the key that signs certificates, as PEM.
        self.signing_key = self.keys.signing_or_new().public.pem()
        self._secret = self.keys.noise_secret()

    def close(self) -> None:
        """Let go of the databases, and of private files."""
        self.work.close()
        self.ledger.__exit__()
        self.registry.close()

    def noise(self, name: str, release: str) -> Keyed:
        """Noise that is the same whenever ``release`` of the dataset with this ledger's ``name`` is drawn.

        Whoever names releases begins with a word of their own: "request" is that of clients' idempotency
        keys, so no client can choose the name of another's release.
        """
        return Keyed(self._secret, dataset=name, version="1", release=release)

    def noise_of_request(self, name: str, request: str) -> Keyed:
        """The noise of what a client asks for under an idempotency key."""
        return self.noise(name, f"request {request}")

    def commitment(self, tenant: str, what: str, content: bytes) -> str:
        """What tells contents of a tenant apart, for one purpose, and is readable to nobody."""
        return Keyed(self._secret, dataset=tenant, version="1", release=what).commitment(content)
