"""What the service does, for whoever asks and however they ask: one layer behind REST and all else.

Every operation takes the caller first and refuses what the caller's key does not allow before it looks at
anything. Datasets are named by their tenant's own names; what a tenant does not have is told apart from what
another has by nobody.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from sfumato.errors import BadInput, spell
from sfumato.io.formats import kind_of
from sfumato.mechanisms import Mechanism
from sfumato.noise import Keyed
from sfumato.release import MediaMechanisms, Protected, plan, protect
from sfumato.reports import verify
from sfumato.serve.auth.access_rules import Forbidden, NotFound, known, require
from sfumato.serve.auth.callers import Caller
from sfumato.serve.auth.dataset_names import ledger_name, own_words
from sfumato.serve.auth.tenancy import Tenancy
from sfumato.serve.file_names import file_name, released_name
from sfumato.serve.jobs.audit_jobs import AskedAudit, AuditFiles, Audits
from sfumato.serve.jobs.job_lifecycle import Job, Jobs
from sfumato.serve.jobs.job_store import KeptJobs, content_of
from sfumato.serve.jobs.job_table import JobRecord
from sfumato.serve.jobs.sync_executor import Direct
from sfumato.serve.jobs.work_queue import Turns
from sfumato.serve.release_report import release_page
from sfumato.serve.release_request import Asked, keyed_by
from sfumato.serve.release_store import Release, Releases, new_id
from sfumato.serve.resources import Resources
from sfumato.serve.settings import Settings
from sfumato.serve.unpacked_size import require_memory, require_memory_to_audit, require_unpacked

__all__ = ["MOST_AT_ONCE", "Forbidden", "NotFound", "Release", "Service", "file_name"]

#: How long a page of a list may be.
MOST_AT_ONCE = 1000
# How much larger than a body its content may be: what is answered at once, and what is a job.
_UNPACKED, _UNPACKED_JOB = 4, 256


class Service(Tenancy):
    """The operations on one data folder; several processes may each have one."""

    def __init__(self, settings: Settings) -> None:
        self._resources = Resources(settings)
        super().__init__(self._resources)
        self._releases = Releases(self._resources)
        #: What a runner works on.
        self.jobs_kept = KeptJobs(self._resources, self._releases)
        #: How much tenants keep, and may.
        self.storage = self.jobs_kept.storage
        self.audits_kept = Audits(self._resources, self.jobs_kept)
        self._jobs = Jobs(self.jobs_kept)
        self._turns = Turns()
        #: Where work is done that requests wait for, whichever way they come.
        self.direct = Direct(settings.direct_at_once, settings.direct_seconds)
        self.sweep()

    def close(self) -> None:
        """Let go of the databases."""
        self._resources.close()

    def noise(self, name: str, release: str) -> Keyed:
        """Noise that is the same whenever ``release`` of the dataset with this ledger's ``name`` is drawn."""
        return self._resources.noise(name, release)

    def sweep(self) -> None:
        """Remove private files of processes that are no more."""
        self._resources.work.sweep()

    def note_releases(self) -> int:
        """Let every release that is kept be listed, also after a power cut or with a restored registry."""
        return self._releases.note_all()

    # Releases

    def plan(self, caller: Caller, asked: Asked, file: Path, dataset: str) -> dict[str, Any]:
        """What a release of ``file`` would promise and cost; nothing is spent."""
        name = known(self.ledger, caller, "plan", dataset)
        self._charge(caller, _UNPACKED, file)
        made = self._made(asked, file)
        with self._turns.taken(file):
            found = plan(
                file, made, array=asked.array, schema=asked.declared(), dataset=name, ledger=self.ledger
            ).to_dict()
        cost = found["cost"]
        if cost is not None:
            cost["balance"]["dataset"] = dataset
            cost["refusal"] = (
                None if cost["refusal"] is None else own_words(spell(cost["refusal"], "service"))
            )
        return found | {"source": file.name, "dataset": dataset}

    def protect(
        self, caller: Caller, asked: Asked, file: Path, dataset: str, *, request: str | None = None
    ) -> Release:
        """Release ``file``; a ``request`` may be repeated, is charged once and gives the same bytes.

        Bad input spends nothing; what is spent is durable before any noise is drawn.
        """
        name = known(self.ledger, caller, "protect", dataset)
        self._charge(caller, _UNPACKED, file)
        made, id_, content = self._made(asked, file), new_id(), None
        if request is not None:
            content = content_of(self._resources, caller.tenant, "protect", asdict(asked), [file])
            made = keyed_by(made, self._resources.noise_of_request(name, request))
            id_ = self._releases.id_of_request(caller.tenant, dataset, request)
            before = self._releases.read_same(caller.tenant, id_, request, content)
            if before is not None and before.content == content:
                return before
        with self._releases.drawing() as folder:
            with self._turns.taken(file):
                done = protect(
                    file,
                    folder / released_name(file),
                    made,
                    array=asked.array,
                    schema=asked.declared(),
                    dataset=name,
                    ledger=self.ledger,
                    request=request,
                    keys=self.keys,
                    room=lambda size: self.storage.require(caller.tenant, size),
                )
            assert isinstance(done, Protected)
            return self._releases.keep(caller.tenant, id_, dataset, request, done, content)

    def releases(self, caller: Caller, *, limit: int = 100, cursor: str | None = None) -> list[Release]:
        """At most ``limit`` releases of the caller's tenant, newest first, after the one of id ``cursor``."""
        return self._releases.page(caller, _checked_limit(limit), cursor)

    def release(self, caller: Caller, id_: str) -> Release:
        """One release; the file and its certificate lie beside each other."""
        return self._releases.one(caller, id_)

    def content(self, caller: Caller, id_: str) -> Release:
        """One release whose file is there."""
        found = self._releases.one(caller, id_)
        if found.deleted is not None:
            raise NotFound(f"the file of release {id_[:40]!r} was deleted; its certificate is kept.")
        return found

    def delete_release(self, caller: Caller, id_: str) -> Release:
        """Delete the file of a release; what paid for it, its certificate and its record stay."""
        found = self._releases.delete(caller, id_)
        self.storage.forget(caller.tenant)
        return found

    def verified(self, caller: Caller, file: Path) -> dict[str, Any]:
        """Whether ``file``, with its certificate beside it, is what that says; the file's name is its own.

        The row of the ledger is looked at only where it is of a dataset that the caller may read.
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
        self, caller: Caller, asked: Asked, file: Path, dataset: str, *, request: str | None = None
    ) -> Job:
        """Accept the release of ``file`` as a job and set its price aside.

        A repeated ``request`` is the same job. The file is moved away if it lies in the work folder.
        """
        known(self.ledger, caller, "protect", dataset)
        self._charge(caller, _UNPACKED_JOB, file)
        self._made(asked, file)
        self.storage.require(caller.tenant, file.stat().st_size)
        return Job.of(self._jobs.submit(caller, asked, file, dataset, request))

    def submit_audit(
        self,
        caller: Caller,
        original: Path,
        released: Path,
        dataset: str,
        *,
        certificate: Path | None = None,
        labels: str | Path | None = None,
        nonmembers: Path | None = None,
        array: str | None = None,
        columns: Mapping[str, Any] | None = None,
        confidence: float = 0.99,
        seed: int = 0,
        request: str | None = None,
    ) -> Job:
        """Accept an attack on ``released``, a release of ``original`` row by row, as a job; it costs nothing.

        ``labels`` names an array or a column of the original, or is a file of ours with one value a record.
        """
        known(self.ledger, caller, "audit", dataset)
        own = labels if isinstance(labels, Path) else None
        files = AuditFiles(original, released, certificate, nonmembers, own)
        asked = AskedAudit(
            labels=labels if isinstance(labels, str) else None,
            array=array,
            schema=None if columns is None else {"columns": columns},
            confidence=confidence,
            seed=seed,
        )
        compared = [file for file in files.parts().values() if kind_of(file) in ("array", "table")]
        require_memory_to_audit(compared, asked.declared(), self.settings.memory_bytes)
        self._charge(caller, _UNPACKED_JOB, *files.parts().values())
        self.storage.require(caller.tenant, sum(file.stat().st_size for file in files.parts().values()))
        return Job.of(self.audits_kept.submit(caller, asked, files, dataset, request))

    def jobs(self, caller: Caller, *, limit: int = 100, cursor: str | None = None) -> list[Job]:
        """At most ``limit`` jobs of the caller's tenant, newest first, after the one of id ``cursor``."""
        return self._jobs.page(caller, _checked_limit(limit), cursor)

    def job(self, caller: Caller, id_: str) -> Job:
        """How a job stands."""
        return Job.of(self._jobs.one(caller, id_))

    def cancel(self, caller: Caller, id_: str) -> Job:
        """Cancel a job; what has begun to draw stays spent, and nothing is released."""
        return Job.of(self._jobs.cancel(caller, id_))

    def audit(self, caller: Caller, id_: str) -> dict[str, Any]:
        """What an audit found: the evidence, as ``sfumato audit`` writes it."""
        return self.audits_kept.evidence(self._audit(caller, id_))

    def report_page(self, caller: Caller, id_: str) -> bytes:
        """The report of a release, with its three columns, or of an audit: one page of HTML."""
        try:
            release = self._releases.one(caller, id_)
        except NotFound:
            return self.audits_kept.page(self._audit(caller, id_))
        return release_page(release, self.ledger, ledger_name(caller.tenant, release.dataset))

    def _audit(self, caller: Caller, id_: str) -> JobRecord:
        try:
            found = self._jobs.one(caller, id_)
        except NotFound:
            found = None
        if found is None or (found.kind, found.state) != ("audit", "done"):
            raise NotFound(f"there is no audit {id_[:40]!r} that is done.")
        return found

    # Files of clients

    @contextmanager
    def body(self, name: str) -> Iterator[Path]:
        """A private place for a file that a client calls ``name``; it is gone when the block ends."""
        checked = file_name(name)
        with self.folder() as folder:
            yield folder / checked

    @contextmanager
    def folder(self) -> Iterator[Path]:
        """A private folder; it is gone, with all that is in it, when the block ends."""
        with self._resources.work.folder() as folder:
            yield folder

    def _made(self, asked: Asked, file: Path) -> Mechanism | MediaMechanisms:
        """The mechanism for ``file``, which a request has memory for."""
        made = asked.made(kind_of(file))
        require_memory(file, made, asked.array, self.settings.memory_bytes)
        return made

    def _charge(self, caller: Caller, unpacked: int, *files: Path) -> None:
        """Refuse files that hold far more than they seem to, and count the bytes of the others."""
        for file in files:
            require_unpacked(file, unpacked * self.settings.body_bytes)
        size = sum(file.stat().st_size for file in files)
        self.registry.charge(caller.tenant, requests=0, bytes=size)


def _checked_limit(limit: int) -> int:
    if not 1 <= limit <= MOST_AT_ONCE:
        raise BadInput(f"a page holds 1 to {MOST_AT_ONCE:,}, not {limit}.")
    return limit
