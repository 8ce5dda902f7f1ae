"""Pages of datasets: budgets, their spending over time, and their releases."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import lru_cache, partial
from typing import Any

from starlette.responses import Response

from sfumato.ledger import Balance, Ledger
from sfumato.privacy import Unit
from sfumato.reports import (
    NARROW,
    WIDE,
    Axes,
    Budget,
    BurnDown,
    Canvas,
    Scale,
    Step,
    Tick,
    thinned,
)
from sfumato.serve.authentication import ledger_name
from sfumato.serve.pages.page_request import Form, Visit, budget_of, form, page
from sfumato.serve.pages.release_pages import sections_of
from sfumato.serve.proxy.protected_objects import kept_objects
from sfumato.serve.service import NewBudget, checked

_MINUTE, _HOUR, _DAY = 60.0, 3600.0, 86_400.0
# Steps between marks of an axis of time, in seconds, and how a mark is then written.
_STEPS = (
    *((float(seconds), "%H:%M:%S") for seconds in (1, 5, 15, 30)),
    *((minutes * _MINUTE, "%H:%M") for minutes in (1, 5, 15, 30)),
    *((hours * _HOUR, "%H:%M") for hours in (1, 3, 6, 12)),
    *((days * _DAY, "%-d %b") for days in (1, 2, 7, 14, 30, 91)),
    *((years * 365.25 * _DAY, "%b %Y") for years in (0.5, 1, 2, 5, 10)),
)
_SPARK = (120.0, 32.0)
_MOST_DRAWN, _MOST_SPARK = 400, 60
_MOST_KEPT = 512

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


@dataclass(frozen=True)
class Moments(Scale):
    """A time axis in seconds of the epoch, with ticks at full minutes, hours or days."""

    def ticks(self, most: int = 6) -> list[Tick]:
        """Return at most ``most`` ticks at round times."""
        span = self.high - self.low
        step, form = next((each for each in _STEPS if span / each[0] <= most - 1), _STEPS[-1])
        first = int(-(-self.low // step))
        times = [number * step for number in range(first, int(self.high // step) + 1)]
        return [Tick(self(time), datetime.fromtimestamp(time, UTC).strftime(form)) for time in times]


@dataclass(frozen=True)
class Spending:
    """What a dataset has spent, entry by entry; ``now`` ends its line, in seconds of the epoch."""

    steps: Sequence[Step]
    times: Sequence[float]
    now: float

    @classmethod
    def of(cls, ledger: Ledger, balance: Balance) -> Spending:
        """Return the spending of the dataset of ``balance``, up to its last entry."""
        rows = ledger.history(balance.dataset)
        times = [datetime.fromisoformat(row.at).timestamp() for row in rows]
        return cls(Budget(balance, rows).steps(), times, max(times))

    def drawn(self) -> list[BurnDown]:
        """Return the burn-down plot for every canvas; empty if nothing was spent yet."""
        return [self._on(canvas) for canvas in (WIDE, NARROW)] if len(self.steps) > 1 else []

    def spark(self) -> str:
        """Return the same as a line of 120 by 32 pixels, without axes."""
        width, height = _SPARK
        x, y = self._moments(1.0, width - 1.0), Scale(0.0, 1.0, height - 1.0, 1.0)
        return self._line(x, y, _MOST_SPARK)

    def _on(self, canvas: Canvas) -> BurnDown:
        left, right, top, bottom = canvas.inner
        x, y = self._moments(left, right), Scale(0.0, 1.0, bottom, top, percent=True)
        line = self._line(x, y, _MOST_DRAWN)
        return BurnDown(
            axes=Axes(canvas, x, y, "time, UTC", "share of the budget left"),
            line=line,
            area=f"{line}V{bottom}H{x(self.times[0])}Z",
            points=[
                (x(self.times[i]), y(self.steps[i].left), self.steps[i]) for i in thinned(len(self.steps))
            ],
        )

    def _moments(self, start: float, end: float) -> Moments:
        # A second at least: on a new budget everything happened at once.
        return Moments(self.times[0], max(self.now, self.times[0] + 1.0), start, end)

    def _line(self, x: Scale, y: Scale, most: int) -> str:
        """Return the steps of the line; a long history is thinned, keeping its first and last step."""
        last = len(self.steps) - 1
        chosen = sorted({round(i * last / (most - 1)) for i in range(most)})
        (start, height), *rest = [(x(self.times[i]), y(self.steps[i].left)) for i in chosen]
        joined = "".join(f"H{across}V{down}" for across, down in rest)
        return f"M{start} {height}{joined}H{x(x.high)}"


class Spendings:
    """A cache of spending by dataset, valid while its balance stays the same."""

    def __init__(self, ledger: Ledger) -> None:
        self._found = lru_cache(_MOST_KEPT)(partial(Spending.of, ledger))

    def of(self, balance: Balance) -> Spending:
        """Return the spending of the dataset of ``balance``, up to now."""
        found = self._found(balance)
        return replace(found, now=max(datetime.now(UTC).timestamp(), found.now))


def _datasets(visit: Visit, status: int = 200, given: Form | None = None, **values: Any) -> Response:
    return visit.page(
        "datasets.html",
        status=status,
        here="datasets",
        budgets=[
            budget_of(one) | {"spark": _spending(visit, one).spark()}
            for one in visit.service.budgets(visit.caller)
        ],
        units=Unit.examples(),
        neighbours=[(one, one) for one in _NEIGHBOURS],
        typed=(given or Form()).texts(_FIELDS),
        **({"refusal": None} | values),
    )


def _open(visit: Visit, given: Form) -> Response:
    numbers = {name: given.number(name) for name in ("epsilon", "delta")}
    asked = checked("the budget", NewBudget, given.texts(_FIELDS) | numbers)
    visit.service.open_budget(visit.caller, **asked.model_dump())
    return visit.then("dataset", dataset=asked.dataset)


def _dataset(visit: Visit, dataset: str) -> Response:
    entries = visit.service.history(visit.caller, dataset)
    balance = visit.service.budget(visit.caller, dataset)
    spending = _spending(visit, balance)
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
        - {one.paid.number for one in releases if one.paid}
        - {one.entry for one in objects},
    )


def _paid(entries: list[dict[str, Any]]) -> set[int]:
    """Return the numbers of the spent entries: spends, and holds that were committed."""
    committed = {entry["refers_to"] for entry in entries if entry["kind"] == "commit"}
    return {entry["number"] for entry in entries if entry["kind"] == "spend"} | committed


def _spending(visit: Visit, balance: dict[str, Any]) -> Spending:
    """Return the spending of a dataset whose ``balance`` the service has shown to this caller."""
    name = ledger_name(visit.caller.tenant, balance["dataset"])
    return visit.desk.spendings.of(Balance(**balance | {"dataset": name}))


ROUTES = [
    page("/", _datasets, "datasets"),
    form("/datasets", _open, "open-budget", again=_datasets),
    page("/datasets/{dataset}", _dataset, "dataset"),
]
