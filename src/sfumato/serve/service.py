"""The operations of the service, shared by REST, gRPC, the pages and the proxy.

Every operation takes the caller first and refuses what the caller's key does not allow before it reads
anything. Datasets are named by their tenant's own names. A caller cannot distinguish what does not exist from
what another tenant has.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

from sfumato.errors import BadInput, spell
from sfumato.io import kind_of
from sfumato.mechanisms import Mechanism
from sfumato.privacy import RECORDS
from sfumato.release import MediaMechanisms, Protected, ReleaseRequest, keyed, plan, protect
from sfumato.reports import certificate_file, verify
from sfumato.serve.authentication import (
    ApiKey,
    Caller,
    Forbidden,
    KeyThrottle,
    NotFound,
    Unauthenticated,
    known,
    ledger_name,
    named,
    own_words,
    require,
)
from sfumato.serve.jobs.audit_jobs import AuditFiles, Audits
from sfumato.serve.jobs.job_lifecycle import Job, Jobs, content_of
from sfumato.serve.jobs.job_store import JobRecord
from sfumato.serve.jobs.sync_executor import Direct, Turns
from sfumato.serve.logs import note
from sfumato.serve.metrics import Metrics, Readiness
from sfumato.serve.proxy.buckets import Buckets
from sfumato.serve.release_store import Release, Releases, Resources, new_id, release_page
from sfumato.serve.request_files import MOST_WORDS, file_name, released_name
from sfumato.serve.request_models import AuditDescription
from sfumato.serve.settings import Settings
from sfumato.serve.tenant_registry import VersionedPolicy
from sfumato.serve.trust_policy import Policy
from sfumato.serve.unpacked_size import require_memory, require_memory_to_audit, require_unpacked

__all__ = ["Service"]

#: How long a page of a list may be.
MOST_AT_ONCE = 1000
# How much larger than a body its content may be: what is answered at once, and what is a job.
_UNPACKED, _UNPACKED_JOB = 4, 256


class Service:
    """The operations on one data folder; several processes may each have one."""

    def __init__(self, settings: Settings) -> None:
        self.resources = resources = Resources(settings)
        self.settings, self.keys = settings, resources.keys
        self.registry, self.ledger = resources.registry, resources.ledger
        #: The public half of the key that signs certificates, as PEM; anybody may know it.
        self.signing_key = resources.signing_key
        self.releases_kept = Releases(resources)
        #: What a runner works on.
        self.jobs_kept = Jobs(resources, self.releases_kept)
        #: How much tenants store, and may.
        self.storage = self.jobs_kept.storage
        self.audits_kept = Audits(resources, self.jobs_kept)
        #: Buckets that the proxy serves, their readers and access keys.
        self.buckets = Buckets(resources)
        #: Limits wrong keys, whichever door they come through.
        self.throttle = KeyThrottle()
        self.metrics, self.readiness = Metrics(self), Readiness(self)
        self._turns = Turns()
        #: Where work is done that requests wait for, whichever way they come.
        self.direct = Direct(settings.direct_at_once, settings.direct_seconds)
        resources.work.sweep()

    def close(self) -> None:
        """Close the databases."""
        self.resources.close()

    # Callers

    def authenticate(self, authorization: str | None, address: str | None) -> Caller:
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

    def admit(self, caller: Caller) -> Caller:
        """Name ``caller`` in the log line of its request, and charge the request to its tenant's quota."""
        note(tenant=caller.tenant, key=caller.key_id)
        self.registry.charge(caller.tenant)
        return caller

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
        """Create a key of the caller's tenant; return it with its token, which is shown only once.

        It allows nothing beyond the caller's own key and expires no later. Without ``expires`` it expires
        with the caller's own.
        """
        require(caller, "keys", None)
        until = expires or caller.expires
        if caller.outlasted_by(until):
            raise Forbidden("a key cannot outlast the key that makes it; leave out when it expires.")
        granted: dict[str, Any] = {"role": role, "scopes": scopes, "reader": reader, "expires": until}
        if not caller.may_grant(**granted):
            raise Forbidden("a key cannot be given what the key that makes it does not have.")
        return self.registry.create_key(caller.tenant, name=name, datasets=datasets, **granted)

    def keys_of(self, caller: Caller) -> list[ApiKey]:
        """Return the keys of the caller's tenant, without their secrets."""
        require(caller, "keys", None)
        return self.registry.keys(caller.tenant)

    def revoke_key(self, caller: Caller, key_id: str) -> ApiKey:
        """Revoke a key of the caller's tenant.

        Raise if the caller could not have created such a key: a restricted key must not lock out its owner.
        """
        require(caller, "keys", None)
        found = next((key for key in self.registry.keys(caller.tenant) if key.id == key_id), None)
        if found is not None and not caller.may_grant(
            role=found.role, scopes=found.scopes, reader=found.reader, expires=found.expires
        ):
            raise Forbidden("this key allows what the key that revokes it does not have.")
        return self.registry.revoke_key(caller.tenant, key_id)

    def policy(self, caller: Caller) -> VersionedPolicy:
        """Return the policy by which the caller's tenant trusts its readers."""
        require(caller, "policy", None)
        return self.registry.policy(caller.tenant)

    def set_policy(self, caller: Caller, policy: Policy, after: int | None) -> VersionedPolicy:
        """Replace the policy, if the one in force is still version ``after``."""
        require(caller, "policy", None)
        return self.registry.set_policy(caller.tenant, policy, after=after)

    # Budgets

    def open_budget(
        self,
        caller: Caller,
        dataset: str,
        *,
        epsilon: float,
        delta: float,
        unit: str = RECORDS.unit,
        neighbours: str = RECORDS.neighbours,
    ) -> dict[str, Any]:
        """Open a budget for ``dataset``; opening the same one again changes nothing."""
        name = named(caller, "budget", dataset)
        self.ledger.open(name, epsilon, delta, unit, neighbours)
        return self._balance(name, dataset)

    def budgets(self, caller: Caller) -> list[dict[str, Any]]:
        """Return the budgets of the caller's tenant that the key may see."""
        require(caller, "read", None)
        start = ledger_name(caller.tenant, "")
        names = [name.removeprefix(start) for name in self.ledger.names() if name.startswith(start)]
        return [
            self._balance(ledger_name(caller.tenant, name), name)
            for name in sorted(names)
            if caller.may("read", name)
        ]

    def budget(self, caller: Caller, dataset: str) -> dict[str, Any]:
        """Return what ``dataset`` may still spend."""
        return self._balance(known(self.ledger, caller, "read", dataset), dataset)

    def history(self, caller: Caller, dataset: str) -> list[dict[str, Any]]:
        """Return every entry of the budget of ``dataset``, oldest first."""
        return [entry.to_dict() for entry in self.ledger.history(known(self.ledger, caller, "read", dataset))]

    def _balance(self, name: str, dataset: str) -> dict[str, Any]:
        return self.ledger.balance(name).to_dict() | {"dataset": dataset}

    # Releases

    def plan(self, caller: Caller, asked: ReleaseRequest, file: Path, dataset: str) -> dict[str, Any]:
        """Return what a release of ``file`` would guarantee and cost; nothing is spent."""
        name = known(self.ledger, caller, "plan", dataset)
        self._charge(caller, _UNPACKED, file)
        self._made(asked, file)
        with self._turns.taken(file):
            found = plan(file, replace(asked, dataset=name), ledger=self.ledger).to_dict()
        cost = found["cost"]
        if cost is not None:
            cost["balance"]["dataset"] = dataset
            cost["refusal"] = (
                None if cost["refusal"] is None else own_words(spell(cost["refusal"], "service"))
            )
        return found | {"source": file.name, "dataset": dataset}

    def protect(
        self, caller: Caller, asked: ReleaseRequest, file: Path, dataset: str, *, request: str | None = None
    ) -> Release:
        """Release ``file``; a repeated ``request`` is charged once and returns the same bytes.

        Bad input spends nothing. The spend is durable before any noise is drawn.
        """
        name = known(self.ledger, caller, "protect", dataset)
        self._charge(caller, _UNPACKED, file)
        made, id_, content = self._made(asked, file), new_id(), None
        if request is not None:
            content = content_of(self.resources, caller.tenant, "protect", asked.to_dict(), [file])
            made = keyed(made, self.resources.noise_of_request(name, request))
            id_ = self.releases_kept.id_of_request(caller.tenant, dataset, request)
            before = self.releases_kept.read_same(caller.tenant, id_, request, content)
            if before is not None and before.content == content:
                return before
        with self.releases_kept.drawing() as folder:
            with self._turns.taken(file):
                done = protect(
                    file,
                    folder / released_name(file),
                    made,
                    **asked.options(),
                    dataset=name,
                    ledger=self.ledger,
                    request=request,
                    keys=self.keys,
                    room=lambda size: self.storage.require(caller.tenant, size),
                )
            assert isinstance(done, Protected)
            return self.releases_kept.keep(caller.tenant, id_, dataset, request, done, content)

    def releases(self, caller: Caller, *, limit: int = 100, cursor: str | None = None) -> list[Release]:
        """Return at most ``limit`` releases of the caller's tenant, newest first, after id ``cursor``."""
        return self.releases_kept.page(caller, _checked_limit(limit), cursor)

    def release(self, caller: Caller, id_: str) -> Release:
        """Return one release; its file and certificate lie beside each other."""
        return self.releases_kept.one(caller, id_)

    def content(self, caller: Caller, id_: str) -> Release:
        """Return one release whose file exists."""
        found = self.releases_kept.one(caller, id_)
        if found.deleted is not None:
            raise NotFound(f"the file of release {id_[:40]!r} was deleted; its certificate is kept.")
        return found

    def delete_release(self, caller: Caller, id_: str) -> Release:
        """Delete the file of a release; its payment, certificate and record are kept."""
        found = self.releases_kept.delete(caller, id_)
        self.storage.forget(caller.tenant)
        return found

    def verified(self, caller: Caller, file: Path) -> dict[str, Any]:
        """Verify ``file`` against the certificate beside it and return the checks.

        The ledger row is checked only if it belongs to a dataset that the caller may read.
        """
        require(caller, "read", None)
        self.registry.charge(caller.tenant, requests=0, bytes=file.stat().st_size)
        found = verify(file, self.keys)
        certificate = found.certificate
        start = ledger_name(caller.tenant, "")
        dataset = "" if certificate is None else certificate.dataset or ""
        if dataset.startswith(start) and caller.may("read", dataset.removeprefix(start)):
            found = verify(file, self.keys, self.ledger)
        answer = found.to_dict() | {"file": file.name}  # not where it lay here
        for check in answer["checks"]:
            check["detail"] = spell(check["detail"], "service")
        return answer

    # Jobs, audits and reports

    def submit(
        self, caller: Caller, asked: ReleaseRequest, file: Path, dataset: str, *, request: str | None = None
    ) -> Job:
        """Accept the release of ``file`` as a job and hold its price.

        A repeated ``request`` returns the same job. The file is moved if it lies in the work folder.
        """
        known(self.ledger, caller, "protect", dataset)
        self._charge(caller, _UNPACKED_JOB, file)
        self._made(asked, file)
        self.storage.require(caller.tenant, file.stat().st_size)
        return Job.of(self.jobs_kept.submit(caller, asked, file, dataset, request))

    def submit_audit(
        self,
        caller: Caller,
        asked: AuditDescription,
        files: AuditFiles,
        dataset: str,
        *,
        request: str | None = None,
    ) -> Job:
        """Accept an audit of a row-by-row release as a job; it costs nothing."""
        known(self.ledger, caller, "audit", dataset)
        compared = [file for file in files.parts().values() if kind_of(file) in ("array", "table")]
        require_memory_to_audit(compared, asked.declared(), self.settings.memory_bytes)
        self._charge(caller, _UNPACKED_JOB, *files.parts().values())
        self.storage.require(caller.tenant, sum(file.stat().st_size for file in files.parts().values()))
        return Job.of(self.audits_kept.submit(caller, asked, files, dataset, request))

    def jobs(self, caller: Caller, *, limit: int = 100, cursor: str | None = None) -> list[Job]:
        """Return at most ``limit`` jobs of the caller's tenant, newest first, after id ``cursor``."""
        return self.jobs_kept.page(caller, _checked_limit(limit), cursor)

    def job(self, caller: Caller, id_: str) -> Job:
        """Return the state of a job."""
        return Job.of(self.jobs_kept.one(caller, id_))

    def cancel(self, caller: Caller, id_: str) -> Job:
        """Cancel a job; if it has begun to draw, its price stays spent and nothing is released."""
        return Job.of(self.jobs_kept.cancel(caller, id_))

    def audited_files(
        self, caller: Caller, sent: Mapping[str, Path], release: str | None, certificate: str | None
    ) -> AuditFiles:
        """Return the files of an audit by the parts that a client sent.

        Either the stored ``release`` is audited, or the part ``released``, whose ``certificate`` is a text.
        """
        if "original" not in sent:
            raise BadInput("an audit needs the file original, which the release was made from.")
        if (release is None) == ("released" not in sent) or (release is not None and certificate is not None):
            raise BadInput(
                "an audit needs what is attacked once: the file released, perhaps with its certificate, or "
                "the id of a release."
            )
        if release is not None:
            released = self.content(caller, release).file
        else:
            released = sent["released"]
            if certificate is not None:
                if len(certificate) > MOST_WORDS:
                    raise BadInput(f"the certificate is longer than {MOST_WORDS:,} characters.")
                certificate_file(released).write_text(certificate, "utf-8")
        certified = release is not None or certificate is not None
        return AuditFiles(
            sent["original"],
            released,
            certificate_file(released) if certified else None,
            sent.get("nonmembers"),
            sent.get("labels_file"),
        )

    def audit(self, caller: Caller, id_: str) -> dict[str, Any]:
        """Return the evidence of an audit, as ``sfumato audit`` writes it."""
        return self.audits_kept.evidence(self._audit(caller, id_))

    def report_page(self, caller: Caller, id_: str) -> bytes:
        """Return the HTML report of a release, with its three columns, or of an audit."""
        try:
            release = self.releases_kept.one(caller, id_)
        except NotFound:
            return self.audits_kept.page(self._audit(caller, id_))
        return release_page(release, self.ledger, ledger_name(caller.tenant, release.dataset))

    def _audit(self, caller: Caller, id_: str) -> JobRecord:
        try:
            found = self.jobs_kept.one(caller, id_)
        except NotFound:
            found = None
        if found is None or (found.kind, found.state) != ("audit", "done"):
            raise NotFound(f"there is no audit {id_[:40]!r} that is done.")
        return found

    # Files of clients

    @contextmanager
    def body(self, name: str) -> Iterator[Path]:
        """Yield a private path for a file that a client calls ``name``; it is removed when the block ends."""
        checked = file_name(name)
        with self.folder() as folder:
            yield folder / checked

    @contextmanager
    def folder(self) -> Iterator[Path]:
        """Yield a private folder; it is removed with its content when the block ends."""
        with self.resources.work.folder() as folder:
            yield folder

    def _made(self, asked: ReleaseRequest, file: Path) -> Mechanism | MediaMechanisms:
        """Return the mechanism for ``file``; raise if it needs more memory than a request may use."""
        made = asked.make_mechanism(kind_of(file), file.name)
        require_memory(file, made, asked.array, self.settings.memory_bytes)
        return made

    def _charge(self, caller: Caller, unpacked: int, *files: Path) -> None:
        """Raise for files that unpack to far more than their size, and count the bytes of the others."""
        for file in files:
            require_unpacked(file, unpacked * self.settings.body_bytes)
        size = sum(file.stat().st_size for file in files)
        self.registry.charge(caller.tenant, requests=0, bytes=size)


def _checked_limit(limit: int) -> int:
    if not 1 <= limit <= MOST_AT_ONCE:
        raise BadInput(f"a page holds 1 to {MOST_AT_ONCE:,}, not {limit}.")
    return limit
