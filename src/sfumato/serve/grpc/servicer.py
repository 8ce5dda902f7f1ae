"""The gRPC methods, one for each operation of the service, and the conversion of their messages.

Every call authenticates its caller, works in a thread, and has a deadline of our own, because clients may set
none. A streamed upload is one message that describes the request, then the file in chunks. Messages are made
of the values that REST answers with, by the names of their fields.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping, MutableSequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, asynccontextmanager, suppress
from contextvars import ContextVar, copy_context
from functools import partial
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import unquote

from google.protobuf.message import Message  # type: ignore[import-untyped]

from sfumato.errors import BadInput
from sfumato.release import ReleaseRequest
from sfumato.reports import certificate_file
from sfumato.serve.authentication import Caller, address_behind
from sfumato.serve.grpc import sfumato_pb2 as pb
from sfumato.serve.grpc.sfumato_pb2_grpc import SfumatoServicer
from sfumato.serve.jobs.sync_executor import LATE_PLAN, late_release
from sfumato.serve.proxy.buckets import NewBucket, NewReader, shown
from sfumato.serve.reader_tiers import ReaderFacts
from sfumato.serve.release_store import Release
from sfumato.serve.request_files import MOST_WORDS, TooSlow, direct_limit, file_name, for_jobs, written
from sfumato.serve.request_models import AuditDescription, Description, NewBudget, NewKey, NewPolicy, checked
from sfumato.serve.service import Service
from sfumato.serve.trust_policy import Policy

#: How much of a file is sent at once.
CHUNK = 256 << 10
#: Who makes the call that goes on, if it needs a key.
CALLER: ContextVar[Caller] = ContextVar("caller")
_LONGEST_KEY = 128
_Result = TypeVar("_Result")
_Message = TypeVar("_Message", bound=Message)
_PARTS = ("original", "released", "nonmembers", "labels_file")


@asynccontextmanager
async def within(seconds: float, sentence: str) -> AsyncIterator[None]:
    """Raise with ``sentence`` if the block takes longer than ``seconds``."""
    scope = asyncio.timeout(seconds)
    try:
        async with scope:
            yield
    except TimeoutError:
        if not scope.expired():
            raise
        raise TooSlow(sentence) from None


async def finished(
    threads: ThreadPoolExecutor, function: Callable[..., _Result], *arguments: Any, **words: Any
) -> _Result:
    """Run ``function`` in one of ``threads`` and return its result.

    If the caller goes away meanwhile, this still waits until the function has ended: a thread cannot be
    stopped, and its private file exists only until the call ends.
    """
    # With the call's own context, in which what is noted for its line in the log finds it.
    work = partial(copy_context().run, function, *arguments, **words)
    job = asyncio.get_running_loop().run_in_executor(threads, work)
    try:
        return await asyncio.shield(job)
    except asyncio.CancelledError:
        while not job.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait([job])
        raise


def values_of(message: Any) -> dict[str, Any]:
    """Return the fields that ``message`` has; a field ``x_json`` is returned as ``x``, parsed."""
    found: dict[str, Any] = {}
    for field in message.DESCRIPTOR.fields:
        if field.has_presence and not message.HasField(field.name):
            continue
        value = getattr(message, field.name)
        if isinstance(value, pb.Names):
            value = list(value.names)
        elif isinstance(value, MutableSequence):
            value = list(value)
        elif field.name.endswith("_json"):
            value = parsed(field.name, value)
        found[field.name.removesuffix("_json")] = value
    return found


def message_of(kind: type[_Message], values: Any) -> _Message:
    """Return the message of ``values``, a mapping or what makes one; a field ``x_json`` is ``x`` as JSON."""
    given = values if isinstance(values, Mapping) else values.to_dict()
    fields: dict[str, Any] = {}
    for field in kind.DESCRIPTOR.fields:
        value = given[field.name.removesuffix("_json")]
        if value is not None and field.name.endswith("_json"):
            value = json.dumps(value)
        elif value is not None and field.message_type is pb.Names.DESCRIPTOR:
            value = pb.Names(names=value)
        fields[field.name] = value
    made: _Message = kind(**fields)
    return made


def document(found: Any) -> pb.Document:
    """Return the message of a JSON document."""
    return pb.Document(json=json.dumps(found))


def parsed(what: str, text: str) -> Any:
    """Return the JSON values of ``text``, which is called ``what`` in a refusal."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise BadInput(f"{what} is not JSON.") from None


