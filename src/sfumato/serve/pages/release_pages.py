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
from typing import Any, Protocol

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
from sfumato.privacy import Statement, format_delta
from sfumato.release import ReleaseRequest
from sfumato.reports import (
    WEAK_ATTACK,
    Entry,
    ReleaseSection,
    at_least,
    at_most,
    certificate_file,
    plain,
    share,
)
from sfumato.serve.authentication import ledger_name, require
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
from sfumato.serve.refusals import message_of
from sfumato.serve.service import Description, checked
from sfumato.serve.uploads import LATE_PLAN, require_size

# What the form has besides the file.
_FORM_FIELDS = (
    *("mechanism", "epsilon", "epsilon_max", "distrust", "delta", "clip", "low", "high", "unit", "array"),
    *("columns", "alpha", "bounds_from_data", "disjoint", "public_names"),
)
_LATE_RELEASE = "it goes on, and is paid once: look for it among the releases in a while"
_ONCE = re.compile(r"[0-9a-f]{32}")
_AUTOMATIC = "by the kind of file"
# Which mechanisms stand together, by a kind of data that they serve.
_GROUPS = {"array": "Arrays and tables", "picture": "Pictures and videos", "sound": "Sounds"}
# Fields with a form of their own, and the parameter that a mechanism has which takes them.
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
# Names of the fields of all other parameters begin so.
_OTHER = "parameter-"


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


def asked_in(given: Form) -> ReleaseRequest:
    """Return what the form asks for; fields that are left empty are left out."""
    typed = _typed(given)
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
    options = options_at("service")
    for field in other_fields():
        if typed[field]:
            name = field.removeprefix(_OTHER)
            parameters[name] = typed_value(options[name], typed[field].split())
    described = {
        "mechanism": typed["mechanism"] or None,
        "parameters": parameters,
        "columns": columns_in(typed["columns"]),
        "array": typed["array"] or None,
        "alpha": given.number("alpha") if typed["alpha"] else None,
    } | {name: bool(typed[name]) for name in ("bounds_from_data", "disjoint", "public_names")}
    return checked("the form", Description, described).request()


def _typed(given: Form) -> dict[str, str]:
    return {name: given.text(name) for name in (*_FORM_FIELDS, *other_fields())}


def columns_in(text: str) -> Any:
    """The columns that a field declares, as JSON; None where it is empty."""
    if not text:
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise BadInput("the columns of a table are declared in JSON, which this is not.") from None


def _release_form(visit: Visit, dataset: str) -> Response:
    require(visit.caller, "plan", dataset)
    return _form_page(visit, dataset)


def _form_page(visit: Visit, dataset: str, status: int = 200, **values: Any) -> Response:
    balance, others = visit.service.budget(visit.caller, dataset), other_fields()
    empty = {"typed": dict.fromkeys((*_FORM_FIELDS, *others), ""), "plan": None, "refusal": None}
    shown = empty | values
    return visit.page(
        "protect.html",
        status=status,
        here="datasets",
        dataset=dataset,
        budget=budget_of(balance),
        groups=offered(),
        others=others,
        typed_others=any(shown["typed"][field] for field in others),
        automatic=_AUTOMATIC,
        defaults=describe_defaults(),
        **shown,
    )


def _plan(visit: Visit, given: Form, dataset: str) -> Response:
    typed = _typed(given)
    try:
        found = visit.service.plan(visit.caller, asked_in(given), given.file("file"), dataset)
        plan = _printed(found, visit.service.budget(visit.caller, dataset))
    except BadInput as error:
        if is_fragment(visit.request):
            raise
        return _form_page(visit, dataset, 400, typed=typed, refusal=message_of(error))
    once = secrets.token_hex(16)
    if is_fragment(visit.request):
        return visit.page("plan.html", dataset=dataset, plan=plan, once=once)
    return _form_page(visit, dataset, typed=typed, plan=plan, once=once)


def _printed(plan: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, Any]:
    """A plan as pages print it: what it costs, and what would be left."""
    cost = plan["cost"]
    after = cost["balance"]
    return dict(plan) | {
        "section": section_of(plan["source"], plan["statement"]),
        "fits": cost["fits"],
        "refusal": cost["refusal"],
        "largest": at_least(cost["largest"]),
        "after": after,
        "after_left": at_least(after["left"] or after["left_pure"]),
        "now_used": share(now["used"]),
        "after_used": share(after["used"]),
        "groups": [
            (
                size,
                "no finite ε" if epsilon is None else f"ε = {at_most(epsilon)} at δ = {format_delta(delta)}",
            )
            for (size, epsilon), delta in zip(
                plan["epsilon_of_group"].items(), plan["delta_of_group"].values(), strict=True
            )
        ],
        "errors": [
            (error["of"], error["measure"], plain(error["value"])) for error in plan["expected_error"]
        ],
    }


