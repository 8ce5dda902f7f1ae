"""Around every call: messages that are none and errors of all kinds are answered by a status, and counted.

The status has a code, one sentence, and in its trailing metadata ``sfumato-refusal``, the word for the kind
of error that REST calls its type, and ``retry-delay``, whole seconds, where waiting helps.
"""

from __future__ import annotations

import inspect
import math
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from contextlib import asynccontextmanager
from typing import Any

import grpc  # type: ignore[import-untyped]
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

from sfumato.errors import BadInput, SfumatoError
from sfumato.serve.auth.callers import Caller
from sfumato.serve.grpc.call_base import CALLER
from sfumato.serve.grpc.concurrency_limits import Places
from sfumato.serve.grpc.deadlines import within
from sfumato.serve.logs import noting, told
from sfumato.serve.metrics import Metrics
from sfumato.serve.refusal_codes import disk_failure, refusal, said_of, seconds_to_wait

__all__ = ["Guard"]

_CODES: Mapping[str, grpc.StatusCode] = {
    "bad-input": grpc.StatusCode.INVALID_ARGUMENT,
    "budget-refused": grpc.StatusCode.FAILED_PRECONDITION,
    "ledger-unavailable": grpc.StatusCode.UNAVAILABLE,
    "registry-unavailable": grpc.StatusCode.UNAVAILABLE,
    "not-ready": grpc.StatusCode.UNAVAILABLE,
    "busy": grpc.StatusCode.UNAVAILABLE,
    "storage-failed": grpc.StatusCode.UNAVAILABLE,
    "storage-full": grpc.StatusCode.RESOURCE_EXHAUSTED,
    "quota": grpc.StatusCode.RESOURCE_EXHAUSTED,
    "too-many-guesses": grpc.StatusCode.RESOURCE_EXHAUSTED,
    "too-large": grpc.StatusCode.RESOURCE_EXHAUSTED,
    "too-slow": grpc.StatusCode.DEADLINE_EXCEEDED,
    "took-too-long": grpc.StatusCode.DEADLINE_EXCEEDED,
    "unauthenticated": grpc.StatusCode.UNAUTHENTICATED,
    "forbidden": grpc.StatusCode.PERMISSION_DENIED,
    "not-found": grpc.StatusCode.NOT_FOUND,
    "conflict": grpc.StatusCode.ABORTED,
}
# Statuses travel in headers, of which clients take 8 KiB.
_LONGEST = 1000
_TOO_LONG = "the call lasted longer than this service allows; ask again."
_MESSAGE_SECONDS = 10.0
_MALFORMED = object()


