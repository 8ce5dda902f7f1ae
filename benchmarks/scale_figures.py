"""What was measured for the page about scale, rounded as it is printed, and the cost model over it.

Figures are rounded before anything is computed from them, so that whoever checks the page's arithmetic with
the page's figures finds the page's results.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["WORKERS", "Job", "Model", "Ran", "Table", "Video"]

#: Runs on a cluster that runs already -> how many workers they have.
WORKERS = {"one": 1, "two": 2}
# The pictures of a run that is there to time the start.
_FEW = 2
# Below this nothing is told apart: figures have one digit behind the point.
_LEAST_SECONDS = 0.1


@dataclass(frozen=True)
class Ran:
    """Seconds by the clock and the most memory, in bytes, that the command and all below it held at once."""

    seconds: float
    memory: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "seconds", round(self.seconds, 1))


@dataclass(frozen=True)
class Job:
    """``count`` pictures of ``sides``, by run: ``runs`` of all of them, ``starts`` of two of them.

    Runs are ``local``, ``one`` and ``two`` (workers of a cluster that runs already), ``own one`` and ``own
    two`` (of a cluster that the run starts and ends).
    """

    name: str
    sides: str
    count: int
    runs: Mapping[str, Ran]
    starts: Mapping[str, Ran]

    def seconds(self, run: str) -> float:
        """Of the whole run."""
        return self.runs[run].seconds

    def rate(self, run: str) -> float:
        """Pictures a second once it runs."""
        took = self.runs[run].seconds - self.starts[run].seconds
        return round((self.count - _FEW) / max(_LEAST_SECONDS, took), 1)

    def ratio(self, slow: str, fast: str) -> float | None:
        """Seconds of one whole run over those of another, where both were made."""
        if slow not in self.runs or fast not in self.runs:
            return None
        return self.seconds(slow) / self.seconds(fast)

    def running_ratio(self, slow: str, fast: str) -> float | None:
        """The same once both run."""
        if slow not in self.runs or fast not in self.runs:
            return None
        return self.rate(fast) / self.rate(slow)


@dataclass(frozen=True)
class Model:
    """seconds(n) = s + n / (r · w · e(w)), with e(w) of the longest job."""

    longest: Job

    def efficiency(self, workers: int) -> float:
        """The speed of so many workers over so many times that of one, once they run."""
        if workers == 1:
            return 1.0
        run = next(name for name, count in WORKERS.items() if count == workers)
        return round(self.longest.rate(run) / (workers * self.longest.rate("one")), 2)

    def seconds(self, job: Job, run: str) -> float:
        """What the formula says of a run on a cluster: r is of this job with one worker."""
        workers = WORKERS[run]
        speed = job.rate("one") * workers * self.efficiency(workers)
        return job.starts[run].seconds + job.count / speed


@dataclass(frozen=True)
class Video:
    """Of one clip: its name, seconds, frames and sides; the run of it, and that of its first frame alone."""

    name: str
    length: float
    frames: int
    sides: tuple[int, int]
    ran: Ran
    start: Ran

    @property
    def beyond(self) -> float:
        """Seconds of video beyond the first frame."""
        return round(self.length * (self.frames - 1) / self.frames, 2)

    @property
    def worked(self) -> float:
        """Seconds that one core took for them."""
        return round(max(_LEAST_SECONDS, self.ran.seconds - self.start.seconds), 1)

    @property
    def rate(self) -> float:
        """Seconds of video that one core protects in a second once it runs."""
        return round(self.beyond / self.worked, 2)


@dataclass(frozen=True)
class Table:
    """A table of so many gigabytes: its run on two workers, and one in one process with ``limit`` bytes.

    ``limited`` is None where the limited run failed.
    """

    gigabytes: float
    ran: Ran
    limit: float
    limited: Ran | None