def asked_of(described: Any) -> ReleaseRequest:
    """Return the request in a Description message."""
    parameters = {name: _parameter(name, value) for name, value in described.parameters.items()}
    fields = values_of(described) | {"parameters": parameters}
    return checked("asked", Description, fields).request()


def _parameter(name: str, parameter: Any) -> Any:
    kind = parameter.WhichOneof("value")
    if kind is None:
        raise BadInput(f"`{name}` must be a number, a word or a list of numbers.", parameter=name)
    if kind == "json":
        return parsed(f"`{name}`", parameter.json)
    return list(parameter.numbers.numbers) if kind == "numbers" else getattr(parameter, kind)


class Calls:
    """Calls to ``service``, which run in ``threads``; an upload must be complete within ``seconds``."""

    def __init__(self, service: Service, threads: ThreadPoolExecutor, seconds: float) -> None:
        self._service, self._threads, self._seconds = service, threads, seconds

    async def asking(self, context: Any) -> Caller:
        """Return the caller, authenticated by the key in the call's metadata."""
        authorization, address = _metadata(context, "authorization"), self._address(context)
        return await self._done(self._service.authenticate, authorization, address)

    def _address(self, context: Any) -> str | None:
        """Return the network address of the caller."""
        # A proxy may add a line of its own after those that came: the last of all is the one it wrote.
        forwarded = ",".join(_all_metadata(context, "x-forwarded-for")) or None
        return address_behind(address_of_peer(context.peer()), forwarded, self._service.settings.trusted)

    async def _done(self, function: Callable[..., _Result], *arguments: Any, **words: Any) -> _Result:
        return await finished(self._threads, function, *arguments, **words)

    async def _asked(self, work: Callable[..., _Result], *arguments: Any, **words: Any) -> _Result:
        """Run an operation of the service for the caller, and return its result."""
        return await self._done(work, CALLER.get(), *arguments, **words)

    async def _uploaded(
        self,
        parts: AsyncIterator[Any],
        prepare: Callable[[Any], Callable[[Path], _Result]],
        *,
        late: str | None = None,
    ) -> _Result:
        """Run the work that ``prepare`` returns for the first of ``parts`` on the file that follows it.

        With ``late``, as in :meth:`Direct.done`, the call has the limits of a synchronous one.
        """
        file = await asked_first(parts, self._seconds)
        work = prepare(file)  # refuses what is malformed before the file is read
        with ExitStack() as brought:
            place = await uploaded(
                self._service, file.name, parts, self._seconds, brought, direct=late is not None
            )
            done, tenant = partial(work, place), CALLER.get().tenant
            return await self._service.direct.done(tenant, done, brought.pop_all(), late=late)

    async def _parts(self, release: Release) -> AsyncIterator[pb.ReleasedPart]:
        with open(release.file, "rb") as file:
            yield pb.ReleasedPart(release=message_of(pb.Release, release))
            while chunk := await self._done(file.read, CHUNK):
                yield pb.ReleasedPart(chunk=chunk)


def address_of_peer(peer: str) -> str | None:
    """Return the network address in a gRPC peer, as in ipv4:192.0.2.1:4711 or ipv6:%5B::1%5D:4711."""
    kind, _, rest = unquote(peer).partition(":")
    return rest.rpartition(":")[0].strip("[]") if kind in ("ipv4", "ipv6") else None


def _all_metadata(context: Any, name: str) -> list[str]:
    return [value for key, value in context.invocation_metadata() or () if key == name]


def _metadata(context: Any, name: str) -> str | None:
    return next(iter(_all_metadata(context, name)), None)


def idempotency_key(context: Any) -> str | None:
    """Return the idempotency key of a call, or None."""
    key = _metadata(context, "idempotency-key")
    if key is not None and not 1 <= len(key) <= _LONGEST_KEY:
        raise BadInput(f"an idempotency-key has 1 to {_LONGEST_KEY} characters.")
    return key


async def asked_first(parts: AsyncIterator[Any], seconds: float, part: str = "file") -> Any:
    """Return the first of ``parts``, which describes the request; it must arrive within ``seconds``."""
    async with within(seconds, "nothing came; begin with the message that says what is asked."):
        first = await anext(parts, None)
    if first is None or first.WhichOneof("part") != part:
        raise BadInput(f"the first message of the stream must be {part}, which says what is asked.")
    return getattr(first, part)


