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

import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from threading import Event
from typing import Any, Literal

from pydantic import BaseModel, Field

from sfumato.errors import BadInput
from sfumato.ledger import BudgetRefused
from sfumato.release import HeldFile, HeldPayment, ReleaseRequest, Report, silent
from sfumato.reports import file_digest
from sfumato.serve.authentication import ApiKey, ledger_name
from sfumato.serve.jobs.job_store import ENDED, JobFiles, JobRecord, JobTable
from sfumato.serve.refusals import Busy
from sfumato.serve.release_store import Releases, Resources, Storage, new_id, reused
from sfumato.serve.uploads import released_name

#: How long a worker that shows no sign of life keeps a job.
LEASE_SECONDS = 20.0
# Accepting takes an instant; a client that was cut off meanwhile may ask again soon.
_ACCEPTING_SECONDS = 5.0


class JobProblem(BaseModel):
    """Why a job ended without a result."""

    type: str
    detail: str
    retryable: bool = Field(description="Whether the same request may succeed when it is repeated.")
    spent: bool = Field(description="Whether budget was spent all the same.")


class Job(BaseModel):
    """A job; ``result`` has the id of the release, or of the audit, that it made.

    Repeated under its idempotency key it is the same job, and what was spent is not paid again.
    """

    id: str
    kind: Literal["protect", "audit"]
    dataset: str
    state: Literal["queued", "running", "done", "failed", "cancelled"]
    cancelling: bool = Field(description="Whether it was cancelled, and ends at its next step.")
    stage: str | None
    share: float | None = Field(description="How much of the stage is done, from 0 to 1, if that is known.")
    created: str
    ended: str | None
    result: dict[str, Any] | None
    problem: JobProblem | None

    @classmethod
    def of(cls, record: JobRecord) -> Job:
        """Return the job of ``record``; a job that is being accepted is shown as queued."""
        state = "queued" if record.state == "accepted" else record.state
        cancelling = record.cancelled and record.state not in ENDED
        return cls(**(vars(record) | {"state": state, "cancelling": cancelling}))

    def to_dict(self) -> dict[str, Any]:
        """Return JSON values."""
        return self.model_dump()


