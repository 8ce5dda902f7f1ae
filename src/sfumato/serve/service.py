"""The operations of the service, and the requests that REST, gRPC, the pages and the proxy hand to them.

Every operation takes the caller first and refuses what the caller's key does not allow before it reads
anything. Datasets are named by their tenant's own names. A caller cannot distinguish what does not exist from
what another tenant has.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import datetime
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from sfumato.errors import BadInput
from sfumato.io import kind_of
from sfumato.mechanisms import describe_parameter, mechanism_names, options_at
from sfumato.privacy import RECORDS
from sfumato.release import HeldFile, Payment, ReleaseRequest, plan
from sfumato.reports import certificate_file, verify
from sfumato.serve.authentication import (
    ApiKey,
    DatasetName,
    KeyThrottle,
    allowed_name,
    budget_name,
    checked_role,
    checked_scopes,
    is_record_id,
    ledger_name,
    require,
)
from sfumato.serve.jobs.audit_jobs import AUDIT_FILES, AuditDescription, Audits
from sfumato.serve.jobs.job_lifecycle import Job, Jobs
from sfumato.serve.jobs.job_store import JobRecord
from sfumato.serve.monitoring import Metrics, Readiness, add_log_fields
from sfumato.serve.proxy.buckets import Buckets
from sfumato.serve.refusals import Forbidden, NotFound, TooLarge, Unauthenticated, client_words
from sfumato.serve.release_store import Releases, Resources, StoredRelease, new_id, release_report
from sfumato.serve.settings import Settings
from sfumato.serve.tenant_registry import VersionedPolicy
from sfumato.serve.trust_policy import Policy
from sfumato.serve.uploads import (
    MOST_WORDS,
    Direct,
    Turns,
    file_name,
    released_name,
    require_memory,
    require_memory_to_audit,
    require_unpacked,
)

__all__ = ["Service"]

#: The longest page of a list.
MOST_AT_ONCE = 1000
# How many times the largest body a file may be once it is unpacked: in a synchronous request, and in a job.
_UNPACKED, _UNPACKED_JOB = 4, 256
_STRICT = ConfigDict(extra="forbid", allow_inf_nan=False)
_Model = TypeVar("_Model", bound=BaseModel)
_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


def parameter_schema() -> dict[str, Any]:
    """Return the JSON schema of ``parameters`` as mechanisms declare them; it refuses nothing."""
    return {
        name: {
            "description": describe_parameter(options),
            "examples": [*dict.fromkeys(word for one in options for word in one.choices)],
        }
        for name, options in options_at("service").items()
    }


class Description(BaseModel):
    """How to release a file."""

    model_config = _STRICT

    mechanism: str | None = Field(
        None, max_length=100, description="The name of a mechanism.", examples=list(mechanism_names())
    )
    parameters: dict[str, bool | int | float | str | list[float] | dict[str, Any]] = Field(
        default_factory=dict,
        description="Parameters of the mechanism; map may be public boxes.",
        json_schema_extra={"properties": parameter_schema()},
    )
    columns: dict[str, Any] | None = Field(None, description="The columns of the schema, for a table.")
    array: str | None = Field(None, description="The name of an array of an archive.")
    alpha: float | None = Field(None, description="Reverse manifold embedding, applied to the release.")
    bounds_from_data: bool = Field(
        False, description="Whether bounds are read off the data, after which nothing is proven."
    )
    disjoint: bool = Field(False, description="Whether no record is in two files of a folder.")
    public_names: bool = Field(False, description="Whether the names of arrays are public.")

    def request(self) -> ReleaseRequest:
        """Return the release request."""
        schema = None if self.columns is None else {"columns": self.columns}
        given = self.model_dump(include={"alpha", "bounds_from_data", "disjoint", "public_names"})
        return ReleaseRequest(self.mechanism, self.parameters, schema, self.array, **given)


class NewBudget(BaseModel):
    """A budget to open; it never changes afterwards."""

    model_config = _STRICT

    dataset: DatasetName
    epsilon: float = Field(gt=0, le=1e6)
    delta: float = Field(ge=0, lt=1)
    unit: str = RECORDS.unit
    neighbours: str = RECORDS.neighbours


class NewKey(BaseModel):
    """A key to create."""

    model_config = _STRICT

    name: str
    role: str
    scopes: list[str] | None = None
    datasets: list[str] | None = None
    reader: str | None = None
    expires: datetime | None = None


class NewPolicy(BaseModel):
    """A policy to put in force; ``after`` is the version that it replaces."""

    model_config = _STRICT

    policy: dict[str, Any]
    after: int | None = None


def checked(what: str, model: type[_Model], values: Mapping[str, Any] | str | bytes) -> _Model:
    """Return the ``model`` with these ``values`` or of this JSON; ``what`` names them in a refusal."""
    try:
        if isinstance(values, str | bytes):
            return model.model_validate_json(values)
        return model.model_validate(values)
    except ValidationError as error:
        raise BadInput(f"{what} is malformed: {faults(error.errors())}.") from None


def faults(errors: Sequence[Any]) -> str:
    """Return where something is wrong and what is expected there; never the value that came."""
    return "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in errors[:5])


class Service:
    """The operations on one data folder; several processes may each have one."""

    def __init__(self, settings: Settings) -> None:
        self.resources = resources = Resources(settings)
        self.settings, self.keys = settings, resources.keys
        self.registry, self.ledger = resources.registry, resources.ledger
        #: The public half of the key that signs certificates, as PEM; anybody may know it.
        self.signing_key = resources.signing_key
        self.release_store = Releases(resources)
        self.job_store = Jobs(resources, self.release_store)
        self.audit_store = Audits(resources)
        #: How much tenants store, and may.
        self.storage = self.job_store.storage
        #: Buckets that the proxy serves, their readers and access keys.
        self.buckets = Buckets(resources)
        #: Limits wrong keys, whichever door they come through.
        self.throttle = KeyThrottle()
        self.metrics, self.readiness = Metrics(self), Readiness(self)
        self._turns = Turns()
        #: Runs the work that requests wait for, whichever door they come through.
        self.direct = Direct(settings.direct_at_once, settings.direct_seconds)
        #: Yields a private folder, which is removed with its content when the block ends.
        self.folder = resources.work.folder
        resources.work.sweep()

    def close(self) -> None:
        """Close the databases."""
        self.resources.close()

    @contextmanager
    def body(self, name: str) -> Iterator[Path]:
        """Yield a private path for a file that a client calls ``name``; it is removed when the block ends."""
        checked_file_name = file_name(name)
        with self.folder() as folder:
            yield folder / checked_file_name

    def body_limit(self, late: str | None) -> int:
        """Return the largest body of a request; ``late`` as in :meth:`receive`."""
        settings = self.settings
        return settings.body_bytes if late is None else min(settings.direct_bytes, settings.body_bytes)

    async def receive(
        self,
        caller: ApiKey,
        bring: Callable[[ExitStack], Awaitable[Callable[[], _Result]]],
        *,
        late: str | None = None,
    ) -> _Result:
        """Receive the files of a request by ``bring``, run the work that it returns, return the result.

        The stack that ``bring`` is given removes the files when the work has ended. With ``late``, the advice
        if the work takes too long, the request has the time and size limits of a synchronous one.
        """
        with ExitStack() as brought:
            try:
                work = await bring(brought)
            except TooLarge:
                limit = self.body_limit(late)
                if limit >= self.settings.body_bytes:
                    raise
                raise TooLarge(
                    f"the body is larger than {limit:,} bytes, the most of a synchronous request; request a "
                    "job, as POST /v1/datasets/…/jobs or by Submit, which takes more."
                ) from None
            return await self.direct.done(caller.tenant, work, brought.pop_all(), late=late)

    # Callers

    def authenticate(self, authorization: str | None, address: str | None) -> ApiKey:
        """Return the caller of a request with this ``authorization`` header, charged to its quota.

        Wrong keys are counted by ``address``; a request without a key is refused but not counted.
        """
        self.throttle.require(address)
        scheme, _, token = (authorization or "").partition(" ")
        found = self.registry.authenticate(token.strip()) if scheme.lower() == "bearer" else None
        if found is None:
            if authorization is not None:
                self.throttle.failed(address)
            raise Unauthenticated("this needs a valid key, as in Authorization: Bearer sfu_….")
        return self.admit(found)

    def admit(self, caller: ApiKey) -> ApiKey:
        """Name ``caller`` in the log line of its request, and charge the request to its tenant's quota."""
        add_log_fields(tenant=caller.tenant, key=caller.id)
        self.registry.charge(caller.tenant)
        return caller

    def me(self, caller: ApiKey) -> dict[str, Any]:
        """Return the caller, and what its key allows."""
        return {"tenant": caller.tenant, "key": caller.id} | caller.access()

    # Keys and the policy of a tenant

    def make_key(self, caller: ApiKey, new: NewKey) -> tuple[ApiKey, str]:
        """Create a key of the caller's tenant; return it with its token, which is shown only once.

        It allows nothing beyond the caller's own key and expires no later. Without ``expires`` it expires
        with the caller's own.
        """
        require(caller, "keys", None)
        until = new.expires or caller.expires
        if caller.is_outlasted_by(until):
            raise Forbidden("a key cannot outlast the key that makes it; leave out when it expires.")
        scopes = checked_scopes(checked_role(new.role), new.scopes)
        if not caller.may_grant(ApiKey(caller.tenant, "", new.role, scopes, None, new.reader, until)):
            raise Forbidden("a key cannot be given what the key that makes it does not have.")
        return self.registry.create_key(caller.tenant, **(new.model_dump() | {"expires": until}))

    def keys_of(self, caller: ApiKey) -> list[ApiKey]:
        """Return the keys of the caller's tenant, without their secrets."""
        require(caller, "keys", None)
        return self.registry.keys(caller.tenant)

    def revoke_key(self, caller: ApiKey, key_id: str) -> ApiKey:
        """Revoke a key of the caller's tenant.

        Raise if the caller could not have created such a key: a restricted key must not lock out its owner.
        """
        found = next((key for key in self.keys_of(caller) if key.id == key_id), None)
        if found is not None and not caller.may_grant(found):
            raise Forbidden("this key allows what the key that revokes it does not have.")
        return self.registry.revoke_key(caller.tenant, key_id)

    def policy(self, caller: ApiKey) -> VersionedPolicy:
        """Return the policy by which the caller's tenant trusts its readers."""
        require(caller, "policy", None)
        return self.registry.policy(caller.tenant)

    def set_policy(
        self, caller: ApiKey, policy: Policy | Mapping[str, Any], after: int | None
    ) -> VersionedPolicy:
        """Replace the policy, which may be JSON values, if version ``after`` is still in force."""
        require(caller, "policy", None)
        new = policy if isinstance(policy, Policy) else Policy.from_dict(policy)
        return self.registry.set_policy(caller.tenant, new, after=after)

    # Budgets

    def open_budget(
        self,
        caller: ApiKey,
        dataset: str,
        *,
        epsilon: float,
        delta: float,
        unit: str = RECORDS.unit,
        neighbours: str = RECORDS.neighbours,
    ) -> dict[str, Any]:
        """Open a budget for ``dataset``; opening the same one again changes nothing."""
        name = allowed_name(caller, "budget", dataset)
        self.ledger.open(name, epsilon, delta, unit, neighbours)
        return self._balance(name, dataset)

    def budgets(self, caller: ApiKey) -> list[dict[str, Any]]:
        """Return the budgets of the caller's tenant that the key may see."""
        require(caller, "read", None)
        start = ledger_name(caller.tenant, "")
        names = sorted(name.removeprefix(start) for name in self.ledger.names() if name.startswith(start))
        return [self._balance(f"{start}{name}", name) for name in names if caller.may("read", name)]

    def budget(self, caller: ApiKey, dataset: str) -> dict[str, Any]:
        """Return what ``dataset`` may still spend."""
        return self._balance(budget_name(self.ledger, caller, "read", dataset), dataset)

    def history(self, caller: ApiKey, dataset: str) -> list[dict[str, Any]]:
        """Return every entry of the budget of ``dataset``, oldest first."""
        name = budget_name(self.ledger, caller, "read", dataset)
        return [entry.to_dict() for entry in self.ledger.history(name)]

    def _balance(self, name: str, dataset: str) -> dict[str, Any]:
        return self.ledger.balance(name).to_dict() | {"dataset": dataset}

    # Releases

    def plan(self, caller: ApiKey, asked: ReleaseRequest, file: Path, dataset: str) -> dict[str, Any]:
        """Return what a release of ``file`` would guarantee and cost; nothing is spent."""
        name = budget_name(self.ledger, caller, "plan", dataset)
        self._charge(caller, _UNPACKED, file)
        self._require_memory(asked, file)
        with self._turns.taken(file):
            found = plan(file, replace(asked, dataset=name), ledger=self.ledger).to_dict()
        cost = found["cost"]
        if cost is not None:
            cost["balance"]["dataset"] = dataset
            if cost["refusal"] is not None:
                cost["refusal"] = client_words(cost["refusal"])
        return found | {"source": file.name, "dataset": dataset}

    def protect(
        self, caller: ApiKey, asked: ReleaseRequest, file: Path, dataset: str, *, request: str | None = None
    ) -> StoredRelease:
        """Release ``file``; a repeated ``request`` is charged once and returns the same bytes.

        Bad input spends nothing. The spend is durable before any noise is drawn.
        """
        name = budget_name(self.ledger, caller, "protect", dataset)
        self._charge(caller, _UNPACKED, file)
        self._require_memory(asked, file)
        id_, content, noise = new_id(), None, None
        if request is not None:
            content = self.resources.content_digest(caller.tenant, "protect", asked.to_dict(), [file])
            noise = self.resources.noise_of_request(name, request)
            id_ = self.release_store.id_of_request(caller.tenant, dataset, request)
            before = self.release_store.read_same(caller.tenant, id_, request, content)
            if before is not None and before.content == content:
                return before
        with self.release_store.drawing() as folder:
            with self._turns.taken(file):
                opened = HeldFile(file, asked, name=released_name(file), noise=noise)
                payment = Payment(name, self.ledger, request)
                room = partial(self.storage.require, caller.tenant)
                done = opened.protect(folder, payment, self.keys, room)
            return self.release_store.keep(caller.tenant, id_, dataset, request, done, content)

    def releases(self, caller: ApiKey, *, limit: int = 100, cursor: str | None = None) -> list[StoredRelease]:
        """Return at most ``limit`` releases of the caller's tenant, newest first, after id ``cursor``."""
        rows = self.release_store.newest(caller.tenant, cursor)
        return _page(caller, rows, limit, lambda row: self.release_store.read(caller.tenant, row.id))

    def release(self, caller: ApiKey, id_: str) -> StoredRelease:
        """Return one release; its file and certificate lie beside each other."""
        found = self.release_store.read(caller.tenant, id_) if is_record_id(id_) else None
        if found is None or not caller.may("read", found.dataset):
            raise NotFound(f"there is no release {id_[:40]!r}.")
        return found

    def content(self, caller: ApiKey, id_: str) -> StoredRelease:
        """Return one release whose file exists."""
        found = self.release(caller, id_)
        if found.deleted is not None:
            raise NotFound(f"the file of release {id_[:40]!r} was deleted; its certificate is kept.")
        return found

    def certificate(self, caller: ApiKey, id_: str) -> str:
        """Return the signed certificate of a release, as JSON."""
        return certificate_file(self.release(caller, id_).file).read_text("utf-8")

    def delete_release(self, caller: ApiKey, id_: str) -> StoredRelease:
        """Delete the file of a release; its payment, certificate and record are kept."""
        found = self.release(caller, id_)
        require(caller, "protect", found.dataset)
        deleted = self.release_store.delete(caller.tenant, found)
        self.storage.forget(caller.tenant)
        return deleted

    def verified(self, caller: ApiKey, file: Path, certificate: str | bytes) -> dict[str, Any]:
        """Verify ``file`` against its ``certificate`` and return the checks.

        The ledger row is checked only if it belongs to a dataset that the caller may read.
        """
        require(caller, "read", None)
        text = certificate.encode() if isinstance(certificate, str) else certificate
        certificate_file(file).write_bytes(text)
        self.registry.charge(caller.tenant, requests=0, bytes=file.stat().st_size)
        found = verify(file, self.keys)
        start = ledger_name(caller.tenant, "")
        dataset = "" if found.certificate is None else found.certificate.dataset or ""
        if dataset.startswith(start) and caller.may("read", dataset.removeprefix(start)):
            found = verify(file, self.keys, self.ledger)
        answer = found.to_dict() | {"file": file.name}  # not its path here
        for check in answer["checks"]:
            check["detail"] = client_words(check["detail"])
        return answer

    # Jobs, audits and reports

    def submit(
        self, caller: ApiKey, asked: ReleaseRequest, file: Path, dataset: str, *, request: str | None = None
    ) -> Job:
        """Accept the release of ``file`` as a job and hold its price.

        A repeated ``request`` returns the same job. The file is moved if it lies in the work folder.
        """
        budget_name(self.ledger, caller, "protect", dataset)
        self._charge(caller, _UNPACKED_JOB, file)
        self._require_memory(asked, file)
        self.storage.require(caller.tenant, file.stat().st_size)
        new = self.job_store.new(caller, "protect", dataset, request, asked.to_dict(), [file])
        return Job.of(self.job_store.submit(new, {"file": [file]}))

    def submit_audit(
        self,
        caller: ApiKey,
        asked: AuditDescription,
        sent: Mapping[str, Path],
        dataset: str,
        *,
        release: str | None = None,
        certificate: str | None = None,
        request: str | None = None,
    ) -> Job:
        """Accept an audit of a row-by-row release as a job; it costs nothing.

        ``sent`` are files by their parts, of :data:`AUDIT_FILES`. Either the stored ``release`` is audited,
        or the part ``released``; without its ``certificate`` nothing is proven of it.
        """
        budget_name(self.ledger, caller, "audit", dataset)
        if "original" not in sent:
            raise BadInput("an audit needs the file original, which the release was made from.")
        if (release is None) == ("released" not in sent) or (release is not None and certificate is not None):
            raise BadInput(
                "an audit needs one release to attack: the file released, perhaps with its certificate, or "
                "the id of a release."
            )
        given = dict(sent)
        if release is not None:
            given["released"] = self.content(caller, release).file
        elif certificate is not None:
            if len(certificate) > MOST_WORDS:
                raise BadInput(f"the certificate is longer than {MOST_WORDS:,} characters.")
            certificate_file(given["released"]).write_text(certificate, "utf-8")
        files = {part: given[part] for part in AUDIT_FILES if part in given}
        compared = [file for file in files.values() if kind_of(file) in ("array", "table")]
        require_memory_to_audit(compared, asked.schema_of_tables(), self.settings.memory_bytes)
        self._charge(caller, _UNPACKED_JOB, *files.values())
        self.storage.require(caller.tenant, sum(file.stat().st_size for file in files.values()))
        asked.check(files)
        parts = {part: [file] for part, file in files.items()}
        if release is not None or certificate is not None:
            parts["released"].append(certificate_file(files["released"]))
        digested = [*files.values(), *parts["released"][1:]]
        new = self.job_store.new(caller, "audit", dataset, request, asked.model_dump(), digested)
        return Job.of(self.job_store.submit(new, parts))

    def jobs(self, caller: ApiKey, *, limit: int = 100, cursor: str | None = None) -> list[Job]:
        """Return at most ``limit`` jobs of the caller's tenant, newest first, after id ``cursor``."""
        return _page(caller, self.job_store.table.newest(caller.tenant, cursor), limit, Job.of)

    def job(self, caller: ApiKey, id_: str) -> Job:
        """Return the state of a job."""
        return Job.of(self._job(caller, id_))

    def cancel(self, caller: ApiKey, id_: str) -> Job:
        """Cancel a job; if it has begun to draw, its price stays spent and nothing is released."""
        found = self._job(caller, id_)
        require(caller, found.kind, found.dataset)
        return Job.of(self.job_store.cancel(id_))

    def audit(self, caller: ApiKey, id_: str) -> dict[str, Any]:
        """Return the evidence of an audit, as ``sfumato audit`` writes it."""
        return self.audit_store.evidence(self._done_audit(caller, id_))

    def report_page(self, caller: ApiKey, id_: str) -> bytes:
        """Return the HTML report of a release, with its three columns, or of an audit."""
        try:
            release = self.release(caller, id_)
        except NotFound:
            return self.audit_store.page(self._done_audit(caller, id_))
        return release_report(release, self.ledger, ledger_name(caller.tenant, release.dataset))

    def _job(self, caller: ApiKey, id_: str) -> JobRecord:
        """Return a job that the caller may see."""
        found = self.job_store.table.get(id_) if is_record_id(id_) else None
        if found is None or found.tenant != caller.tenant or not caller.may("read", found.dataset):
            raise NotFound(f"there is no job {id_[:40]!r}.")
        return found

    def _done_audit(self, caller: ApiKey, id_: str) -> JobRecord:
        try:
            found = self._job(caller, id_)
        except NotFound:
            found = None
        if found is None or (found.kind, found.state) != ("audit", "done"):
            raise NotFound(f"there is no audit {id_[:40]!r} that is done.")
        return found

    # Limits

    def _require_memory(self, asked: ReleaseRequest, file: Path) -> None:
        """Raise if the mechanism for ``file`` needs more memory than a request may use."""
        made = asked.make_mechanism(kind_of(file), file.name)
        require_memory(file, made, asked.array, self.settings.memory_bytes)

    def _charge(self, caller: ApiKey, unpacked: int, *files: Path) -> None:
        """Raise for files that unpack to far more than their size, and count the bytes of the others."""
        for file in files:
            require_unpacked(file, unpacked * self.settings.body_bytes)
        size = sum(file.stat().st_size for file in files)
        self.registry.charge(caller.tenant, requests=0, bytes=size)


def _page(
    caller: ApiKey, rows: Iterable[Any], limit: int, show: Callable[[Any], _Item | None]
) -> list[_Item]:
    """Return the first ``limit`` of ``rows`` that the caller may see and that can be shown."""
    if not 1 <= limit <= MOST_AT_ONCE:
        raise BadInput(f"a page holds 1 to {MOST_AT_ONCE:,}, not {limit}.")
    require(caller, "read", None)
    shown = (show(row) for row in rows if caller.may("read", row.dataset))
    return list(islice((one for one in shown if one is not None), limit))
