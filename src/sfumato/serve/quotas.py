"""How much a tenant may ask for: requests in each minute, bytes in each day, jobs at the same time.

Minutes and days are those of the clock in UTC, and whole: a tenant is never given more than its quota in any
one of them, and what a quota refuses is not counted.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

from sfumato.errors import BadInput
from sfumato.serve.registry_errors import QuotaRefused

__all__ = ["MOST", "Quotas", "Usage"]

_MINUTE, _DAY = 60, 86_400
#: The greatest count there is; every reader of JSON has it exactly.
MOST = 2**53


@dataclass(frozen=True)
class Quotas:
    """The most that a tenant may ask for; None where nothing limits it, 0 to shut it out.

    ``bytes_kept`` is what it may keep on the disk; None where that is what the service lets any keep.
    """

    requests_per_minute: int | None = None
    bytes_per_day: int | None = None
    jobs_at_once: int | None = None
    bytes_kept: int | None = None

    def __post_init__(self) -> None:
        for field in fields(self):
            value: Any = getattr(self, field.name)
            if value is not None and (
                isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MOST
            ):
                raise BadInput(f"the quota {field.name} must be a whole number from 0 to 2^53, or none.")


@dataclass(frozen=True)
class Usage:
    """What a tenant asked for in the newest minute and day; both are numbered from the epoch."""

    minute: int = 0
    requests: int = 0
    day: int = 0
    bytes: int = 0

    def after(self, quotas: Quotas, now: float, *, requests: int, bytes: int) -> Usage:
        """The usage with ``requests`` and ``bytes`` more at ``now``, in seconds; or a refusal."""
        current = self._at(now)
        new = replace(current, requests=current.requests + requests, bytes=current.bytes + bytes)
        _require(
            new.requests, requests, quotas.requests_per_minute, "requests a minute", new.minute, _MINUTE, now
        )
        _require(new.bytes, bytes, quotas.bytes_per_day, "bytes a day", new.day, _DAY, now)
        return new

    def _at(self, now: float) -> Usage:
        """The usage in the minute and the day of ``now``."""
        minute, day = _window(self.minute, now, _MINUTE), _window(self.day, now, _DAY)
        return Usage(
            minute,
            self.requests if minute == self.minute else 0,
            day,
            self.bytes if day == self.day else 0,
        )


def _window(last: int, now: float, length: int) -> int:
    """The number of the window to count in.

    Clocks of several machines differ a little, so the newest window goes on where ours is one behind: else
    two clocks would empty each other's counts. A clock that was wrong by more is not followed.
    """
    current = int(now // length)
    return last if last == current + 1 else current


def _require(
    used: int, asked: int, most: int | None, what: str, window: int, length: int, now: float
) -> None:
    if most is None or asked == 0 or used <= most:
        return
    if asked > most:
        raise QuotaRefused(f"one request asks for {asked:,} of {most:,} {what}; ask for less at once.", None)
    seconds = (window + 1) * length - now
    raise QuotaRefused(f"the quota of {most:,} {what} is used up for {seconds:.0f} seconds more.", seconds)
