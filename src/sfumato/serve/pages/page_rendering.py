"""How pages are printed: the report's templates, style and numbers, and the dashboard's own beside them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, FunctionLoader
from markupsafe import Markup, escape
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

import sfumato
from sfumato.privacy import Statement
from sfumato.reports.numbers import at_most, share
from sfumato.reports.page import environment as report_environment
from sfumato.reports.release_entry import Entry
from sfumato.reports.sections import ReleaseSection

__all__ = ["VERSION", "address_of", "is_fragment", "moment", "rendered", "section_of", "template_text"]

VERSION = sfumato.__version__

# What a page is called in the window's title; those of one thing by its name.
_TITLES = {
    "access.html": "Buckets and readers",
    "audits.html": "Audits and jobs",
    "check.html": "Check a file",
    "datasets.html": "Datasets",
    "explorer.html": "Frontier explorer",
    "frontier.html": "The frontier",
    "job.html": "A job",
    "keys.html": "Keys",
    "policy.html": "Trust",
    "protect.html": "Make a release",
    "release.html": "A release",
    "releases_list.html": "Releases",
    "sign_in.html": "Sign in",
}


def rendered(request: Request, template: str, *, status: int = 200, **values: Any) -> Response:
    """The page ``template``; only its changing part, a file of the same name, where a script asks for that.

    A page is printed inside ``frame.html``, so what scripts put into it and what others load are the same.
    """

    def at(name: str, **parameters: Any) -> Markup:
        return address_of(request, name, **parameters)

    title = _TITLES.get(template) or values.get("heading") or values.get("dataset") or ""
    content = {
        "title": title,
        "visit": None,
        "here": "",
        "fragment": is_fragment(request),
        **values,
        "at": at,
    }
    frame = template if content["fragment"] else "frame.html"
    body = _environment().get_template(frame).render(inner=template, sfumato_version=VERSION, **content)
    return HTMLResponse(body, status)


def address_of(request: Request, name: str, **parameters: Any) -> Markup:
    """The path of the page called ``name``, below wherever the application is mounted; safe in a page."""
    path = request.app.url_path_for(name, **{key: str(value) for key, value in parameters.items()})
    return Markup(escape(f"{request.scope.get('root_path', '').rstrip('/')}{path}"))


def is_fragment(request: Request) -> bool:
    """Whether a script of ours asks for the changing part of a page only."""
    return request.headers.get("sfumato-fragment") == "1"


def section_of(name: str, statement: Statement | Mapping[str, Any]) -> ReleaseSection:
    """The three columns of a release as the report prints them."""
    told = statement if isinstance(statement, Statement) else Statement.from_dict(statement)
    return ReleaseSection.of(1, Entry(name, told))


def template_text(name: str) -> str:
    """A template of the dashboard or, where it has none of this name, of the report."""
    for package in ("sfumato.serve.pages", "sfumato.reports"):
        place = files(package).joinpath("templates", name)
        if place.is_file():
            return place.read_text("utf-8")
    raise FileNotFoundError(name)


@cache
def _environment() -> Environment:
    environment = report_environment().overlay(loader=FunctionLoader(template_text))
    environment.filters = report_environment().filters | {
        "at_most": at_most,
        "share": share,
        "exact": lambda text: Markup(escape(text)),
        "sentence": _sentence,
        "day": _day,
        "moment": moment,
        "machine": lambda time: _parsed(time).isoformat(timespec="seconds"),
    }
    return environment


def _sentence(text: str) -> str:
    """One of the API's sentences, with a capital letter, for it stands alone here."""
    return text[:1].upper() + text[1:]


def _parsed(time: str | datetime) -> datetime:
    return time if isinstance(time, datetime) else datetime.fromisoformat(time)


def _day(time: str | datetime) -> str:
    """16 November 2026; the clock is that of UTC."""
    found = _parsed(time)
    return f"{found.day} {found:%B %Y}"


def moment(time: str | datetime) -> str:
    """16 Nov 2026, 15:40 UTC."""
    found = _parsed(time)
    return f"{found.day} {found:%b %Y, %H:%M} UTC"
