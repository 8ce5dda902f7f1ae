"""What the service does, for whoever asks and however they ask: one layer behind REST and all else.

Every operation takes the caller first and refuses what the caller's key does not allow before it looks at
anything. Datasets are named by their tenant's own names; what a tenant does not have is told apart from what
another has by nobody.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sfumato.errors import BadInput, SfumatoError
from sfumato.io.atomic import write_whole
from sfumato.io.formats import kind_of, suffix_of
from sfumato.ledger import Ledger
from sfumato.noise import Keyed
from sfumato.pipeline import Protected, plan, protect
from sfumato.report import file_digest, verify
from sfumato.serve.api_keys import ApiKey
from sfumato.serve.asked import Asked, keyed_by
from sfumato.serve.callers import Caller
from sfumato.serve.names import checked_dataset, ledger_name
from sfumato.serve.registry import Registry
from sfumato.serve.registry_policies import VersionedPolicy
from sfumato.serve.settings import Settings
from sfumato.serve.trust_policy import Policy

__all__ = ["Forbidden", "NotFound", "Release", "Service", "file_name"]

_RECORD = "release.json"


class Forbidden(SfumatoError):
    """The caller's key does not allow this."""


class NotFound(SfumatoError):
    """There is no such thing that the caller could know of."""


@dataclass(frozen=True)
class Release:
    """One release of a tenant: its file, what it states and what paid for it."""

    id: str
    dataset: str
    name: str
    created: str
    sha256: str
    statement: Mapping[str, Any]
    paid: Mapping[str, Any] | None
    request: str | None
    file: Path

    def to_dict(self) -> dict[str, Any]:
        """As JSON values; not where it lies."""
        return {
            "id": self.id,
            "dataset": self.dataset,
            "name": self.name,
            "created": self.created,
            "sha256": self.sha256,
            "request": self.request,
            "paid": None if self.paid is None else dict(self.paid),
            "statement": dict(self.statement),
        }


