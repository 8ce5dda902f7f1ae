"""Retry transient storage errors with exponential backoff and jitter; turn lasting ones into sentences.

Messages of libraries are never repeated: they may hold an access key, a signed URL or the endpoint's own
credentials. Errors are told apart by their class, their code and the HTTP status of the answer.
"""

from __future__ import annotations

import errno
import http.client
import secrets
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from sfumato.errors import BadInput

__all__ = ["Fault", "RetryPolicy"]

# Codes of answers, and names of error classes: comparing names saves importing the libraries they come from.
_DENIED = {"AccessDenied", "AllAccessDisabled", "AccountProblem", "401", "403"}
_CREDENTIALS = {
    "InvalidAccessKeyId",
    "SignatureDoesNotMatch",
    "ExpiredToken",
    "InvalidToken",
    "TokenRefreshRequired",
    "RequestTimeTooSkewed",
}
_CREDENTIAL_KINDS = {
    "NoCredentialsError",
    "PartialCredentialsError",
    "CredentialRetrievalError",
    "ProfileNotFound",
    "ConfigParseError",
    "DefaultCredentialsError",
    "TokenRetrievalError",
}
_CREDENTIALS_FROM = (
    "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or name a profile of ~/.aws by AWS_PROFILE"
)
_UNREACHABLE = {
    "ConnectTimeoutError",
    "ConnectionRefusedError",
    "ClientConnectorError",
    "gaierror",
    "ProxyConnectionError",
    "SSLError",
}
_UNUSABLE = {"ValueError", "TypeError", "ParamValidationError", "InvalidRegionError", "UnknownServiceError"}
_TRANSIENT_CODES = {
    "SlowDown",
    "RequestTimeout",
    "InternalError",
    "ServiceUnavailable",
    "OperationAborted",
    "Throttling",
    "ThrottlingException",
    "RequestLimitExceeded",
    "XAmzContentSHA256Mismatch",
    "BadDigest",
    "IncompleteBody",
}
# EndpointConnectionError is also what breaks after the endpoint was reached.
_TRANSIENT_KINDS = {
    "ReadTimeoutError",
    "ConnectionClosedError",
    "EndpointConnectionError",
    "HTTPClientError",
    "ResponseStreamingError",
    "IncompleteReadError",
    "ClientPayloadError",
    "ServerDisconnectedError",
    "ClientOSError",
    "ServerTimeoutError",
    "ResponseParserError",
    "FSTimeoutError",
    "ProtocolError",
}
_TRANSIENT_NUMBERS = {errno.EBUSY, errno.EAGAIN, errno.ETIMEDOUT, getattr(errno, "EREMOTEIO", errno.EIO)}


class Interrupted(Exception):
    """Fewer bytes came than were announced: worth another attempt."""


class StartOver(Exception):
    """What an action builds on is gone: it must be begun again from the start."""


class Fault(BadInput):
    """Storage could not be used: for a ``transient`` reason, since an object is ``missing``, or for good."""

    def __init__(self, sentence: str, *, transient: bool = False, missing: bool = False) -> None:
        super().__init__(sentence)
        self.transient, self.missing = transient, missing

    def __reduce__(self) -> tuple[type[BadInput], tuple[str]]:
        return BadInput, (self.problem,)


def fault_of(error: BaseException, url: str, doing: str) -> Fault:
    """Return ``error`` as a fault: ``url`` could not be ``doing`` ("read", "written", "listed")."""
    if isinstance(error, BadInput):
        return error if isinstance(error, Fault) else Fault(str(error))
    chain = list(_chain(error))
    kinds = {kind.__name__ for link in chain for kind in type(link).__mro__}
    code, status = code_of(error), max(map(_status, chain), default=0)
    start = f"{url} cannot be {doing}: "
    where = "the bucket's name, at AWS_ENDPOINT_URL and the region" if url.startswith("s3") else "its name"
    if kinds & _CREDENTIAL_KINDS:
        return Fault(f"{start}there are no usable credentials; {_CREDENTIALS_FROM}.")
    if code in _CREDENTIALS:
        return Fault(
            f"{start}the storage does not accept the credentials ({code}); look whether they are current."
        )
    if code == "NoSuchBucket":
        return no_bucket(url, doing)
    if code in _TRANSIENT_CODES or status in (408, 429) or (status >= 500 and status != 501):
        return Fault(
            f"{start}the storage is overloaded or failing ({code or status}); try later.", transient=True
        )
    if code in _DENIED or status in (401, 403) or "PermissionError" in kinds:
        return Fault(f"{start}access is denied; ask for the permission, or use other credentials.")
    if kinds & _UNREACHABLE:
        return Fault(f"{start}its endpoint cannot be reached; look at {where}, and at the network.")
    if status == 404 or "FileNotFoundError" in kinds:
        return Fault(f"{start}there is no such object; look at its name.", missing=True)
    if kinds & _UNUSABLE:
        return Fault(f"{start}its name or the settings of its storage are not usable; look at {where}.")
    if kinds & {"IsADirectoryError", "NotADirectoryError", "FileExistsError"}:
        return Fault(
            f"{start}there is a folder where an object should be, or an object where a folder should be."
        )
    if isinstance(error, Interrupted):
        return Fault(f"{start}{error}.", transient=True)
    if kinds & _TRANSIENT_KINDS or any(map(_is_transient, chain)):
        return Fault(f"{start}the connection was lost or timed out; try later.", transient=True)
    if "NotImplementedError" in kinds:
        return Fault(f"{start}this kind of storage does not offer it.")
    reason = code or next((link.strerror for link in chain if isinstance(link, OSError) and link.errno), None)
    return Fault(f"{start}the storage refused ({_word(reason) or type(error).__name__}).")