async def uploaded(
    service: Service,
    name: str,
    parts: AsyncIterator[Any],
    seconds: float,
    brought: ExitStack,
    *,
    direct: bool = False,
) -> Path:
    """Write the rest of ``parts`` to a file called ``name`` and return its path; ``brought`` removes it.

    The limit is lower if the call waits for the work on the file (``direct``).
    """
    limit = direct_limit(service.settings) if direct else service.settings.body_bytes
    place = brought.enter_context(service.body(file_name(name)))
    with for_jobs(limit, service.settings):
        async with within(seconds, f"the file did not come within {seconds:.0f} seconds; send it again."):
            await written(_chunks(parts), place, limit)
    return place


async def _chunks(parts: AsyncIterator[Any]) -> AsyncIterator[bytes]:
    async for part in parts:
        if part.WhichOneof("part") != "chunk":
            raise BadInput("all messages of the stream after the first must be chunks of the file.")
        yield part.chunk


async def uploaded_parts(
    service: Service, parts: AsyncIterator[Any], seconds: float, brought: ExitStack
) -> dict[str, Path]:
    """Write the files in the rest of ``parts`` and return their paths by part; ``brought`` removes them."""
    files: dict[str, Path] = {}
    left = service.settings.body_bytes
    folder = brought.enter_context(service.folder())
    async with within(seconds, f"the files did not come within {seconds:.0f} seconds; send them again."):
        part = await anext(parts, None)
        while part is not None:
            place = _place(part, folder, files)
            chunks = _OneFile(parts)
            await written(chunks, place, left)
            left -= place.stat().st_size
            part = chunks.next
    return files


def _place(part: Any, folder: Path, files: dict[str, Path]) -> Path:
    """Return the path for the file that ``part`` begins."""
    if part.WhichOneof("part") != "file" or part.file.part not in _PARTS or part.file.part in files:
        raise BadInput(f"after what is asked come files, each begun by its part: {', '.join(_PARTS)}.")
    own = folder / part.file.part
    own.mkdir(mode=0o700)
    files[part.file.part] = own / file_name(part.file.name)
    return files[part.file.part]


class _OneFile:
    """The chunks of one file of several; ``next`` is the message that begins the following file."""

    def __init__(self, parts: AsyncIterator[Any]) -> None:
        self._parts, self.next = parts, None

    def __aiter__(self) -> _OneFile:
        return self

    async def __anext__(self) -> bytes:
        part = await anext(self._parts, None)
        if part is None or part.WhichOneof("part") == "file":
            self.next = part
            raise StopAsyncIteration
        if part.WhichOneof("part") != "chunk":
            raise BadInput("what is asked comes once, before all files.")
        chunk: bytes = part.chunk
        return chunk


