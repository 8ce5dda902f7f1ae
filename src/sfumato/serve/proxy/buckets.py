"""Buckets of the storage proxy: declarations, sources of objects, readers and access keys.

An owner declares where the objects of a bucket come from, its tiers, and how each kind of file is released.
The operator allows prefixes of storage to each tenant by its name, as in ``clinic=s3://bucket/folder``; a
source is one of them or lies below it. Schemes that fetch from any host, such as http, are never accepted: a
source must not be a way to reach what only the service can reach.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from sfumato.errors import BadInput
from sfumato.io import (
    Fault,
    Kind,
    Remote,
    RemoteObject,
    RetryPolicy,
    kind_of,
    released_suffix,
)
from sfumato.serve.authentication import (
    ApiKey,
    DatasetName,
    allowed_name,
    budget_name,
    checked_text,
    is_key_id,
    require,
)
from sfumato.serve.reader_tiers import (
    Declaration,
    ReaderFacts,
    TierLevels,
    TierStore,
    TierTerms,
    context_of,
)
from sfumato.serve.refusals import Forbidden, NotFound, Unknown
from sfumato.serve.release_store import Resources

_SCHEMES = ("s3", "gs", "file")
# The longest key of an object in S3, in bytes.
_LONGEST_KEY = 1024
# A reader waits for the answer, so requests are retried less than for a batch.
_RETRY = RetryPolicy(attempts=4, total=10.0)
_STRICT = ConfigDict(extra="forbid", allow_inf_nan=False)
_NAME = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_SECRETS = "secrets of access keys"


def allowed_source(url: str, tenant: str, allowed: Iterable[str], data: Path) -> str:
    """Return ``url`` if the operator allows it to ``tenant``, a name; never the service's own folder."""
    checked = _resolved(url)
    scheme, _, path = checked.partition("://")
    if scheme not in _SCHEMES:
        raise BadInput(f"a source is a URL of {', '.join(_SCHEMES)}, such as s3://bucket/folder.")
    if scheme == "file":
        place, own = Path(path), data.resolve()
        if place == own or own in place.parents or place in own.parents:
            raise BadInput("a source cannot be the folder of the service, nor in it, nor around it.")
    for prefix in prefixes_of(tenant, allowed):
        with suppress(BadInput):
            known = _resolved(prefix)
            if checked == known or checked.startswith(f"{known}/"):
                return checked
    raise BadInput(
        "this source is not allowed to this tenant; the operator of the service allows prefixes, such as "
        "TENANT=s3://bucket/folder.",
        parameter="source",
    )


def _resolved(url: str) -> str:
    """Return a checked URL; that of a file with links resolved."""
    remote = Remote(url)
    if remote.scheme != "file":
        return remote.url
    return f"file://{Path(remote.url.partition('://')[2]).resolve()}"


def prefixes_of(tenant: str, allowed: Iterable[str]) -> list[str]:
    """Return the prefixes that the operator allows to the tenant named ``tenant``."""
    entries = [entry.partition("=") for entry in allowed]
    return [prefix for name, equals, prefix in entries if equals and name == tenant]


@dataclass(frozen=True)
class Found:
    """A stored object: its ``key`` below the source, its version, and its time of modification.

    ``shown`` is the name that readers see; the same as its key if keys are public.
    """

    key: str
    size: int
    version: str
    modified: datetime | None
    shown: str


