"""What the proxy refuses, as S3 says it: a code, a sentence, a status, in XML."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from xml.sax.saxutils import escape

from sfumato.errors import BadInput, SfumatoError
from sfumato.io.storage_errors import Fault
from sfumato.serve.refusal_codes import refusal, said_of, seconds_to_wait

__all__ = ["Refused", "error_xml", "refused_of", "word_of"]

_STATUS: Mapping[str, int] = {
    "AccessDenied": 403,
    "BudgetRefused": 403,
    "EntityTooLarge": 400,
    "InternalError": 500,
    "InvalidAccessKeyId": 403,
    "InvalidArgument": 400,
    "InvalidRange": 416,
    "InvalidRequest": 400,
    "MethodNotAllowed": 405,
    "NoSuchBucket": 404,
    "NoSuchKey": 404,
    "NotImplemented": 501,
    "PreconditionFailed": 412,
    "RequestTimeTooSkewed": 403,
    "ServiceUnavailable": 503,
    "SignatureDoesNotMatch": 403,
    "SlowDown": 503,
}
# The words of the service in those of S3.
_CODES: Mapping[str, str] = {
    "budget-refused": "BudgetRefused",
    "ledger-unavailable": "ServiceUnavailable",
    "registry-unavailable": "ServiceUnavailable",
    "quota": "SlowDown",
    "too-many-guesses": "SlowDown",
    "unauthenticated": "AccessDenied",
    "too-large": "EntityTooLarge",
    "forbidden": "AccessDenied",
    "not-found": "NoSuchBucket",
}
# And those of S3 in the service's, for those who count.
_WORDS: Mapping[str, str] = {
    "AccessDenied": "forbidden",
    "EntityTooLarge": "too-large",
    "NoSuchKey": "not-found",
    "RequestTimeTooSkewed": "unauthenticated",
    "ServiceUnavailable": "source-unavailable",
    "SignatureDoesNotMatch": "unauthenticated",
    "SlowDown": "busy",
}


class Refused(SfumatoError):
    """A request that is refused with one of S3's codes; ``seconds`` says when to ask again."""

    def __init__(self, code: str, sentence: str, seconds: float | None = None) -> None:
        super().__init__(sentence)
        self.code, self.seconds = code, seconds

    @property
    def status(self) -> int:
        """Of the answer."""
        return _STATUS[self.code]


def refused_of(error: SfumatoError) -> Refused:
    """What the proxy answers where the service raised ``error``."""
    if isinstance(error, Refused):
        return error
    if isinstance(error, Fault):
        # Where the source stands is the owner's business, and not the reader's.
        if error.missing:
            return Refused("NoSuchKey", "there is no such object.")
        return Refused("ServiceUnavailable", "the source of this bucket cannot be read now; try later.", 5.0)
    code = _CODES.get(refusal(error), "AccessDenied" if isinstance(error, BadInput) else "InternalError")
    return Refused(code, said_of(error), seconds_to_wait(error))


def word_of(error: SfumatoError) -> str:
    """The service's word for a refusal of the proxy."""
    if isinstance(error, Refused | Fault):
        return _WORDS.get(refused_of(error).code, "bad-input")
    return refusal(error)


def error_xml(refused: Refused, resource: str) -> tuple[bytes, str]:
    """The body of a refusal, and the id that it gives to the request."""
    request = secrets.token_hex(8)
    body = (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f"<Error><Code>{refused.code}</Code><Message>{escape(_printable(str(refused)))}</Message>"
        f"<Resource>{escape(_printable(resource))}</Resource><RequestId>{request}</RequestId></Error>"
    )
    return body.encode("utf-8", "replace"), request


def _printable(text: str) -> str:
    """``text`` without what XML cannot hold."""
    return "".join(one if one.isprintable() else "\N{REPLACEMENT CHARACTER}" for one in text)
