"""Pages of releases, audits and jobs, and the forms that start them.

A release is made in two steps: first the plan, which touches nothing, then the release, which pays. Nothing
of a file is kept between the two. A browser with JavaScript keeps the file chosen; without it, the file is
chosen again. The measured column comes from audits, which are matched to releases by the digest of the
released bytes.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Mapping, Sequence
from typing import Any

from starlette.responses import FileResponse, HTMLResponse, Response

from sfumato.audits import Finding
from sfumato.errors import BadInput
from sfumato.io import kind_of
from sfumato.mechanisms import (
    describe_defaults,
    describe_parameter,
    mechanism_places,
    options_at,
    typed_value,
)
from sfumato.privacy import format_delta
from sfumato.release import ReleaseRequest
from sfumato.reports import (
    WEAK_ATTACK,
    ReleaseSection,
    at_least,
    at_most,
    certificate_file,
    plain,
    share,
)
from sfumato.serve.authentication import require
from sfumato.serve.jobs.audit_jobs import AuditDescription
from sfumato.serve.jobs.job_lifecycle import Job
from sfumato.serve.pages.page_request import (
    DOCUMENT,
    Form,
    Visit,
    budget_of,
    form,
    is_fragment,
    moment,
    page,
    section_of,
    upload,
)
from sfumato.serve.proxy.protected_objects import KeptObject
from sfumato.serve.release_store import Release
from sfumato.serve.service import Description, checked
from sfumato.serve.uploads import LATE_PLAN, require_size

# The fields of the form besides the file.
_FORM_FIELDS = (
    *("mechanism", "epsilon", "epsilon_max", "distrust", "delta", "clip", "low", "high", "unit", "array"),
    *("columns", "alpha", "bounds_from_data", "disjoint", "public_names"),
)
_AUDIT_FIELDS = ("dataset", "release", "labels", "array", "columns", "confidence")
_LATE_RELEASE = "it goes on, and is paid once: look for it among the releases in a while"
_ONCE = re.compile(r"[0-9a-f]{32}")
# Groups of mechanisms, by a kind of data that they serve.
_GROUPS = {"array": "Arrays and tables", "picture": "Pictures and videos", "sound": "Sounds"}
# Fields of their own, and the parameter that each belongs to; the fields of other parameters have a prefix.
_PARAMETERS: Mapping[str, str] = {
    "epsilon": "epsilon",
    "epsilon_max": "distrust",
    "distrust": "distrust",
    "delta": "delta",
    "clip": "clip",
    "low": "bounds",
    "high": "bounds",
    "unit": "unit",
}
_OTHER = "parameter-"
_MOST_LISTED, _MOST_JOBS = 50, 1000
_MOST_CERTIFICATE = 1 << 20
_CHECKS = {"envelope": "The signature", "key": "The key", "file": "The file", "ledger": "The payment"}


# Making a release


def offered() -> dict[str, list[tuple[str, str]]]:
    """Return the mechanisms with an ε to choose from, in groups, each with the fields that it takes."""
    groups: dict[str, list[tuple[str, str]]] = {title: [] for title in _GROUPS.values()}
    taken: dict[str, list[str]] = {}
    for name, options in options_at("service").items():
        fields = [field for field, parameter in _PARAMETERS.items() if parameter == name] or [_OTHER + name]
        for mechanism in (of for one in options for of in one.of):
            taken.setdefault(mechanism, []).extend(fields)
    for mechanism, place in mechanism_places().items():
        title = next(title for kind, title in _GROUPS.items() if kind in place.kinds)
        if "epsilon" in taken[mechanism]:
            groups[title].append((mechanism, " ".join(taken[mechanism])))
    return groups


def other_fields() -> dict[str, tuple[str, str]]:
    """Return the fields of the parameters without a form of their own: name, label and hint of each."""
    return {
        _OTHER + name: (name.replace("_", " "), describe_parameter(options))
        for name, options in options_at("service").items()
        if name not in _PARAMETERS.values()
    }


def request_of(given: Form) -> ReleaseRequest:
    """Return the release request of a form; fields that are left empty are left out."""
    typed = given.texts((*_FORM_FIELDS, *other_fields()))
    numbers = {name: given.number(name) for name in _PARAMETERS if name != "unit" and typed[name]}
    parameters: dict[str, Any] = {
        name: numbers[name] for name in ("epsilon", "distrust", "delta", "clip") if name in numbers
    }
    if "epsilon_max" in numbers:
        parameters["epsilon"] = [numbers.get("epsilon", numbers["epsilon_max"]), numbers["epsilon_max"]]
    if ("low" in numbers) != ("high" in numbers):
        raise BadInput("the lowest and the highest value are declared together, or neither.")
    if "low" in numbers:
        parameters["bounds"] = [numbers["low"], numbers["high"]]
    if typed["unit"]:
        parameters["unit"] = typed["unit"]
    for name, options in options_at("service").items():
        text = typed.get(_OTHER + name)
        if text:
            parameters[name] = typed_value(options, text.split())
    described = {
        "mechanism": typed["mechanism"] or None,
        "parameters": parameters,
        "columns": _columns(typed["columns"]),
        "array": typed["array"] or None,
        "alpha": given.number("alpha") if typed["alpha"] else None,
    } | {name: bool(typed[name]) for name in ("bounds_from_data", "disjoint", "public_names")}
    return checked("the form", Description, described).request()


def _columns(text: str) -> Any:
    """Return the columns that a field declares as JSON; None if it is empty."""
    if not text:
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise BadInput("the columns of a table are declared in JSON, which this is not.") from None


def _release_form(
    visit: Visit, dataset: str, status: int = 200, given: Form | None = None, **values: Any
) -> Response:
    require(visit.caller, "plan", dataset)
    others = other_fields()
    typed = (given or Form()).texts((*_FORM_FIELDS, *others))
    return visit.page(
        "protect.html",
        status=status,
        here="datasets",
        dataset=dataset,
        budget=budget_of(visit.service.budget(visit.caller, dataset)),
        groups=offered(),
        others=others,
        typed=typed,
        typed_others=any(typed[field] for field in others),
        automatic="by the kind of file",
        defaults=describe_defaults(),
        **({"plan": None, "refusal": None} | values),
    )


def _plan(visit: Visit, given: Form, dataset: str) -> Response:
    found = visit.service.plan(visit.caller, request_of(given), given.file("file"), dataset)
    plan = _shown_plan(found, visit.service.budget(visit.caller, dataset))
    once = secrets.token_hex(16)
    if is_fragment(visit.request):
        return visit.page("plan.html", dataset=dataset, plan=plan, once=once)
    return _release_form(visit, dataset, given=given, plan=plan, once=once)


def _shown_plan(plan: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, Any]:
    """Return a plan for display: what it costs, and what would be left."""
    cost, deltas = plan["cost"], plan["delta_of_group"]
    after = cost["balance"]
    return dict(plan) | {
        "section": section_of(plan["source"], plan["statement"]),
        "fits": cost["fits"],
        "refusal": cost["refusal"],
        "after_left": at_least(after["left"] or after["left_pure"]),
        "now_used": share(now["used"]),
        "after_used": share(after["used"]),
        "groups": [
            (
                size,
                "no finite ε"
                if epsilon is None
                else f"ε = {at_most(epsilon)} at δ = {format_delta(deltas[size])}",
            )
            for size, epsilon in plan["epsilon_of_group"].items()
        ],
        "errors": [
            (error["of"], error["measure"], plain(error["value"])) for error in plan["expected_error"]
        ],
    }


def _paid_once(given: Form) -> str:
    """Return the request id of a plan's form: sent twice, it is one release and is paid once."""
    once = given.text("once")
    if not _ONCE.fullmatch(once):
        raise BadInput("a release follows a plan: request the plan first.")
    return f"form {once}"