class Source:
    """The objects below ``url``; keys are names that cannot lead elsewhere."""

    def __init__(self, url: str) -> None:
        self._remote = Remote(url, _RETRY)
        self.url = self._remote.url

    def found(self, key: str) -> Found | None:
        """Return the present object ``key``; None if there is none, or not an object."""
        if not self._is_plain(key):
            return None
        info = self._remote.child(key).info()
        return None if info is None else self._of(key, info)

    def listed(self) -> list[Found]:
        """Return all objects by key, without names that could lead elsewhere."""
        entries = self._remote.entries().items()
        listed = [self._of(key, info) for key, info in entries if self._is_plain(key)]
        return sorted((one for one in listed if one is not None), key=lambda one: one.key.encode())

    def fetch(self, found: Found, into: Path) -> None:
        """Download the object, in exactly this version, to the new file ``into``."""
        remote = self._remote.child(found.key)
        RemoteObject(remote, remote.name, found.size, found.version).fetch(into)

    def _of(self, key: str, info: dict[str, Any]) -> Found | None:
        if info.get("type") != "file" or info.get("islink") or int(info.get("size") or 0) < 1:
            return None
        path = f"{self.url.partition('://')[2]}/{key}"
        if self._remote.scheme == "file" and os.path.realpath(path) != path:
            return None  # a link on the way may lead out of the source
        one = RemoteObject.listed(self._remote.child(key), key, info)
        if not one.version:
            raise Fault(f"{self.url} cannot be read: its storage does not tell versions apart.")
        return Found(key, one.size, one.version, _modified(info), shown=key)

    def _is_plain(self, key: str) -> bool:
        """Return whether ``key`` cannot lead out of the source, and names nothing hidden."""
        try:
            self._remote.child(key)
        except BadInput:
            return False
        hidden = any(part[0] == "." for part in key.split("/"))
        return not hidden and len(key.encode("utf-8", "replace")) <= _LONGEST_KEY


def _modified(info: dict[str, Any]) -> datetime | None:
    for name in ("LastModified", "last_modified", "updated", "mtime"):
        time = info.get(name)
        if isinstance(time, datetime):
            return time.astimezone(UTC)
        if isinstance(time, int | float) and not isinstance(time, bool):
            return datetime.fromtimestamp(time, UTC)
    return None


class FileTerms(BaseModel):
    """How files of one kind are released."""

    model_config = _STRICT

    parameters: dict[str, bool | int | float | str | list[float]] = Field(
        description="epsilon, a range [least, most]; delta, clip, bounds, unit, …"
    )
    columns: dict[str, Any] | None = Field(None, description="Of a table: the columns of its schema.")
    array: str | None = Field(None, description="Which array of an archive.", max_length=200)


class NewBucket(BaseModel):
    """A bucket to declare; it never changes afterwards."""

    model_config = _STRICT

    name: str = Field(min_length=3, max_length=63, pattern=r"^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$")
    source: str = Field(min_length=1, max_length=1000, description="s3://bucket/folder, file:///folder, …")
    dataset: DatasetName
    tiers: list[float] = Field(min_length=1, max_length=16, description="Levels of distrust in [0, 1].")
    files: dict[Literal["array", "table", "picture", "sound", "video"], FileTerms] = Field(min_length=1)
    collected: date | None = Field(None, description="When the data was collected, for rules by its age.")
    public_names: bool = Field(
        False, description="Whether the keys of objects are public; otherwise readers see names made up here."
    )


