"""Jobs that are kept: their records, their files and their money, for whoever has one in hand."""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from threading import Event
from typing import Any

from sfumato.errors import BadInput
from sfumato.io.formats import kind_of
from sfumato.ledger import BudgetRefused, Entry
from sfumato.release.payment import HeldPayment
from sfumato.release.protected_file import Report, silent
from sfumato.release.two_phase_payment import HeldFile
from sfumato.reports import file_digest
from sfumato.serve.auth.callers import Caller
from sfumato.serve.auth.dataset_names import ledger_name
from sfumato.serve.file_names import released_name
from sfumato.serve.jobs.job_files import JobFiles
from sfumato.serve.jobs.job_table import ENDED, JobRecord, may_be_repeated
from sfumato.serve.registry_errors import Busy
from sfumato.serve.release_request import Asked, keyed_by
from sfumato.serve.release_store import Releases, new_id, reused
from sfumato.serve.resources import Resources
from sfumato.serve.storage_quota import Storage

__all__ = ["LEASE_SECONDS", "KeptJobs", "content_of"]

#: How long a job stays in the hands of someone who gives no sign.
LEASE_SECONDS = 20.0
# Accepting takes an instant; who was cut off meanwhile asks again soon.
_ACCEPTING_SECONDS = 5.0


class KeptJobs:
    """The jobs of a service; :mod:`sfumato.serve.jobs.job_lifecycle` says what may be done with them."""

    def __init__(self, resources: Resources, releases: Releases) -> None:
        self.resources, self.releases = resources, releases
        self.table = resources.registry.jobs
        self.files = JobFiles(resources.jobs, resources.settings.work)
        self.storage = Storage(resources, self.files)
        #: Set when there may be something to do.
        self.news = Event()

    def new(
        self,
        caller: Caller,
        kind: str,
        dataset: str,
        request: str | None,
        asked: Mapping[str, Any],
        files: list[Path],
    ) -> JobRecord:
        """A record of what is asked for, not kept yet."""
        return JobRecord(
            id=new_id(),
            tenant=caller.tenant,
            kind=kind,
            dataset=dataset,
            request=request,
            asked=asked,
            content=content_of(self.resources, caller.tenant, kind, asked, files),
            created=datetime.now(UTC).isoformat(timespec="microseconds"),
        )

    def repeated(self, new: JobRecord, take: Callable[[Path], object]) -> JobRecord | None:
        """The job of the same request, if there is one; other content under the request is refused.

        Where it has ended and may be repeated, it is queued for another attempt, with files that ``take``
        brings into a folder; where its price is refused it stays as it had ended.
        """
        before = self.table.of_request(new)
        if before is None and new.kind == "protect" and new.request is not None:
            # An older ledger and registry may both have forgotten a request whose release is there.
            self.releases.read_same(new.tenant, self.release_id(new), new.request, new.content)
        if before is None or not may_be_repeated(_same(before, new)):
            return before
        again = self.table.reopen(before.id, f"accepting {secrets.token_hex(8)}", _ACCEPTING_SECONDS)
        if again is None:
            raise Busy("the job is being accepted; ask again in a moment.")
        worker = again.worker or ""
        take(self.files.new(again.id))
        try:
            hold = self.held(again)
        except (BadInput, BudgetRefused):
            self.ended(again, worker, before.state, problem=before.problem)
            raise
        return self.queued(again.id, worker, hold=hold)

    def accepted(self, new: JobRecord, take: Callable[[Path], object]) -> JobRecord:
        """Keep ``new`` and, before it, its files; returns the job of the same request, if one was first."""
        folder = self.files.new(new.id)
        try:
            take(folder)
            kept = self.table.add(new, f"accepting {secrets.token_hex(8)}", _ACCEPTING_SECONDS)
        except BaseException:
            self.files.remove([folder])
            raise
        if kept.id != new.id:
            self.files.remove([folder])
            return _same(kept, new)
        return kept

    def ended(self, record: JobRecord, worker: str, state: str, **words: Any) -> JobRecord | None:
        """End a job that ``worker`` has in hand, whose files are gone then; None where others have it."""
        folders = self.files.of(record.id)  # once it has ended, who repeats its request may bring new ones
        ended = self.table.finish(record.id, worker, state, **words)
        if ended is not None:
            self.files.remove(folders)
        return ended

    def queued(self, id_: str, worker: str, **changes: Any) -> JobRecord | None:
        """Put a job in hand into the queue; where somebody took it over, how it stands now, if it does."""
        queued = self.table.queue(id_, worker, **changes)
        self.news.set()
        return queued or self.table.get(id_)

    def payment(
        self, record: JobRecord, file: Path, before: Callable[[], None] = lambda: None
    ) -> HeldPayment:
        """What pays for the present attempt at ``record``, which releases ``file``."""
        return HeldPayment(
            ledger_name(record.tenant, record.dataset),
            self.resources.ledger,
            record.request,
            key=_hold_key(record),
            body=bytes.fromhex(file_digest(file)) if record.request is not None else b"",
            before=before,
        )

    def opened_file(self, record: JobRecord, report: Report = silent) -> tuple[HeldFile, Path]:
        """The kept file of a release, opened, and where it is."""
        file = self.files.find(record.id, "file")
        if file is None:
            raise BadInput("the file of the job is not there any more; ask for it again.")
        return self.opened(record, file, report), file

    def hold(self, record: JobRecord) -> Entry:
        """Set the price of the present attempt aside; done before, the same hold."""
        opened, file = self.opened_file(record)
        return opened.hold(self.payment(record, file))

    def held(self, record: JobRecord) -> int | None:
        """The hold that pays for the present attempt: the one that paid before, or a new one."""
        if record.kind != "protect" or record.hold is not None:
            return record.hold
        return self.hold(record).number

    def returned(self, record: JobRecord) -> bool:
        """Give the hold of the present attempt back, if it was not committed; whether it was not."""
        if record.hold is None:
            return True
        try:
            self.resources.ledger.release_hold(ledger_name(record.tenant, record.dataset), record.hold)
        except BadInput:  # settled by a commit: the ledger's word is the last one
            return False
        return True

    def release_id(self, record: JobRecord) -> str:
        """The id of what the job releases."""
        if record.request is None:
            return record.id
        return self.releases.id_of_request(record.tenant, record.dataset, record.request)

    def cancelled(self, record: JobRecord, worker: str) -> JobRecord:
        """End a job that is to be cancelled and that ``worker`` has in hand."""
        returned = self.returned(record)
        if record.kind == "protect" and not returned:
            self.releases.discard(record.tenant, self.release_id(record))
        problem = {
            "type": "cancelled",
            "detail": "the job was cancelled before it drew anything; its price was given back."
            if returned
            else "the job was cancelled after it had begun to draw; its price is spent"
            + (" and pays for the same request under the same key." if record.request else "."),
            "retryable": True,
            "spent": not returned,
        }
        return self.ended(record, worker, "cancelled", problem=problem) or record

    def forgotten(self, id_: str, worker: str) -> None:
        """Let a job that ``worker`` has in hand never have been; one that others took over stays theirs."""
        folders = self.files.of(id_)
        if self.table.drop(id_, worker):
            self.files.remove(folders)

    def swept(self) -> None:
        """Remove the files of jobs that have ended, or were never kept."""
        for id_, folder in self.files.all():
            found = self.table.get(id_)
            if self.files.is_old(folder) if found is None else found.state in ENDED:
                self.files.remove([folder])

    def opened(self, record: JobRecord, file: Path, report: Report = silent) -> HeldFile:
        """``file``, which may be as good as kept, opened for what the job is asked to do."""
        asked = Asked(**record.asked)
        made = asked.made(kind_of(file))
        if record.request is not None:
            name = ledger_name(record.tenant, record.dataset)
            made = keyed_by(made, self.resources.noise_of_request(name, record.request))
        return HeldFile(
            file,
            made,
            name=released_name(file),
            array=asked.array,
            schema=asked.declared(),
            report=report,
        )


def content_of(
    resources: Resources, tenant: str, kind: str, asked: Mapping[str, Any], files: list[Path]
) -> str:
    """What tells apart what is asked for and of which files, readable to nobody."""
    told = [kind, asked, [[file.name, file_digest(file)] for file in files]]
    digest = hashlib.sha256(json.dumps(told, sort_keys=True).encode()).digest()
    return resources.commitment(tenant, "contents of requests", digest)


def _hold_key(record: JobRecord) -> str:
    """The ledger's key of the attempt's hold; the first of a request has the request's own."""
    if record.request is None:
        return f"job {record.id} attempt {record.attempt}"
    return record.request if record.attempt == 1 else f"{record.request} attempt {record.attempt}"


def _same(before: JobRecord, new: JobRecord) -> JobRecord:
    if before.content != new.content:
        raise reused(new.request)
    if before.state == "accepted":
        raise Busy("the job is being accepted; ask again in a moment.")
    return before