def _make_release(visit: Visit, given: Form, dataset: str) -> Response:
    asked, file, once = request_of(given), given.file("file"), _paid_once(given)
    done = visit.service.protect(visit.caller, asked, file, dataset, request=once)
    return visit.then("release", release=done.id)


def _submit(visit: Visit, given: Form, dataset: str) -> Response:
    """Submit the release of a plan as a job."""
    asked, file, once = request_of(given), given.file("file"), _paid_once(given)
    done = visit.service.submit(visit.caller, asked, file, dataset, request=once)
    return visit.then("job", job=done.id)


# Releases and the check of a certificate


def sections_of(visit: Visit, releases: Sequence[Release | KeptObject]) -> list[ReleaseSection]:
    """Return the three columns of each release; the third is from the newest finished audit of its bytes.

    Audits are looked up among the newest 1,000 jobs that the caller may see.
    """
    wanted = {one.sha256 for one in releases}
    audits: dict[str, list[Finding]] = {}
    for job in visit.service.jobs(visit.caller, limit=_MOST_JOBS) if wanted else []:
        digest = (job.result or {}).get("sha256", "")
        if job.kind == "audit" and digest in wanted and digest not in audits:
            audits[digest] = _findings(visit.service.audit(visit.caller, job.id))
    return [section_of(one.name, one.statement, audits.get(one.sha256, ())) for one in releases]


