"""How a service is run: its settings, whom it believes, whether it is ready, and what nobody foresaw."""

import asyncio
import json
import os
import signal
import socket
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

pytest.importorskip("fastapi", reason="the extra serve is not installed")
from fastapi.testclient import TestClient
from hypothesis import given
from hypothesis import strategies as st

from sfumato.errors import BadInput
from sfumato.serve import server
from sfumato.serve.authentication import address_behind, network_of
from sfumato.serve.monitoring import Readiness
from sfumato.serve.refusals import QuotaRefused
from sfumato.serve.rest.rest_app import make_app
from sfumato.serve.server import ending, run
from sfumato.serve.service import Service
from sfumato.serve.settings import Listening, Settings
from sfumato.serve.tenant_registry import Quotas

WRONG = {"Authorization": "Bearer sfu_" + "0" * 16 + "_" + "0" * 64}


@pytest.fixture
def service(tmp_path):
    made = Service(Settings(tmp_path / "service", trusted_proxies="10.0.0.0/8"))
    yield made
    made.close()


@pytest.fixture
def client(service):
    with TestClient(make_app(service), raise_server_exceptions=False, client=("10.0.0.1", 1)) as made:
        yield made


@pytest.fixture
def owner(service):
    """The headers of an owner."""
    clinic = service.registry.create_tenant("clinic")
    return {"Authorization": f"Bearer {service.registry.create_key(clinic.id, name='k', role='owner')[1]}"}


@pytest.mark.parametrize(
    "made",
    [
        (Settings(Path("/data")), Listening()),
        (
            Settings(Path("/d"), "postgresql://x/y", "sqlite:///l", 5, "10.0.0.0/8", ("a=s3://b", "c=d"), 7),
            Listening("::1", 1, 2, 3, Path("/c"), Path("/k"), Path("/t"), Path("/l"), 1.5, 60.0),
        ),
    ],
)  # fmt: skip
def test_settings_reach_the_workers(made):
    read = server._SETTINGS.validate_json(server._SETTINGS.dump_json(made))
    assert read == made
    assert read[0].trusted == made[0].trusted


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: Settings(Path("d"), trusted_proxies="10.0.0.0/8, all"), "`trusted_proxies` are networks"),
        (lambda: Settings(Path("d"), "postgresql://x/y"), "need their budgets there too: give `ledger`"),
        (lambda: Settings(Path("d"), "postgresql+psycopg://x/y"), "give `ledger`"),
        (lambda: Listening(port=5, grpc_port=5), "cannot share port 5"),
        (lambda: Listening(tls_key=Path("key")), "TLS needs both"),
        (lambda: Listening(metrics_token_file=Path("/none/x")).metrics_token(), "/metrics cannot be read"),
    ],
)
def test_settings_that_cannot_be_are_said_in_a_sentence(make, told):
    with pytest.raises(BadInput, match=told) as raised:
        make()
    assert str(raised.value).endswith(".")


def test_a_certificate_needs_its_own_key(self_signed, tmp_path):
    certificate, key = self_signed
    Listening().require_tls()
    Listening(tls_certificate=certificate, tls_key=key).require_tls()
    for wrong in (certificate, tmp_path / "none"):
        with pytest.raises(BadInput, match="TLS needs a certificate and its own key"):
            Listening(tls_certificate=certificate, tls_key=wrong).require_tls()


def test_a_port_that_is_taken_is_said_in_a_sentence(service):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(BadInput, match=f"REST cannot listen on 127.0.0.1:{port}: is the port taken"):
            run(service.settings, Listening(port=port))


def test_a_token_of_metrics_is_long(tmp_path):
    file = tmp_path / "token"
    file.write_text("0123456789abcdef\n")
    assert Listening(metrics_token_file=file).metrics_token() == "0123456789abcdef"
    file.write_text("short")
    with pytest.raises(BadInput, match="at least 16 characters"):
        Listening(metrics_token_file=file).metrics_token()


@pytest.mark.parametrize(
    ("peer", "forwarded", "found"),
    [
        ("203.0.113.9", "198.51.100.1", "203.0.113.9"),
        ("10.0.0.1", None, "10.0.0.1"),
        ("10.0.0.1", "198.51.100.1", "198.51.100.1"),
        ("10.0.0.1", "1.1.1.1, 198.51.100.1", "198.51.100.1"),
        ("10.0.0.1", "1.1.1.1, 198.51.100.1, 10.9.9.9", "198.51.100.1"),
        ("10.0.0.1", "10.0.0.2,10.0.0.3", "10.0.0.2"),
        ("10.0.0.1", "198.51.100.1, unknown", "10.0.0.1"),
        ("10.0.0.1", "", "10.0.0.1"),
        ("10.0.0.1", "198.51.100.1:4711", "198.51.100.1"),
        ("::ffff:10.0.0.1", "[2001:db8::7]:4711", "2001:db8::7"),
        ("10.0.0.1", "2001:db8::7", "2001:db8::7"),
        (None, "198.51.100.1", None),
    ],
)
def test_a_trusted_proxy_is_believed_about_who_asked_it(peer, forwarded, found):
    assert address_behind(peer, forwarded, [network_of("10.0.0.0/8")]) == found


