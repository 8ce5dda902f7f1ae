"""Around every call: messages that are none and errors of all kinds are answered by a status.

The status has a code, one sentence, and in its trailing metadata ``sfumato-refusal``, the word for the kind
of error that REST calls its type, and ``retry-delay``, whole seconds, where waiting helps.
"""

from __future__ import annotations

import inspect
import logging
import math
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import grpc  # type: ignore[import-untyped]
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

from sfumato.errors import BadInput, SfumatoError
from sfumato.serve.grpc_api.deadlines import within
from sfumato.serve.refusals import refusal, seconds_to_wait

__all__ = ["Guard"]

_CODES: Mapping[str, grpc.StatusCode] = {
    "bad-input": grpc.StatusCode.INVALID_ARGUMENT,
    "budget-refused": grpc.StatusCode.FAILED_PRECONDITION,
    "ledger-unavailable": grpc.StatusCode.UNAVAILABLE,
    "registry-unavailable": grpc.StatusCode.UNAVAILABLE,
    "quota": grpc.StatusCode.RESOURCE_EXHAUSTED,
    "too-many-guesses": grpc.StatusCode.RESOURCE_EXHAUSTED,
    "too-large": grpc.StatusCode.RESOURCE_EXHAUSTED,
    "too-slow": grpc.StatusCode.DEADLINE_EXCEEDED,
    "unauthenticated": grpc.StatusCode.UNAUTHENTICATED,
    "forbidden": grpc.StatusCode.PERMISSION_DENIED,
    "not-found": grpc.StatusCode.NOT_FOUND,
    "conflict": grpc.StatusCode.ABORTED,
}
# Statuses travel in headers, of which clients take 8 KiB.
_LONGEST = 1000
_TOO_LONG = "the call lasted longer than this service allows; ask again."
_MALFORMED = object()
_log = logging.getLogger(__name__)


class Guard(grpc.aio.ServerInterceptor):  # type: ignore[misc]
    """Guards all services of a server, also those that are not ours; a call may last ``seconds``."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    async def intercept_service(
        self, continuation: Callable[[Any], Awaitable[Any]], handler_call_details: Any
    ) -> Any:
        """The handler of a call, guarded; None where there is no such method."""
        found = await continuation(handler_call_details)
        return None if found is None else _guarded(found, self._seconds)


def _guarded(handler: Any, seconds: float) -> Any:
    kind = ("stream_" if handler.request_streaming else "unary_") + (
        "stream" if handler.response_streaming else "unary"
    )
    inner = getattr(handler, kind)
    read = _messages if handler.request_streaming else _message
    wrap = _answers if inspect.isasyncgenfunction(inner) else _answer
    make = getattr(grpc, f"{kind}_rpc_method_handler")
    read_raw = _tolerant(handler.request_deserializer)
    return make(wrap(inner, read, seconds), read_raw, handler.response_serializer)


def _answer(inner: Any, read: Any, seconds: float) -> Any:
    async def guarded(request: Any, context: Any) -> Any:
        async with _refusals(context), within(seconds, _TOO_LONG):
            return await inner(read(request), context)

    return guarded


def _answers(inner: Any, read: Any, seconds: float) -> Any:
    async def guarded(request: Any, context: Any) -> AsyncIterator[Any]:
        async with _refusals(context), within(seconds, _TOO_LONG):
            async for one in inner(read(request), context):
                yield one

    return guarded


@asynccontextmanager
async def _refusals(context: Any) -> AsyncIterator[None]:
    try:
        yield
    except grpc.aio.AbortError:
        raise
    except SfumatoError as error:
        word, seconds = refusal(error), seconds_to_wait(error)
        wait = () if seconds is None else (("retry-delay", str(math.ceil(seconds))),)
        await context.abort(_CODES[word], _sentence(error), (("sfumato-refusal", word), *wait))
    except Exception as error:
        # Where, not what: the text of an error that nobody foresaw may hold a private value.
        place = traceback.extract_tb(error.__traceback__)[-1]
        _log.error("unforeseen %s at %s:%s", type(error).__name__, place.filename, place.lineno)
        sentence = "something unforeseen happened; it is in the log by its time."
        await context.abort(grpc.StatusCode.INTERNAL, sentence, (("sfumato-refusal", "unforeseen"),))


def _sentence(error: SfumatoError) -> str:
    text = str(error)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def _tolerant(parse: Callable[[bytes], Any]) -> Callable[[bytes], Any]:
    """``parse``, or a mark where there is nothing to parse: gRPC itself would call that an internal error."""

    def tolerant(raw: bytes) -> Any:
        try:
            return parse(raw)
        except DecodeError:
            return _MALFORMED

    return tolerant


def _message(request: Any) -> Any:
    if request is _MALFORMED:
        raise BadInput("the message is malformed: it must be of the type that the method takes.")
    return request


async def _messages(requests: Any) -> AsyncIterator[Any]:
    async for one in requests:
        yield _message(one)