def _findings(evidence: Mapping[str, Any]) -> list[Finding]:
    return [Finding.from_dict(one) for one in evidence["findings"]]


def _is_auditable(visit: Visit, release: Release) -> bool:
    return visit.may("audit", release.dataset) and kind_of(release.name) in ("array", "table")


def _check_form(visit: Visit, status: int = 200, given: Form | None = None, **values: Any) -> Response:
    template = "checked.html" if is_fragment(visit.request) else "check.html"
    return visit.page(template, status=status, here="check", **({"found": None, "refusal": None} | values))


def _check(visit: Visit, given: Form) -> Response:
    file, certificate = given.file("file"), given.file("certificate")
    require_size(certificate.stat().st_size, _MOST_CERTIFICATE)
    found = visit.service.verified(visit.caller, file, certificate.read_bytes())
    checks = [(_CHECKS[check["what"]], check["outcome"], check["detail"]) for check in found["checks"]]
    statement = found["statement"] if found["holds"] else None
    section = None if statement is None else section_of(found["file"], statement)
    shown = {"file": found["file"], "holds": found["holds"], "checks": checks, "section": section}
    return _check_form(visit, found=shown)


def _releases(visit: Visit) -> Response:
    cursor = visit.request.query_params.get("after")
    found = visit.service.releases(visit.caller, limit=_MOST_LISTED + 1, cursor=cursor)
    shown = found[:_MOST_LISTED]
    rows = [
        {"release": one, "section": section}
        for one, section in zip(shown, sections_of(visit, shown), strict=True)
    ]
    last = shown[-1].id if len(found) > _MOST_LISTED else None
    return visit.page("releases_list.html", here="releases", rows=rows, last=last, first=cursor is None)


def _release(visit: Visit, release: str) -> Response:
    found = visit.service.release(visit.caller, release)
    return visit.page(
        "release.html",
        here="releases",
        release=found,
        sections=sections_of(visit, [found]),
        deletable=found.deleted is None and visit.may("protect", found.dataset),
        auditable=found.deleted is None and _is_auditable(visit, found),
        weak_attack=WEAK_ATTACK,
    )


def _file(visit: Visit, release: str) -> Response:
    found = visit.service.content(visit.caller, release)
    return FileResponse(found.file, media_type="application/octet-stream", filename=found.name)


def _certificate(visit: Visit, release: str) -> Response:
    beside = certificate_file(visit.service.release(visit.caller, release).file)
    return FileResponse(beside, media_type="application/json", filename=beside.name)


def _release_report(visit: Visit, release: str) -> Response:
    visit.service.release(visit.caller, release)  # so that only a release is answered here
    return _report(visit, release)


def _report(visit: Visit, job: str) -> Response:
    body = visit.service.report_page(visit.caller, job)
    return HTMLResponse(body, headers={"Content-Security-Policy": DOCUMENT})


def _delete(visit: Visit, given: Form, release: str) -> Response:
    visit.service.delete_release(visit.caller, release)
    return visit.then("release", release=release)


# Audits and jobs


