"""Logs, metrics and the readiness check.

Logs are JSON lines that cannot contain private values: a line has only the fields in ``FIELDS``, each a fixed
word, a number or an id that the service made. Records of other packages are logged by their place in the code
and the type of their error; their messages are dropped, because they may quote the data being processed.

Metrics are in the Prometheus format. The processes of one service count requests in a folder that they share,
so each of them can answer for all. Budgets and jobs are read from the databases when metrics are requested,
so they cover the whole service, on all of its machines.

A service is ready if its databases answer, its disk can be written, its job runner is alive, and it is not
shutting down.
"""

from __future__ import annotations

import json
import logging
import math
import os
import secrets
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    generate_latest,
    multiprocess,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from sfumato.errors import BadInput, Forewarning, SfumatoError
from sfumato.ledger import LedgerUnavailable
from sfumato.serve.authentication import is_tenant_id
from sfumato.serve.refusals import NotReady, RegistryUnavailable

if TYPE_CHECKING:
    from sfumato.serve.service import Service


class Fields(TypedDict, total=False):
    """The fields of a log line besides the event: fixed words, numbers, and ids that the service made."""

    request: str | None
    tenant: str | None
    key: str | None
    job: str | None
    route: str | None
    method: str | None
    status: int | str | None
    refusal: str | None
    ms: float | None
    bytes_in: int | None
    bytes_out: int | None
    worker: int | None
    source: str | None


#: All fields of a line, in their order.
FIELDS = ("time", "level", "event", *Fields.__annotations__, "error", "place")

_fields: ContextVar[dict[str, Any] | None] = ContextVar("sfumato_log_fields", default=None)
# Errors of other packages are also placed in this one: where it called them.
_PACKAGE = Path(__file__).parents[1]
# The descriptor of the log: standard error, until it is started.
_descriptor = 2


@contextmanager
def log_fields() -> Iterator[dict[str, Any]]:
    """Let :func:`add_log_fields` add to the line of this block, also from the threads that work for it."""
    fields: dict[str, Any] = {}
    before = _fields.set(fields)
    try:
        yield fields
    finally:
        _fields.reset(before)


def add_log_fields(*, tenant: str, key: str) -> None:
    """Add the caller's ids to the log line of the current request."""
    fields = _fields.get()
    if fields is not None:
        fields |= {"tenant": tenant, "key": key}


def log(
    event: str, *, level: str = "info", error: BaseException | None = None, **fields: Unpack[Fields]
) -> None:
    """Write one log line; an ``error`` is logged by its type and place, never by its message."""
    if unknown := fields.keys() - Fields.__annotations__.keys():
        raise TypeError(f"no line of the log has {', '.join(unknown)}")
    now = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%fZ}"
    line: dict[str, Any] = {"time": now, "level": level, "event": event, **fields}
    if error is not None:
        line |= {"error": type(error).__name__, "place": place_of(error.__traceback__)}
    if line.get("ms") is not None:
        line["ms"] = round(line["ms"], 3)
    shown = {name: line[name] for name in FIELDS if line.get(name) is not None}
    # One write for each line, because processes share the file. A full disk or a closed terminal must not end
    # a release that is paid for.
    with suppress(OSError):
        os.write(_descriptor, json.dumps(shown).encode() + b"\n")


def place_of(trace: TracebackType | None) -> str | None:
    """Return where an error was raised: files and line numbers, without values."""
    frames = traceback.extract_tb(trace)
    if not frames:
        return None
    ours = [frame for frame in frames if Path(frame.filename).is_relative_to(_PACKAGE)]
    named = [frames[-1]] if not ours or ours[-1] is frames[-1] else [frames[-1], ours[-1]]
    return " in ".join(f"{_shortened(frame.filename)}:{frame.lineno}" for frame in named)