class Bucket:
    """A declared bucket, made of its stored declaration."""

    def __init__(self, declared: Declaration) -> None:
        document = declared.document
        self._document = document
        self.id, self.tenant, self.name = declared.id, declared.tenant, declared.name
        self.dataset: str = document["dataset"]
        self.source: str = document["source"]
        self.tiers = TierLevels(tuple(document["tiers"]))
        self.files: Mapping[Kind, TierTerms] = {
            kind: TierTerms(kind, **terms) for kind, terms in document["files"].items()
        }
        collected = document["collected"]
        self.collected = None if collected is None else date.fromisoformat(collected)
        self.created = declared.created
        # Readers know the keys of buckets that were declared before names could be private.
        self.public_names: bool = document.get("public_names", True)

    def terms(self, key: str) -> TierTerms:
        """Return how object ``key`` is released; raise if its kind was not declared or is unknown."""
        last = key.rsplit("/", 1)[-1]
        kind = kind_of(last)
        if self.public_names and not last.lower().endswith(released_suffix(last)):
            raise BadInput(
                f"an object of this format is released as {released_suffix(last)}, and public names are kept."
            )
        if kind not in self.files:
            raise BadInput(f"this bucket releases no {kind}; released are {', '.join(sorted(self.files))}.")
        return self.files[kind]

    def releases(self, key: str) -> bool:
        """Return whether object ``key`` is of a declared kind."""
        try:
            self.terms(key)
        except BadInput:
            return False
        return True

    def to_dict(self) -> dict[str, Any]:
        """Return JSON values for its owner; each kind says whether its tiers are charged at once."""
        document = self._document
        files = document["files"].items()
        return {
            "name": self.name,
            "source": self.source,
            "dataset": self.dataset,
            "tiers": list(self.tiers.levels),
            "files": {kind: {**terms, "nested": self.files[kind].nested} for kind, terms in files},
            "collected": document["collected"],
            "public_names": self.public_names,
            "created": self.created.isoformat(),
        }


def is_bucket(name: str) -> bool:
    """Return whether ``name`` can name a bucket."""
    return _NAME.fullmatch(name) is not None and ".." not in name


