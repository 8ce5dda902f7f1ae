"""Who asks: every route takes the caller that the key of its request names, or is not reached."""

import math
from typing import Annotated

from fastapi import Depends, Header, Request

from sfumato.serve.callers import Caller
from sfumato.serve.rest.problems import Problem
from sfumato.serve.service import Service

__all__ = ["Asking", "Here"]


def _service(request: Request) -> Service:
    found: Service = request.app.state.service
    return found


#: The service that answers.
Here = Annotated[Service, Depends(_service)]


def _caller(request: Request, service: Here, authorization: Annotated[str | None, Header()] = None) -> Caller:
    guessing = request.app.state.guessing
    address = None if request.client is None else request.client.host
    wait = guessing.wait(address)
    if wait > 0.0:
        raise Problem(
            429,
            "too-many-guesses",
            "too many wrong keys came from this address; wait, and look at the key.",
            {"Retry-After": str(math.ceil(wait))},
        )
    scheme, _, token = (authorization or "").partition(" ")
    found = service.registry.authenticate(token.strip()) if scheme.lower() == "bearer" else None
    if found is None:
        if authorization is not None:
            guessing.failed(address)
        raise Problem(
            401,
            "unauthenticated",
            "this needs a valid key, as in Authorization: Bearer sfu_….",
            {"WWW-Authenticate": "Bearer"},
        )
    service.registry.charge(found.tenant)
    return found


#: Who asks, within the quota of requests; wrong keys are counted by the address they come from.
Asking = Annotated[Caller, Depends(_caller)]
