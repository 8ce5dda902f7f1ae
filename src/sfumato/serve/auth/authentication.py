"""Who asks: the caller that a request's key names, however the request came."""

from __future__ import annotations

from sfumato.errors import SfumatoError
from sfumato.serve.auth.callers import Caller
from sfumato.serve.auth.login_throttle import Guessing
from sfumato.serve.logs import note
from sfumato.serve.service import Service

__all__ = ["TooManyGuesses", "Unauthenticated", "caller_of"]


class Unauthenticated(SfumatoError):
    """The request has no key that opens anything."""


class TooManyGuesses(SfumatoError):
    """Too many wrong keys came from one site; after ``seconds`` another is looked at."""

    def __init__(self, sentence: str, seconds: float) -> None:
        super().__init__(sentence)
        self.seconds = seconds


def caller_of(service: Service, guessing: Guessing, authorization: str | None, address: str | None) -> Caller:
    """The caller of a request with this ``authorization`` from this ``address``, charged to its quota.

    Wrong keys are counted by the address they come from; a request without any is refused, not counted.
    """
    wait = guessing.wait(address)
    if wait > 0.0:
        raise TooManyGuesses("too many wrong keys came from this address; wait, and look at the key.", wait)
    scheme, _, token = (authorization or "").partition(" ")
    found = service.registry.authenticate(token.strip()) if scheme.lower() == "bearer" else None
    if found is None:
        if authorization is not None:
            guessing.failed(address)
        raise Unauthenticated("this needs a valid key, as in Authorization: Bearer sfu_….")
    note(tenant=found.tenant, key=found.key_id)
    service.registry.charge(found.tenant)
    return found