class Buckets:
    """Buckets, readers and access keys of all tenants of a service."""

    def __init__(self, resources: Resources) -> None:
        self._resources = resources
        self._settings, self._registry, self._ledger = (
            resources.settings,
            resources.registry,
            resources.ledger,
        )
        self.store = TierStore(resources.registry.database)

    # For owners

    def prefixes(self, caller: ApiKey) -> list[str]:
        """Return the prefixes that buckets of the caller's tenant may come from."""
        require(caller, "budget", None)
        return prefixes_of(self._registry.tenant(caller.tenant).name, self._settings.sources)

    def declare(self, caller: ApiKey, new: NewBucket) -> Bucket:
        """Declare a bucket; repeating it changes nothing, another one of its name is refused."""
        allowed_name(caller, "budget", new.dataset)
        if not is_bucket(new.name):
            raise BadInput("the name of a bucket is 3 to 63 small letters, digits, dots and dashes.")
        tiers = TierLevels(tuple(new.tiers))
        source = self._allowed(caller.tenant, new.source)
        unit, neighbours = self._ledger.counted(budget_name(self._ledger, caller, "budget", new.dataset))
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
                if (unit, neighbours) not in units and kind in ("array", "table", "picture"):
                    raise BadInput(
                        f"a {kind} is protected for {', '.join(f'{u} under {n}' for u, n in units)}, "
                        f"and the budget of {new.dataset!r} is for {unit} under {neighbours}."
                    )
        return Bucket(self.store.declare(caller.tenant, new.name, document))

    def buckets(self, caller: ApiKey, operation: str = "read") -> list[Bucket]:
        """Return the buckets of the caller's tenant on which the key allows ``operation``."""
        found = [Bucket(kept) for kept in self.store.all_declared(caller.tenant)]
        return [bucket for bucket in found if caller.may(operation, bucket.dataset)]

    def listed(self, caller: ApiKey) -> list[dict[str, Any]]:
        """Return the buckets that the key may read, as JSON values."""
        return [_shown(bucket, caller) for bucket in self.buckets(caller)]

    def shown(self, caller: ApiKey, name: str) -> dict[str, Any]:
        """Return one bucket that the key may read, as JSON values."""
        return _shown(self.bucket(caller, name), caller)

    def tier(self, caller: ApiKey, name: str, address: str | None) -> dict[str, Any]:
        """Return the tier of the caller, who asks from ``address``, and all tiers; nothing is spent."""
        bucket = self.bucket(caller, name, "tier")
        return {"tier": self.level(caller, bucket, address), "tiers": list(bucket.tiers.levels)}

    def bucket(self, caller: ApiKey, name: str, operation: str = "read") -> Bucket:
        """Return the bucket ``name``; raise as if there were none unless the key allows ``operation``."""
        kept = self.store.declared(caller.tenant, name) if is_bucket(name) else None
        bucket = None if kept is None else Bucket(kept)
        if bucket is None or not caller.may(operation, bucket.dataset):
            raise NotFound(f"there is no bucket {name[:63]!r}.")
        return bucket

    def remove(self, caller: ApiKey, name: str) -> Bucket:
        """Remove a bucket and what was drawn for it; what it paid stays paid."""
        removed = self.bucket(caller, name, "budget")
        self.store.remove(caller.tenant, name)
        shutil.rmtree(self.folder(removed), ignore_errors=True)
        return removed

    def readers(self, caller: ApiKey) -> dict[str, ReaderFacts]:
        """Return the facts about the tenant's readers."""
        require(caller, "policy", None)
        return self.store.readers(caller.tenant)

    def say(self, caller: ApiKey, reader: str, facts: ReaderFacts | None) -> dict[str, Any]:
        """Set the facts about ``reader`` that the tenant's policy uses, or remove them; return them."""
        require(caller, "policy", None)
        checked_text("the name of a reader", reader)
        if facts is not None:
            facts.require_printable()
        self.store.say(caller.tenant, reader, facts)
        return {"reader": reader} | (facts or ReaderFacts()).to_dict()

    def access_key(self, caller: ApiKey, key_id: str) -> dict[str, Any]:
        """Return the access key of a key, with which S3 clients sign; it ends with the key."""
        key, secret = self.key_and_secret(caller, key_id)
        return {"access_key_id": key.id, "secret_access_key": secret, "path": "/s3"}

    def key_and_secret(self, caller: ApiKey, key_id: str) -> tuple[ApiKey, str]:
        """Return a key of the caller's tenant and the secret that signs requests as it.

        Raise if the caller could not have created such a key, because the secret grants what the key allows.
        """
        require(caller, "keys", None)
        key = self._registry.key(key_id) if is_key_id(key_id) else None
        if key is None or key.tenant != caller.tenant:
            raise Unknown("the tenant has no key of this id.")
        if not caller.may_grant(key):
            raise Forbidden("this key allows what the key that asks for its secret does not have.")
        return key, self.secret_of(key_id)

    def folder(self, bucket: Bucket) -> Path:
        """Return the folder of the drawn objects of ``bucket``."""
        return self._settings.data / "proxy" / bucket.tenant / bucket.id

    # For readers

    def secret_of(self, key_id: str) -> str:
        """Return the secret of an access key: an HMAC of its id, defined for every possible id."""
        return self._resources.noise("s3", _SECRETS).commitment(key_id.encode())

    def source(self, bucket: Bucket) -> Source:
        """Return the source of the objects of ``bucket``; raise if it is no longer allowed."""
        return Source(self._allowed(bucket.tenant, bucket.source))

    def level(self, caller: ApiKey, bucket: Bucket, address: str | None) -> float:
        """Return the tier of the caller, who asks from ``address``."""
        policy = self._registry.policy(caller.tenant).policy
        facts = self.store.facts(caller.tenant, caller.reader)
        context = context_of(facts, address, bucket.collected)
        found = bucket.tiers.level_for(policy.distrust(caller.reader, context))
        if found is None:
            raise Forbidden("this bucket has no tier for readers who are trusted so little.")
        return found

    def _allowed(self, tenant: str, source: str) -> str:
        name = self._registry.tenant(tenant).name
        return allowed_source(source, name, self._settings.sources, self._settings.data)


def _shown(bucket: Bucket, caller: ApiKey) -> dict[str, Any]:
    """Return a bucket for a caller who may read it; its source only for those who may declare it."""
    found = bucket.to_dict()
    return found if caller.may("budget", bucket.dataset) else found | {"source": None}
