"""Pages of jobs and audits, and the forms that start audits."""

from __future__ import annotations

from typing import Any

from starlette.responses import HTMLResponse, Response

from sfumato.errors import BadInput
from sfumato.io import kind_of
from sfumato.reports import WEAK_ATTACK
from sfumato.serve.jobs.audit_jobs import AuditDescription
from sfumato.serve.jobs.job_lifecycle import Job
from sfumato.serve.pages.page_request import DOCUMENT, Form, Visit, form, is_fragment, moment, page, upload
from sfumato.serve.pages.release_forms import asked_in, columns_in, request_in
from sfumato.serve.pages.release_pages import section_of_audit
from sfumato.serve.refusal_codes import message_of
from sfumato.serve.service import checked

_MOST = 50
_FIELDS = ("dataset", "release", "labels", "array", "columns", "confidence")
_UNDER_WAY = ("queued", "running")


def _audits(visit: Visit) -> Response:
    chosen = visit.request.query_params.get("release", "")
    return _shown(visit, typed=dict.fromkeys(_FIELDS, "") | {"release": chosen})


def _shown(visit: Visit, status: int = 200, **values: Any) -> Response:
    jobs = visit.service.jobs(visit.caller, limit=_MOST)
    listed = [_row(visit, job) for job in jobs]
    if is_fragment(visit.request):
        return visit.page("jobs.html", rows=listed)
    names = [one["dataset"] for one in visit.service.budgets(visit.caller)]
    found = visit.service.releases(visit.caller, limit=_MOST) if visit.may("audit") else []
    told = [
        (one.id, f"{one.dataset}: {one.name}, {moment(one.created)}")
        for one in found
        if visit.may("audit", one.dataset) and kind_of(one.name) in ("array", "table")
    ]
    return visit.page(
        "audits.html",
        status=status,
        here="audits",
        rows=listed,
        datasets=[(name, name) for name in names if visit.may("audit", name)],
        releases=[("", "one that I upload below"), *told] if told else [],
        **({"typed": dict.fromkeys(_FIELDS, ""), "refusal": None} | values),
    )


def _row(visit: Visit, job: Job) -> dict[str, Any]:
    """Return a job for display, with the verdict of a finished audit."""
    under_way = job.state in _UNDER_WAY
    done_audit = job.kind == "audit" and job.state == "done"
    return {
        "job": job,
        "under_way": under_way,
        "stoppable": under_way and visit.may(job.kind, job.dataset),
        "name": (job.result or {}).get("name", ""),
        "section": section_of_audit(visit, job) if done_audit else None,
    }


def _job(visit: Visit, job: str) -> Response:
    row = _row(visit, visit.service.job(visit.caller, job))
    template = "job_state.html" if is_fragment(visit.request) else "job.html"
    sections = [] if row["section"] is None else [row["section"]]
    return visit.page(template, here="audits", row=row, sections=sections, weak_attack=WEAK_ATTACK)


def _cancel(visit: Visit, given: Form, job: str) -> Response:
    visit.service.cancel(visit.caller, job)
    return visit.then("job", job=job)


def _report(visit: Visit, job: str) -> Response:
    body = visit.service.report_page(visit.caller, job)
    return HTMLResponse(body, headers={"Content-Security-Policy": DOCUMENT})


def _submit(visit: Visit, given: Form, dataset: str) -> Response:
    """Submit the release of a plan as a job."""
    asked, file = asked_in(given), given.file("file")
    done = visit.service.submit(visit.caller, asked, file, dataset, request=request_in(given))
    return visit.then("job", job=done.id)


def _audit(visit: Visit, given: Form) -> Response:
    typed = {name: given.text(name) for name in _FIELDS}
    try:
        asked = {name: typed[name] for name in ("labels", "array", "confidence") if typed[name]}
        described = checked("the form", AuditDescription, asked | {"columns": columns_in(typed["columns"])})
        chosen, sent = typed["release"] or None, dict(given.files)
        if chosen is not None:  # which is then audited, whatever was uploaded beside it
            sent = {name: file for name, file in sent.items() if name not in ("released", "certificate")}
        certificate = sent.get("certificate")
        text = None if certificate is None else certificate.read_text("utf-8", "replace")
        dataset = typed["dataset"] if chosen is None else visit.service.content(visit.caller, chosen).dataset
        started = visit.service.submit_audit(
            visit.caller, described, sent, dataset, release=chosen, certificate=text
        )
    except BadInput as error:
        return _shown(visit, 400, typed=typed, refusal=message_of(error))
    return visit.then("job", job=started.id)


ROUTES = [
    page("/audits", _audits, "audits"),
    upload("/audits", _audit, "start-audit", certificates=("certificate",)),
    upload("/datasets/{dataset}/jobs", _submit, "submit"),
    page("/jobs/{job}", _job, "job"),
    form("/jobs/{job}/cancel", _cancel, "cancel"),
    page("/jobs/{job}/report", _report, "job-report"),
]
