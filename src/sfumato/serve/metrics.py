"""Counts and gauges for Prometheus: of requests, by every process; of budgets and jobs, from the databases.

Processes of one service count in files of a folder that they share, so whichever of them is asked answers for
all. Budgets and jobs are read when somebody asks: they are those of the whole service, on however many
machines it runs.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

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
from sfumato.serve.auth.dataset_names import is_tenant_id
from sfumato.serve.service import Service

__all__ = ["FOLDER_VARIABLE", "MEDIA_TYPE", "Metrics", "forget_worker"]

#: What prometheus_client looks at when it is imported: the folder in which processes count together.
FOLDER_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"
MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_BUCKETS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 15.0, 60.0)


class Metrics:
    """What one process counts, and the page of what all of a service's counted."""

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
        self._up.set(1)
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
        """Count a request that was answered; ``route`` is a template, never a path."""
        self._requests.labels(way, route, method, str(status)).inc()
        self._seconds.labels(way, route, method).observe(seconds)
        for direction, count in (("in", bytes_in), ("out", bytes_out)):
            if count is not None:
                self._bytes.labels(way, direction).inc(count)
        if refusal is not None:
            self._refusals.labels(refusal).inc()

    def page(self) -> bytes:
        """Everything, as Prometheus reads it."""
        return generate_latest(self._page)


def forget_worker(folder: Path, pid: int) -> None:
    """Count the process ``pid``, which has ended, as up no longer; what it counted stays counted."""
    multiprocess.mark_process_dead(pid, str(folder))  # type: ignore[no-untyped-call]


class _OfDatabases(Collector):
    """Budgets by tenant and dataset, and jobs; a database that does not answer leaves its own out."""

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
        counts = self._service.registry.job_counts()
        jobs = GaugeMetricFamily("sfumato_jobs", "Jobs that have not ended.", labels=["state"])
        for state in ("queued", "running"):
            jobs.add_metric([state], counts[state])
        wait = GaugeMetricFamily(
            "sfumato_job_wait_seconds",
            "How long the job that waits the longest has waited.",
            value=counts["oldest_queued_seconds"],
        )
        return [jobs, wait]
