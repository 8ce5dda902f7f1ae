"""Metrics: requests by their template, budgets by tenant and dataset, for who has the token alone."""

import os
import subprocess
import sys

import pytest

pytest.importorskip("prometheus_client", reason="the extra serve is not installed")
pytest.importorskip("fastapi", reason="the extra serve is not installed")
from fastapi.testclient import TestClient
from prometheus_client.parser import text_string_to_metric_families

from sfumato.privacy import Guarantee
from sfumato.serve.monitoring import Metrics
from sfumato.serve.rest.rest_app import make_app
from sfumato.serve.service import Service
from sfumato.serve.settings import Settings

TOKEN = "0123456789abcdef0123456789abcdef"
HEADERS = {"Authorization": f"Bearer {TOKEN}"}


@pytest.fixture
def service(tmp_path):
    made = Service(Settings(tmp_path / "service"))
    yield made
    made.close()


@pytest.fixture
def client(service):
    app = make_app(service, metrics_token=TOKEN)
    with TestClient(app, raise_server_exceptions=False, client=("192.0.2.1", 1)) as made:
        yield made


@pytest.fixture
def clinic(service):
    """A tenant with a budget of ε = 8, of which it has a spend and an open hold."""
    tenant = service.registry.create_tenant("clinic")
    name = f"{tenant.id}:ward"
    service.ledger.open(name, 8.0, 1e-5)
    service.ledger.spend(name, Guarantee.gaussian(10.0))
    service.ledger.hold(name, Guarantee.gaussian(10.0))
    return tenant


def samples(page):
    """Every sample of a page, by its name and labels."""
    families = text_string_to_metric_families(page if isinstance(page, str) else page.decode())
    return {
        (one.name, *sorted(one.labels.items())): one.value for family in families for one in family.samples
    }


def test_budgets_are_told_by_tenant_and_dataset(service, clinic):
    service.ledger.open("of no tenant", 1.0, 1e-5)
    found = samples(Metrics(service).page())
    whose = (("dataset", "ward"), ("tenant", clinic.id))
    balance = service.ledger.balance(f"{clinic.id}:ward")
    assert found["sfumato_budget_epsilon", *whose] == 8.0
    assert found["sfumato_budget_left_epsilon", *whose] == pytest.approx(balance.left)
    assert found["sfumato_budget_used_ratio", *whose] == pytest.approx(balance.used)
    assert 0.0 < balance.used < 1.0
    assert found["sfumato_holds_open", *whose] == 1
    assert found["sfumato_releases_paid_total", *whose] == 1
    assert not any("no tenant" in str(name) for name in found)
    assert found["sfumato_database_up", ("database", "ledger")] == 1


def test_a_budget_without_delta_has_left_what_a_pure_release_may_have(service):
    tenant = service.registry.create_tenant("clinic")
    service.ledger.open(f"{tenant.id}:pure", 2.0, 0.0)
    found = samples(Metrics(service).page())
    assert found["sfumato_budget_left_epsilon", ("dataset", "pure"), ("tenant", tenant.id)] == pytest.approx(
        2
    )


def test_what_was_spent_since_is_seen_at_the_next_look(service, clinic):
    metrics, whose = Metrics(service), (("dataset", "ward"), ("tenant", clinic.id))
    before = samples(metrics.page())
    service.ledger.spend(f"{clinic.id}:ward", Guarantee.gaussian(10.0))
    after = samples(metrics.page())
    name = "sfumato_budget_left_epsilon"
    assert after[name, *whose] < before[name, *whose]
    assert after["sfumato_releases_paid_total", *whose] == 2


def test_jobs_and_workers_are_counted(service):
    metrics = Metrics(service)
    found = samples(metrics.page())
    assert found["sfumato_jobs", ("state", "queued")] == found["sfumato_jobs", ("state", "running")] == 0
    assert found["sfumato_job_wait_seconds",] == 0
    assert found["sfumato_workers_up",] == 0  # it does not listen yet
    metrics.mark_up()
    assert samples(metrics.page())["sfumato_workers_up",] == 1


