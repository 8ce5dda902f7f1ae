"""Prometheus metrics and the readiness check.

The processes of one service count requests in a folder that they share, so each of them can answer for all.
Budgets and jobs are read from the databases when metrics are requested, so they cover the whole service, on
all of its machines.

A service is ready if its databases answer, its disk can be written, its job runner is alive, and it is not
shutting down.
"""

from __future__ import annotations

import math
import os
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

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

from sfumato.errors import SfumatoError
from sfumato.ledger import LedgerUnavailable
from sfumato.serve.authentication import is_tenant_id
from sfumato.serve.logs import told
from sfumato.serve.registry_database import RegistryUnavailable

if TYPE_CHECKING:
    from sfumato.serve.service import Service

# Anybody may ask, without a key: so the databases are asked once a second at most.
_SECONDS = 1.0
# Who asks waits no longer than this, whatever the databases are busy with; what they said last then counts
# for a while, after which they count as silent.
_PATIENCE_SECONDS = 1.0
_FRESH_SECONDS = 10.0

#: What prometheus_client looks at when it is imported: the folder in which processes count together.
FOLDER_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"
MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_BUCKETS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 15.0, 60.0)


class NotReady(SfumatoError):
    """Raised if the service cannot make a release now."""


class _Runs(Protocol):
    @property
    def alive(self) -> bool: ...


class Readiness:
    """Checks ``service`` and, if given, the ``runner`` of its jobs."""

    def __init__(self, service: Service, clock: Callable[[], float] = time.monotonic) -> None:
        self._service, self._clock = service, clock
        self._lock = threading.Lock()
        self._asked, self._trouble = -math.inf, ""
        self._asking: threading.Thread | None = None
        self.runner: _Runs | None = None
        self.draining = False

    def trouble(self) -> str:
        """Return what prevents a release now, in a few words; empty if nothing does."""
        if self.draining:
            return "it is about to end"
        with self._lock:
            if self._asking is None and self._clock() - self._asked >= _SECONDS:
                # A daemon: a database that never answers must not keep the process from ending.
                self._asking = threading.Thread(target=self._ask, args=(self._clock(),), daemon=True)
                self._asking.start()
            asking = self._asking
        if asking is not None:
            asking.join(_PATIENCE_SECONDS)
        with self._lock:
            late = self._asking is not None and self._clock() - self._asked >= _FRESH_SECONDS
            return "its databases take too long to answer" if late else self._trouble

    def _ask(self, now: float) -> None:
        try:
            found = self._found()
        except Exception as error:
            told("unforeseen", level="error", error=error)
            found = "it cannot be told"
        with self._lock:
            self._asked, self._trouble, self._asking = now, found, None

    def require(self) -> None:
        """Raise :class:`NotReady` if something prevents a release."""
        trouble = self.trouble()
        if trouble:
            raise NotReady(f"the service is not ready: {trouble}.")

    def _found(self) -> str:
        try:
            self._service.ledger.require_answer()
        except LedgerUnavailable:
            return "its ledger does not answer"
        try:
            self._service.registry.database.require_answer()
        except RegistryUnavailable:
            return "its registry does not answer"
        if self.runner is not None and not self.runner.alive:
            return "nothing works on its jobs"
        return "" if self._writes() else "its disk cannot be written"

    def _writes(self) -> bool:
        place = self._service.settings.work / f"ready-{secrets.token_hex(8)}"
        try:
            descriptor = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            try:
                return os.write(descriptor, bytes(4096)) == 4096
            finally:
                os.close(descriptor)
                place.unlink()
        except OSError:
            return False


class Metrics:
    """Counts the requests of one process, and renders the counts of all processes of the service."""

    def __init__(self, service: Service) -> None:
        self._folder = os.environ.get(FOLDER_VARIABLE)
        # When a count began is of no use, and would be a line for each.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        own = CollectorRegistry()
        asked = ("way", "route", "method")
        self._requests = Counter(
            "sfumato_requests", "Requests that were answered.", (*asked, "status"), registry=own
        )
        self._seconds = Histogram(
            "sfumato_request_seconds", "How long answers took.", asked, buckets=_BUCKETS, registry=own
        )
        self._bytes = Counter(
            "sfumato_bytes", "Bytes of bodies over REST.", ("way", "direction"), registry=own
        )
        self._refusals = Counter("sfumato_refusals", "Refusals, by their word.", ("refusal",), registry=own)
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
        used = GaugeMetricFamily("sfumato_budget_used_ratio", "The share that is gone.", labels=labels)
        holds = GaugeMetricFamily("sfumato_holds_open", "Holds that are not settled.", labels=labels)
        paid = CounterMetricFamily("sfumato_releases_paid", "Releases that were paid for.", labels=labels)
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
            "How long the job that waits the longest has waited.",
            value=counts["oldest_queued_seconds"],
        )
        return [jobs, wait]