@given(st.text(), st.ip_addresses().map(str))
def test_whoever_is_not_trusted_is_who_asks_whatever_is_sent(forwarded, peer):
    assert address_behind(peer, forwarded, []) == peer


def test_guesses_behind_a_proxy_are_counted_by_whom_it_names(client, owner):
    for _ in range(30):
        last = client.get("/v1/me", headers=WRONG | {"X-Forwarded-For": "198.51.100.1"})
    assert last.status_code == 429
    other = {"X-Forwarded-For": "198.51.100.2"}
    assert client.get("/v1/me", headers=owner | other).status_code == 200
    made_up = {"X-Forwarded-For": "198.51.100.77, 198.51.100.1"}
    assert client.get("/v1/me", headers=owner | made_up).status_code == 429


def test_guesses_are_counted_by_the_peer_where_no_proxy_is_trusted(service, owner):
    with TestClient(make_app(service), client=("203.0.113.9", 1)) as client:
        statuses = [
            client.get("/v1/me", headers=WRONG | {"X-Forwarded-For": f"198.51.100.{number}"}).status_code
            for number in range(30)
        ]
    assert statuses[-1] == 429


def test_what_nobody_foresaw_is_in_the_log_by_the_id_in_the_answer(client, service, owner, capfd):
    tenant = client.get("/v1/me", headers=owner).json()["tenant"]
    service.ledger.__exit__()
    # A row that no ledger wrote is said in words; one that cannot even be asked for is not foreseen.
    service.ledger._known[f"{tenant}:ward"] = "no dataset"
    capfd.readouterr()
    answer = client.get("/v1/budgets/ward", headers=owner)
    assert answer.status_code == 500
    assert answer.headers["content-type"] == "application/problem+json"
    found = answer.json()
    assert (found["type"], found["status"]) == ("unforeseen", 500)
    id_ = answer.headers["sfumato-request"]
    assert f"request {id_}." in found["detail"]
    lines = [json.loads(line) for line in capfd.readouterr().err.splitlines()]
    unforeseen, request = [line for line in lines if line.get("request") == id_]
    assert unforeseen["event"] == "unforeseen"
    assert unforeseen["error"] == "AttributeError"
    assert "sfumato/ledger/" in unforeseen["place"]
    assert (request["event"], request["status"]) == ("request", 500)
    for line in (unforeseen, request):
        assert line["tenant"] == tenant


def test_a_client_that_goes_away_is_no_error(service, owner, capfd):
    """Its request has a line with status 499, and nothing is sent to nobody."""
    sent = []

    async def asked():
        scope = {
            "type": "http", "method": "POST", "path": "/v1/datasets/ward/plan", "query_string": b"name=x.npz",
            "headers": [(b"authorization", owner["Authorization"].encode())], "client": ("192.0.2.1", 1),
        }  # fmt: skip

        async def receive():
            return {"type": "http.disconnect"}

        async def send(message):
            sent.append(message)

        await make_app(service)(scope, receive, send)

    asyncio.run(asked())
    (line,) = map(json.loads, capfd.readouterr().err.splitlines())
    assert (line["status"], line["level"]) == (499, "info")
    assert sent == []


def test_lines_name_templates_and_ids_alone(client, owner, capfd):
    me = client.get("/v1/me", headers=owner).json()
    client.get("/v1/budgets/secret-dataset?q=secret-query", headers=owner)
    client.get("/secret-path", headers=owner)
    client.request("SECRET", "/v1/me", headers=owner)
    logged = capfd.readouterr().err
    lines = [json.loads(line) for line in logged.splitlines()]
    assert [line["route"] for line in lines] == ["/v1/me", "/v1/budgets/{dataset}", "none", "/v1/me"]
    assert lines[1]["refusal"] == "not-found"
    assert (lines[1]["tenant"], lines[1]["key"]) == (me["tenant"], me["key"])
    assert "secret" not in logged.lower()
    assert owner["Authorization"].split("_")[2] not in logged


