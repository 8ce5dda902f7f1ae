"""Jobs, audits and reports, one method for each operation."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

from sfumato.errors import BadInput
from sfumato.reports import certificate_file
from sfumato.serve.auth.callers import Caller
from sfumato.serve.grpc import grpc_messages as made
from sfumato.serve.grpc import sfumato_pb2 as pb
from sfumato.serve.grpc.call_base import CALLER, CHUNK, Calls, idempotency_key
from sfumato.serve.grpc.grpc_uploads import asked_first, uploaded, uploaded_parts
from sfumato.serve.request_files import MOST_WORDS

__all__ = ["JobCalls"]


class JobCalls(Calls):
    """The operations on jobs and evidence."""

    async def Submit(self, request_iterator: AsyncIterator[pb.FilePart], context: Any) -> pb.Job:
        """Release a file as a job."""
        caller = CALLER.get()
        key = idempotency_key(context)
        file = await asked_first(request_iterator, self._seconds)
        asked = made.asked_of(file.asked)
        with ExitStack() as brought:
            place = await uploaded(self._service, file.name, request_iterator, self._seconds, brought)
            work = partial(self._service.submit, caller, asked, place, file.dataset, request=key)
            return made.job_message(await self._service.direct.done(caller.tenant, work, brought.pop_all()))

    async def SubmitAudit(self, request_iterator: AsyncIterator[pb.AuditPart], context: Any) -> pb.Job:
        """Attack a release as a job."""
        caller = CALLER.get()
        key = idempotency_key(context)
        first = await asked_first(request_iterator, self._seconds, "asked")
        asked = made.asked_audit(first)
        with ExitStack() as brought:
            files = await uploaded_parts(self._service, request_iterator, self._seconds, brought)
            if "original" not in files:
                raise BadInput("no file original came, which the release was made from.")
            if "labels_file" in files and asked.labels is not None:
                raise BadInput("`labels` are named or sent as labels_file, not both.", parameter="labels")
            released, certificate = await self._done(self._attacked, caller, first, files)
            work = partial(
                self._service.submit_audit,
                caller,
                files["original"],
                released,
                first.dataset,
                certificate=certificate,
                labels=files.get("labels_file", asked.labels),
                nonmembers=files.get("nonmembers"),
                array=asked.array,
                columns=asked.columns,
                confidence=asked.confidence,
                seed=asked.seed,
                request=key,
            )
            return made.job_message(await self._service.direct.done(caller.tenant, work, brought.pop_all()))

    async def ListJobs(self, request: pb.ListJobsRequest, context: Any) -> AsyncIterator[pb.Job]:
        """A page of jobs."""
        caller = CALLER.get()
        for one in await self._done(self._service.jobs, caller, **made.page_of(request)):
            yield made.job_message(one)

    async def GetJob(self, request: pb.JobRequest, context: Any) -> pb.Job:
        """How a job stands."""
        caller = CALLER.get()
        return made.job_message(await self._done(self._service.job, caller, request.id))

    async def CancelJob(self, request: pb.JobRequest, context: Any) -> pb.Job:
        """Cancel a job."""
        caller = CALLER.get()
        return made.job_message(await self._done(self._service.cancel, caller, request.id))

    async def GetAudit(self, request: pb.AuditRequest, context: Any) -> pb.Document:
        """What an audit found."""
        caller = CALLER.get()
        return made.document(await self._done(self._service.audit, caller, request.id))

    async def GetReport(self, request: pb.ReportRequest, context: Any) -> AsyncIterator[pb.Chunk]:
        """The report of a release or of an audit."""
        caller = CALLER.get()
        page = await self._done(self._service.report_page, caller, request.id)
        for start in range(0, len(page), CHUNK):
            yield pb.Chunk(chunk=page[start : start + CHUNK])

    def _attacked(self, caller: Caller, first: Any, files: dict[str, Path]) -> tuple[Path, Path | None]:
        """What is attacked and its certificate: a release that is here, or what was sent."""
        sent = "released" in files
        if first.HasField("release"):
            if sent or first.HasField("certificate_json"):
                raise BadInput("the release is named and sent; once is enough.")
            file = self._service.content(caller, first.release).file
            return file, certificate_file(file)
        if not sent:
            raise BadInput("no file released came, which is what is attacked; send it or name a release.")
        file = files["released"]
        if not first.HasField("certificate_json"):
            return file, None
        if len(first.certificate_json) > MOST_WORDS:
            raise BadInput(f"the certificate is longer than {MOST_WORDS:,} characters.")
        beside = certificate_file(file)
        beside.write_text(first.certificate_json, "utf-8")
        return file, beside
