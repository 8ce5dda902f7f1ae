"""Making a release: first the plan, which touches nothing; then the release, which pays.

Nothing of a file is kept between the two. A browser with JavaScript keeps the file chosen; without it, the
file is chosen again.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Mapping
from typing import Any

from starlette.responses import Response

from sfumato.errors import BadInput
from sfumato.mechanisms import (
    describe_defaults,
    describe_parameter,
    mechanism_places,
    options_at,
    typed_value,
)
from sfumato.privacy import format_delta
from sfumato.release import ReleaseRequest
from sfumato.reports import at_least, at_most, plain, share
from sfumato.serve.authentication import require
from sfumato.serve.jobs.sync_executor import LATE_PLAN
from sfumato.serve.pages.dataset_pages import budget_of
from sfumato.serve.pages.page_request import Form, Visit, is_fragment, page, section_of, upload
from sfumato.serve.refusal_codes import message_of
from sfumato.serve.service import Description, checked

# What the form has besides the file.
_FIELDS = (
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
    return {name: given.text(name) for name in (*_FIELDS, *other_fields())}


def columns_in(text: str) -> Any:
    """The columns that a field declares, as JSON; None where it is empty."""
    if not text:
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise BadInput("the columns of a table are declared in JSON, which this is not.") from None


def _form(visit: Visit, dataset: str) -> Response:
    require(visit.caller, "plan", dataset)
    return _shown(visit, dataset)


def _shown(visit: Visit, dataset: str, status: int = 200, **values: Any) -> Response:
    balance, others = visit.service.budget(visit.caller, dataset), other_fields()
    empty = {"typed": dict.fromkeys((*_FIELDS, *others), ""), "plan": None, "refusal": None}
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
        return _shown(visit, dataset, 400, typed=typed, refusal=message_of(error))
    once = secrets.token_hex(16)
    if is_fragment(visit.request):
        return visit.page("plan.html", dataset=dataset, plan=plan, once=once)
    return _shown(visit, dataset, typed=typed, plan=plan, once=once)


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


def _release(visit: Visit, given: Form, dataset: str) -> Response:
    done = visit.service.protect(
        visit.caller, asked_in(given), given.file("file"), dataset, request=request_in(given)
    )
    return visit.then("release", release=done.id)


ROUTES = [
    page("/datasets/{dataset}/release", _form, "protect"),
    upload("/datasets/{dataset}/plan", _plan, "plan", late=LATE_PLAN),
    upload("/datasets/{dataset}/release", _release, "make-release", late=_LATE_RELEASE),
]