def test_a_database_that_does_not_answer_is_told_and_the_rest_stays(service, clinic):
    metrics = Metrics(service)
    service.ledger.__exit__()
    (service.settings.data / "ledger.db").unlink()
    found = samples(metrics.page())
    assert found["sfumato_database_up", ("database", "ledger")] == 0
    assert found["sfumato_database_up", ("database", "registry")] == 1
    assert ("sfumato_jobs", ("state", "queued")) in found


def test_requests_are_counted_by_template_and_refusals_by_their_word(client, service, clinic):
    _, token = service.registry.create_key(clinic.id, name="k", role="owner")
    own = {"Authorization": f"Bearer {token}"}
    for dataset in ("ward", "unknown-7"):
        client.get(f"/v1/budgets/{dataset}", headers=own)
    client.get("/secret-path/x")
    page = client.get("/metrics", headers=HEADERS).text
    found = samples(page)
    route = (("method", "GET"), ("route", "/v1/budgets/{dataset}"))
    assert found["sfumato_requests_total", *route, ("status", "200"), ("way", "rest")] == 1
    assert found["sfumato_requests_total", *route, ("status", "404"), ("way", "rest")] == 1
    assert found["sfumato_request_seconds_count", *route, ("way", "rest")] == 2
    assert found["sfumato_refusals_total", ("refusal", "not-found")] == 2
    assert found["sfumato_bytes_total", ("direction", "out"), ("way", "rest")] > 100
    assert "unknown-7" not in page
    assert "secret-path" not in page
    assert token.split("_")[2] not in page


def test_the_page_is_for_who_has_the_token(client, service):
    answer = client.get("/metrics", headers=HEADERS)
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    for given in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": f"Basic {TOKEN}"}):
        answer = client.get("/metrics", headers=given)
        assert (answer.status_code, answer.json()["type"]) == (401, "unauthenticated")
    with TestClient(make_app(service)) as without:
        assert without.get("/metrics", headers=HEADERS).status_code == 404


def test_the_token_cannot_be_guessed_at_any_pace(client):
    wrong = [client.get("/metrics", headers={"Authorization": "Bearer no"}).status_code for _ in range(30)]
    assert wrong[0] == 401
    assert wrong[-1] == 429
    assert client.get("/metrics", headers=HEADERS).status_code == 429


def test_processes_count_together_and_the_dead_are_not_up(service, clinic, tmp_path):
    """Each process of a service answers for all; what one that died has counted stays counted."""
    folder = tmp_path / "counts"
    folder.mkdir()
    code = """
import sys
from pathlib import Path
from sfumato.serve.monitoring import Metrics, forget_worker
from sfumato.serve.service import Service
from sfumato.serve.settings import Settings
service = Service(Settings(Path(sys.argv[1])))
metrics = Metrics(service)
metrics.mark_up()
metrics.answered("rest", "/v1/me", "GET", 200, 0.01)
if len(sys.argv) > 2:
    forget_worker(Path(sys.argv[2]), int(sys.argv[3]))
print(__import__("os").getpid())
print(metrics.page().decode())
"""
    environment = {**os.environ, "PROMETHEUS_MULTIPROC_DIR": str(folder)}
    command = [sys.executable, "-c", code, str(service.settings.data)]

    def run(*more):
        done = subprocess.run(
            [*command, *more], env=environment, check=True, capture_output=True, text=True
        ).stdout
        pid, _, page = done.partition("\n")
        return pid, samples(page)

    first, before = run()
    assert before["sfumato_workers_up",] == 1
    _, after = run(str(folder), first)
    me = (("method", "GET"), ("route", "/v1/me"), ("status", "200"), ("way", "rest"))
    assert after["sfumato_requests_total", *me] == 2
    assert after["sfumato_workers_up",] == 1
    assert after["sfumato_holds_open", ("dataset", "ward"), ("tenant", clinic.id)] == 1


def test_every_metric_has_help_and_our_name(client):
    page = client.get("/metrics", headers=HEADERS).text
    families = list(text_string_to_metric_families(page))
    assert len(families) >= 8
    assert all(one.name.startswith("sfumato_") and one.documentation.endswith(".") for one in families)