class Service:
    """The operations on one data folder; several processes may each have one."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        for place in (settings.data, settings.releases, settings.work):
            place.mkdir(mode=0o700, parents=True, exist_ok=True)
            if place.stat().st_mode & 0o077:
                raise BadInput(f"the folder {place.name} of the service is open to others: chmod 700 it.")
        self.registry = Registry(settings.database_url)
        self.ledger = Ledger(settings.ledger_url)
        self.keys = settings.keys
        self.keys.signing_or_new()
        self._secret = self.keys.noise_secret()

    def close(self) -> None:
        """Let go of the databases."""
        self.ledger.__exit__()
        self.registry.close()

    # Keys and the policy of a tenant

    def make_key(
        self,
        caller: Caller,
        *,
        name: str,
        role: str,
        scopes: Sequence[str] | None = None,
        datasets: Sequence[str] | None = None,
        reader: str | None = None,
        expires: datetime | None = None,
    ) -> tuple[ApiKey, str]:
        """A key of the caller's tenant and its token, which is shown this once.

        It allows nothing that the caller's own does not.
        """
        self._require(caller, "keys", None)
        granted: dict[str, Any] = {"role": role, "scopes": scopes, "reader": reader}
        if not caller.may_grant(**granted):
            raise Forbidden("a key cannot be given what the key that makes it does not have.")
        return self.registry.create_key(
            caller.tenant, name=name, datasets=datasets, expires=expires, **granted
        )

    def keys_of(self, caller: Caller) -> list[ApiKey]:
        """The keys of the caller's tenant; never their secrets."""
        self._require(caller, "keys", None)
        return self.registry.keys(caller.tenant)

    def revoke_key(self, caller: Caller, key_id: str) -> ApiKey:
        """Let a key of the caller's tenant open nothing any more."""
        self._require(caller, "keys", None)
        return self.registry.revoke_key(caller.tenant, key_id)

    def policy(self, caller: Caller) -> VersionedPolicy:
        """How the caller's tenant trusts its readers."""
        self._require(caller, "policy", None)
        return self.registry.policy(caller.tenant)

    def set_policy(self, caller: Caller, policy: Policy, after: int | None) -> VersionedPolicy:
        """Replace the policy, if the one in force is still number ``after``."""
        self._require(caller, "policy", None)
        return self.registry.set_policy(caller.tenant, policy, after=after)

    # Budgets

    def open_budget(
        self,
        caller: Caller,
        dataset: str,
        *,
        epsilon: float,
        delta: float,
        unit: str = "record",
        neighbours: str = "replace",
    ) -> dict[str, Any]:
        """Give ``dataset`` a budget; the same one again changes nothing."""
        name = self._named(caller, "budget", dataset)
        self.ledger.open(name, epsilon, delta, unit, neighbours)
        return self._balance(name, dataset)

    def budgets(self, caller: Caller) -> list[dict[str, Any]]:
        """The budgets of the caller's tenant that the key may see."""
        self._require(caller, "read", None)
        start = ledger_name(caller.tenant, "")
        names = [name.removeprefix(start) for name in self.ledger.names() if name.startswith(start)]
        return [
            self._balance(ledger_name(caller.tenant, name), name)
            for name in sorted(names)
            if caller.may("read", name)
        ]

    def budget(self, caller: Caller, dataset: str) -> dict[str, Any]:
        """What ``dataset`` may still spend."""
        return self._balance(self._known(caller, "read", dataset), dataset)

    def history(self, caller: Caller, dataset: str) -> list[dict[str, Any]]:
        """Every entry of the budget of ``dataset``, oldest first."""
        return [entry.to_dict() for entry in self.ledger.history(self._known(caller, "read", dataset))]

    # Releases

    def plan(self, caller: Caller, asked: Asked, file: Path, dataset: str) -> dict[str, Any]:
        """What a release of ``file`` would promise and cost; nothing is spent."""
        name = self._known(caller, "plan", dataset)
        made = asked.made(kind_of(file))
        found = plan(
            file, made, array=asked.array, schema=asked.declared(), dataset=name, ledger=self.ledger
        ).to_dict()
        return found | {"source": file.name, "dataset": dataset}

    def protect(
        self, caller: Caller, asked: Asked, file: Path, dataset: str, *, request: str | None = None
    ) -> Release:
        """Release ``file``; a ``request`` may be repeated, is charged once and gives the same bytes.

        Bad input spends nothing; what is spent is durable before any noise is drawn.
        """
        name = self._known(caller, "protect", dataset)
        self.registry.charge(caller.tenant, requests=0, bytes=file.stat().st_size)
        made = asked.made(kind_of(file))
        if request is not None:
            noise = Keyed(self._secret, dataset=name, version="1", release=request)
            made = keyed_by(made, noise)
        folder = self._folder(caller.tenant, request if request is None else f"{dataset}\0{request}")
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        done = protect(
            file,
            folder / file.name,
            made,
            array=asked.array,
            schema=asked.declared(),
            dataset=name,
            ledger=self.ledger,
            request=request,
            keys=self.keys,
        )
        assert isinstance(done, Protected)
        return self._kept(folder, dataset, request, done)

    def releases(self, caller: Caller) -> list[Release]:
        """The releases of the caller's tenant, newest first."""
        self._require(caller, "read", None)
        place = self.settings.releases / caller.tenant
        found = [self._read(folder) for folder in place.iterdir()] if place.is_dir() else []
        seen = [one for one in found if one is not None and caller.may("read", one.dataset)]
        return sorted(seen, key=lambda one: one.created, reverse=True)

    def release(self, caller: Caller, id_: str) -> Release:
        """One release; the file and its certificate lie beside each other."""
        plain = id_.isalnum() and id_.isascii()
        found = self._read(self.settings.releases / caller.tenant / id_) if plain else None
        if found is None or not caller.may("read", found.dataset):
            raise NotFound(f"there is no release {id_[:40]!r}.")
        return found

    def verified(self, caller: Caller, file: Path) -> dict[str, Any]:
        """Whether ``file``, with its certificate beside it, is what that says; the file's name is its own.

        The row of the ledger is looked at only where it is one of the caller's tenant.
        """
        self._require(caller, "read", None)
        found = verify(file, self.keys)
        certificate = found.certificate
        start = ledger_name(caller.tenant, "")
        if certificate is not None and (certificate.dataset or "").startswith(start):
            found = verify(file, self.keys, self.ledger)
        return found.to_dict() | {"file": file.name}  # not where it lay here

    @contextmanager
    def body(self, name: str) -> Iterator[Path]:
        """A private place for a file that a client calls ``name``; it is gone when the block ends."""
        folder = self.settings.work / secrets.token_hex(16)
        folder.mkdir(mode=0o700)
        try:
            yield folder / file_name(name)
        finally:
            for file in folder.iterdir():
                file.unlink(missing_ok=True)
            folder.rmdir()

    def _require(self, caller: Caller, operation: str, dataset: str | None) -> None:
        if not caller.may(operation, dataset):
            raise Forbidden(f"this key does not allow to {operation} here; ask the tenant's owner for one.")

    def _named(self, caller: Caller, operation: str, dataset: str) -> str:
        """The ledger's name of the caller's ``dataset``, for an ``operation`` that the key allows."""
        named = checked_dataset(dataset)
        self._require(caller, operation, named)
        return ledger_name(caller.tenant, named)

    def _known(self, caller: Caller, operation: str, dataset: str) -> str:
        """The same of a dataset that has a budget: without one nothing is released, and nothing told."""
        name = self._named(caller, operation, dataset)
        if name not in self.ledger.names():
            raise NotFound(f"there is no budget of dataset {dataset!r}; its owner has to open one first.")
        return name

    def _balance(self, name: str, dataset: str) -> dict[str, Any]:
        return self.ledger.balance(name).to_dict() | {"dataset": dataset}

    def _folder(self, tenant: str, key: str | None) -> Path:
        """Where a release lies: a place of its own, the same for each repetition of one request."""
        if key is None:
            return self.settings.releases / tenant / secrets.token_hex(12)
        noise = Keyed(self._secret, dataset=tenant, version="1", release="folders of requests")
        return self.settings.releases / tenant / noise.commitment(key.encode())[:24]

    def _kept(self, folder: Path, dataset: str, request: str | None, done: Protected) -> Release:
        before = self._read(folder)
        made = Release(
            id=folder.name,
            dataset=dataset,
            name=done.output.name,
            created=datetime.now(UTC).isoformat() if before is None else before.created,
            sha256=file_digest(done.output),
            statement=done.statement.to_dict(),
            paid=done.paid,
            request=request,
            file=done.output,
        )
        write_whole(folder / _RECORD, json.dumps(made.to_dict()).encode())
        return made

    def _read(self, folder: Path) -> Release | None:
        """What is kept in ``folder``; None of a release that was cut off."""
        try:
            kept = json.loads((folder / _RECORD).read_bytes())
        except FileNotFoundError:
            return None
        return Release(file=folder / kept["name"], **kept)


def file_name(name: str) -> str:
    """A plain file name of ``name``, which a client chose: its last part, if nothing in it could mislead."""
    last = name.replace("\\", "/").rsplit("/", 1)[-1]
    plain = all(character.isalnum() or character in "._- " for character in last) and last.isascii()
    if not last or last.startswith(".") or len(last) > 100 or not plain:
        raise BadInput("the name of the file must be letters, digits, dots, dashes and spaces, at most 100.")
    suffix_of(last)  # one that can be released
    return last
