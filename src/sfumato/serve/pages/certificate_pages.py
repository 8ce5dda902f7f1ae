"""Is this file what its certificate says? For anybody who was given both."""

from __future__ import annotations

import shutil
from typing import Any

from starlette.responses import Response

from sfumato.errors import BadInput
from sfumato.reports import certificate_file
from sfumato.serve.auth.dataset_names import ledger_name
from sfumato.serve.pages.endpoints import page, upload
from sfumato.serve.pages.forms import Form
from sfumato.serve.pages.page_rendering import is_fragment, section_of
from sfumato.serve.pages.page_request import Visit
from sfumato.serve.refusal_codes import said_of
from sfumato.serve.request_files import require_size

__all__ = ["ROUTES"]

_MOST_CERTIFICATE = 1 << 20
_WHAT = {"envelope": "The signature", "key": "The key", "file": "The file", "ledger": "The payment"}


def _form(visit: Visit) -> Response:
    return visit.page("check.html", here="check", found=None, refusal=None)


def _check(visit: Visit, given: Form) -> Response:
    try:
        found = _found(visit, given)
    except BadInput as error:
        if is_fragment(visit.request):
            raise
        return visit.page("check.html", status=400, here="check", found=None, refusal=said_of(error))
    template = "checked.html" if is_fragment(visit.request) else "check.html"
    return visit.page(template, here="check", found=found, refusal=None)


def _found(visit: Visit, given: Form) -> dict[str, Any]:
    file, certificate = given.file("file"), given.file("certificate")
    require_size(certificate.stat().st_size, _MOST_CERTIFICATE)
    shutil.copyfile(certificate, certificate_file(file))
    found = visit.service.verified(visit.caller, file)
    own = ledger_name(visit.caller.tenant, "")
    checks = [
        # Datasets are called by the tenant's own names everywhere else too.
        (_WHAT[check["what"]], check["outcome"], check["detail"].replace(own, ""))
        for check in found["checks"]
    ]
    statement = found["statement"]
    section = None if statement is None or not found["holds"] else section_of(found["file"], statement)
    return {"file": found["file"], "holds": found["holds"], "checks": checks, "section": section}


ROUTES = [
    page("/check", _form, "check"),
    upload("/check", _check, "check-file", certificates=("certificate",)),
]