class Servicer(Calls, SfumatoServicer):
    """All methods of the service."""

    async def Me(self, request: pb.MeRequest, context: Any) -> pb.Caller:
        """Return the caller."""
        return message_of(pb.Caller, CALLER.get())

    # Budgets

    async def OpenBudget(self, request: pb.NewBudget, context: Any) -> pb.Budget:
        """Open a budget."""
        new = checked("the budget", NewBudget, values_of(request))
        return message_of(pb.Budget, await self._asked(self._service.open_budget, **new.model_dump()))

    async def ListBudgets(self, request: pb.ListBudgetsRequest, context: Any) -> AsyncIterator[pb.Budget]:
        """List the budgets that the key may see."""
        for one in await self._asked(self._service.budgets):
            yield message_of(pb.Budget, one)

    async def GetBudget(self, request: pb.DatasetRequest, context: Any) -> pb.Budget:
        """Return what a dataset may still spend."""
        return message_of(pb.Budget, await self._asked(self._service.budget, request.dataset))

    async def ListHistory(self, request: pb.DatasetRequest, context: Any) -> AsyncIterator[pb.Document]:
        """List every entry of a budget, oldest first."""
        for one in await self._asked(self._service.history, request.dataset):
            yield document(one)

    # Releases

    async def Plan(self, request_iterator: AsyncIterator[pb.FilePart], context: Any) -> pb.Document:
        """Return what a release would guarantee and cost."""
        work = self._releasing(self._service.plan)
        return document(await self._uploaded(request_iterator, work, late=LATE_PLAN))

    async def Protect(
        self, request_iterator: AsyncIterator[pb.FilePart], context: Any
    ) -> AsyncIterator[pb.ReleasedPart]:
        """Release a file."""
        key = idempotency_key(context)
        work = self._releasing(self._service.protect, request=key)
        done = await self._uploaded(request_iterator, work, late=late_release(key))
        async for part in self._parts(done):
            yield part

    async def ListReleases(self, request: pb.ListReleasesRequest, context: Any) -> AsyncIterator[pb.Release]:
        """Return a page of releases."""
        for one in await self._asked(self._service.releases, **values_of(request)):
            yield message_of(pb.Release, one)

    async def GetRelease(self, request: pb.ReleaseRequest, context: Any) -> pb.Release:
        """Return one release."""
        return message_of(pb.Release, await self._asked(self._service.release, request.id))

    async def GetContent(self, request: pb.ReleaseRequest, context: Any) -> AsyncIterator[pb.ReleasedPart]:
        """Return one release and its file."""
        async for part in self._parts(await self._asked(self._service.content, request.id)):
            yield part

    async def DeleteRelease(self, request: pb.ReleaseRequest, context: Any) -> pb.Release:
        """Delete the file of a release."""
        return message_of(pb.Release, await self._asked(self._service.delete_release, request.id))

    async def GetCertificate(self, request: pb.ReleaseRequest, context: Any) -> pb.Document:
        """Return the certificate of a release."""
        beside = certificate_file((await self._asked(self._service.release, request.id)).file)
        return pb.Document(json=await self._done(beside.read_text, "utf-8"))

    async def Verify(
        self, request_iterator: AsyncIterator[pb.CertifiedPart], context: Any
    ) -> pb.Verification:
        """Verify a file against its certificate."""
        caller = CALLER.get()

        def prepared(file: pb.CertifiedFile) -> Callable[[Path], dict[str, Any]]:
            if len(file.certificate_json) > MOST_WORDS:
                raise BadInput(f"the certificate is longer than {MOST_WORDS:,} characters.")

            def verified(place: Path) -> dict[str, Any]:
                certificate_file(place).write_text(file.certificate_json, "utf-8")
                return self._service.verified(caller, place)

            return verified

        found = await self._uploaded(request_iterator, prepared)
        return pb.Verification(holds=found["holds"], json=json.dumps(found))

    async def GetSigningKey(self, request: pb.GetSigningKeyRequest, context: Any) -> pb.SigningKey:
        """Return the public key that verifies certificates."""
        return pb.SigningKey(pem=self._service.signing_key)

    def _releasing(self, work: Callable[..., Any], **words: Any) -> Callable[[Any], Callable[[Path], Any]]:
        """Return what prepares ``work``, an operation on a file that is to be released."""
        caller = CALLER.get()

        def prepared(file: pb.AskedFile) -> Callable[[Path], Any]:
            asked: ReleaseRequest = asked_of(file.asked)
            return lambda place: work(caller, asked, place, file.dataset, **words)

        return prepared

    # Jobs, audits and reports

    async def Submit(self, request_iterator: AsyncIterator[pb.FilePart], context: Any) -> pb.Job:
        """Accept the release of a file as a job."""
        work = self._releasing(self._service.submit, request=idempotency_key(context))
        return message_of(pb.Job, await self._uploaded(request_iterator, work))

    async def SubmitAudit(self, request_iterator: AsyncIterator[pb.AuditPart], context: Any) -> pb.Job:
        """Accept an audit of a release as a job."""
        caller, key, service = CALLER.get(), idempotency_key(context), self._service
        first = await asked_first(request_iterator, self._seconds, "asked")
        certificate = first.certificate_json if first.HasField("certificate_json") else None
        first.ClearField("certificate_json")  # a text, whose bytes were signed
        given = values_of(first)
        dataset, release = given.pop("dataset"), given.pop("release", None)
        asked = checked("asked", AuditDescription, given)
        with ExitStack() as brought:
            sent = await uploaded_parts(service, request_iterator, self._seconds, brought)
            files = await self._asked(service.audited_files, sent, release, certificate)
            work = partial(service.submit_audit, caller, asked, files, dataset, request=key)
            return message_of(pb.Job, await service.direct.done(caller.tenant, work, brought.pop_all()))

    async def ListJobs(self, request: pb.ListJobsRequest, context: Any) -> AsyncIterator[pb.Job]:
        """Return a page of jobs."""
        for one in await self._asked(self._service.jobs, **values_of(request)):
            yield message_of(pb.Job, one)

    async def GetJob(self, request: pb.JobRequest, context: Any) -> pb.Job:
        """Return the state of a job."""
        return message_of(pb.Job, await self._asked(self._service.job, request.id))

    async def CancelJob(self, request: pb.JobRequest, context: Any) -> pb.Job:
        """Cancel a job."""
        return message_of(pb.Job, await self._asked(self._service.cancel, request.id))

    async def GetAudit(self, request: pb.AuditRequest, context: Any) -> pb.Document:
        """Return the evidence of an audit."""
        return document(await self._asked(self._service.audit, request.id))

    async def GetReport(self, request: pb.ReportRequest, context: Any) -> AsyncIterator[pb.Chunk]:
        """Return the report of a release or of an audit."""
        page = await self._asked(self._service.report_page, request.id)
        for start in range(0, len(page), CHUNK):
            yield pb.Chunk(chunk=page[start : start + CHUNK])

    # Keys and the policy of the tenant

    async def ListKeys(self, request: pb.ListKeysRequest, context: Any) -> AsyncIterator[pb.Key]:
        """List the keys of the tenant."""
        for one in await self._asked(self._service.keys_of):
            yield message_of(pb.Key, one)

    async def MakeKey(self, request: pb.NewKey, context: Any) -> pb.MadeKey:
        """Create a key."""
        new = checked("the key", NewKey, values_of(request))
        key, token = await self._asked(self._service.make_key, **new.model_dump())
        return pb.MadeKey(key=message_of(pb.Key, key), token=token)

    async def RevokeKey(self, request: pb.KeyRequest, context: Any) -> pb.Key:
        """Revoke a key."""
        return message_of(pb.Key, await self._asked(self._service.revoke_key, request.id))

    async def GetPolicy(self, request: pb.GetPolicyRequest, context: Any) -> pb.Policy:
        """Return the tenant's trust policy."""
        return message_of(pb.Policy, await self._asked(self._service.policy))

    async def SetPolicy(self, request: pb.NewPolicy, context: Any) -> pb.Policy:
        """Replace the trust policy."""
        new = checked("the policy", NewPolicy, values_of(request))
        policy = Policy.from_dict(new.policy)
        return message_of(pb.Policy, await self._asked(self._service.set_policy, policy, new.after))

    # Buckets, readers and access keys

    async def DeclareBucket(self, request: pb.Document, context: Any) -> pb.Document:
        """Declare a bucket."""
        new = checked("the bucket", NewBucket, parsed("json", request.json))
        return document((await self._asked(self._service.buckets.declare, new)).to_dict())

    async def ListBuckets(self, request: pb.ListBucketsRequest, context: Any) -> AsyncIterator[pb.Document]:
        """List the buckets that the key may read."""
        caller = CALLER.get()
        for one in await self._asked(self._service.buckets.buckets):
            yield document(shown(one, caller))

    async def GetBucket(self, request: pb.BucketRequest, context: Any) -> pb.Document:
        """Return one bucket."""
        caller = CALLER.get()
        return document(shown(await self._asked(self._service.buckets.bucket, request.name), caller))

    async def GetTier(self, request: pb.BucketRequest, context: Any) -> pb.Tier:
        """Return the tier of the caller."""
        bucket = await self._asked(self._service.buckets.bucket, request.name, "tier")
        level = await self._asked(self._service.buckets.level, bucket, self._address(context))
        return pb.Tier(tier=level, tiers=list(bucket.tiers.levels))

    async def RemoveBucket(self, request: pb.BucketRequest, context: Any) -> pb.Document:
        """Remove a bucket, which can be read no longer."""
        return document((await self._asked(self._service.buckets.remove, request.name)).to_dict())

    async def ListReaders(self, request: pb.ListReadersRequest, context: Any) -> AsyncIterator[pb.Reader]:
        """List the facts about the tenant's readers."""
        for reader, facts in (await self._asked(self._service.buckets.readers)).items():
            yield pb.Reader(reader=reader, **facts.to_dict())

    async def SayOfReader(self, request: pb.Reader, context: Any) -> pb.Reader:
        """Set the facts about a reader."""
        given = values_of(request)
        reader = given.pop("reader")
        facts = checked("the reader", NewReader, given).facts()
        await self._asked(self._service.buckets.say, reader, facts)
        return pb.Reader(reader=reader, **facts.to_dict())

    async def ForgetReader(self, request: pb.ReaderRequest, context: Any) -> pb.Reader:
        """Remove the facts about a reader."""
        await self._asked(self._service.buckets.say, request.reader, None)
        return pb.Reader(reader=request.reader, **ReaderFacts().to_dict())

    async def GetAccessKey(self, request: pb.KeyRequest, context: Any) -> pb.AccessKey:
        """Return the access key of a key."""
        found, secret = await self._asked(self._service.buckets.access_key, request.id)
        return pb.AccessKey(access_key_id=found.id, secret_access_key=secret, path="/s3")
