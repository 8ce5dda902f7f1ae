"""What owners and readers may do with buckets, each operation for the caller that asks."""

from __future__ import annotations

import shutil
import weakref
from pathlib import Path
from typing import Any

from sfumato.errors import BadInput
from sfumato.serve.auth.access_rules import Forbidden, NotFound, require
from sfumato.serve.auth.api_keys import ApiKey, is_key_id
from sfumato.serve.auth.callers import Caller, checked_reader
from sfumato.serve.auth.dataset_names import checked_dataset, ledger_name
from sfumato.serve.proxy.bucket_declarations import Bucket, NewBucket, checked_bucket, is_bucket
from sfumato.serve.proxy.object_sources import Source, allowed_source, prefixes_of
from sfumato.serve.reader_tiers import ReaderFacts, TierLevels, context_of, distrust_of
from sfumato.serve.registry_errors import Unknown
from sfumato.serve.service import Service
from sfumato.serve.tier_files import TierTerms
from sfumato.serve.tier_store import TierStore

__all__ = ["Buckets", "shown"]

_SECRETS = "secrets of access keys"
_known: weakref.WeakKeyDictionary[Service, Buckets] = weakref.WeakKeyDictionary()


class Buckets:
    """Buckets, readers and access keys of all tenants of ``service``; use :meth:`of`."""

    def __init__(self, service: Service) -> None:
        # Not the service itself, which this would keep alive.
        self._service = weakref.ref(service)
        self.store = TierStore(service.settings.database_url)
        weakref.finalize(service, self.store.close)

    @classmethod
    def of(cls, service: Service) -> Buckets:
        """Those of ``service``: one for each."""
        if service not in _known:
            _known[service] = cls(service)
        return _known[service]

    # For owners

    def prefixes(self, caller: Caller) -> list[str]:
        """Where buckets of the caller's tenant may come from."""
        require(caller, "budget", None)
        service = self._here()
        return prefixes_of(service.registry.tenant(caller.tenant).name, service.settings.sources)

    def declare(self, caller: Caller, new: NewBucket) -> Bucket:
        """Declare a bucket; the same one again changes nothing, another of its name is refused."""
        service = self._here()
        require(caller, "budget", checked_dataset(new.dataset))
        name, tiers = checked_bucket(new.name), TierLevels(tuple(new.tiers))
        source = self._allowed(caller.tenant, new.source)
        in_ledger = ledger_name(caller.tenant, new.dataset)
        if not service.ledger.has(in_ledger):
            raise NotFound(f"there is no budget of dataset {new.dataset!r}; its owner has to open one first.")
        budget = service.ledger.balance(in_ledger)
        document = new.model_dump(mode="json") | {"source": source, "tiers": list(tiers.levels)}
        del document["name"]
        if new.public_names:
            del document["public_names"]  # as in declarations that are older than this field
        for kind, terms in document["files"].items():
            for statement in TierTerms(kind, **terms).check(tiers.levels):
                units = [
                    (str(part.unit), str(part.neighbours))
                    for part in (statement.proven, *statement.also_proven)
                ]
                if (budget.unit, budget.neighbours) not in units and kind in ("array", "table", "picture"):
                    raise BadInput(
                        f"a {kind} is protected for {', '.join(f'{u} under {n}' for u, n in units)}, "
                        f"and the budget of {new.dataset!r} is for {budget.unit} under {budget.neighbours}."
                    )
        return Bucket.of(self.store.declare(caller.tenant, name, document))

    def buckets(self, caller: Caller, operation: str = "read") -> list[Bucket]:
        """The buckets of the caller's tenant on which the key allows ``operation``."""
        found = [Bucket.of(kept) for kept in self.store.all_declared(caller.tenant)]
        return [bucket for bucket in found if caller.may(operation, bucket.dataset)]

    def bucket(self, caller: Caller, name: str, operation: str = "read") -> Bucket:
        """The bucket ``name``, if the key allows ``operation`` on it; else it is as if there were none."""
        kept = self.store.declared(caller.tenant, name) if is_bucket(name) else None
        bucket = None if kept is None else Bucket.of(kept)
        if bucket is None or not caller.may(operation, bucket.dataset):
            raise NotFound(f"there is no bucket {name[:63]!r}.")
        return bucket

    def remove(self, caller: Caller, name: str) -> Bucket:
        """Let a bucket be read no longer; what it paid stays paid, and what was drawn for it is removed."""
        kept = self.store.declared(caller.tenant, name) if is_bucket(name) else None
        if kept is None or not caller.may("budget", kept.document["dataset"]):
            raise NotFound(f"there is no bucket {name[:63]!r} that this key could remove.")
        removed = Bucket.of(self.store.remove(caller.tenant, name))
        shutil.rmtree(self.folder(removed), ignore_errors=True)
        return removed

    def readers(self, caller: Caller) -> dict[str, ReaderFacts]:
        """What the tenant says of its readers."""
        require(caller, "policy", None)
        return self.store.readers(caller.tenant)

    def say(self, caller: Caller, reader: str, facts: ReaderFacts | None) -> None:
        """Let the tenant say this of ``reader``, for its policy to go by."""
        require(caller, "policy", None)
        checked_reader(reader)
        self.store.say(caller.tenant, reader, facts)

    def access_key(self, caller: Caller, key_id: str) -> tuple[ApiKey, str]:
        """A key of the caller's tenant and the secret that signs requests as it.

        Refused where the caller could not have made such a key: who signs as it has what it allows.
        """
        require(caller, "keys", None)
        key = self.store.key(key_id) if is_key_id(key_id) else None
        if key is None or key.tenant != caller.tenant:
            raise Unknown("the tenant has no key of this id.")
        if not caller.may_grant(role=key.role, scopes=key.scopes, reader=key.reader, expires=key.expires):
            raise Forbidden("this key allows what the key that asks for its secret does not have.")
        return key, self.secret_of(key_id)

    def folder(self, bucket: Bucket) -> Path:
        """Where what was drawn of ``bucket`` is kept."""
        return self._here().settings.data / "proxy" / bucket.tenant / bucket.id

    # For readers

    def secret_of(self, key_id: str) -> str:
        """The secret of an access key: an HMAC of its id, for every id there could be."""
        return self._here().noise("s3", _SECRETS).commitment(key_id.encode())

    def source(self, bucket: Bucket) -> Source:
        """Where the objects of ``bucket`` come from, if that is still allowed."""
        return Source(self._allowed(bucket.tenant, bucket.source))

    def level(self, caller: Caller, bucket: Bucket, address: str | None) -> float:
        """The tier that the caller gets, who asks from ``address``."""
        policy = self._here().registry.policy(caller.tenant).policy
        facts = self.store.facts(caller.tenant, caller.reader)
        found = bucket.tiers.level_for(
            distrust_of(policy, caller, context_of(facts, address, bucket.collected))
        )
        if found is None:
            raise Forbidden("this bucket has no tier for readers who are trusted so little.")
        return found

    def _allowed(self, tenant: str, source: str) -> str:
        settings = self._here().settings
        name = self._here().registry.tenant(tenant).name
        return allowed_source(source, name, settings.sources, settings.data)

    def _here(self) -> Service:
        service = self._service()
        assert service is not None
        return service


def shown(bucket: Bucket, caller: Caller) -> dict[str, Any]:
    """A bucket for whoever may read it; where it comes from is for those who may declare it."""
    found = bucket.to_dict()
    return found if caller.may("budget", bucket.dataset) else found | {"source": None}
