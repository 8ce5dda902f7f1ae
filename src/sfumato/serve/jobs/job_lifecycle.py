"""Jobs: work that outlives its request and is paid for before it draws.

States, and who moves a job from one to the next::

    accepted ──► queued ──► running ──► done
       │           ▲  │        │ ├────► failed
       │           └──│────────┘ └────► cancelled
       ▼              └────► running, to be cancelled
    forgotten

A job that failed or was cancelled is *accepted* again when its request is repeated and its problem says that
it may be (``retryable``).

*accepted*: its files and its record are on disk, its price is not held yet. *queued*: its price is a hold in
the ledger. *running*: a worker has it and proves by a lease in the record that it is alive. Whoever has a job
(the process that accepts it, a worker, the one that cancels a queued job, or the janitor, which takes over
jobs with an expired lease) moves it; a move by anybody else changes nothing.

Each **attempt** at a job has a hold of its own, under a ledger key of its own. A worker does::

    check all of the file ─► (lease still ours?) ─► commit the hold ─► draw ─► publish ─► done

The ledger alone decides about money. A hold is settled once and for ever, by a commit or by a return,
whichever is first; both are durable. From that follow:

1. *No release is unpaid.* Noise is drawn in one place, after the commit of the attempt's hold has returned.
2. *No hold that drew is returned.* To draw, the hold was committed; the ledger then refuses to return it.
   Whoever returns a hold (cancelling, a failed check, the janitor) only tries to, and believes the ledger:
   if that refuses, the attempt is spent.
3. *A worker that lost its lease draws nothing new.* The janitor returned its hold before it let anybody else
   begin, so the worker's commit is refused; or the commit came first, and the janitor's return is refused.
4. *Nothing is paid for once and drawn twice.* An attempt whose hold is not settled goes back to the queue
   only by its own worker, which then does nothing more with it; one that the janitor takes gets a new hold.
   An attempt that was committed is worked on again only if its noise is keyed: the hold's row commits to
   the content and the parameters, so the same noise falls on the same file and gives the same bytes. With
   fresh noise it fails instead, and stays spent. The same holds for a repeated request: if its job had spent
   nothing, it is a new attempt with a new hold; if it had, the earlier commit pays for the same bytes.
5. *No two contents share noise.* Keyed noise is named by the client's idempotency key. The first hold has
   this very key in the ledger, and no other entry ever has: a spend, another job or other content under it
   is refused, also after the hold was returned. Later attempts are of the same job, whose files never
   change and are compared with the hold's row before each commit.

Before its record is on disk a job does not exist; from then on its hold is found by its key. So whenever a
process is killed, the janitor of any other process finds the job, learns from the ledger what happened, and
continues. Files are removed when the job has ended, results stay; a repeated request brings its files again.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from threading import Event
from typing import Any

from sfumato.errors import BadInput
from sfumato.ledger import BudgetRefused, Entry
from sfumato.release import HeldFile, HeldPayment, ReleaseRequest, Report, silent
from sfumato.reports import file_digest
from sfumato.serve.authentication import Caller, NotFound, is_id, ledger_name, require
from sfumato.serve.jobs.job_store import ENDED, JobFiles, JobRecord, may_be_repeated
from sfumato.serve.registry_database import Busy
from sfumato.serve.release_store import Releases, Resources, Storage, new_id, reused
from sfumato.serve.request_files import released_name

#: How long a job stays in the hands of someone who gives no sign.
LEASE_SECONDS = 20.0
# Accepting takes an instant; who was cut off meanwhile asks again soon.
_ACCEPTING_SECONDS = 5.0


class Jobs:
    """The jobs of a service with their records, files and payments; the module says what may be done."""

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
        """Return a new record of a request, not stored yet."""
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
        """Return the job of the same request, or None; raise if its content differs.

        If it has ended and may be repeated, it is queued for another attempt, with files that ``take`` brings
        into a folder. If its price is refused it keeps its ended state.
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
        """Store ``new`` after its files; return the job of the same request instead if one was first."""
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
        """End a job of ``worker`` and remove its files; return None if another worker has it."""
        folders = self.files.of(record.id)  # once it has ended, who repeats its request may bring new ones
        ended = self.table.finish(record.id, worker, state, **words)
        if ended is not None:
            self.files.remove(folders)
        return ended

    def queued(self, id_: str, worker: str, **changes: Any) -> JobRecord | None:
        """Queue a job and return it; if somebody took it over, return its present record, if there is one."""
        queued = self.table.queue(id_, worker, **changes)
        self.news.set()
        return queued or self.table.get(id_)

    def payment(
        self, record: JobRecord, file: Path, before: Callable[[], None] = lambda: None
    ) -> HeldPayment:
        """Return the payment of the present attempt at ``record``, which releases ``file``."""
        return HeldPayment(
            ledger_name(record.tenant, record.dataset),
            self.resources.ledger,
            record.request,
            key=_hold_key(record),
            body=bytes.fromhex(file_digest(file)) if record.request is not None else b"",
            before=before,
        )

    def opened_file(self, record: JobRecord, report: Report = silent) -> tuple[HeldFile, Path]:
        """Open the stored file of a release, and return it with its path."""
        file = self.files.find(record.id, "file")
        if file is None:
            raise BadInput("the file of the job is not there any more; ask for it again.")
        return self.opened(record, file, report), file

    def set_aside(self, record: JobRecord) -> Entry:
        """Hold the price of the present attempt; a repeated call returns the same hold."""
        opened, file = self.opened_file(record)
        return opened.set_aside(self.payment(record, file))

    def held(self, record: JobRecord) -> int | None:
        """Return the hold that pays for the present attempt: the one that paid before, or a new one."""
        if record.kind != "protect" or record.hold is not None:
            return record.hold
        return self.set_aside(record).number

    def returned(self, record: JobRecord) -> bool:
        """Give the hold of the present attempt back to the budget; return False if it was committed."""
        if record.hold is None:
            return True
        try:
            self.resources.ledger.release_hold(ledger_name(record.tenant, record.dataset), record.hold)
        except BadInput:  # settled by a commit: the ledger's word is the last one
            return False
        return True

    def release_id(self, record: JobRecord) -> str:
        """Return the id of the release that the job makes."""
        if record.request is None:
            return record.id
        return self.releases.id_of_request(record.tenant, record.dataset, record.request)

    def cancelled(self, record: JobRecord, worker: str) -> JobRecord:
        """End a job of ``worker`` that is to be cancelled."""
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
        """Drop a job of ``worker`` as if it had never been; one that others took over is left to them."""
        folders = self.files.of(id_)
        if self.table.drop(id_, worker):
            self.files.remove(folders)

    def swept(self) -> None:
        """Remove the files of jobs that have ended or were never stored."""
        for id_, folder in self.files.all():
            found = self.table.get(id_)
            if self.files.is_old(folder) if found is None else found.state in ENDED:
                self.files.remove([folder])

    def opened(self, record: JobRecord, file: Path, report: Report = silent) -> HeldFile:
        """Open ``file`` for the operation that the job requests; it may not be stored yet."""
        asked, noise = ReleaseRequest.from_dict(record.asked), None
        if record.request is not None:
            name = ledger_name(record.tenant, record.dataset)
            noise = self.resources.noise_of_request(name, record.request)
        return HeldFile(file, asked, name=released_name(file), noise=noise, report=report)

    # Operations of clients

    def submit(
        self, caller: Caller, asked: ReleaseRequest, file: Path, dataset: str, request: str | None
    ) -> JobRecord:
        """Accept the release of ``file`` and hold its price.

        A repeated ``request`` returns the same job; another attempt is made if the last one ended without a
        result and may be repeated.
        """
        new = self.new(caller, "protect", dataset, request, asked.to_dict(), [file])

        def take(folder: Path) -> None:
            self.files.take(folder, "file", file)

        before = self.repeated(new, take)
        if before is not None:
            return before
        opened = self.opened(new, file)  # refuses what cannot be released, before anything is kept
        payment = self.payment(new, file)
        accepted = self.accepted(new, take)
        if accepted.id != new.id:
            return accepted
        worker = accepted.worker or ""
        try:
            hold = opened.set_aside(payment).number
        except (BadInput, BudgetRefused):
            self.forgotten(new.id, worker)
            raise
        queued = self.queued(new.id, worker, hold=hold)
        if queued is None:
            self.returned(replace(accepted, hold=hold))
            raise Busy("accepting the job took too long, and it was given up; ask again.")
        return queued

    def one(self, caller: Caller, id_: str) -> JobRecord:
        """Return a job that the caller may see."""
        found = self.table.get(id_) if is_id(id_) else None
        if found is None or found.tenant != caller.tenant or not caller.may("read", found.dataset):
            raise NotFound(f"there is no job {id_[:40]!r}.")
        return found

    def page(self, caller: Caller, limit: int, cursor: str | None) -> list[Job]:
        """Return at most ``limit`` jobs that the caller may see, newest first, after id ``cursor``."""
        require(caller, "read", None)
        page: list[Job] = []
        while rows := self.table.newest(caller.tenant, cursor):
            page += [Job.of(row) for row in rows if caller.may("read", row.dataset)]
            if len(page) >= limit:
                break
            cursor = rows[-1].id
        return page[:limit]

    def cancel(self, caller: Caller, id_: str) -> JobRecord:
        """Cancel a job that has not ended; a running job ends at its next report of progress.

        Before it began to draw, its price is returned; afterwards it stays spent, and nothing is released.
        """
        found = self.one(caller, id_)
        require(caller, found.kind, found.dataset)
        me = f"cancelling {secrets.token_hex(8)}"
        marked = self.table.cancel(id_, me, LEASE_SECONDS)
        assert marked is not None  # jobs that were shown are never forgotten
        self.news.set()
        return self.cancelled(marked, me) if marked.worker == me else marked


