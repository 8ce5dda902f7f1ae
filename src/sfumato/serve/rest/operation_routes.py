"""For those who run the service: whether it is alive, whether it is ready, and its counts."""

import hmac
from typing import Annotated

from anyio import CapacityLimiter, to_thread
from fastapi import APIRouter, Header, Request
from fastapi.responses import Response
from starlette.exceptions import HTTPException

from sfumato.serve.auth.authentication import TooManyGuesses, Unauthenticated
from sfumato.serve.metrics import MEDIA_TYPE

__all__ = ["router"]

router = APIRouter(include_in_schema=False)

# Threads of their own: however many releases are under way, whoever asks whether it is ready is answered.
_THREADS = CapacityLimiter(8)


@router.get("/healthz")
async def alive() -> dict[str, str]:
    """Whether the process answers."""
    return {"status": "alive"}


@router.get("/readyz")
async def ready(request: Request) -> dict[str, str]:
    """Whether it could release something."""
    await to_thread.run_sync(request.app.state.readiness.require, limiter=_THREADS)
    return {"status": "ready"}


@router.get("/metrics")
def metrics(request: Request, authorization: Annotated[str | None, Header()] = None) -> Response:
    """Counts and gauges, for the token of metrics alone: they name tenants' datasets."""
    token, guessing = request.app.state.metrics_token, request.app.state.guessing
    address = None if request.client is None else request.client.host
    if token is None:
        raise HTTPException(404)
    wait = guessing.wait(address)
    if wait > 0.0:
        raise TooManyGuesses("too many wrong keys came from this address; wait, and look at the key.", wait)
    if not hmac.compare_digest(f"Bearer {token}".encode(), (authorization or "").encode()):
        if authorization is not None:
            guessing.failed(address)
        raise Unauthenticated("the metrics need their token, as in Authorization: Bearer ….")
    return Response(request.app.state.metrics.page(), media_type=MEDIA_TYPE)