def no_bucket(url: str, doing: str) -> Fault:
    """Return the fault that the bucket of ``url`` does not exist."""
    return Fault(
        f"{url} cannot be {doing}: there is no such bucket; make it first, or look at its name and at the "
        "endpoint."
    )


def code_of(error: BaseException) -> str:
    """Return the code by which S3 names an error, as ``NoSuchBucket``; empty where there is none."""
    for link in _chain(error):
        answer = getattr(link, "response", None)
        if isinstance(answer, dict) and isinstance(answer.get("Error"), dict):
            return _word(str(answer["Error"].get("Code", "")))
    return ""


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    for _ in range(10):
        if error is None:
            return
        yield error
        # Botocore keeps what it wraps among its words.
        wrapped = getattr(error, "kwargs", {})
        inner = wrapped.get("error") if isinstance(wrapped, dict) else None
        error = error.__cause__ or (inner if isinstance(inner, BaseException) else None)


def _status(link: BaseException) -> int:
    """Return the status of the HTTP answer that an error came of, or 0."""
    answer = getattr(link, "response", None)
    if isinstance(answer, dict):
        found = answer.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    else:
        told = [getattr(link, name, 0) for name in ("status", "status_code", "code")]
        found = next((number for number in told if isinstance(number, int) and number), 0)
    return found if isinstance(found, int) and 400 <= found < 600 else 0


def _is_transient(link: BaseException) -> bool:
    if isinstance(link, TimeoutError | ConnectionError | http.client.HTTPException | EOFError):
        return True
    return isinstance(link, OSError) and link.errno in _TRANSIENT_NUMBERS


def _word(text: str | None) -> str:
    """Return ``text`` if it can only be a code or a short reason, and nothing otherwise."""
    text = text or ""
    return text if len(text) <= 60 and text.replace(" ", "").isalnum() else ""


T = TypeVar("T")
_jitter = secrets.SystemRandom()


@dataclass(frozen=True, kw_only=True)
class RetryPolicy:
    """How often and how long transient faults are retried.

    The wait before attempt ``n + 1`` is between half and the whole of ``first * 2**(n - 1)`` seconds, at most
    ``longest``. There are at most ``attempts``, and none begins ``total`` seconds after the first.
    """

    attempts: int = 8
    first: float = 0.2
    longest: float = 6.0
    total: float = 30.0

    def wait(self, attempt: int) -> float:
        """Return seconds to wait after ``attempt`` (the first is 1) has failed."""
        return min(self.longest, self.first * 2.0 ** (attempt - 1)) * _jitter.uniform(0.5, 1.0)

    def call(self, action: Callable[[], T], url: str, doing: str) -> T:
        """Return what ``action`` returns; raise a fault at once if it will not pass, else after the retries.

        ``StartOver`` is raised as it is.
        """
        began = time.monotonic()
        for attempt in range(1, self.attempts + 1):
            try:
                return action()
            except StartOver:
                raise
            except Exception as error:
                fault = fault_of(error, url, doing)
            wait = self.wait(attempt)
            if (
                not fault.transient
                or attempt == self.attempts
                or time.monotonic() + wait - began > self.total
            ):
                break
            time.sleep(wait)
        # The cause may quote credentials, which a traceback would print. An action around this one does not
        # retry it again.
        fault.transient = False
        raise fault from None