def start_logging(file: Path | None = None) -> None:
    """Start logging to ``file``, readable by its owner only, or to standard error.

    Other packages' records are included. Several processes may share a file.
    """
    global _descriptor
    if file is None:
        _descriptor = sys.stderr.fileno()
    else:
        try:
            _descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        except OSError as error:
            raise BadInput(f"the log {file} cannot be written: {error.strerror}.") from None
    warnings.simplefilter("ignore", Forewarning)  # the caller finds it in the answer
    root = logging.getLogger()
    for handler in [one for one in root.handlers if isinstance(one, _OtherPackages)]:
        root.removeHandler(handler)
    root.addHandler(_OtherPackages(logging.WARNING))
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access"):
        logger = logging.getLogger(name)
        # Configuring logging by a document disables the loggers that it does not name.
        logger.handlers, logger.propagate, logger.disabled = [], True, False
        logger.setLevel(logging.NOTSET)
    logging.captureWarnings(True)


class _OtherPackages(logging.Handler):
    """A handler for records of other packages, which drops their messages."""

    def emit(self, record: logging.LogRecord) -> None:
        log(
            "library",
            level=record.levelname.lower(),
            source=f"{record.name} {_shortened(record.pathname)}:{record.lineno}",
            error=record.exc_info[1] if record.exc_info else None,
        )


def _shortened(file: str) -> str:
    """Return the last parts of a path, without the folder in which this machine keeps its packages."""
    return "/".join(Path(file).parts[-3:])


# Readiness is asked without a key, so the databases are asked once a second at most.
_READY_SECONDS = 1.0
# A request for readiness waits no longer than this. Then the last answer of the databases counts for a while,
# after which they count as silent.
_PATIENCE_SECONDS = 1.0
_FRESH_SECONDS = 10.0

#: Read by prometheus_client when it is imported: the folder in which processes count together.
FOLDER_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"
MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_BUCKETS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 15.0, 60.0)


class Readiness:
    """Checks ``service`` and, if given, the ``runner`` of its jobs."""

    def __init__(self, service: Service, clock: Callable[[], float] = time.monotonic) -> None:
        self._service, self._clock = service, clock
        self._lock = threading.Lock()
        self._asked, self._trouble = -math.inf, ""
        self._asking: threading.Thread | None = None
        self.runner: Any = None
        self.draining = False

    def trouble(self) -> str:
        """Return what prevents a release now, in a few words; empty if nothing does."""
        if self.draining:
            return "it is about to end"
        with self._lock:
            if self._asking is None and self._clock() - self._asked >= _READY_SECONDS:
                # A daemon: a database that never answers must not keep the process from ending.
                self._asking = threading.Thread(target=self._ask, args=(self._clock(),), daemon=True)
                self._asking.start()
            asking = self._asking
        if asking is not None:
            asking.join(_PATIENCE_SECONDS)
        with self._lock:
            late = self._asking is not None and self._clock() - self._asked >= _FRESH_SECONDS
            return "its databases take too long to answer" if late else self._trouble

    def require(self) -> None:
        """Raise :class:`NotReady` if something prevents a release."""
        trouble = self.trouble()
        if trouble:
            raise NotReady(f"the service is not ready: {trouble}.")

    def _ask(self, now: float) -> None:
        try:
            found = self._found()
        except Exception as error:
            log("unforeseen", level="error", error=error)
            found = "its state is unknown"
        with self._lock:
            self._asked, self._trouble, self._asking = now, found, None

    def _found(self) -> str:
        try:
            self._service.ledger.require_answer()
            self._service.registry.database.require_answer()
        except LedgerUnavailable:
            return "its ledger does not answer"
        except RegistryUnavailable:
            return "its registry does not answer"
        if self.runner is not None and not self.runner.alive:
            return "nothing works on its jobs"
        place = self._service.settings.work / f"ready-{secrets.token_hex(8)}"
        try:
            place.write_bytes(bytes(4096))
        except OSError:
            return "its disk cannot be written"
        finally:
            with suppress(OSError):
                place.unlink()
        return ""