class Guard(grpc.aio.ServerInterceptor):  # type: ignore[misc]
    """Guards all services of a server, also those that are not ours.

    Who calls one of ``keyed`` is looked for by ``asking`` before any message is waited for, and takes one of
    the ``places`` only with a valid key; such a call may last ``seconds``, and another ``open_seconds``.
    """

    def __init__(
        self,
        keyed: Collection[str],
        asking: Callable[[Any], Awaitable[Caller]],
        places: Places,
        metrics: Metrics,
        *,
        seconds: float,
        open_seconds: float,
    ) -> None:
        self._keyed, self._asking, self._places, self._metrics = keyed, asking, places, metrics
        self._seconds, self._open_seconds = seconds, open_seconds

    async def intercept_service(
        self, continuation: Callable[[Any], Awaitable[Any]], handler_call_details: Any
    ) -> Any:
        """The handler of a call, guarded; None where there is no such method."""
        found = await continuation(handler_call_details)
        return None if found is None else self._guarded(found, handler_call_details.method)

    def _guarded(self, handler: Any, method: str) -> Any:
        answers = "stream" if handler.response_streaming else "unary"
        asks = "stream" if handler.request_streaming else "unary"
        inner = getattr(handler, f"{asks}_{answers}")
        read = _messages if handler.request_streaming else _message
        wrap = self._answers if inspect.isasyncgenfunction(inner) else self._answer
        # A stream also where one message is to come: gRPC itself would wait for it, and for ever.
        make = getattr(grpc, f"stream_{answers}_rpc_method_handler")
        read_raw = _tolerant(handler.request_deserializer)
        return make(wrap(inner, read, method), read_raw, handler.response_serializer)

    def _answer(self, inner: Any, read: Any, method: str) -> Any:
        async def guarded(requests: Any, context: Any) -> Any:
            async with self._watched(context, method), self._admitted(context, method):
                return await inner(await read(requests), context)

        return guarded

    def _answers(self, inner: Any, read: Any, method: str) -> Any:
        async def guarded(requests: Any, context: Any) -> AsyncIterator[Any]:
            async with self._watched(context, method), self._admitted(context, method):
                async for one in inner(await read(requests), context):
                    yield one

        return guarded

    @asynccontextmanager
    async def _admitted(self, context: Any, method: str) -> AsyncIterator[None]:
        """A place for the call, and the time it may last."""
        if method in self._keyed:
            CALLER.set(await self._asking(context))
            place, seconds = self._places.with_key(), self._seconds
        else:
            place, seconds = self._places.open(method), self._open_seconds
        with place:
            async with within(seconds, _TOO_LONG):
                yield

    @asynccontextmanager
    async def _watched(self, context: Any, method: str) -> AsyncIterator[None]:
        """Refuse by a status what goes wrong in the block, and count and log how it ended."""
        call, begun = secrets.token_hex(8), time.perf_counter()
        status, word = "CANCELLED", None
        with noting() as notes:
            try:
                yield
                status = "OK"
            except grpc.aio.AbortError:
                status = "ABORTED"
                raise
            except Exception as error:
                refused = error if isinstance(error, SfumatoError) else disk_failure(error)
                if refused is not None:
                    word, seconds = refusal(refused), seconds_to_wait(refused)
                    code, wait = (
                        _CODES[word],
                        () if seconds is None else (("retry-delay", str(math.ceil(seconds))),),
                    )
                    status = code.name
                    await context.abort(code, _sentence(refused), (("sfumato-refusal", word), *wait))
                told("unforeseen", level="error", request=call, error=error, **notes)
                status, word = "INTERNAL", "unforeseen"
                sentence = f"something unforeseen happened; it is in the log as request {call}."
                await context.abort(grpc.StatusCode.INTERNAL, sentence, (("sfumato-refusal", word),))
            finally:
                seconds_taken = time.perf_counter() - begun
                self._metrics.answered("grpc", method, "POST", status, seconds_taken, refusal=word)
                if status != "OK" or not method.startswith("/grpc."):
                    told(
                        "call",
                        request=call,
                        route=method,
                        status=status,
                        refusal=word,
                        ms=1000.0 * seconds_taken,
                        **notes,
                    )


def _sentence(error: SfumatoError) -> str:
    text = said_of(error)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def _tolerant(parse: Callable[[bytes], Any]) -> Callable[[bytes], Any]:
    """``parse``, or a mark where there is nothing to parse: gRPC itself would call that an internal error."""

    def tolerant(raw: bytes) -> Any:
        try:
            return parse(raw)
        except DecodeError:
            return _MALFORMED

    return tolerant


async def _message(requests: Any) -> Any:
    """The one message that is to come."""
    async with within(_MESSAGE_SECONDS, "no message came; send one with the call."):
        first = await anext(aiter(requests), _MALFORMED)
    return _well_formed(first)


async def _messages(requests: Any) -> AsyncIterator[Any]:
    return _each(requests)


async def _each(requests: Any) -> AsyncIterator[Any]:
    async for one in requests:
        yield _well_formed(one)


def _well_formed(request: Any) -> Any:
    if request is _MALFORMED:
        raise BadInput("the message is malformed: it must be of the type that the method takes.")
    return request
