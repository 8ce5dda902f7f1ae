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
from pydantic import BaseModel

from sfumato.errors import BadInput
from sfumato.release import ReleaseRequest
from sfumato.serve.authentication import ApiKey, address_behind
from sfumato.serve.grpc import sfumato_pb2 as pb
from sfumato.serve.grpc.stub import SERVICE
from sfumato.serve.jobs.audit_jobs import AUDIT_FILES, AuditDescription
from sfumato.serve.proxy.buckets import NewBucket
from sfumato.serve.reader_tiers import ReaderFacts
from sfumato.serve.refusals import TooSlow
from sfumato.serve.release_store import StoredRelease
from sfumato.serve.service import Description, NewBudget, NewKey, NewPolicy, Service, checked
from sfumato.serve.uploads import LATE_PLAN, MOST_WORDS, file_name, late_release, written

#: The bytes of a file in one message of an answer.
CHUNK = 256 << 10
#: The caller of the present call, if its method needs a key.
CALLER: ContextVar[ApiKey] = ContextVar("caller")
_LONGEST_KEY = 128
_Result = TypeVar("_Result")
_Message = TypeVar("_Message", bound=Message)


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


async def finished(threads: ThreadPoolExecutor, function: Callable[..., _Result], *arguments: Any) -> _Result:
    """Run ``function`` in one of ``threads`` and return its result.

    If the caller goes away meanwhile, this still waits until the function has ended: a thread cannot be
    stopped, and its private file exists only until the call ends.
    """
    # The context of the call, by which log fields find its line.
    job = asyncio.get_running_loop().run_in_executor(threads, copy_context().run, function, *arguments)
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
    """Return the message of ``values``, a mapping or an object with ``to_dict``.

    A field ``x_json`` is ``x`` as JSON. A Document is the JSON of all values; a text is JSON already.
    """
    if kind is pb.Document:
        document: _Message = kind(json=values if isinstance(values, str) else json.dumps(_plain(values)))
        return document
    given, fields = _plain(values), {}
    for field in kind.DESCRIPTOR.fields:
        value = given[field.name.removesuffix("_json")]
        if value is not None and field.name.endswith("_json"):
            value = json.dumps(value)
        elif value is not None and field.message_type is pb.Names.DESCRIPTOR:
            value = pb.Names(names=value)
        elif field.message_type is not None and value is not None:
            value = message_of(getattr(pb, field.message_type.name), value)
        fields[field.name] = value
    made: _Message = kind(**fields)
    return made


def _plain(values: Any) -> Any:
    return values.to_dict() if hasattr(values, "to_dict") else values


