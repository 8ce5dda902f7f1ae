"""How a budget went down over time, as the ledger tells it: a drawing with an axis of days."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from sfumato.ledger import Balance, Entry, Ledger
from sfumato.reports.burn_down import Budget, BurnDown, Step, thinned
from sfumato.reports.plots import NARROW, WIDE, Axes, Canvas, Scale, Tick

__all__ = ["Moments", "Spending", "Spendings"]

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


@dataclass(frozen=True)
class Moments(Scale):
    """Seconds of the epoch on pixels, with marks at full minutes, hours or days."""

    def ticks(self, most: int = 6) -> list[Tick]:
        """At most ``most`` marks, at moments that people would name."""
        span = self.high - self.low
        step, form = next((each for each in _STEPS if span / each[0] <= most - 1), _STEPS[-1])
        first = int(-(-self.low // step))
        times = [number * step for number in range(first, int(self.high // step) + 1)]
        return [Tick(self(time), datetime.fromtimestamp(time, UTC).strftime(form)) for time in times]


@dataclass(frozen=True)
class Spending:
    """What a dataset has spent, entry by entry; ``now`` is where its line ends, in seconds of the epoch."""

    steps: Sequence[Step]
    times: Sequence[float]
    now: float

    @classmethod
    def of(cls, ledger: Ledger, balance: Balance, now: datetime) -> Spending:
        """The spending of the dataset of ``balance``."""
        rows: list[Entry] = ledger.history(balance.dataset)
        times = [datetime.fromisoformat(row.at).timestamp() for row in rows]
        return cls(Budget(balance, rows).steps(), times, max([now.timestamp(), *times]))

    def drawn(self) -> list[BurnDown]:
        """The burn-down on every canvas; nothing where nothing was spent yet."""
        return [self._on(canvas) for canvas in (WIDE, NARROW)] if len(self.steps) > 1 else []

    def spark(self) -> str:
        """The same as a line of 120 by 32 pixels, without axes."""
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
        """Stairs down; of a long history every so many steps, the first and the last among them."""
        last = len(self.steps) - 1
        chosen = sorted({round(i * last / (most - 1)) for i in range(most)})
        (start, height), *rest = [(x(self.times[i]), y(self.steps[i].left)) for i in chosen]
        joined = "".join(f"H{across}V{down}" for across, down in rest)
        return f"M{start} {height}{joined}H{x(x.high)}"


class Spendings:
    """Spending as it was read from a ledger, remembered for as long as the balance stays the same."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, tuple[Balance, Spending]] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, ledger: Ledger, balance: Balance, now: datetime) -> Spending:
        """The spending of the dataset of ``balance``, up to ``now``."""
        with self._lock:
            before = self._kept.get(balance.dataset)
        if before is None or before[0] != balance:
            before = (balance, Spending.of(ledger, balance, now))
        with self._lock:
            self._kept[balance.dataset] = before
            self._kept.move_to_end(balance.dataset)
            while len(self._kept) > _MOST_KEPT:
                self._kept.popitem(last=False)
        return replace(before[1], now=max(now.timestamp(), before[1].now))
