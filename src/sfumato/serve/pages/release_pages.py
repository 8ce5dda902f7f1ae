"""Pages of releases: the three columns, the files, and the check of a certificate.

The measured column comes from audits, which are matched to releases by the digest of the released bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from starlette.responses import FileResponse, HTMLResponse, Response

from sfumato.audits import Finding
from sfumato.errors import BadInput
from sfumato.io import kind_of
from sfumato.privacy import Statement
from sfumato.reports import WEAK_ATTACK, Entry, ReleaseSection, certificate_file
from sfumato.serve.authentication import ledger_name
from sfumato.serve.jobs.job_lifecycle import Job
from sfumato.serve.pages.page_request import (
    DOCUMENT,
    Form,
    Visit,
    form,
    is_fragment,
    page,
    section_of,
    upload,
)
from sfumato.serve.refusal_codes import message_of
from sfumato.serve.request_files import require_size

_MOST_JOBS = 1000

_MOST_CERTIFICATE = 1 << 20
_WHAT = {"envelope": "The signature", "key": "The key", "file": "The file", "ledger": "The payment"}
_MOST = 50


class _Released(Protocol):
    """Something with three columns: a release, or an object that the proxy has drawn."""

    @property
    def name(self) -> str: ...
    @property
    def sha256(self) -> str: ...
    @property
    def statement(self) -> Mapping[str, Any]: ...


def sections_of(visit: Visit, releases: Sequence[_Released]) -> list[ReleaseSection]:
    """Return the three columns of each release; the third is from the newest finished audit of its bytes.

    Audits are looked up among the newest 1,000 jobs that the caller may see.
    """
    wanted = {one.sha256 for one in releases}
    audits: dict[str, str] = {}
    for job in visit.service.jobs(visit.caller, limit=_MOST_JOBS) if wanted else []:
        digest = (job.result or {}).get("sha256", "")
        if job.kind == "audit" and digest in wanted:
            audits.setdefault(digest, job.id)
    return [
        ReleaseSection(
            1,
            Entry(
                one.name,
                Statement.from_dict(one.statement),
                _findings(visit, audits[one.sha256]) if one.sha256 in audits else (),
            ),
        )
        for one in releases
    ]


def section_of_audit(visit: Visit, job: Job) -> ReleaseSection:
    """Return the three columns of a finished audit; its release may belong to somebody else."""
    found = visit.service.audit(visit.caller, job.id)
    name = (job.result or {}).get("name", job.id)
    findings = _findings(visit, job.id)
    return ReleaseSection(1, Entry(name, Statement.from_dict(found["statement"]), findings))


def _findings(visit: Visit, id_: str) -> list[Finding]:
    return [Finding.from_dict(one) for one in visit.service.audit(visit.caller, id_)["findings"]]


def _form(visit: Visit) -> Response:
    return visit.page("check.html", here="check", found=None, refusal=None)


def _check(visit: Visit, given: Form) -> Response:
    try:
        found = _found(visit, given)
    except BadInput as error:
        if is_fragment(visit.request):
            raise
        return visit.page("check.html", status=400, here="check", found=None, refusal=message_of(error))
    template = "checked.html" if is_fragment(visit.request) else "check.html"
    return visit.page(template, here="check", found=found, refusal=None)


def _found(visit: Visit, given: Form) -> dict[str, Any]:
    file, certificate = given.file("file"), given.file("certificate")
    require_size(certificate.stat().st_size, _MOST_CERTIFICATE)
    found = visit.service.verified(visit.caller, file, certificate.read_bytes())
    own = ledger_name(visit.caller.tenant, "")
    checks = [
        # Datasets are called by the tenant's own names everywhere else too.
        (_WHAT[check["what"]], check["outcome"], check["detail"].replace(own, ""))
        for check in found["checks"]
    ]
    statement = found["statement"]
    section = None if statement is None or not found["holds"] else section_of(found["file"], statement)
    return {"file": found["file"], "holds": found["holds"], "checks": checks, "section": section}


_CERTIFICATE_ROUTES = [
    page("/check", _form, "check"),
    upload("/check", _check, "check-file", certificates=("certificate",)),
]


def _releases(visit: Visit) -> Response:
    cursor = visit.request.query_params.get("after")
    found = visit.service.releases(visit.caller, limit=_MOST + 1, cursor=cursor)
    shown = found[:_MOST]
    rows: list[dict[str, Any]] = [
        {"release": one, "section": section}
        for one, section in zip(shown, sections_of(visit, shown), strict=True)
    ]
    last = found[_MOST - 1].id if len(found) > _MOST else None
    return visit.page("releases_list.html", here="releases", rows=rows, last=last, first=cursor is None)


def _release(visit: Visit, release: str) -> Response:
    found = visit.service.release(visit.caller, release)
    return visit.page(
        "release.html",
        here="releases",
        release=found,
        sections=sections_of(visit, [found]),
        deletable=found.deleted is None and visit.may("protect", found.dataset),
        auditable=found.deleted is None
        and visit.may("audit", found.dataset)
        and kind_of(found.name) in ("array", "table"),
        weak_attack=WEAK_ATTACK,
    )


def _file(visit: Visit, release: str) -> Response:
    found = visit.service.content(visit.caller, release)
    return FileResponse(found.file, media_type="application/octet-stream", filename=found.name)


def _delete(visit: Visit, given: Form, release: str) -> Response:
    visit.service.delete_release(visit.caller, release)
    return visit.then("release", release=release)


def _certificate(visit: Visit, release: str) -> Response:
    beside = certificate_file(visit.service.release(visit.caller, release).file)
    return FileResponse(beside, media_type="application/json", filename=beside.name)


def _report(visit: Visit, release: str) -> Response:
    found = visit.service.release(visit.caller, release)  # so that only a release answers here
    body = visit.service.report_page(visit.caller, found.id)
    return HTMLResponse(body, headers={"Content-Security-Policy": DOCUMENT})


ROUTES = [
    *_CERTIFICATE_ROUTES,
    page("/releases", _releases, "releases"),
    page("/releases/{release}", _release, "release"),
    form("/releases/{release}/delete", _delete, "delete-release"),
    page("/releases/{release}/file", _file, "release-file"),
    page("/releases/{release}/certificate", _certificate, "release-certificate"),
    page("/releases/{release}/report", _report, "release-report"),
]