def parsed(what: str, text: str) -> Any:
    """Return the JSON values of ``text``, which is called ``what`` in a refusal."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise BadInput(f"{what} is not JSON.") from None


def request_of(described: Any) -> ReleaseRequest:
    """Return the release request in a Description message."""
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


def _fields(what: str, model: type[BaseModel], message: Any) -> dict[str, Any]:
    """Return the fields of ``message``, checked by ``model``; ``what`` names it in a refusal."""
    return checked(what, model, values_of(message)).model_dump()


def _say_of_reader(service: Service, caller: ApiKey, sent: pb.Reader) -> dict[str, Any]:
    given = values_of(sent)
    reader = given.pop("reader")
    return service.buckets.say(caller, reader, checked("the reader", ReaderFacts, given))


def _made_key(service: Service, caller: ApiKey, sent: pb.NewKey) -> dict[str, Any]:
    key, token = service.make_key(caller, checked("the key", NewKey, values_of(sent)))
    return {"key": key, "token": token}


#: The methods that take one message and no file: what each calls. A list is answered as a stream.
_OPERATIONS: Mapping[str, Callable[[Service, ApiKey, Any], Any]] = {
    "Me": lambda service, caller, _: service.me(caller),
    "OpenBudget": lambda service, caller, sent: service.open_budget(
        caller, **_fields("the budget", NewBudget, sent)
    ),
    "ListBudgets": lambda service, caller, _: service.budgets(caller),
    "GetBudget": lambda service, caller, sent: service.budget(caller, sent.dataset),
    "ListHistory": lambda service, caller, sent: service.history(caller, sent.dataset),
    "ListReleases": lambda service, caller, sent: service.releases(caller, **values_of(sent)),
    "GetRelease": lambda service, caller, sent: service.release(caller, sent.id),
    "DeleteRelease": lambda service, caller, sent: service.delete_release(caller, sent.id),
    "GetCertificate": lambda service, caller, sent: service.certificate(caller, sent.id),
    "ListJobs": lambda service, caller, sent: service.jobs(caller, **values_of(sent)),
    "GetJob": lambda service, caller, sent: service.job(caller, sent.id),
    "CancelJob": lambda service, caller, sent: service.cancel(caller, sent.id),
    "GetAudit": lambda service, caller, sent: service.audit(caller, sent.id),
    "ListKeys": lambda service, caller, _: service.keys_of(caller),
    "MakeKey": _made_key,
    "RevokeKey": lambda service, caller, sent: service.revoke_key(caller, sent.id),
    "GetPolicy": lambda service, caller, _: service.policy(caller),
    "SetPolicy": lambda service, caller, sent: service.set_policy(
        caller, **_fields("the policy", NewPolicy, sent)
    ),
    "DeclareBucket": lambda service, caller, sent: service.buckets.declare(
        caller, checked("the bucket", NewBucket, parsed("json", sent.json))
    ),
    "ListBuckets": lambda service, caller, _: service.buckets.listed(caller),
    "GetBucket": lambda service, caller, sent: service.buckets.shown(caller, sent.name),
    "RemoveBucket": lambda service, caller, sent: service.buckets.remove(caller, sent.name),
    "ListReaders": lambda service, caller, _: [
        {"reader": reader} | facts.to_dict() for reader, facts in service.buckets.readers(caller).items()
    ],
    "SayOfReader": _say_of_reader,
    "ForgetReader": lambda service, caller, sent: service.buckets.say(caller, sent.reader, None),
    "GetAccessKey": lambda service, caller, sent: service.buckets.access_key(caller, sent.id),
}


class Servicer:
    """All methods of ``service``, which run in ``threads``; an upload must be complete in ``seconds``."""

    def __init__(self, service: Service, threads: ThreadPoolExecutor, seconds: float) -> None:
        self._service, self._threads, self._seconds = service, threads, seconds

    async def authenticate(self, context: Any) -> ApiKey:
        """Return the caller, authenticated by the key in the call's metadata."""
        authorization = next(iter(_metadata(context, "authorization")), None)
        return await self._done(self._service.authenticate, authorization, self._address(context))

    def _address(self, context: Any) -> str | None:
        """Return the network address of the caller."""
        # A proxy may add a line of its own after those that came: the last of all is the one it wrote.
        forwarded = ",".join(_metadata(context, "x-forwarded-for")) or None
        return address_behind(address_of_peer(context.peer()), forwarded, self._service.settings.trusted)

    async def _done(self, function: Callable[..., _Result], *arguments: Any) -> _Result:
        return await finished(self._threads, function, *arguments)

    async def GetTier(self, request: pb.BucketRequest, context: Any) -> pb.Tier:
        """Return the tier of the caller."""
        address = self._address(context)
        found = await self._done(self._service.buckets.tier, CALLER.get(), request.name, address)
        return message_of(pb.Tier, found)

    async def GetSigningKey(self, request: pb.GetSigningKeyRequest, context: Any) -> pb.SigningKey:
        """Return the public key that verifies certificates."""
        return pb.SigningKey(pem=self._service.signing_key)

    # Files

    async def Plan(self, request_iterator: AsyncIterator[pb.FilePart], context: Any) -> pb.Document:
        """Return what a release would guarantee and cost."""
        work = self._releasing(self._service.plan)
        return message_of(pb.Document, await self._uploaded(request_iterator, work, late=LATE_PLAN))

    async def Protect(
        self, request_iterator: AsyncIterator[pb.FilePart], context: Any
    ) -> AsyncIterator[pb.ReleasedPart]:
        """Release a file."""
        key = _idempotency_key(context)
        work = self._releasing(self._service.protect, request=key)
        done = await self._uploaded(request_iterator, work, late=late_release(key))
        async for part in self._parts(done):
            yield part

    async def Submit(self, request_iterator: AsyncIterator[pb.FilePart], context: Any) -> pb.Job:
        """Accept the release of a file as a job."""
        work = self._releasing(self._service.submit, request=_idempotency_key(context))
        return message_of(pb.Job, await self._uploaded(request_iterator, work))

    async def SubmitAudit(self, request_iterator: AsyncIterator[pb.AuditPart], context: Any) -> pb.Job:
        """Accept an audit of a release as a job."""
        caller, service = CALLER.get(), self._service
        first = await self._first(request_iterator, "asked")
        given: dict[str, Any] = {"request": _idempotency_key(context)}
        if first.HasField("certificate_json"):
            given["certificate"] = first.certificate_json  # a text, whose bytes were signed
            first.ClearField("certificate_json")
        described = values_of(first)
        dataset, given["release"] = described.pop("dataset"), described.pop("release", None)
        asked = checked("asked", AuditDescription, described)

        async def bring(brought: ExitStack) -> Callable[[], Any]:
            sent = await self._audit_files(request_iterator, brought)
            return partial(service.submit_audit, caller, asked, sent, dataset, **given)

        return message_of(pb.Job, await service.receive(caller, bring))

    async def Verify(
        self, request_iterator: AsyncIterator[pb.CertifiedPart], context: Any
    ) -> pb.Verification:
        """Verify a file against its certificate."""
        caller = CALLER.get()

        def prepared(file: pb.CertifiedFile) -> Callable[[Path], dict[str, Any]]:
            if len(file.certificate_json) > MOST_WORDS:
                raise BadInput(f"the certificate is longer than {MOST_WORDS:,} characters.")
            return lambda place: self._service.verified(caller, place, file.certificate_json)

        found = await self._uploaded(request_iterator, prepared)
        return pb.Verification(holds=found["holds"], json=json.dumps(found))

    async def GetContent(self, request: pb.ReleaseRequest, context: Any) -> AsyncIterator[pb.ReleasedPart]:
        """Return one release and its file."""
        found = await self._done(self._service.content, CALLER.get(), request.id)
        async for part in self._parts(found):
            yield part

    async def GetReport(self, request: pb.ReportRequest, context: Any) -> AsyncIterator[pb.Chunk]:
        """Return the report of a release or of an audit."""
        page = await self._done(self._service.report_page, CALLER.get(), request.id)
        for start in range(0, len(page), CHUNK):
            yield pb.Chunk(chunk=page[start : start + CHUNK])

    async def _parts(self, release: StoredRelease) -> AsyncIterator[pb.ReleasedPart]:
        with open(release.file, "rb") as file:
            yield pb.ReleasedPart(release=message_of(pb.Release, release))
            while chunk := await self._done(file.read, CHUNK):
                yield pb.ReleasedPart(chunk=chunk)

    def _releasing(self, work: Callable[..., Any], **words: Any) -> Callable[[Any], Callable[[Path], Any]]:
        """Return what prepares ``work``, an operation on a file that is to be released."""
        caller = CALLER.get()

        def prepared(file: pb.AskedFile) -> Callable[[Path], Any]:
            asked = request_of(file.asked)
            return lambda place: work(caller, asked, place, file.dataset, **words)

        return prepared

    async def _uploaded(
        self,
        parts: AsyncIterator[Any],
        prepare: Callable[[Any], Callable[[Path], _Result]],
        *,
        late: str | None = None,
    ) -> _Result:
        """Run the work that ``prepare`` returns for the first of ``parts`` on the file that follows it.

        ``late`` is that of :meth:`Service.receive`.
        """
        service, seconds = self._service, self._seconds
        file = await self._first(parts, "file")
        work = prepare(file)  # refuses a malformed description before the file is read

        async def bring(brought: ExitStack) -> Callable[[], _Result]:
            place = brought.enter_context(service.body(file.name))
            async with within(seconds, f"the file took more than {seconds:.0f} seconds; send it again."):
                await written(_chunks(parts), place, service.body_limit(late))
            return partial(work, place)

        return await service.receive(CALLER.get(), bring, late=late)

    async def _audit_files(self, parts: AsyncIterator[Any], brought: ExitStack) -> dict[str, Path]:
        """Write the files in the rest of ``parts``, return them by part; ``brought`` removes them."""
        files: dict[str, Path] = {}
        left = self._service.settings.body_bytes
        folder = brought.enter_context(self._service.folder())
        sentence = f"the files took more than {self._seconds:.0f} seconds; send them again."
        async with within(self._seconds, sentence):
            part = await anext(parts, None)
            while part is not None:
                place = _place(part, folder, files)
                chunks = _OneFile(parts)
                await written(chunks, place, left)
                left -= place.stat().st_size
                part = chunks.next
        return files

    async def _first(self, parts: AsyncIterator[Any], part: str) -> Any:
        """Return the first of ``parts``, which describes the request; it must arrive in time."""
        async with within(self._seconds, "no message came; first send the one that describes the request."):
            first = await anext(parts, None)
        if first is None or first.WhichOneof("part") != part:
            raise BadInput(f"the first message of the stream must be {part}, which describes the request.")
        return getattr(first, part)


