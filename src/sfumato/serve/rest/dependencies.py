"""Who asks: every route takes the caller that the key of its request names, or is not reached."""

from typing import Annotated

from anyio import CapacityLimiter, to_thread
from fastapi import Depends, Request

from sfumato.serve.auth.authentication import caller_of
from sfumato.serve.auth.callers import Caller
from sfumato.serve.service import Service

__all__ = ["Asking", "Here"]


async def _service(request: Request) -> Service:
    found: Service = request.app.state.service
    return found


#: The service that answers.
Here = Annotated[Service, Depends(_service)]


# Threads of their own: whatever else is slow, keys are looked at.
_THREADS = CapacityLimiter(16)


async def _caller(request: Request) -> Caller:
    # The header is in the document as the scheme of keys, and is taken as it is: declared, it would be
    # looked up by every request as if it could be anything.
    state, address = request.app.state, None if request.client is None else request.client.host
    given = request.headers.get("authorization")
    return await to_thread.run_sync(
        caller_of, state.service, state.guessing, given, address, limiter=_THREADS
    )


#: Who asks, within the quota of requests; wrong keys are counted by the address they come from.
Asking = Annotated[Caller, Depends(_caller)]