class Jobs:
    """The jobs of a service with their records, files and payments; the module says what may be done."""

    def __init__(self, resources: Resources, releases: Releases) -> None:
        self.resources, self.releases = resources, releases
        self.table = JobTable(resources.registry)
        self.files = JobFiles(resources.jobs, resources.settings.work)
        self.storage = Storage(resources, self._folders_of)
        #: Set when there may be something to do.
        self.news = Event()

    def _folders_of(self, tenant: str) -> Iterator[Path]:
        for id_, folder in self.files.all():
            record = self.table.get(id_)
            if record is not None and record.tenant == tenant:
                yield folder

    # Accepting

    def new(
        self,
        caller: ApiKey,
        kind: str,
        dataset: str,
        request: str | None,
        asked: Mapping[str, Any],
        files: Sequence[Path],
    ) -> JobRecord:
        """Return a new record of a request, not stored yet."""
        return JobRecord(
            id=new_id(),
            tenant=caller.tenant,
            kind=kind,
            dataset=dataset,
            request=request,
            asked=asked,
            content=self.resources.content_digest(caller.tenant, kind, asked, files),
            created=datetime.now(UTC).isoformat(timespec="microseconds"),
        )

    def submit(self, new: JobRecord, parts: Mapping[str, Sequence[Path]]) -> JobRecord:
        """Accept ``new`` with its files by their parts, hold its price and queue it.

        A repeated request returns the same job; another attempt is made if the last one ended without a
        result and may be repeated.
        """
        before = self._repeated(new, parts)
        if before is not None:
            return before
        if new.kind == "protect":
            self.opened(new, parts["file"][0])  # refuses what cannot be released, before anything is stored
        folder = self.files.store(new.id, parts)
        try:
            accepted = self.table.add(new, f"accepting {secrets.token_hex(8)}", _ACCEPTING_SECONDS)
        except BaseException:
            self.files.remove([folder])
            raise
        if accepted.id != new.id:  # the same request was faster
            self.files.remove([folder])
            return _require_same(accepted, new)
        worker = accepted.worker or ""
        try:
            hold = self.held(accepted)
        except (BadInput, BudgetRefused):
            self.forget(new.id, worker)
            raise
        queued = self.queue(new.id, worker, hold=hold)
        if queued is None:
            self.give_back(replace(accepted, hold=hold))
            raise Busy("accepting the job took too long, and it was given up; retry.")
        return queued

    def _repeated(self, new: JobRecord, parts: Mapping[str, Sequence[Path]]) -> JobRecord | None:
        """Return the job of the same request, or None; raise if its content differs.

        If it has ended and may be repeated, it is queued for another attempt, with the files of ``new``. If
        its price is refused it keeps its ended state.
        """
        before = self.table.of_request(new)
        if before is None and new.kind == "protect" and new.request is not None:
            # An older ledger and registry may both have forgotten a request whose release exists.
            self.releases.read_same(new.tenant, self.release_id(new), new.request, new.content)
        if before is None or not _require_same(before, new).may_be_repeated:
            return before
        again = self.table.reopen(before.id, f"accepting {secrets.token_hex(8)}", _ACCEPTING_SECONDS)
        if again is None:
            raise Busy("the job is being accepted; retry in a moment.")
        worker = again.worker or ""
        self.files.store(again.id, parts)
        try:
            hold = self.held(again)
        except (BadInput, BudgetRefused):
            self.end(again, worker, before.state, problem=before.problem)
            raise
        return self.queue(again.id, worker, hold=hold)

    # Moving a job of a worker

    def queue(self, id_: str, worker: str, **changes: Any) -> JobRecord | None:
        """Queue a job and return it; if somebody took it over, return its present record, if there is one."""
        queued = self.table.queue(id_, worker, **changes)
        self.news.set()
        return queued or self.table.get(id_)

    def end(self, record: JobRecord, worker: str, state: str, **words: Any) -> JobRecord | None:
        """End a job of ``worker`` and remove its files; return None if another worker has it."""
        folders = self.files.of(record.id)  # once it has ended, a repeated request may bring new ones
        ended = self.table.finish(record.id, worker, state, **words)
        if ended is not None:
            self.files.remove(folders)
        return ended

    def fail(
        self, record: JobRecord, worker: str, kind: str, detail: str, *, retryable: bool, spent: bool
    ) -> None:
        """End a job of ``worker`` without a result."""
        problem = JobProblem(type=kind, detail=detail, retryable=retryable, spent=spent)
        self.end(record, worker, "failed", problem=problem.model_dump())

    def end_cancelled(self, record: JobRecord, worker: str) -> JobRecord:
        """End a job of ``worker`` that is to be cancelled."""
        returned = self.give_back(record)
        if record.kind == "protect" and not returned:
            self.releases.discard(record.tenant, self.release_id(record))
        if returned:
            detail = "the job was cancelled before it drew anything; its price was given back."
        else:
            also = " and pays for the same request under the same key" if record.request else ""
            detail = f"the job was cancelled after it had begun to draw; its price is spent{also}."
        problem = JobProblem(type="cancelled", detail=detail, retryable=True, spent=not returned)
        return self.end(record, worker, "cancelled", problem=problem.model_dump()) or record

    def forget(self, id_: str, worker: str) -> None:
        """Drop a job of ``worker`` as if it had never been; one that others took over is left to them."""
        folders = self.files.of(id_)
        if self.table.drop(id_, worker):
            self.files.remove(folders)

    def cancel(self, id_: str) -> JobRecord:
        """Cancel a job that has not ended; a running job ends at its next report of progress.

        Before it began to draw, its price is returned; afterwards it stays spent, and nothing is released.
        """
        worker = f"cancelling {secrets.token_hex(8)}"
        marked = self.table.cancel(id_, worker, LEASE_SECONDS)
        assert marked is not None  # jobs that were shown are never forgotten
        self.news.set()
        return self.end_cancelled(marked, worker) if marked.worker == worker else marked

    def sweep(self) -> None:
        """Remove the files of jobs that have ended or were never stored."""
        for id_, folder in self.files.all():
            found = self.table.get(id_)
            if self.files.is_abandoned(folder) if found is None else found.state in ENDED:
                self.files.remove([folder])

    # Payment and release

    def opened(self, record: JobRecord, file: Path, report: Report = silent) -> HeldFile:
        """Open ``file`` for the operation that the job requests; it may not be stored yet."""
        asked, noise = ReleaseRequest.from_dict(record.asked), None
        if record.request is not None:
            name = ledger_name(record.tenant, record.dataset)
            noise = self.resources.noise_of_request(name, record.request)
        return HeldFile(file, asked, name=released_name(file), noise=noise, report=report)

    def opened_file(self, record: JobRecord, report: Report = silent) -> tuple[HeldFile, Path]:
        """Open the stored file of a release, and return it with its path."""
        file = self.files.find(record.id, "file")
        if file is None:
            raise BadInput("the file of the job is not stored any more; send it again.")
        return self.opened(record, file, report), file

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

    def held(self, record: JobRecord) -> int | None:
        """Return the hold that pays for the present attempt: the one that paid before, or a new one.

        A repeated call returns the same hold. An audit costs nothing.
        """
        if record.kind != "protect" or record.hold is not None:
            return record.hold
        opened, file = self.opened_file(record)
        return opened.set_aside(self.payment(record, file)).number

    def give_back(self, record: JobRecord) -> bool:
        """Give the hold of the present attempt back to the budget; return False if it was committed."""
        if record.hold is None:
            return True
        try:
            self.resources.ledger.release_hold(ledger_name(record.tenant, record.dataset), record.hold)
        except BadInput:  # settled by a commit: the ledger decides
            return False
        return True

    def release_id(self, record: JobRecord) -> str:
        """Return the id of the release that the job makes."""
        if record.request is None:
            return record.id
        return self.releases.id_of_request(record.tenant, record.dataset, record.request)


def _hold_key(record: JobRecord) -> str:
    """Return the ledger key of the attempt's hold; the first attempt of a request has the request's own."""
    if record.request is None:
        return f"job {record.id} attempt {record.attempt}"
    return record.request if record.attempt == 1 else f"{record.request} attempt {record.attempt}"


def _require_same(before: JobRecord, new: JobRecord) -> JobRecord:
    if before.content != new.content:
        raise reused(new.request)
    if before.state == "accepted":
        raise Busy("the job is being accepted; retry in a moment.")
    return before
