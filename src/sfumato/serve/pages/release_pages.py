"""Releases: what is claimed, proven and measured of them, and the files themselves."""

from __future__ import annotations

from typing import Any

from starlette.responses import FileResponse, HTMLResponse, Response

from sfumato.io.formats import kind_of
from sfumato.reports import certificate_file
from sfumato.reports.sentences import WEAK_ATTACK
from sfumato.serve.pages.endpoints import form, page
from sfumato.serve.pages.forms import Form
from sfumato.serve.pages.headers import DOCUMENT
from sfumato.serve.pages.measured_sections import sections_of
from sfumato.serve.pages.page_request import Visit

__all__ = ["ROUTES"]

_MOST = 50


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
    page("/releases", _releases, "releases"),
    page("/releases/{release}", _release, "release"),
    form("/releases/{release}/delete", _delete, "delete-release"),
    page("/releases/{release}/file", _file, "release-file"),
    page("/releases/{release}/certificate", _certificate, "release-certificate"),
    page("/releases/{release}/report", _report, "release-report"),
]