def test_probes_are_in_the_log_only_where_something_is_wrong(client, capfd):
    assert client.get("/healthz").json() == {"status": "alive"}
    assert client.get("/readyz").json() == {"status": "ready"}
    assert capfd.readouterr().err == ""
    client.app.state.service.readiness.draining = True
    answer = client.get("/readyz")
    assert (answer.status_code, answer.json()["type"]) == (503, "not-ready")
    assert int(answer.headers["retry-after"]) > 0
    assert client.get("/healthz").status_code == 200
    assert json.loads(capfd.readouterr().err)["status"] == 503


def test_readiness_does_not_wait_behind_work(service, client):
    """All connections of both databases are taken, as by work that lasts, and the probe is answered."""
    assert client.get("/readyz").status_code == 200
    time.sleep(1.0)
    with ExitStack() as held:
        for storage in (service.ledger._storage, service.registry.database):
            for _ in range(8):
                held.enter_context(storage.reading())
        begun = time.monotonic()
        assert client.get("/readyz").status_code == 200
        assert time.monotonic() - begun < 5.0
        client.app.state.service.readiness._asked -= 60.0
        answer = client.get("/readyz")
        assert (answer.status_code, "too long" in answer.text) == (503, True)
        assert time.monotonic() - begun < 10.0


def test_readiness_names_what_stands_in_the_way(service):
    now = [0.0]
    readiness = Readiness(service, clock=lambda: now[0])

    def later():
        now[0] += 1.0
        return readiness.trouble()

    assert readiness.trouble() == ""
    readiness.runner = type("Runner", (), {"alive": False})()
    assert readiness.trouble() == ""  # asked once a second
    assert later() == "nothing works on its jobs"
    readiness.runner.alive = True
    service.settings.work.rename(service.settings.data / "elsewhere")
    assert later() == "its disk cannot be written"
    (service.settings.data / "elsewhere").rename(service.settings.work)
    assert later() == ""
    assert not list(service.settings.work.glob("ready-*"))
    for database, told in (
        ("service.db", "its registry does not answer"),
        ("ledger.db", "its ledger does not answer"),
    ):
        service.registry.close()
        service.ledger.__exit__()
        for name in os.listdir(service.settings.data):
            if name.startswith(database):
                (service.settings.data / name).unlink()
        assert later() == told
    readiness.draining = True
    assert readiness.trouble() == "it is about to end"


def test_a_ledger_that_was_replaced_is_not_ready(service, tmp_path):
    other = Service(Settings(tmp_path / "other"))
    other.close()
    service.ledger.__exit__()
    for name in os.listdir(service.settings.data):
        if name.startswith("ledger.db"):
            (service.settings.data / name).unlink()
    (tmp_path / "other" / "ledger.db").rename(service.settings.data / "ledger.db")
    assert Readiness(service).trouble() == "its ledger does not answer"


def test_signals_are_counted_and_end_nothing_by_themselves():
    before = signal.getsignal(signal.SIGTERM)
    hang_up = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    # Whoever runs tests in the background has them ignore this one.
    interrupt = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with ending() as end:
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                signal.raise_signal(number)
            assert end.signals == 2  # what was ignored stays ignored
    finally:
        signal.signal(signal.SIGHUP, hang_up)
        signal.signal(signal.SIGINT, interrupt)
    assert signal.getsignal(signal.SIGTERM) is before


def test_the_document_tells_the_problems_of_each_operation(client):
    paths = client.get("/v1/openapi.json").json()["paths"]

    def problems(path, method):
        return {status for status in paths[path][method]["responses"] if status >= "400"}

    always = {"401", "403", "429", "500", "503"}
    assert problems("/v1/me", "get") == always
    assert problems("/v1/budgets/{dataset}", "get") == always | {"400", "404", "422"}
    assert problems("/v1/budgets", "post") == always | {"400", "408", "409", "413", "422", "507"}
    assert problems("/v1/datasets/{dataset}/protect", "post") >= always | {"400", "404", "408", "409", "413"}


def test_a_key_that_was_revoked_by_another_process_opens_nothing_at_once(client, service, owner):
    me = client.get("/v1/me", headers=owner).json()
    elsewhere = Service(service.settings)
    elsewhere.registry.revoke_key(me["tenant"], me["key"])
    elsewhere.close()
    assert client.get("/v1/me", headers=owner).status_code == 401


def test_first_quotas_given_by_another_process_hold_within_a_second(service):
    clinic = service.registry.create_tenant("clinic")
    service.registry.charge(clinic.id)
    elsewhere = Service(service.settings)
    elsewhere.registry.set_quotas(clinic.id, Quotas(requests_per_minute=0))
    elsewhere.close()
    time.sleep(1.01)
    with pytest.raises(QuotaRefused):
        service.registry.charge(clinic.id)