class Metrics:
    """Counts the requests of one process, and renders the counts of all processes of the service."""

    def __init__(self, service: Service) -> None:
        self._folder = os.environ.get(FOLDER_VARIABLE)
        # The time at which each count began would be a further line for each.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        own = CollectorRegistry()
        asked = ("way", "route", "method")
        self._requests = Counter("sfumato_requests", "Answered requests.", (*asked, "status"), registry=own)
        self._seconds = Histogram(
            "sfumato_request_seconds", "Duration of answers.", asked, buckets=_BUCKETS, registry=own
        )
        self._bytes = Counter(
            "sfumato_bytes", "Bytes of bodies over REST.", ("way", "direction"), registry=own
        )
        self._refusals = Counter("sfumato_refusals", "Refusals, by their code.", ("refusal",), registry=own)
        self._up = Gauge(
            "sfumato_workers_up", "Processes that answer.", registry=own, multiprocess_mode="livesum"
        )
        self._page = own if self._folder is None else CollectorRegistry()
        if self._folder is not None:
            multiprocess.MultiProcessCollector(self._page, self._folder)  # type: ignore[no-untyped-call]
        self._page.register(_OfDatabases(service))

    def answered(
        self,
        way: str,
        route: str,
        method: str,
        status: int | str,
        seconds: float,
        *,
        bytes_in: int | None = None,
        bytes_out: int | None = None,
        refusal: str | None = None,
    ) -> None:
        """Count an answered request; ``route`` is a template, never a path."""
        self._requests.labels(way, route, method, str(status)).inc()
        self._seconds.labels(way, route, method).observe(seconds)
        for direction, count in (("in", bytes_in), ("out", bytes_out)):
            if count is not None:
                self._bytes.labels(way, direction).inc(count)
        if refusal is not None:
            self._refusals.labels(refusal).inc()

    def mark_up(self) -> None:
        """Count this process as one that answers."""
        self._up.set(1)

    def page(self) -> bytes:
        """Return all metrics in the Prometheus text format."""
        return generate_latest(self._page)


def forget_worker(folder: Path, pid: int) -> None:
    """Stop counting the ended process ``pid`` as up; its counts are kept."""
    multiprocess.mark_process_dead(pid, str(folder))  # type: ignore[no-untyped-call]


class _OfDatabases(Collector):
    """Collects budgets by tenant and dataset, and jobs; skips a database that does not answer."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def collect(self) -> Iterator[Any]:
        up = GaugeMetricFamily("sfumato_database_up", "Whether a database answers.", labels=["database"])
        for name, read in (("ledger", self._budgets), ("registry", self._jobs)):
            try:
                yield from read()
            except SfumatoError:
                up.add_metric([name], 0)
            else:
                up.add_metric([name], 1)
        yield up

    def _budgets(self) -> list[Any]:
        labels = ["tenant", "dataset"]
        total = GaugeMetricFamily("sfumato_budget_epsilon", "The budget's ε.", labels=labels)
        left = GaugeMetricFamily(
            "sfumato_budget_left_epsilon", "The largest ε of one more release.", labels=labels
        )
        used = GaugeMetricFamily("sfumato_budget_used_ratio", "The spent share of the budget.", labels=labels)
        holds = GaugeMetricFamily("sfumato_holds_open", "Unsettled holds.", labels=labels)
        paid = CounterMetricFamily("sfumato_releases_paid", "Paid releases.", labels=labels)
        for name, balance in self._service.ledger.balances().items():
            tenant, colon, dataset = name.partition(":")
            if not colon or not is_tenant_id(tenant):
                continue  # a ledger may hold budgets that are no tenant's
            whose = [tenant, dataset]
            total.add_metric(whose, balance.epsilon)
            left.add_metric(whose, balance.left if balance.delta > 0.0 else balance.left_pure)
            used.add_metric(whose, balance.used)
            holds.add_metric(whose, balance.open_holds)
            paid.add_metric(whose, balance.spends - balance.open_holds)
        return [total, left, used, holds, paid]

    def _jobs(self) -> list[Any]:
        counts = self._service.job_store.table.counts()
        jobs = GaugeMetricFamily("sfumato_jobs", "Jobs that have not ended.", labels=["state"])
        for state in ("queued", "running"):
            jobs.add_metric([state], counts[state])
        wait = GaugeMetricFamily(
            "sfumato_job_wait_seconds",
            "Waiting time of the oldest queued job.",
            value=counts["oldest_queued_seconds"],
        )
        return [jobs, wait]
