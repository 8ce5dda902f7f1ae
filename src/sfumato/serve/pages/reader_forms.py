"""What is said of a reader, and the access keys with which it reads buckets."""

from __future__ import annotations

from starlette.responses import Response

from sfumato.errors import BadInput
from sfumato.serve.pages.access_pages import access_page
from sfumato.serve.pages.endpoints import form
from sfumato.serve.pages.forms import Form
from sfumato.serve.pages.key_pages import end_of
from sfumato.serve.pages.page_request import Visit
from sfumato.serve.proxy.bucket_declarations import NewReader
from sfumato.serve.proxy.buckets import Buckets
from sfumato.serve.reader_tiers import ReaderFacts
from sfumato.serve.refusal_codes import said_of
from sfumato.serve.request_models import checked

__all__ = ["ROUTES"]


def _say(visit: Visit, given: Form) -> Response:
    reader, jurisdiction = given.text("reader"), given.text("jurisdiction")
    lines = [line.strip() for line in given.text("authorisations").splitlines()]
    typed = {"authorisations": [line for line in lines if line], "jurisdiction": jurisdiction or None}
    try:
        new = checked("the reader", NewReader, typed)
        facts = ReaderFacts.of(new.authorisations, new.jurisdiction)
        Buckets.of(visit.service).say(visit.caller, reader, facts)
    except BadInput as error:
        return access_page(
            visit, 400, reader={"reader": reader} | typed, refused="reader", refusal=said_of(error)
        )
    return visit.then("access", part="readers")


def _forget(visit: Visit, given: Form) -> Response:
    Buckets.of(visit.service).say(visit.caller, given.exact("reader"), None)
    return visit.then("access", part="readers")


def _make(visit: Visit, given: Form) -> Response:
    """A key that reads a reader's tier of buckets and nothing else, and the secret that signs as it."""
    typed = {name: given.text(name) for name in ("holder", "datasets", "expires")}
    try:
        if not typed["holder"]:
            raise BadInput("an access key is a reader's; name the reader.")
        key, _ = visit.service.make_key(
            visit.caller,
            name=typed["holder"],
            role="auditor",
            scopes=["tier"],
            datasets=typed["datasets"].replace(",", " ").split() or None,
            reader=typed["holder"],
            expires=end_of(typed["expires"]),
        )
    except BadInput as error:
        return access_page(visit, 400, holder=typed, refused="holder", refusal=said_of(error))
    return _told(visit, key.id, 201)


def _secret(visit: Visit, given: Form, key: str) -> Response:
    return _told(visit, key, 200)


def _told(visit: Visit, key_id: str, status: int) -> Response:
    """The page with the access key of a key on it."""
    found, secret = Buckets.of(visit.service).access_key(visit.caller, key_id)
    return access_page(visit, status, access=found, secret=secret)


def _revoke(visit: Visit, given: Form, key: str) -> Response:
    visit.service.revoke_key(visit.caller, key)
    return visit.then("access", part="readers")


ROUTES = [
    form("/access/readers", _say, "say-of-reader"),
    form("/access/readers/forget", _forget, "forget-reader"),
    form("/access/keys", _make, "make-access-key"),
    form("/access/keys/{key}/secret", _secret, "show-secret"),
    form("/access/keys/{key}/revoke", _revoke, "revoke-access-key"),
]