def _method(name: str, work: Callable[[Service, ApiKey, Any], Any]) -> Any:
    """Return the method ``name``, which answers with the result of ``work``."""
    method = SERVICE.methods_by_name[name]
    kind = getattr(pb, method.output_type.name)

    async def one(self: Servicer, request: Any, context: Any) -> Any:
        return message_of(kind, await self._done(work, self._service, CALLER.get(), request))

    async def several(self: Servicer, request: Any, context: Any) -> AsyncIterator[Any]:
        for found in await self._done(work, self._service, CALLER.get(), request):
            yield message_of(kind, found)

    return several if method.server_streaming else one


for _name, _work in _OPERATIONS.items():
    setattr(Servicer, _name, _method(_name, _work))


def address_of_peer(peer: str) -> str | None:
    """Return the network address in a gRPC peer, as in ipv4:192.0.2.1:4711 or ipv6:%5B::1%5D:4711."""
    kind, _, rest = unquote(peer).partition(":")
    return rest.rpartition(":")[0].strip("[]") if kind in ("ipv4", "ipv6") else None


def _metadata(context: Any, name: str) -> list[str]:
    return [value for key, value in context.invocation_metadata() or () if key == name]


def _idempotency_key(context: Any) -> str | None:
    key = next(iter(_metadata(context, "idempotency-key")), None)
    if key is not None and not 1 <= len(key) <= _LONGEST_KEY:
        raise BadInput(f"an idempotency-key has 1 to {_LONGEST_KEY} characters.")
    return key


async def _chunks(parts: AsyncIterator[Any]) -> AsyncIterator[bytes]:
    async for part in parts:
        if part.WhichOneof("part") != "chunk":
            raise BadInput("all messages of the stream after the first must be chunks of the file.")
        yield part.chunk


def _place(part: Any, folder: Path, files: dict[str, Path]) -> Path:
    """Return the path for the file that ``part`` begins."""
    if part.WhichOneof("part") != "file" or part.file.part not in AUDIT_FILES or part.file.part in files:
        raise BadInput(f"after the description come files, each begun by its part: {', '.join(AUDIT_FILES)}.")
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
            raise BadInput("the request is described once, before all files.")
        chunk: bytes = part.chunk
        return chunk