def _audits(visit: Visit, status: int = 200, given: Form | None = None, **values: Any) -> Response:
    rows = [_row(visit, job) for job in visit.service.jobs(visit.caller, limit=_MOST_LISTED)]
    if is_fragment(visit.request):
        return visit.page("jobs.html", rows=rows)
    names = [one["dataset"] for one in visit.service.budgets(visit.caller)]
    found = visit.service.releases(visit.caller, limit=_MOST_LISTED) if visit.may("audit") else []
    releases = [
        (one.id, f"{one.dataset}: {one.name}, {moment(one.created)}")
        for one in found
        if _is_auditable(visit, one)
    ]
    chosen = Form({"release": [visit.request.query_params.get("release", "")]})
    return visit.page(
        "audits.html",
        status=status,
        here="audits",
        rows=rows,
        datasets=[(name, name) for name in names if visit.may("audit", name)],
        releases=[("", "one that I upload below"), *releases] if releases else [],
        typed=(given or chosen).texts(_AUDIT_FIELDS),
        **({"refusal": None} | values),
    )


def _row(visit: Visit, job: Job) -> dict[str, Any]:
    """Return a job for display, with the three columns of a finished audit."""
    under_way, name, section = job.state in ("queued", "running"), (job.result or {}).get("name", ""), None
    if job.kind == "audit" and job.state == "done":
        found = visit.service.audit(visit.caller, job.id)
        section = section_of(name or job.id, found["statement"], _findings(found))
    stoppable = under_way and visit.may(job.kind, job.dataset)
    return {"job": job, "under_way": under_way, "stoppable": stoppable, "name": name, "section": section}


def _job(visit: Visit, job: str) -> Response:
    row = _row(visit, visit.service.job(visit.caller, job))
    template = "job_state.html" if is_fragment(visit.request) else "job.html"
    sections = [] if row["section"] is None else [row["section"]]
    return visit.page(template, here="audits", row=row, sections=sections, weak_attack=WEAK_ATTACK)


def _cancel(visit: Visit, given: Form, job: str) -> Response:
    visit.service.cancel(visit.caller, job)
    return visit.then("job", job=job)


def _start_audit(visit: Visit, given: Form) -> Response:
    typed, sent = given.texts(_AUDIT_FIELDS), dict(given.files)
    asked: dict[str, Any] = {name: typed[name] for name in ("labels", "array", "confidence") if typed[name]}
    described = checked("the form", AuditDescription, asked | {"columns": _columns(typed["columns"])})
    dataset, chosen, certificate = typed["dataset"], typed["release"] or None, sent.pop("certificate", None)
    if chosen is not None:  # which is then audited, whatever was uploaded beside it
        sent.pop("released", None)
        certificate, dataset = None, visit.service.content(visit.caller, chosen).dataset
    text = None if certificate is None else certificate.read_text("utf-8", "replace")
    started = visit.service.submit_audit(
        visit.caller, described, sent, dataset, release=chosen, certificate=text
    )
    return visit.then("job", job=started.id)


_CERTIFICATE = ("certificate",)
ROUTES = [
    page("/datasets/{dataset}/release", _release_form, "protect"),
    upload("/datasets/{dataset}/plan", _plan, "plan", again=_release_form, late=LATE_PLAN),
    upload("/datasets/{dataset}/release", _make_release, "make-release", late=_LATE_RELEASE),
    upload("/datasets/{dataset}/jobs", _submit, "submit"),
    page("/check", _check_form, "check"),
    upload("/check", _check, "check-file", again=_check_form, certificates=_CERTIFICATE),
    page("/releases", _releases, "releases"),
    page("/releases/{release}", _release, "release"),
    form("/releases/{release}/delete", _delete, "delete-release"),
    page("/releases/{release}/file", _file, "release-file"),
    page("/releases/{release}/certificate", _certificate, "release-certificate"),
    page("/releases/{release}/report", _release_report, "release-report"),
    page("/audits", _audits, "audits"),
    upload("/audits", _start_audit, "start-audit", again=_audits, certificates=_CERTIFICATE),
    page("/jobs/{job}", _job, "job"),
    form("/jobs/{job}/cancel", _cancel, "cancel"),
    page("/jobs/{job}/report", _report, "job-report"),
]
