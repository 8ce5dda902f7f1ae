"""What a dataset has spent of its budget, and how it went down."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sfumato.errors import BadInput
from sfumato.ledger import Balance
from sfumato.ledger import Entry as Row
from sfumato.ledger.account import Account
from sfumato.ledger.dataset import Dataset
from sfumato.reports.numbers import share
from sfumato.reports.plots import NARROW, WIDE, Axes, Canvas, Scale

__all__ = ["Budget", "BurnDown", "Step"]

# Each step is a stop of the keyboard; of a long history evenly spaced ones are enough.
_MOST_STEPS = 40


@dataclass(frozen=True)
class Step:
    """What was left after one entry of the ledger, as a share of the budget."""

    number: int
    kind: str
    purpose: str
    day: str
    left: float

    @property
    def left_text(self) -> str:
        """``left`` as a percentage."""
        return share(self.left)


@dataclass(frozen=True)
class Budget:
    """A dataset's ``balance``, and its ``history`` as the ledger tells it, if a burn-down is to be shown."""

    balance: Balance
    history: Sequence[Row] = ()

    def steps(self) -> list[Step]:
        """What was left after each entry, oldest first; empty without a history."""
        if not self.history:
            return []
        first = self.history[0]
        if first.kind != "open" or first.terms_wire is None:
            raise BadInput("the history of a budget must start with its opening, as the ledger tells it.")
        rule = Dataset.stored(0, first.dataset, first.terms_wire).filter
        account, prices, steps = Account(rule.nothing()), {}, []
        for row in self.history:
            prices[row.number] = row.prices
            account = account.after(row, rule, prices.get(row.refers_to or 0))
            gone = 1.0 if account.state == "exhausted" else rule.used(account.spent)
            steps.append(Step(row.number, row.kind, row.purpose, row.at[:10], 1.0 - gone))
        return steps


@dataclass(frozen=True)
class BurnDown:
    """A drawing of what was left after each entry, on one canvas."""

    axes: Axes
    line: str
    area: str
    points: list[tuple[float, float, Step]]

    @classmethod
    def drawn(cls, steps: Sequence[Step]) -> list[BurnDown]:
        """The burn-down on every canvas; nothing where there are no two entries to join."""
        return [cls._of(steps, canvas) for canvas in (WIDE, NARROW)] if len(steps) > 1 else []

    @classmethod
    def _of(cls, steps: Sequence[Step], canvas: Canvas) -> BurnDown:
        left, right, top, bottom = canvas.inner
        x = Scale(steps[0].number, steps[-1].number, left, right, whole=True)
        y = Scale(0.0, 1.0, bottom, top, percent=True)
        places = [(x(step.number), y(step.left)) for step in steps]
        (start, height), *rest = places
        line = f"M{start} {height}" + "".join(f"H{across}V{down}" for across, down in rest)
        return cls(
            axes=Axes(canvas, x, y, "entry of the ledger", "share of the budget left"),
            line=line,
            area=f"{line}V{bottom}H{start}Z",
            points=[(*places[i], steps[i]) for i in thinned(len(steps))],
        )


def thinned(count: int) -> list[int]:
    """At most 40 places out of ``count``, evenly spaced, the first and the last among them."""
    if count <= _MOST_STEPS:
        return list(range(count))
    return sorted({round(i * (count - 1) / (_MOST_STEPS - 1)) for i in range(_MOST_STEPS)})