def content_of(
    resources: Resources, tenant: str, kind: str, asked: Mapping[str, Any], files: list[Path]
) -> str:
    """Return a keyed digest of a request and its files, which reveals nothing about them."""
    wanted = ReleaseRequest.from_dict(asked).digest() if kind == "protect" else asked
    told = [kind, wanted, [[file.name, file_digest(file)] for file in files]]
    digest = hashlib.sha256(json.dumps(told, sort_keys=True).encode()).digest()
    return resources.commitment(tenant, "contents of requests", digest)


def _hold_key(record: JobRecord) -> str:
    """Return the ledger key of the attempt's hold; the first attempt of a request has the request's own."""
    if record.request is None:
        return f"job {record.id} attempt {record.attempt}"
    return record.request if record.attempt == 1 else f"{record.request} attempt {record.attempt}"


def _same(before: JobRecord, new: JobRecord) -> JobRecord:
    if before.content != new.content:
        raise reused(new.request)
    if before.state == "accepted":
        raise Busy("the job is being accepted; ask again in a moment.")
    return before


@dataclass(frozen=True)
class Job:
    """A job as its tenant sees it.

    ``state`` is queued, running, done, failed or cancelled; a job that is ``cancelling`` ends at its next
    step. ``share`` of its ``stage`` is done, None if unknown. ``result`` names what it made. ``problem`` has
    the ``type`` and ``detail`` of an error, whether the request may be repeated (``retryable``), and whether
    budget was spent (``spent``). Repeated under its idempotency key it is the same job, and what was spent is
    not paid again.
    """

    id: str
    kind: str
    dataset: str
    state: str
    cancelling: bool
    stage: str | None
    share: float | None
    created: str
    ended: str | None
    result: Mapping[str, Any] | None
    problem: Mapping[str, Any] | None

    @classmethod
    def of(cls, record: JobRecord) -> Job:
        """Return the job of ``record``; a job that is being accepted is shown as queued."""
        shown = {name: getattr(record, name) for name in cls.__dataclass_fields__ if name != "cancelling"}
        shown["state"] = "queued" if record.state == "accepted" else record.state
        return cls(cancelling=record.cancelled and record.state not in ENDED, **shown)

    def to_dict(self) -> dict[str, Any]:
        """Return JSON values."""
        return asdict(self)
