"""What all calls have in common: who asks, work in threads, and files that stream out."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from typing import Any, TypeVar
from urllib.parse import unquote

from sfumato.errors import BadInput
from sfumato.serve.auth.authentication import caller_of
from sfumato.serve.auth.callers import Caller
from sfumato.serve.auth.login_throttle import Guessing
from sfumato.serve.auth.trusted_proxies import address_behind
from sfumato.serve.grpc import grpc_messages as made
from sfumato.serve.grpc import sfumato_pb2 as pb
from sfumato.serve.grpc.threads import finished
from sfumato.serve.service import Release, Service

__all__ = ["CALLER", "CHUNK", "Calls", "address_of_peer", "idempotency_key"]

#: How much of a file is sent at once.
CHUNK = 256 << 10
#: Who makes the call that goes on, if it needs a key.
CALLER: ContextVar[Caller] = ContextVar("caller")
_LONGEST_KEY = 128
_Result = TypeVar("_Result")


class Calls:
    """Calls to ``service``, worked on in ``threads``; a file must come within ``seconds``."""

    def __init__(
        self, service: Service, guessing: Guessing, threads: ThreadPoolExecutor, seconds: float
    ) -> None:
        self._service, self._guessing, self._threads, self._seconds = service, guessing, threads, seconds

    async def asking(self, context: Any) -> Caller:
        """Who asks, by the key that came with the call."""
        authorization, address = _metadata(context, "authorization"), self._address(context)
        return await self._done(caller_of, self._service, self._guessing, authorization, address)

    def _address(self, context: Any) -> str | None:
        """Where the call comes from."""
        # A proxy may add a line of its own after those that came: the last of all is the one it wrote.
        forwarded = ",".join(_all_metadata(context, "x-forwarded-for")) or None
        return address_behind(address_of_peer(context.peer()), forwarded, self._service.settings.trusted)

    async def _done(self, function: Callable[..., _Result], *arguments: Any, **words: Any) -> _Result:
        return await finished(self._threads, function, *arguments, **words)

    async def _released(self, request: pb.ReleaseRequest) -> Release:
        return await self._done(self._service.release, CALLER.get(), request.id)

    async def _parts(self, release: Release) -> AsyncIterator[pb.ReleasedPart]:
        with open(release.file, "rb") as file:
            yield pb.ReleasedPart(release=made.release_message(release))
            while chunk := await self._done(file.read, CHUNK):
                yield pb.ReleasedPart(chunk=chunk)


def address_of_peer(peer: str) -> str | None:
    """The network address in what gRPC calls a peer, as in ipv4:192.0.2.1:4711 or ipv6:%5B::1%5D:4711."""
    kind, _, rest = unquote(peer).partition(":")
    return rest.rpartition(":")[0].strip("[]") if kind in ("ipv4", "ipv6") else None


def _all_metadata(context: Any, name: str) -> list[str]:
    return [value for key, value in context.invocation_metadata() or () if key == name]


def _metadata(context: Any, name: str) -> str | None:
    return next(iter(_all_metadata(context, name)), None)


def idempotency_key(context: Any) -> str | None:
    """The key under which a call may be repeated, if it came with one."""
    key = _metadata(context, "idempotency-key")
    if key is not None and not 1 <= len(key) <= _LONGEST_KEY:
        raise BadInput(f"an idempotency-key has 1 to {_LONGEST_KEY} characters.")
    return key
