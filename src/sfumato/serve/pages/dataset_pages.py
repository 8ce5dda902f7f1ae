"""Datasets with their budgets: how much is left, how it went down, and what was made of them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from starlette.responses import Response

from sfumato.errors import BadInput
from sfumato.ledger import Balance
from sfumato.reports.numbers import at_least, plain, share
from sfumato.serve.auth.dataset_names import ledger_name
from sfumato.serve.pages.endpoints import form, page
from sfumato.serve.pages.forms import Form
from sfumato.serve.pages.measured_sections import sections_of
from sfumato.serve.pages.page_request import Visit
from sfumato.serve.pages.spending_plot import Spending
from sfumato.serve.proxy.object_cache import kept_objects
from sfumato.serve.refusal_codes import said_of
from sfumato.serve.request_models import NewBudget, checked

__all__ = ["ROUTES", "budget_of"]

# Units that one writes without a size; a region or a window is typed with one.
_UNITS = ("record", "item", "region(16)", "clip", "client")
_FIELDS = ("dataset", "epsilon", "delta", "unit", "neighbours")
_MOST = 1000
_MOST_ENTRIES = 200
_MOST_OBJECTS = 200
_NEIGHBOURS = ("replace", "add/remove", "zero-out")
_KINDS = {
    "open": "opened",
    "spend": "paid for a release",
    "hold": "held for a job",
    "commit": "job began to draw: paid",
    "release": "hold returned",
    "close": "closed",
}


def budget_of(balance: dict[str, Any]) -> dict[str, Any]:
    """A budget as pages print it: what is left rounded down, the share that is used as a percentage."""
    return balance | {
        "used_text": share(balance["used"]),
        "left_text": at_least(balance["left"] or balance["left_pure"]),
        "left_pure_text": at_least(balance["left_pure"]),
        "epsilon_text": plain(balance["epsilon"]),
        "delta_text": plain(balance["delta"]),
    }


def _datasets(visit: Visit) -> Response:
    return _listed(visit)


def _listed(visit: Visit, status: int = 200, **values: Any) -> Response:
    found = visit.service.budgets(visit.caller)
    return visit.page(
        "datasets.html",
        status=status,
        here="datasets",
        budgets=[budget_of(one) | {"spark": _spark(visit, one)} for one in found],
        units=_UNITS,
        neighbours=[(one, one) for one in _NEIGHBOURS],
        **({"typed": dict.fromkeys(_FIELDS, ""), "refusal": None} | values),
    )


def _open(visit: Visit, given: Form) -> Response:
    typed = {name: given.text(name) for name in _FIELDS}
    try:
        numbers = {name: given.number(name) for name in ("epsilon", "delta")}
        asked = checked("the budget", NewBudget, typed | numbers)
        visit.service.open_budget(visit.caller, **asked.model_dump())
    except BadInput as error:
        return _listed(visit, 400, typed=typed, refusal=said_of(error))
    return visit.then("dataset", dataset=asked.dataset)


def _dataset(visit: Visit, dataset: str) -> Response:
    entries = visit.service.history(visit.caller, dataset)
    balance = visit.service.budget(visit.caller, dataset)
    spending = Spending.of(visit.service.ledger, _named(visit, balance), datetime.now(UTC))
    left = {step.number: step.left_text for step in spending.steps}
    releases = [one for one in visit.service.releases(visit.caller, limit=_MOST) if one.dataset == dataset]
    objects, drawn = kept_objects(visit.service, visit.caller, dataset, most=_MOST_OBJECTS)
    return visit.page(
        "dataset.html",
        here="datasets",
        dataset=dataset,
        budget=budget_of(balance),
        plots_drawn=spending.drawn(),
        entries=[
            entry | {"left": left[entry["number"]], "said": _KINDS.get(entry["kind"], entry["kind"])}
            for entry in reversed(entries[-_MOST_ENTRIES:])
        ],
        older=max(0, len(entries) - _MOST_ENTRIES),
        releases=releases,
        objects=list(zip(objects, sections_of(visit, objects), strict=True)),
        older_objects=max(0, drawn - _MOST_OBJECTS),
        elsewhere=_paid(entries)
        - {one.paid["number"] for one in releases if one.paid}
        - {one.entry for one in objects},
    )


def _paid(entries: list[dict[str, Any]]) -> set[int]:
    """The numbers of the entries that are spent: of spends, and of holds that were committed."""
    committed = {entry["refers_to"] for entry in entries if entry["kind"] == "commit"}
    return {entry["number"] for entry in entries if entry["kind"] == "spend"} | committed


def _spark(visit: Visit, balance: dict[str, Any]) -> str:
    found = visit.desk.spendings.of(visit.service.ledger, _named(visit, balance), datetime.now(UTC))
    return found.spark()


def _named(visit: Visit, balance: dict[str, Any]) -> Balance:
    """A balance by the ledger's name of its dataset; only one that the service has shown to this caller."""
    return Balance(**balance | {"dataset": ledger_name(visit.caller.tenant, balance["dataset"])})


ROUTES = [
    page("/", _datasets, "datasets"),
    form("/datasets", _open, "open-budget"),
    page("/datasets/{dataset}", _dataset, "dataset"),
]
