"""Jobs: work that outlives its request, and is paid for before it draws.

States, and who moves a job from one to the next::

    accepted ──► queued ──► running ──► done
       │           ▲  │        │ ├────► failed
       │           └──│────────┘ └────► cancelled
       ▼              └────► running, to be cancelled
    forgotten

A job that failed or was cancelled is *accepted* once more when its request comes again and its problem says
that it may (``retryable``).

*accepted*: its files and its record are on disk, its price is not yet set aside. *queued*: its price is a
hold in the ledger. *running*: a worker has it in hand, and shows by a lease in the record that it lives.
Whoever has a job in hand (the one that accepts it, a worker, the one that cancels a queued job, or the
janitor, who takes over what has a lapsed lease) moves it; a move by anybody else changes nothing.

Each **attempt** at a job has a hold of its own, under a ledger key of its own. What a worker does::

    check all of the file ─► (lease still ours?) ─► commit the hold ─► draw ─► publish ─► done

Money goes by the ledger alone, where a hold is settled once and for ever, by a commit or by being given back,
whichever is first; both are durable. From that:

1. *No release is unpaid.* Noise is drawn in one place, after the commit of the attempt's hold has returned.
2. *No hold that drew is returned.* To draw, the hold was committed; the ledger then refuses to give it back.
   Whoever gives a hold back (cancelling, a failed check, the janitor) only tries to, and believes the ledger:
   where that refuses, the attempt is spent.
3. *A worker that lost its lease draws nothing new.* The janitor gave its hold back before it let anybody else
   begin, so the worker's commit is refused; or the commit came first, and the janitor's return is refused.
4. *Nothing is paid for once and drawn twice.* An attempt whose hold is not settled goes back to the queue
   only by its own worker, which then does nothing more with it; one that the janitor takes gets a new hold.
   An attempt that was committed is worked on again only where its noise is keyed: the hold's row commits to
   the content and the parameters, so the same noise falls on the same file and gives the same bytes. With
   fresh noise it fails instead, and stays spent. So it is with a repeated request: where its job had spent
   nothing, it is a new attempt with a new hold; where it had, the commit of before pays for the same bytes.
5. *No two contents share noise.* Keyed noise is named by the client's idempotency key. The first hold has
   this very key in the ledger, and no other entry ever has: a spend, another job or other content under it
   is refused, also after the hold was given back. Later attempts are of the same job, whose files never
   change and are compared with the hold's row before each commit.

Before its record is on disk a job does not exist; from then on its hold is found by its key. So whenever a
process is killed, the janitor of any other finds the job, learns from the ledger what happened, and goes on.
Files are removed when the job has ended, results stay; a repeated request brings its files again.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from sfumato.errors import BadInput
from sfumato.ledger import BudgetRefused
from sfumato.serve.auth.access_rules import NotFound, is_id, known, require
from sfumato.serve.auth.callers import Caller
from sfumato.serve.jobs.job_store import LEASE_SECONDS, KeptJobs
from sfumato.serve.jobs.job_table import ENDED, JobRecord
from sfumato.serve.registry_errors import Busy
from sfumato.serve.release_request import Asked

__all__ = ["Job", "Jobs"]

_OPERATIONS: Mapping[str, str] = {"protect": "protect", "audit": "audit"}


@dataclass(frozen=True)
class Job:
    """A job as its tenant sees it.

    ``state`` is queued, running, done, failed or cancelled; one that is ``cancelling`` ends at its next step.
    ``share`` of its ``stage`` is done, None where nobody knows. ``result`` names what it made. ``problem``
    has the ``type`` and ``detail`` of an error, whether the same may be asked for again (``retryable``), and
    whether budget was spent (``spent``). Asked for again under its idempotency key it is the same job, and
    what was spent is not paid again.
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
        """The job that ``record`` keeps; one that is being accepted is as good as queued."""
        shown = {name: getattr(record, name) for name in cls.__dataclass_fields__ if name != "cancelling"}
        shown["state"] = "queued" if record.state == "accepted" else record.state
        return cls(cancelling=record.cancelled and record.state not in ENDED, **shown)

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return asdict(self)


class Jobs:
    """What clients ask about jobs; a runner works on them."""

    def __init__(self, kept: KeptJobs) -> None:
        self._kept = kept

    def submit(
        self, caller: Caller, asked: Asked, file: Path, dataset: str, request: str | None
    ) -> JobRecord:
        """Accept the release of ``file`` and set its price aside.

        A repeated ``request`` is the same job, of which another attempt is made where the last one ended
        without a result and may be repeated.
        """
        known(self._kept.resources.ledger, caller, "protect", dataset)
        new = self._kept.new(caller, "protect", dataset, request, asdict(asked), [file])

        def take(folder: Path) -> None:
            self._kept.files.take(folder, "file", file)

        before = self._kept.repeated(new, take)
        if before is not None:
            return before
        opened = self._kept.opened(new, file)  # refuses what cannot be released, before anything is kept
        payment = self._kept.payment(new, file)
        accepted = self._kept.accepted(new, take)
        if accepted.id != new.id:
            return accepted
        worker = accepted.worker or ""
        try:
            hold = opened.hold(payment).number
        except (BadInput, BudgetRefused):
            self._kept.forgotten(new.id, worker)
            raise
        queued = self._kept.queued(new.id, worker, hold=hold)
        if queued is None:
            self._kept.returned(replace(accepted, hold=hold))
            raise Busy("accepting the job took too long, and it was given up; ask again.")
        return queued

    def one(self, caller: Caller, id_: str) -> JobRecord:
        """A job that the caller may see."""
        found = self._kept.table.get(id_) if is_id(id_) else None
        if found is None or found.tenant != caller.tenant or not caller.may("read", found.dataset):
            raise NotFound(f"there is no job {id_[:40]!r}.")
        return found

    def page(self, caller: Caller, limit: int, cursor: str | None) -> list[Job]:
        """At most ``limit`` jobs that the caller may see, newest first, after that of id ``cursor``."""
        require(caller, "read", None)
        page: list[Job] = []
        while rows := self._kept.table.newest(caller.tenant, cursor):
            page += [Job.of(row) for row in rows if caller.may("read", row.dataset)]
            if len(page) >= limit:
                break
            cursor = rows[-1].id
        return page[:limit]

    def cancel(self, caller: Caller, id_: str) -> JobRecord:
        """Cancel a job that has not ended; one that is worked on ends at its next sign of progress.

        Before it began to draw its price is given back; afterwards it stays spent, and nothing is released.
        """
        found = self.one(caller, id_)
        require(caller, _OPERATIONS[found.kind], found.dataset)
        me = f"cancelling {secrets.token_hex(8)}"
        marked = self._kept.table.cancel(id_, me, LEASE_SECONDS)
        assert marked is not None  # jobs that were shown are never forgotten
        self._kept.news.set()
        return self._kept.cancelled(marked, me) if marked.worker == me else marked