def request_in(given: Form) -> str:
    """The request of a plan: sent twice, it is one release and is paid once."""
    once = given.text("once")
    if not _ONCE.fullmatch(once):
        raise BadInput("a release follows a plan: ask for the plan first.")
    return f"form {once}"


def _make_release(visit: Visit, given: Form, dataset: str) -> Response:
    done = visit.service.protect(
        visit.caller, asked_in(given), given.file("file"), dataset, request=request_in(given)
    )
    return visit.then("release", release=done.id)


_FORM_ROUTES = [
    page("/datasets/{dataset}/release", _release_form, "protect"),
    upload("/datasets/{dataset}/plan", _plan, "plan", late=LATE_PLAN),
    upload("/datasets/{dataset}/release", _make_release, "make-release", late=_LATE_RELEASE),
]


_MOST_JOBS = 1000

_MOST_CERTIFICATE = 1 << 20
_WHAT = {"envelope": "The signature", "key": "The key", "file": "The file", "ledger": "The payment"}
_MOST_LISTED = 50


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


def _check_form(visit: Visit) -> Response:
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
    page("/check", _check_form, "check"),
    upload("/check", _check, "check-file", certificates=("certificate",)),
]


def _releases(visit: Visit) -> Response:
    cursor = visit.request.query_params.get("after")
    found = visit.service.releases(visit.caller, limit=_MOST_LISTED + 1, cursor=cursor)
    shown = found[:_MOST_LISTED]
    rows: list[dict[str, Any]] = [
        {"release": one, "section": section}
        for one, section in zip(shown, sections_of(visit, shown), strict=True)
    ]
    last = found[_MOST_LISTED - 1].id if len(found) > _MOST_LISTED else None
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


def _release_report(visit: Visit, release: str) -> Response:
    found = visit.service.release(visit.caller, release)  # so that only a release answers here
    body = visit.service.report_page(visit.caller, found.id)
    return HTMLResponse(body, headers={"Content-Security-Policy": DOCUMENT})


_RELEASE_ROUTES = [
    *_CERTIFICATE_ROUTES,
    page("/releases", _releases, "releases"),
    page("/releases/{release}", _release, "release"),
    form("/releases/{release}/delete", _delete, "delete-release"),
    page("/releases/{release}/file", _file, "release-file"),
    page("/releases/{release}/certificate", _certificate, "release-certificate"),
    page("/releases/{release}/report", _release_report, "release-report"),
]


_MOST_JOBS_LISTED = 50
_AUDIT_FIELDS = ("dataset", "release", "labels", "array", "columns", "confidence")
_UNDER_WAY = ("queued", "running")


def _audits(visit: Visit) -> Response:
    chosen = visit.request.query_params.get("release", "")
    return _audits_page(visit, typed=dict.fromkeys(_AUDIT_FIELDS, "") | {"release": chosen})


def _audits_page(visit: Visit, status: int = 200, **values: Any) -> Response:
    jobs = visit.service.jobs(visit.caller, limit=_MOST_JOBS_LISTED)
    listed = [_row(visit, job) for job in jobs]
    if is_fragment(visit.request):
        return visit.page("jobs.html", rows=listed)
    names = [one["dataset"] for one in visit.service.budgets(visit.caller)]
    found = visit.service.releases(visit.caller, limit=_MOST_JOBS_LISTED) if visit.may("audit") else []
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
        **({"typed": dict.fromkeys(_AUDIT_FIELDS, ""), "refusal": None} | values),
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


def _job_report(visit: Visit, job: str) -> Response:
    body = visit.service.report_page(visit.caller, job)
    return HTMLResponse(body, headers={"Content-Security-Policy": DOCUMENT})


def _submit(visit: Visit, given: Form, dataset: str) -> Response:
    """Submit the release of a plan as a job."""
    asked, file = asked_in(given), given.file("file")
    done = visit.service.submit(visit.caller, asked, file, dataset, request=request_in(given))
    return visit.then("job", job=done.id)


def _audit(visit: Visit, given: Form) -> Response:
    typed = {name: given.text(name) for name in _AUDIT_FIELDS}
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
        return _audits_page(visit, 400, typed=typed, refusal=message_of(error))
    return visit.then("job", job=started.id)


_JOB_ROUTES = [
    page("/audits", _audits, "audits"),
    upload("/audits", _audit, "start-audit", certificates=("certificate",)),
    upload("/datasets/{dataset}/jobs", _submit, "submit"),
    page("/jobs/{job}", _job, "job"),
    form("/jobs/{job}/cancel", _cancel, "cancel"),
    page("/jobs/{job}/report", _job_report, "job-report"),
]


ROUTES = [*_FORM_ROUTES, *_RELEASE_ROUTES, *_JOB_ROUTES]
